"""What a table cannot say: the little languages that some programs take as an operand."""
