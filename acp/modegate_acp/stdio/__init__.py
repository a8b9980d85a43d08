"""`modegate acp`: the endpoint for editors that only start processes."""
