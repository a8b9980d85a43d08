"""Files with recorded requests: one JSON object a line, or a single request's body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_LINE = 64 * 2**20
"""Bytes of one request; the default limit of the proxy."""

_BODIES = ("messages", "input", "contents")
"""What tells that an object is a request's body, and no line that holds one."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request, or a line that holds none."""

    agent: str
    body: dict[str, Any] | None
    """None: this line holds no request."""
    path: str = ""
    """Where it was sent; empty if that is not known."""

    @property
    def raw(self) -> bytes:
        """The body as JSON."""
        return json.dumps(self.body).encode()


def recorded(path: Path, progress: Callable[[int], None]) -> Iterator[Recorded]:
    """Yield what each line of a file holds; `progress` is told how many bytes were read.

    Raises:
        OSError: the file cannot be read.
    """
    if path.suffix == ".json" and path.stat().st_size <= MAX_LINE:
        data = path.read_bytes()
        progress(len(data))
        if (value := _object(data)) is not None:
            yield _recorded(value, path.stem)
            return
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE + 1):
            long = len(line) > MAX_LINE
            progress(len(line))
            while len(line) > MAX_LINE and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE + 1)
                progress(len(line))
            if line.strip():
                yield _recorded(None if long else _object(line), path.stem)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _recorded(value: dict[str, Any] | None, name: str) -> Recorded:
    if value is None:
        return Recorded(name, None)
    if "body" not in value:
        body = value if any(key in value for key in _BODIES) else None
        return Recorded(name, body)
    body, agent, path = (value.get(key) for key in ("body", "agent", "path"))
    if isinstance(body, str):
        body = _object(body.encode("utf-8", "replace"))
    return Recorded(
        agent if isinstance(agent, str) and agent else name,
        body if isinstance(body, dict) else None,
        path.partition("?")[0] if isinstance(path, str) else "",
    )
