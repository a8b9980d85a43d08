"""The event log's stores, and strict reads of them."""
