"""The shapes of ACP v1, and nothing else knows them. Pure."""
