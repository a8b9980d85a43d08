"""The verdicts on an answer's calls, and under which ids the refused ones stand in the history."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import modegate
from modegate.core.ids import StepId, ToolName
from modegate.core.log.events import CallJudged
from modegate.core.policy.conditions import Equals
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import Effect, Policy
from modegate.core.policy.when import When
from modegate.core.step.answer.calls import Gathered, arguments_hash
from modegate.core.step.answer.gate import Gate
from modegate.core.step.answer.parts import Refused
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.texts import MAX_NAMED, MAX_REASON, closing
from support.playbook import POLICY, Session, mode, policy, rule

CORE = Path(modegate.__file__).parent / "core"

STEP = StepId("0123456789abcdef0123")


def in_force(rules: Policy = POLICY, mode_id: str = "plan") -> ModesInForce:
    """Return what a session stands under."""
    return Session(mode_id, rules).in_force()


def judge(
    gate: Gate, calls: list[Gathered], offered: Offer, now: ModesInForce
) -> tuple[list[CallJudged], list[Refused]]:
    """Judge calls that nobody is asked about."""
    judged = gate.judge(calls, offered, now)
    assert judged.asks == []
    return judged.events, judged.refused


def offer(stands: ModesInForce, *declared: str) -> Offer:
    """Return what its model was shown."""
    return Offer(stands, (ToolName("read"),), frozenset(declared))


def gathered(name: str, arguments: str = "{}", id_: str = "call_123456789") -> Gathered:
    """Return a call."""
    return Gathered(0, "function", id_, [name] if name else [], [arguments])


def test_each_call_has_its_verdict_and_its_event() -> None:
    """Who decided, by which rule, and never the arguments themselves."""
    stands = in_force()
    calls = [gathered("read", '{"a": 1}', "id_of_the_read"), gathered("write", '{"b":2}')]
    events, refused = judge(Gate(STEP, frozenset()), calls, offer(stands), stands)
    assert [call.released for call in calls] == [True, False]
    assert [(event.tool, event.verdict, event.rule) for event in events] == [
        ("read", "release", 'tools[0] allow "read"'), ("write", "answer", "no rule"),
    ]  # fmt: skip
    assert events[0].arguments == arguments_hash('{"a":1}')
    assert "1" not in events[0].reason.replace("tools[0]", "")
    assert (events[1].mode, events[1].mode_seq, events[1].step) == ("plan", 1, STEP)
    (one,) = refused
    assert one.call is calls[1]
    for told in ("`write`", "'plan'", "`read`", "person"):
        assert told in one.answer


@pytest.mark.parametrize(("id_", "taken", "kept"), [
    ("call_Ab3dEf6hIj9lMn", (), True),
    ("call_Ab3dEf6hIj9lMn", ("call_Ab3dEf6hIj9lMn",), False),
    ("call_0", (), False),
    ("", (), False),
    ("D681PevKs", (), True),
    ("functions.write:3", (), True),
    ("x" * 4_000, ("x" * 4_000,), False),
])  # fmt: skip
def test_ids_that_could_collide(id_: str, taken: tuple[str, ...], kept: bool) -> None:
    """Short ones and those in use get a stable suffix; providers take at most forty characters."""
    made = []
    for _ in range(2):
        stands = in_force()
        _, (one,) = judge(
            Gate(STEP, frozenset(taken)), [gathered("write", "{}", id_)], offer(stands), stands
        )
        made.append(one.id)
    assert made[0] == made[1]
    assert (made[0] == id_) is kept
    assert made[0]
    if not kept:
        assert len(made[0]) <= 40


def test_ids_are_the_refused_calls_own() -> None:
    """Neither of two refused calls nor of a released one, in this batch or one before."""
    stands = in_force()
    gate = Gate(STEP, frozenset())
    first = [gathered("write"), gathered("read"), gathered("write", '{"n":2}')]
    second = [gathered("write", '{"n":3}')]
    refused = [
        one for calls in (first, second) for one in judge(gate, calls, offer(stands), stands)[1]
    ]
    ids = {one.id for one in refused}
    assert len(ids) == 3
    assert "call_123456789" not in ids


@pytest.mark.parametrize("name", ["", "x" * 100_000, "a`b\nc\u202e", "exit_plan_mode"])
def test_names_are_data(name: str) -> None:
    """Whatever a model calls: a refusal of bounded size, without its control characters."""
    stands = in_force()
    (event,), (one,) = judge(Gate(STEP, frozenset()), [gathered(name)], offer(stands), stands)
    assert len(one.answer) < 1_500
    assert len(event.reason) <= MAX_REASON
    assert len(event.tool) <= 256
    assert not set("\n\u202e") & set(one.answer)


def test_the_closing_text_names_some() -> None:
    """Each once, and not a thousand of them."""
    force = in_force().modes[0]
    names = [f"tool{n}" for n in range(500)] + ["tool1"] * 9
    said = closing([Refused(gathered(name), "i", "a", force) for name in names])
    assert said.count("`tool1`") == 1
    assert said.count("`") == 2 * MAX_NAMED
    assert "and others" in said


def test_every_reading_must_be_allowed() -> None:
    """A name in two pieces is each of them and both together."""
    rules = policy(mode("plan", "read", "grep"))
    stands = in_force(rules)
    call = Gathered(0, "function", "id", ["read", "grep"], ["{}"])
    events, _ = judge(Gate(STEP, frozenset()), [call], offer(stands, "readgrep"), stands)
    assert call.withheld
    assert events[0].reason == "no rule of mode 'plan' covers 'readgrep'"


def test_of_two_calls_in_one_place_the_second_is_judged_with_the_first() -> None:
    """If the first is refused it is gone, and the second stands alone."""
    when = When({"path": Equals("plan.md")})
    stands = in_force(policy(mode("plan", "read", rule("edit", when))))
    for first, released in (("read", False), ("write", True)):
        one = gathered(first, "{}", "id_of_the_first")
        two = gathered("edit", '{"path":"plan.md"}', "id_of_the_second")
        two.shared[one] = None
        judge(Gate(STEP, frozenset()), [one, two], offer(stands), stands)
        assert two.released is released


def test_unreadable_calls() -> None:
    """No name, two shapes, something odd: refused with what is wrong about it."""
    stands = in_force()
    odd = gathered("read")
    odd.odd = "its arguments are neither a string nor an object"
    both = gathered("read")
    both.kinds |= {"function", "custom"}
    calls = [odd, both, gathered("")]
    events, _ = judge(Gate(STEP, frozenset()), calls, offer(stands), stands)
    assert [event.rule for event in events] == ["unreadable"] * 3
    assert [event.reason for event in events] == [
        odd.odd, "it is a function and a custom tool at once", "it has no name",
    ]  # fmt: skip


def test_parents_count_too() -> None:
    """The strictest of all modes in force decides, by name."""
    both = in_force(policy(mode("plan", "read", "write"), mode("strict", "read")))
    strict = in_force(policy(mode("plan", "read", "write"), mode("strict", "read")), "strict")
    call = gathered("write")
    events, _ = judge(Gate(STEP, frozenset()), [call], offer(both), strict)
    assert events[0].mode == "strict"
    assert call.withheld


def test_ask_rules_wait_for_a_person() -> None:
    """The rule is named, the call is neither released nor refused yet."""
    stands = in_force(policy(mode("plan", rule("fetch", None, Effect.ASK))))
    call = gathered("fetch")
    judged = Gate(STEP, frozenset()).judge([call], offer(stands), stands)
    assert (judged.events[0].verdict, judged.events[0].rule) == ("ask", 'tools[0] ask "fetch"')
    assert [ask.call for ask in judged.asks] == [call]
    assert judged.refused == []
    assert call.pending


def test_arguments_that_are_no_object_are_refused() -> None:
    """Unless the answer was cut at its length: then no client can run the call (B048)."""
    stands = in_force()
    for arguments in ("{", "[]", "1", '{"a":1,"a":2}', "{}{}"):
        call = gathered("read", arguments)
        events, _ = judge(Gate(STEP, frozenset()), [call], offer(stands), stands)
        assert call.withheld
        assert "arguments" in events[0].reason
        cut = gathered("read", arguments)
        Gate(STEP, frozenset()).judge([cut], offer(stands), stands, cut={0})
        assert cut.released


def test_what_the_provider_runs_is_never_asked_about() -> None:
    """It has run before a person could say anything, so a rule that asks is one that refuses."""
    stands = in_force(policy(mode("plan", rule("web_search", effect=Effect.ASK))))
    call = gathered("web_search")
    call.ran = True
    events, refused = judge(Gate(STEP, frozenset()), [call], offer(stands), stands)
    assert [event.verdict for event in events] == ["answer"]
    assert [one.call for one in refused] == [call]


def test_what_becomes_of_a_call_is_written_by_the_gate_alone() -> None:
    """No reader, writer or ending of an answer sets it by itself."""
    written = re.compile(r"\.state = |CallState\.(RELEASED|WITHHELD)")
    found = {p.name for p in CORE.rglob("*.py") if written.search(p.read_text())}
    assert found == {"gate.py", "calls.py"}
