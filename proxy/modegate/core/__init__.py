"""What decides: pure functions and state machines, no await, clock, randomness, I/O or logging."""
