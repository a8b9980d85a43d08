"""Node, which runs programs that call tools and tells which calls they made."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modegate.core.argument.javascript import InnerCall
from support.acp_clients import NODE

SCRIPT = Path(__file__).parent / "record.mjs"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program did: its calls, what else it reached for, and the error that ended it."""

    calls: tuple[InnerCall, ...]
    traps: tuple[str, ...]
    error: str | None


class Engine:
    """One process of Node, which runs a program as a module and as the body of a function."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the process."""
        self._process = process

    def run(self, program: str) -> list[Ran]:
        """Run a program in both ways."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(program) + "\n")
        self._process.stdin.flush()
        told: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return [
            Ran(
                tuple(_call(name, given) for name, given in one["calls"]),
                tuple(one["traps"]),
                one["error"],
            )
            for one in told
        ]


def _call(name: str, given: list[Any]) -> InnerCall:
    (arguments,) = given or [{}]
    return InnerCall(name, {"input": arguments} if isinstance(arguments, str) else arguments)


@contextmanager
def node() -> Iterator[Engine]:
    """Start Node and end it."""
    command = [str(NODE) if NODE.exists() else "node", "--experimental-vm-modules", "--no-warnings"]
    with subprocess.Popen(
        [*command, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        yield Engine(process)
        assert process.stdin is not None
        process.stdin.close()
