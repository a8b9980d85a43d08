"""The worst calls within the limits: arguments that cost a verdict the most for their length."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

COMMAND = 65_000
PROGRAM = 65_000
PATCH = 1_040_000


def _command(piece: str, before: str = "ls ", after: str = "") -> Callable[[], dict[str, Any]]:
    return lambda: {"a": before + piece * (COMMAND // len(piece)) + after}


def _program(piece: str, before: str = "", after: str = "") -> Callable[[], dict[str, Any]]:
    return lambda: {"input": before + piece * (PROGRAM // len(piece)) + after}


def _patch(piece: str, before: str = "*** Update File: docs/a\n") -> Callable[[], dict[str, Any]]:
    body = piece * (PATCH // len(piece))
    return lambda: {"input": f"*** Begin Patch\n{before}{body}*** End Patch\n"}


def _nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return {"a": value}


_SIDES = "--- a/docs/a\n+++ b/docs/a\n"
_CALL = 'await tools.shell({a: "git log --oneline -5"});\n'

WORST: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "64 KB of commands": ("shell", lambda: {"a": "; ".join(["ls"] * 2000)}),
    "4,000 words": ("shell", lambda: {"a": "cat " + " ".join(["src/abcdef/ghi"] * 4000)}),
    "64 KB of words": ("shell", _command("a ")),
    "64 KB of one word": ("shell", _command("a")),
    "64 KB of quoted words": ("shell", _command("'a' ")),
    "64 KB of globs": ("shell", _command("*")),
    "64 KB of pipes": ("shell", _command("| ls ")),
    "64 KB of braces": ("shell", _command("{ ", "")),
    "64 KB of keywords": ("shell", _command("if ", "")),
    "64 KB of a comment": ("shell", _command("a", "ls #")),
    "64 KB of a script of sed": ("shell", _command("1p;", "sed -n '", "'")),
    "64 KB of addresses of sed": ("shell", _command("/a/,", "sed -n '", "'")),
    "64 KB of a script of awk": ("shell", _command("{print}", "awk '", "'")),
    "64 KB of brackets for awk": ("shell", _command("(", "awk '", "'")),
    "64 KB of a filter of jq": ("shell", _command("[", "jq '", "'")),
    "64 KB of conditions of find": ("shell", _command("-name a ", "find . ")),
    "64 KB of formats of git": ("shell", _command("--format=%h ", "git log ")),
    "64 KB with a mistake": ("shell", _command("]1]", "[ ")),
    "64 KB of a list of words": ("shell", lambda: {"a": ["cat", *["a" * 8] * 8000]}),
    "64 calls in a program": ("exec", lambda: {"input": _CALL * 64}),
    "64 KB of a string": ("exec", _program("a", 'await tools.shell({a: "ls ', '"})')),
    "64 KB of escapes": ("exec", _program("\\x41", 'await tools.shell({a: "ls ', '"})')),
    "64 KB of statements": ("exec", _program("text(1);")),
    "2,000 tokens": ("exec", lambda: {"input": "text(1);" * 395}),
    "1,900 strings": ("exec", lambda: {"input": '"s" ' * 1900}),
    "64 KB of brackets": ("exec", _program("(")),
    "64 KB of templates": ("exec", _program("`a`")),
    "a word and comments": ("exec", lambda: {"input": '"s" let ' + "/* c */" * 99}),
    "64 KB of comments": ("exec", _program("/**/")),
    "64 KB of elements of JSX": ("exec", _program("<a ")),
    "64 KB of functions": ("exec", _program("a(b=>{")),
    "1 MB of additions": ("patch", _patch("+x\n", "*** Add File: docs/a\n")),
    "1 MB of blank lines": ("patch", _patch(" \n")),
    "1 MB of files": ("patch", _patch("*** Add File: docs/a\n", "")),
    "1,000 files": (
        "patch",
        lambda: {
            "input": "*** Begin Patch\n"
            + "".join(f"*** Add File: docs/{n:06}\n" for n in range(1000))
            + "*** End Patch\n"
        },
    ),
    "1 MB of one line": ("patch", _patch(" --- ***", "*** Update File: docs/a\n \n")),
    "1 MB of hunks": ("patch", lambda: {"input": _SIDES + "@@ -1 +1 @@\n \n" * (PATCH // 14)}),
    "1 MB of one hunk": (
        "patch",
        lambda: {"input": _SIDES + "@@ -1,500000 +1,500000 @@\n" + " \n" * 500_000},
    ),
    "1 MB of a path": ("path", lambda: {"a": "docs/" * 200_000}),
    "4 KB of a path": ("path", lambda: {"a": "docs/" + "a/../" * 800 + "x"}),
    "1,000 edits": ("edits", lambda: {"e": [{"f": f"docs/{n}"} for n in range(1000)]}),
    "100,000 edits": ("edits", lambda: {"e": [{"f": f"docs/{n}"} for n in range(100_000)]}),
    "300,000 arguments": ("path", lambda: {"a": "docs/x", **{f"k{n}": 1 for n in range(300_000)}}),
    "JSON of 900 levels": ("deep", lambda: _nested(900)),
    "16 MB for a glob": ("glob", lambda: {"a": "src/" + "x" * 16_000_000}),
    "1 MB for an expression": ("matches", lambda: {"a": "git log " + "x" * 500_000}),
    "an expression of many states": (
        "states",
        lambda: {"a": "".join(random.Random(1).choices("ab", k=65_000))},
    ),
    "beyond its bound": ("states", lambda: {"a": "ab" * 500_000}),
}
