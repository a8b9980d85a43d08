"""Problems are told once each, in the order of the file."""

from __future__ import annotations

import pytest

from modegate.core.policy.file.problems import PolicyProblems, Problem


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("modes.plan", 3, "bad", "'x'"), "line 3, modes.plan: bad (found 'x')"),
        (Problem("", 1, "the file is empty"), "line 1: the file is empty"),
        (Problem("", 0, "cannot be read"), "cannot be read"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_problems_are_sorted_and_what_an_alias_shows_twice_is_told_once() -> None:
    first, second = Problem("a", 1, "one"), Problem("b", 2, "two")
    told = PolicyProblems([second, first, Problem("z", 2, "two")])
    assert told.problems == (first, second)
    assert str(told) == "line 1, a: one\nline 2, b: two"
