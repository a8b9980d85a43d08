"""An agent's request on its way: to its session, to the upstream and back."""
