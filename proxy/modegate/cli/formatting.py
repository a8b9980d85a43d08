"""Text for a terminal: what agents and models wrote is data and must not steer it.

What a model wrote in a question to a person is behind a bar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from modegate.server.printable import printable

FIRST_LINES = 200
FIRST_CHARACTERS = 20_000
"""What is shown before a person is asked; the rest is one command away."""

BAR = "│ "
_FENCES = ("```", "~~~")

_LONGEST_LIST = 6


def when(at: int) -> str:
    """Return a time, milliseconds since the epoch, as people of this place read it."""
    return datetime.fromtimestamp(at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def event_line(event: Mapping[str, Any]) -> str:
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


def question_head(question: Mapping[str, Any]) -> str:
    """Say in modegate's own words what is asked."""
    what = "a plan" if question["purpose"] == "exit" else f"a call of {question['tool']}"
    head = f"{what} of session {question['session']}, asked at {when(question['askedAt'])}"
    return printable(f"{head} ({question['id']})")


def whole(question: Mapping[str, Any]) -> str:
    return "\n".join(_lines(question))


def beginning(question: Mapping[str, Any]) -> str:
    """Return the first lines of what a model wrote, and how to see the rest."""
    shown: list[str] = []
    room = FIRST_CHARACTERS
    lines = list(_lines(question))
    for line in lines[:FIRST_LINES]:
        if len(line) > room:
            shown.append(click.unstyle(line)[:room])
            break
        shown.append(line)
        room -= len(line)
    else:
        if len(lines) <= FIRST_LINES:
            return "\n".join(shown)
    more = f"(cut here: {len(lines)} lines in all; see them: modegate approvals {question['id']} | less)"
    return "\n".join([*shown, printable(more)])


def first_words(question: Mapping[str, Any], width: int = 60) -> str:
    """Return one short line that tells questions apart."""
    text = str(question["text"])[:4_000]
    words = next((line.strip("# \t\r") for line in text.split("\n") if line.strip("# \t\r")), "")
    short = words if len(words) <= width else words[: width - 1] + "…"
    what = "plan" if question["purpose"] == "exit" else question["tool"]
    return printable(f"{what}: {short}")


def _lines(question: Mapping[str, Any]) -> Iterator[str]:
    # Not splitlines(): it takes more characters for line ends than a terminal does.
    markdown, code = question["purpose"] == "exit", False
    for raw in str(question["text"]).split("\n"):
        line = printable(raw.removesuffix("\r").expandtabs(4))
        fence = markdown and line.lstrip().startswith(_FENCES)
        code = code is not fence
        if fence:
            line = click.style(line, dim=True)
        elif markdown and not code and line.startswith("#"):
            line = click.style(line.strip("# "), bold=True, underline=True)
        yield BAR + line
