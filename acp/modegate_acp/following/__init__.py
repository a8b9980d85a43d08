"""What a client is shown of the sessions that it follows, and what its person is asked."""
