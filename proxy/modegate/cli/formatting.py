"""Text for a terminal: what agents and models wrote is data and must not steer it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from modegate.server.printable import printable

_LONGEST_LIST = 6


def when(at: int) -> str:
    """Return a time, milliseconds since the epoch, as people of this place read it."""
    return datetime.fromtimestamp(at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def event_line(event: Mapping[str, Any]) -> str:
    """Return one event of a log as one line."""
    data = " ".join(f"{name}={_short(value)}" for name, value in event["data"].items() if value)
    return printable(
        f"{event['seq']:>5}  {when(event['at'])}  {event['type']:<20} {event['by']:<15} {data}"
    )


def _short(value: object) -> str:
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            return f"({len(value)})"
        more = f",… ({len(value)})" if len(value) > _LONGEST_LIST else ""
        return ",".join(value[:_LONGEST_LIST]) + more
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text else text


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return aligned columns; the last one is not padded."""
    cells = [list(head), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
