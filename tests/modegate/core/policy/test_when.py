"""Conditions on several arguments, on some within others, and what becomes of all others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.shell.programs import STANDARD
from modegate.core.ids import ToolName
from modegate.core.policy.argument_path import MAX_VALUES
from modegate.core.policy.conditions import Absent, Equals, Glob, Not
from modegate.core.policy.findings import Answer, Commands, Condition
from modegate.core.policy.judge import ToolCall, Verdict, judge
from modegate.core.policy.model import Effect
from modegate.core.policy.understood import Under
from modegate.core.policy.when import Match, When
from support.playbook import mode, rule

MET, UNMET, UNCLEAR = Answer
ONE, TWO = Equals(1), Equals(2)
DOCS = Under(("docs/",))


class Reading:
    """A mode whose conditions ask nothing of it."""

    programs = STANDARD

    def __init__(self) -> None:
        self.commands = Commands()

    def why_not_released(self, call: Any) -> str:
        raise AssertionError(call)


def match(when: When, arguments: dict[str, Any] | None) -> Match:
    return when.match(arguments, Reading())


def when(
    others: tuple[str, ...] | None = None, optional: tuple[str, ...] = (), **conditions: Condition
) -> When:
    return When(conditions, others=others, optional=optional)


def at(path: str, condition: Condition = ONE, **more: Any) -> When:
    return When({path: condition}, others_any=True, **more)


NESTED: list[tuple[When, dict[str, Any], Answer]] = [
    (at("a.b"), {"a": {"b": 1}}, MET),
    (at("a.b"), {"a": {"b": 2}}, UNMET),
    (at("a.b"), {"a": {}}, UNMET),
    (at("a.b"), {}, UNMET),
    (at("a.b"), {"a.b": 1}, UNMET),
    (at("a.b"), {"a": None}, UNMET),
    (at("a.b"), {"a": [{"b": 1}]}, UNCLEAR),
    (at("a.b"), {"a": '{"b": 1}'}, UNCLEAR),
    (at("a.b"), {"a": {"b": 1, "B": 2}}, UNCLEAR),
    (at("a.b"), {"a": {"b": 1}, "A": {"b": 2}}, UNCLEAR),
    (at("a.b"), {"a": {"b": 1, "c": {"B": 2}}}, MET),
    (at("a.b", optional=("a.b",)), {}, MET),
    (at("a.b", optional=("a.b",)), {"a": {}}, MET),
    (at("a.b", optional=("a.b",)), {"a": None}, UNCLEAR),
    (at("a.b", optional=("a.b",)), {"a": {"b": None}}, UNCLEAR),
    (at("a.b", Equals(None), optional=("a.b",)), {"a": {"b": None}}, MET),
    (at("a.b", optional=("a.b",)), {"a": {"B": 1}}, UNCLEAR),
    (at("a.b", Absent()), {}, MET),
    (at("a.b", Absent()), {"a": {"c": 1}}, MET),
    (at("a.b", Absent()), {"a": {"b": None}}, UNCLEAR),
    (at("a.b", Absent()), {"a": None}, UNCLEAR),
    (at("a.b", Absent()), {"a": {"b": 0}}, UNMET),
    (at("a[].b"), {"a": [{"b": 1}, None]}, UNCLEAR),
    (at("a[].b"), {"a": [None, None]}, UNMET),
    (at("a[].b[]"), {"a": [{"b": [1]}, {"b": []}]}, UNCLEAR),
    (at("a[].b[]"), {"a": [{"b": [1]}, {"b": None}]}, UNCLEAR),
    (at("a[].b[]"), {"a": [{"b": [1]}, {}]}, UNCLEAR),
    (at("a[].b[]"), {"a": [{"b": []}, {"b": 1}]}, UNCLEAR),
    (at("a.b", Absent()), {"a": {"B": 1}}, UNCLEAR),
    (at("a.b", Not(TWO)), {"a": {"b": 1}}, MET),
    (at("a.b", Not(TWO)), {"a": {}}, UNMET),
    (at("a[]"), {"a": [1, 1.0]}, MET),
    (at("a[]"), {"a": [1, 2]}, UNCLEAR),
    (at("a[]"), {"a": [2, 2]}, UNMET),
    (at("a[]"), {"a": []}, UNMET),
    (at("a[]"), {"a": 1}, UNCLEAR),
    (at("a[]"), {"a": {"0": 1}}, UNCLEAR),
    (at("a[]"), {"a": None}, UNMET),
    (at("a[]"), {"a": [[1]]}, UNCLEAR),
    (at("a[][]"), {"a": [[1], [1]]}, MET),
    (at("a[][]"), {"a": [[1], []]}, UNCLEAR),
    (at("a[]", optional=("a[]",)), {}, MET),
    (at("a[]", optional=("a[]",)), {"a": []}, UNMET),
    (at("a[].b"), {"a": [{"b": 1}, {"b": 1, "c": 2}]}, MET),
    (at("a[].b"), {"a": [{"b": 1}, {"c": 2}]}, UNCLEAR),
    (at("a[].b"), {"a": [{"b": 1}, "b"]}, UNCLEAR),
    (at("a[].b", optional=("a[].b",)), {"a": [{"b": 1}, {"c": 2}]}, MET),
    (at("a[].b", Absent()), {"a": [{}, {"c": 2}]}, MET),
    (at("a[].b", DOCS), {"a": [{"b": "docs/x"}, {"b": "~/x"}]}, UNCLEAR),
    (at("a[]", Glob(("*",))), {"a": ["x"] * MAX_VALUES}, MET),
    (at("a[]", Glob(("*",))), {"a": ["x"] * (MAX_VALUES + 1)}, UNCLEAR),
    (at(r"a\.b"), {"a.b": 1}, MET),
    (at(r"a\.b"), {"a": {"b": 1}}, UNMET),
]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "arguments", "answer"),
    NESTED,
    ids=[f"{n}-{next(iter(w.conditions))}" for n, (w, _, _) in enumerate(NESTED)],
)
def test_a_path_stands_for_values(when: When, arguments: dict[str, Any], answer: Answer) -> None:
    assert match(when, arguments).conditions.answer is answer


@pytest.mark.parametrize(
    ("when", "arguments", "stray"),
    [
        (when(a=ONE), {"a": 1}, ""),
        (when(a=ONE), {"a": 1, "b": 1}, "`b`"),
        (when((), a=ONE), {"a": 1, "b": None}, "`b`"),
        (when(("b",), a=ONE), {"a": 1, "b": {"c": [1]}}, ""),
        (when(("b",), a=ONE), {"a": 1, "B": 1}, "`B`"),
        (when(("b",), a=ONE), {"a": 1, "c": 1}, "`c`"),
        (when(("b.c",), a=ONE), {"a": 1, "b": {"c": 1}}, ""),
        (when(("b.c",), a=ONE), {"a": 1, "b": {}}, ""),
        (when(("b.c",), a=ONE), {"a": 1, "b": {"c": 1, "d": 1}}, "`b.d`"),
        (when(("b.c",), a=ONE), {"a": 1, "b": "x"}, "`b`"),
        (when(("b.c",), a=ONE), {"a": 1, "b": ["x"]}, "`b`"),
        (when(("b.c",), a=ONE), {"a": 1, "b": None}, "`b`"),
        (when(("b[].c",), a=ONE), {"a": 1, "b": [{"c": 1}, {}]}, ""),
        (when(("b[].c",), a=ONE), {"a": 1, "b": [{"c": 1}, {"d.e": 1}]}, r"`b[].d\.e`"),
        (when(("b[].c",), a=ONE), {"a": 1, "b": [["c"]]}, "`b[]`"),
        (when(("b[].c",), a=ONE), {"a": 1, "b": {"c": 1}}, "`b`"),
        (When({"e[].f": ONE}, others=("e[].n",)), {"e": [{"f": 1, "n": 1}]}, ""),
        (When({"e[].f": ONE}, others=("e",)), {"e": [{"f": 1, "n": 1}]}, ""),
        (When({"e[].f": ONE}), {"e": [{"f": 1, "n": 1}]}, "`e[].n`"),
        (When({"e[].f": ONE}), {"e": [{"f": 1}], "n": 1}, "`n`"),
        (When({"e[].f": ONE}, others_any=True), {"e": [{"f": 1, "n": 1}], "m": 1}, ""),
    ],
)
def test_others_are_those_without_a_condition(
    when: When, arguments: dict[str, Any], stray: str
) -> None:
    told = match(when, arguments)
    assert told.conditions.answer is MET
    assert told.others == (f"argument {stray} must not be there" if stray else "")


CONDITIONS: dict[str, dict[str, Any] | None] = {
    "met": {"a": "xa"},
    "met, with another": {"a": "xa", "b": 1},
    "not met": {"a": "b"},
    "not met, with another": {"a": "b", "c": 1},
    "not there": {},
    "null": {"a": None},
    "a list": {"a": ["xa"]},
    "another spelling": {"a": "b", "A": "xa"},
    "unreadable": None,
}
NEXT, REFUSED, COVERED = "next rule", "refused", "covered"
TABLE = {
    "met": (COVERED, COVERED, COVERED),
    "met, with another": (NEXT, REFUSED, COVERED),
    "not met": (NEXT, NEXT, NEXT),
    "not met, with another": (NEXT, NEXT, NEXT),
    "not there": (NEXT, NEXT, NEXT),
    "null": (NEXT, NEXT, NEXT),
    "a list": (NEXT, REFUSED, REFUSED),
    "another spelling": (NEXT, REFUSED, REFUSED),
    "unreadable": (NEXT, REFUSED, REFUSED),
}


@pytest.mark.parametrize("case", TABLE)
@pytest.mark.parametrize("effect", Effect)
def test_when_a_rule_covers_a_call(case: str, effect: Effect) -> None:
    """As the table in docs/policies.md says."""
    plan = mode("plan", rule("t", when((), a=Glob(("x*",))), effect), "t")
    told = judge(plan, ToolCall(ToolName("t"), CONDITIONS[case]))
    expected = TABLE[case][list(Effect).index(effect)]
    own = told.rule.startswith("tools[0]")
    verdicts = {Effect.ALLOW: Verdict.RELEASE, Effect.ASK: Verdict.ASK, Effect.DENY: Verdict.ANSWER}
    if expected == NEXT:
        assert (own, told.verdict) == (False, Verdict.RELEASE)
    elif expected == REFUSED:
        assert (own, told.verdict) == (True, Verdict.ANSWER)
        assert "nobody can say" in told.reason
    else:
        assert (own, told.verdict) == (True, verdicts[effect])


@pytest.mark.parametrize(
    ("rules", "arguments", "reason"),
    [
        (
            [when(a=ONE)],
            {"a": 2},
            'tools[0] allow "t" does not cover it: argument `a`: must be 1',
        ),
        (
            [when(a=ONE)],
            {"a": 1, "b`{\n": 1},
            'tools[0] allow "t" does not cover it: argument `b\'{` must not be there',
        ),
        (
            [when(a=ONE, b=ONE), when(a=TWO)],
            {"a": 1, "b": 2},
            'tools[0] allow "t" does not cover it: argument `b`: must be 1',
        ),
        (
            [when(a=ONE), when(a=TWO)],
            {"a": 3},
            'tools[1] allow "t" does not cover it: argument `a`: must be 2',
        ),
        (
            [at("input", DOCS), at("patchText", DOCS)],
            {"input": "src/x"},
            'tools[0] allow "t" does not cover it: argument `input`: `src/x` is not in `docs/`',
        ),
        (
            [when(cmd=ONE), When({"command": ONE, "tty": ONE}, optional=("tty",))],
            {"cmd": 2},
            'tools[0] allow "t" does not cover it: argument `cmd`: must be 1',
        ),
        (
            [at("a[].b", DOCS)],
            {"a": [{"b": "docs/x"}, {"b": "src/x"}]},
            'tools[0] allow "t" does not cover it: argument `a[].b`: `src/x` is not in `docs/`',
        ),
        ([when(a=ONE)], None, 'tools[0] allow "t" does not cover it: the arguments cannot be read'),
    ],
)
def test_the_rule_that_came_nearest_says_why(
    rules: list[When], arguments: dict[str, Any] | None, reason: str
) -> None:
    plan = mode("plan", *(rule("t", one) for one in rules))
    assert judge(plan, ToolCall(ToolName("t"), arguments)).reason == reason


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (when(a=Not(TWO)), ": argument `a`: must be 2"),
        (at("b[]", Not(DOCS)), ": argument `b[]`: `src/x` is not in `docs/`"),
        (when(a=ONE), ": because of argument `a`"),
        (When({"a": ONE, "c": ONE}, optional=("c",)), ": because of argument `a`, `c`"),
    ],
)
def test_a_deny_says_which_of_its_conditions_are_met(conditions: When, reason: str) -> None:
    plan = mode("plan", rule("t", conditions, Effect.DENY), "*")
    told = judge(plan, ToolCall(ToolName("t"), {"a": 1, "b": ["src/x"]}))
    assert (told.verdict, told.reason) == (Verdict.ANSWER, f'denied by tools[0] deny "t"{reason}')


def test_a_deny_behind_it_says_which_rule_did_not_cover_the_call() -> None:
    plan = mode("plan", rule("t", when(a=ONE)), rule("t", effect=Effect.DENY), "*")
    told = judge(plan, ToolCall(ToolName("t"), {"a": 2}))
    assert told.rule == 'tools[1] deny "t"'
    assert told.reason == (
        'denied by tools[1] deny "t"; tools[0] allow "t" does not cover it: argument `a`: must be 1'
    )


def test_large_arguments_are_walked_once() -> None:
    """A list of a million entries, and an object of as many names: neither is compared with each name."""
    many = When({f"a{n}": ONE for n in range(64)}, others=tuple(f"b{n}" for n in range(1024)))
    names = {f"x{n}": n for n in range(100_000)}
    assert match(many, names).conditions.answer is UNMET
    assert match(at("a[].b"), {"a": [{"b": 1}] * 1_000_000}).conditions.answer is UNCLEAR


deep = st.recursive(
    st.sampled_from([None, True, 1, "docs/a", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abAB"), inner, max_size=2)
    ),
    max_leaves=8,
)
forms = st.sampled_from([ONE, Glob(("*",)), DOCS, Absent(), Not(DOCS), Not(ONE)])
paths = st.sampled_from(["a", "a.b", "a[]", "a[].b", "b", "b.a"])
whens = st.builds(
    When,
    st.dictionaries(paths, forms, min_size=1, max_size=3),
    st.booleans(),
    st.none() | st.lists(paths, max_size=2).map(tuple),
    st.lists(paths, max_size=2).map(tuple),
)


@given(whens, st.dictionaries(st.sampled_from("abAB"), deep, max_size=3))
def test_a_deny_and_an_allow_with_the_same_conditions_never_both_let_go(
    conditions: When, arguments: dict[str, Any]
) -> None:
    """What an `allow` covers, a `deny` covers; and where a `deny` does not, no `allow` does."""
    call = ToolCall(ToolName("t"), arguments)
    allows = judge(mode("plan", rule("t", conditions)), call).verdict is Verdict.RELEASE
    denies = (
        judge(mode("plan", rule("t", conditions, Effect.DENY), "t"), call).verdict is Verdict.ANSWER
    )
    assert denies or not allows
