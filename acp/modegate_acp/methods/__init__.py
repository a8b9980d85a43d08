"""What each method of ACP does."""
