"""Text that cannot steer what shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.policy.file.problems import Problem
from modegate.server.printable import printable, problem_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plan ✓ 计划", "plan ✓ 计划"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\r", "a\\nb\\r"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2028", "\\u2028"),
        ("\u200b", "\\u200b"),
        ("\ud800", "\\ud800"),
        ("\x9b1m", "\\x9b1m"),
        ("", ""),
    ],
)
def test_only_glyphs_stay(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_whatever_comes_is_printable(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            Problem("modes.plan", 3, "unknown key", "tolls"),
            "p.yaml:3: modes.plan: unknown key (found tolls)",
        ),
        (Problem("", 3, "not YAML"), "p.yaml:3: not YAML"),
        (Problem("", 0, "no such file"), "p.yaml: no such file"),
        (Problem("a", 1, "x", "\x1b"), "p.yaml:1: a: x (found \\x1b)"),
    ],
)
def test_a_problem_is_written_as_compilers_do(problem: Problem, line: str) -> None:
    assert problem_line(Path("p.yaml"), problem) == line
