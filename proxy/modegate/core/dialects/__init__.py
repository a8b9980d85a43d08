"""The APIs that agents speak, each behind the protocol of `base`: nothing else asks which it is."""
