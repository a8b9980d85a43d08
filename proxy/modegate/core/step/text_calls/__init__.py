"""Calls that stand in an answer's plain text: found, judged and cut out like any other."""
