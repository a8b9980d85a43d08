"""A request of Messages: read, and edited for a mode."""
