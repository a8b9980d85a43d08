"""A call with many arguments, or with many values of one, is not clear beyond a bound."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.argument.javascript import InnerCall
from modegate.core.argument.shell.programs import STANDARD
from modegate.core.policy.argument_path import MAX_VALUES
from modegate.core.policy.conditions import Equals, Glob
from modegate.core.policy.findings import Answer, Commands
from modegate.core.policy.understood import ReadOnly
from modegate.core.policy.when import MAX_TEXT, When


class Scope:
    """A mode that is asked nothing."""

    programs = STANDARD

    def __init__(self) -> None:
        self.commands = Commands()

    def why_not_released(self, call: InnerCall) -> str:
        raise AssertionError(call)


def entries(count: int, **last: Any) -> dict[str, Any]:
    return {"e": [*({"f": "a"} for _ in range(count - 1)), {"f": "a", **last}]}


EDITS = When({"e[].f": Glob(("a*",))}, others_any=True)
COMMANDS = When({"c[]": ReadOnly()}, others_any=True)
LISTED = When({"e[].f": Glob(("a*",))}, others=("e[].g",))
TWO = When({"e[].f": Glob(("a*",)), "n": Equals(1)}, others_any=True)


@pytest.mark.parametrize(
    ("when", "arguments", "answer"),
    [
        (EDITS, entries(MAX_VALUES), Answer.MET),
        (EDITS, entries(MAX_VALUES, F="b"), Answer.UNCLEAR),
        (EDITS, entries(MAX_VALUES + 1), Answer.UNCLEAR),
        (EDITS, entries(MAX_VALUES + 2, F="b"), Answer.UNCLEAR),
        (EDITS, entries(2, f="a" * (MAX_TEXT - 1)), Answer.MET),
        (EDITS, entries(2, f="a" * MAX_TEXT), Answer.UNCLEAR),
        (EDITS, entries(1, f="a" * (MAX_TEXT + 1)), Answer.MET),
        (COMMANDS, {"c": [["ls"] * 100] * 100}, Answer.MET),
        (COMMANDS, {"c": [["ls"] * MAX_VALUES] * MAX_VALUES}, Answer.UNCLEAR),  # over a second else
        (COMMANDS, {"c": [["ls", "a" * 1100]] * MAX_VALUES}, Answer.UNCLEAR),
        (COMMANDS, {"c": [f"ls {at}" for at in range(MAX_VALUES)]}, Answer.MET),
        (COMMANDS, {"c": ["; ".join(["ls"] * 250)] * 9}, Answer.MET),
        (COMMANDS, {"c": ["; ".join(["ls"] * 250) + f" {at}" for at in range(9)]}, Answer.UNCLEAR),
        (TWO, {**entries(MAX_VALUES + 1), "n": 1}, Answer.UNCLEAR),
        (TWO, {**entries(MAX_VALUES + 1), "n": 2}, Answer.UNMET),
        (TWO, {**entries(MAX_VALUES + 1), "n": 2, "N": 1}, Answer.UNCLEAR),
    ],
)
def test_many_values(when: When, arguments: dict[str, Any], answer: Answer) -> None:
    assert when.match(arguments, Scope()).conditions.answer is answer


def test_each_entry_is_searched_for_others() -> None:
    assert (
        LISTED.match(entries(MAX_VALUES, h=1), Scope()).others
        == "argument `e[].h` must not be there"
    )
    assert LISTED.match(entries(MAX_VALUES, g=1), Scope()).others == ""
