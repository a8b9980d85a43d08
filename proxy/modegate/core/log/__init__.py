"""What a session's log holds, and the state that it folds to."""
