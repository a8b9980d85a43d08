"""A step's requests to the upstream: what the model is shown, and what stands in its history."""
