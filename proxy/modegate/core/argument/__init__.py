"""What one argument of a call says: a command, a program that calls tools, a patch, a path.

Each reader takes text that a model wrote, and understands all of it or refuses: it raises `NotUnderstood`, or
returns why not. A reader does no I/O, so it sees no file, no link and no configuration.
"""
