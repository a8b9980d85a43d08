"""Tasks that run beside the server, and the errors of a process that cannot start or go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


class StartFailed(Exception):
    """The process cannot start; `lines` say why."""

    def __init__(self, *lines: str, exit_code: int = 1) -> None:
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
