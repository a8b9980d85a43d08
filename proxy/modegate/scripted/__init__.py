"""A provider's stand-in that says what a script has written down; it decides nothing about modes."""
