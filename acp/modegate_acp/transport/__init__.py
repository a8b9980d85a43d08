"""The two ways in which messages come and go: WebSocket, and Streamable HTTP."""
