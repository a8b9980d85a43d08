"""Whether a shell command only reads: its grammar, its words, and what is known of each program."""
