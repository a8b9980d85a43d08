"""The control API: what people do about sessions, modes and questions."""
