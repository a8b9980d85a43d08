"""An answer of Messages: read, and written for the client."""
