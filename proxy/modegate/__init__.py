"""modegate: a reverse proxy that holds a coding agent's mode outside the agent.

`modegate.core` decides and is pure; `modegate.server` does; `modegate.cli` is the command line.
"""

__version__ = "0.1.0"
