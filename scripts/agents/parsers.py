"""Holds what modegate finds in a text against the agents' own parsers: what is left must hold no call.

Runs in the environment of the package that it is told, with modegate's core on the path: random texts out of
the pieces that calls are made of, in random cuts; each that the agent would run is looked at.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from modegate.core.step.text_calls.agents import habit_of
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.scan import Scanner
from modegate.core.step.texts import in_place

SECONDS = 20.0
SYSTEM = {
    "gptme": "You are gptme",
    "smolagents": "solve any task using tool calls",
    "aider-chat": "Act as an expert software developer",
}
PIECES = [
    *("```", "````", "``````", "save a.txt", "shell", "ipython", "patch b", "python", "\r\n", "\t"),
    *(
        "\n",
        "\n\n",
        " ",
        "x",
        "@save(c1):",
        "@shell(a-b):",
        " {",
        "}",
        "{",
        '"',
        "\\",
        '"name"',
        ":",
    ),
    *(
        '"write"',
        ",",
        '"arguments"',
        '{"a":{"b":1}}',
        '{"path":"a","content":"b"}',
        "'",
        "#",
        '"""',
    ),
    *("<tool-use>", "</tool-use>", "<save", "<save>", "</save>", ">", "<", "<think>", "</think>"),
    *("<function_calls>", "</function_calls>", '<invoke name="save">', "</invoke>", "<<EOF", "EOF"),
    *("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "a.py\n", "text and", "\u2028", "  "),
]
CALLS = [
    *("```save a.txt\nhi\n```", "```shell\nls\n```", "````patch b\nx\n````", "```\nplain\n```"),
    *('@save(c1): {"path":"a","content":"b"}', '@shell(a-b):\n{"command":"ls"}', "```md\n```"),
    *('{"name":"write","arguments":{"a":1}}', '<tool-use><save args="a">x</save></tool-use>'),
    *('<function_calls><invoke name="save">x</invoke></function_calls>', "``````shell\nls\n```"),
    "a.py\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```",
]


def _gptme() -> Callable[[str], list[Any]]:
    from gptme.tools import init_tools
    from gptme.tools.base import ToolUse

    init_tools(None)
    return lambda text: [
        use.tool
        for style in ("markdown", "tool", "xml")
        for use in ToolUse.iter_from_content(text, tool_format_override=style)
        if use.is_runnable
    ]


def _smolagents() -> Callable[[str], list[Any]]:
    from smolagents.utils import parse_json_blob

    def runs(text: str) -> list[Any]:
        try:
            found, _ = parse_json_blob(text)
        except ValueError:
            return []
        return [found["name"]] if isinstance(found, dict) and found.get("name") == "write" else []

    return runs


def _aider() -> Callable[[str], list[Any]]:
    from aider.coders.editblock_coder import find_original_update_blocks

    def runs(text: str) -> list[Any]:
        try:
            found = list(find_original_update_blocks(text, ("```", "```"), ["a.py"]))
        except ValueError:
            return []
        # A suggested command that is empty, or our own words, does nothing.
        return [
            one for one in found if one[0] is not None or one[1].replace(in_place("x"), "").strip()
        ]

    return runs


PARSERS = {"gptme": _gptme, "smolagents": _smolagents, "aider-chat": _aider}


def text_of(chance: random.Random) -> str:
    """Return a text."""
    parts = [
        chance.choice(CALLS if chance.random() < 0.4 else PIECES)
        for _ in range(chance.randint(1, 9))
    ]
    text = "".join(part + chance.choice(["\n", "", "", "\n\n", " "]) for part in parts)
    for _ in range(chance.randint(0, 2)):
        at = chance.randint(0, len(text))
        text = text[:at] + text[at + chance.randint(1, 3) :]
    return text


def shown(text: str, rules: TextCalls, chance: random.Random) -> str:
    """Return what is left of a text of which every call was refused."""
    scanner, decided, at = Scanner(rules, 0), [], 0
    while at < len(text):
        size = chance.choice((1, 2, 5, 9, 40))
        decided += scanner.feed(text[at : at + size])
        at += size
    decided += scanner.end()
    left, at = [], 0
    for one in decided:
        left.append(text[at : at + one.length] if one.call is None else in_place("x"))
        at += one.length
    return "".join(left)


def main() -> int:
    """Look for a text of which a call is left; give 1 if there is one."""
    package = sys.argv[1]
    chance = random.Random(time.time_ns())
    with contextlib.redirect_stdout(io.StringIO()):
        runs = PARSERS[package]()
    rules = TextCalls(frozenset({"write", "save"}), habit_of(SYSTEM[package]))
    until, ran = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        text = text_of(chance)
        if not runs(text):
            continue
        ran += 1
        left = shown(text, rules, chance)
        if runs(left):
            print(f"{package} runs {runs(left)} of what is left of {text!r}: {left!r}")
            return 1
    print(f"{package}: of {ran} texts that it runs nothing was left that it would run")
    return 0 if ran else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # some of them leave threads behind
