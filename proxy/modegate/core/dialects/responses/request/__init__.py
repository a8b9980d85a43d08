"""A request of Responses: read, and edited for a mode."""
