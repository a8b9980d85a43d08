"""A question to a person as text for a terminal: what a model wrote is behind a bar and steers nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from modegate.cli.formatting import when
from modegate.server.printable import printable

FIRST_LINES = 200
FIRST_CHARACTERS = 20_000
"""What is shown before a person is asked; the rest is one command away."""

BAR = "│ "
_FENCES = ("```", "~~~")


def question_head(question: Mapping[str, Any]) -> str:
    """Say in modegate's own words what is asked."""
    what = "a plan" if question["purpose"] == "exit" else f"a call of {question['tool']}"
    head = f"{what} of session {question['session']}, asked at {when(question['askedAt'])}"
    return printable(f"{head} ({question['id']})")


def whole(question: Mapping[str, Any]) -> str:
    """Return all of what a model wrote."""
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
