"""What runs beside the server, and how a process that cannot start or go on says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


class StartFailed(Exception):
    """The process cannot start; `lines` say why."""

    def __init__(self, *lines: str, exit_code: int = 1) -> None:
        """Keep the lines for stderr."""
        super().__init__("\n".join(lines))
        self.lines = lines
        self.exit_code = exit_code


class TaskDied(Exception):
    """A task that must run as long as the process has ended."""


@dataclass(frozen=True, slots=True)
class Job:
    """A task that must run as long as the server does."""

    name: str
    run: Callable[[], Awaitable[None]]
    stop: Callable[[], None] | None = None
    """Makes `run` finish its work and return; without it the task is cancelled."""
