"""One client: who it is, the order of its messages, what runs for it, and what waits to be sent to it."""
