"""`python -m modegate`."""

from modegate.cli import main

if __name__ == "__main__":
    main(prog_name="modegate")
