"""An answer on its way to the client: calls gathered, judged, held and released."""
