"""What clients send and are sent as JSON-RPC: commands, errors, and what is known of single clients. Pure."""
