"""What a policy says that cannot be meant: rules that nothing reaches, and names that no agent has."""
