"""What an operator writes: modes and their rules, upstreams and routes, and what is in force."""
