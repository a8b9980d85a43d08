"""Bytes as they travel: headers, bodies, event streams, JSON text and where its parts stand."""
