"""What the requests and answers of several dialects have in common."""
