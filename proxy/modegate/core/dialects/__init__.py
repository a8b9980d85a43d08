"""The APIs that agents speak, one package each; only `registered` knows which there are."""
