"""The process: addresses, connections, workers, start and end."""
