"""Calls that stand in an answer's plain text: which shapes they have.

Some agents run what their model writes: a JSON object with a name and arguments, a line `@save(id): {…}`,
tags, fenced blocks, SEARCH/REPLACE blocks. The parsers of gptme 0.35.1, smolagents 1.26.0 and aider 0.86.2
were read, and run against these shapes. Those of Cline, Roo Code, OpenHands, Continue and LangChain were not:
theirs are as commonly described.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEAD = 1024
"""Characters of a line that could become a call; no tool has a longer name."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to write a call."""

    kind: str
    first: str
    """The character that it begins with."""
    head: re.Pattern[str]
    """Its head; the group `name` is the tool's, if it stands there."""
    maybe: re.Pattern[str]
    """What the end of a text can be that is its head only once more has come."""
    close: str = ""
    """A pattern for its end, in which `NAME` is the tool's; empty: a JSON object ends it."""
    line: bool = False
    """It stands at the head of a line."""


def _begun(word: str, rest: str = "") -> str:
    """Return a pattern of every beginning of a word; behind all of it, `rest` may follow."""
    pattern = rest
    for letter in reversed(word):
        pattern = f"(?:{letter}{pattern})?"
    return pattern


SHAPES = (
    Shape("json", "{", re.compile(r"\{\s{0,64}[\"']|\{\s{64}"), re.compile(r"\{\s{0,63}\Z")),
    Shape(
        "at",
        "@",
        re.compile(
            r"@(?P<name>[^\r\n]{1,1000}?)\([\w\-:.]{1,1000}\):\s{0,256}\{"
            r"|@[^\r\n]{1,1000}?\([\w\-:.]{1,1000}\):\s{257}|@[^\r\n]{1024}"
        ),
        re.compile(r"@[^\r\n]{0,1023}\Z|@[^\r\n]{1,1000}?\([\w\-:.]{1,1000}\):\s{0,256}\Z"),
        line=True,
    ),
    Shape(
        "function",
        "<",
        re.compile(r"<function\s{0,16}=\s{0,16}[\"']?(?P<name>[^\s>\"'=]{1,256})(?=[\s>\"'])"),
        re.compile("<" + _begun("function", r"(?:\s{0,16}=?\s{0,16}[^>\s]{0,257})?") + r"\Z"),
        r"</function\s{0,64}>",
    ),
    Shape(
        "invoke",
        "<",
        re.compile(r"<(?:[\w\-]{1,64}:)?invoke(?=[\s>/])"),
        re.compile(r"<(?:[\w\-]{1,64}:)?" + _begun("invoke") + r"\Z"),
        r"</(?:[\w\-]{1,64}:)?invoke\s{0,64}>",
    ),
    Shape(
        "tag",
        "<",
        re.compile(r"<(?P<name>[A-Za-z_][\w.:\-]{0,255})(?=[\s>/])"),
        re.compile(r"<[\w.:\-]{0,256}\Z"),
        r"</NAME\s{0,64}>",
    ),
    Shape(
        "fence",
        "`",
        re.compile(
            r"`{3,64}+[ \t]{0,255}+(?P<name>[^\s`]{1,256}+(?=[\s`])|(?=[\r\n]))|`{3,64}[ \t]{256}|`{65}"
        ),
        re.compile(r"`{1,64}+(?:[ \t]{0,255}+[^\s`]{0,256}+)?\Z"),
        # Nothing behind it: a word there, also behind a blank, begins a block to gptme.
        r"[\r\n][ \t]{0,64}`{3,}[ \t]{0,64}(?=[\r\n])",
    ),
    Shape(
        "search",
        "<",
        re.compile(r"<{3,64}+ SEARCH\b"),
        re.compile(r"<{1,64}+" + _begun(" SEARCH") + r"\Z"),
        r"[\r\n](?:>{3,}|\+{3,}) REPLACE\b",
        line=True,
    ),
    Shape(
        "search",
        "-",
        re.compile(r"-{3,64}+ SEARCH\b"),
        re.compile(r"-{1,64}+" + _begun(" SEARCH") + r"\Z"),
        r"[\r\n](?:>{3,}|\+{3,}) REPLACE\b",
        line=True,
    ),
    Shape(
        "patch",
        "*",
        re.compile(r"\*\*\* Begin Patch\b"),
        re.compile(r"\*{1,3}" + _begun(" Begin Patch") + r"\Z"),
        r"\*\*\* End Patch\b",
        line=True,
    ),
    Shape(
        "react",
        "A",
        re.compile(
            r"Action\s{0,9}\d{0,9}\s{0,9}:\s{0,64}(?P<name>(?:(?!Action)[^\r\n]){1,256}?)\s{0,64}"
            r"Action\s{0,9}\d{0,9}\s{0,9}Input\s{0,9}\d{0,9}\s{0,9}:"
            r"|Action\s{0,9}\d{0,9}\s{0,9}Input\s{0,9}\d{0,9}\s{0,9}:"
        ),
        re.compile(
            "A"
            + _begun(
                "ction",
                r"(?:\s{0,9}\d{0,9}\s{0,9}(?:I[nput\d\s]{0,32}|"
                r":\s{0,64}(?:[^\r\n{<`][^\r\n]{0,255}+(?:[\r\n][AIactionpu\d\s]{0,80})?)?)?)?",
            )
            + r"\Z"
        ),
        r"[\r\n]Observation\s?\d{0,9}\s?:",
    ),
)

NAMED = {"search": "search_replace", "patch": "apply_patch"}
"""Under which name a shape is judged that names no tool."""
