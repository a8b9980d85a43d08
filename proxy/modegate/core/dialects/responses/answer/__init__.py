"""An answer of Responses: read, and written for the client."""
