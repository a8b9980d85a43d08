"""A request of chat completions: read, and edited for a mode."""
