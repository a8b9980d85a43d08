"""An answer of chat completions: read, and written for the client."""
