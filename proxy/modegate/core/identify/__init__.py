"""Which session and lane a request belongs to."""
