"""A session stands under its own mode and its parents'; the strictest verdict wins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import BadSession, ModeGone, SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, LOCAL, ModeId, Seq, SessionId, Tenant, ToolName
from modegate.core.log.fold import State
from modegate.core.policy.conditions import Absent, Equals, Not
from modegate.core.policy.in_force import (
    DAY_MS,
    MAX_CHAIN,
    ModeInForce,
    combine,
    derived_start,
    initial_mode,
    modes_in_force,
    tightest,
)
from modegate.core.policy.judge import ToolCall, Verdict, judge
from modegate.core.policy.model import Effect, Mode, Policy, Rule, Sessions
from modegate.core.policy.understood import Calls, ReadOnly
from modegate.core.policy.when import When

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY


def mode(name: str, *rules: tuple[Effect, str], section: str = "") -> Mode:
    return Mode(
        ModeId(name), name.title(), "", section, tuple(Rule(e, pattern) for e, pattern in rules)
    )


PLAN = mode("plan", (ALLOW, "read"), (ALLOW, "grep"), section="You plan.")
REVIEW = mode("review", (ASK, "grep"), (ALLOW, "*"), section="You review.")
LOCKED = mode("locked", (DENY, "a"), (DENY, "b"), (DENY, "c"))
POLICY = Policy("hash", {m.id: m for m in (PLAN, REVIEW, LOCKED)})

WHEN = When({"query": Equals("a")})

S, P, G = SessionId("S"), SessionId("P"), SessionId("G")
FREE = State()


def state(name: str, seq: int = 1, *, person: bool = False) -> State:
    return State(seq=Seq(seq), mode=ModeId(name), mode_seq=Seq(seq), set_by_person=person)


def call(name: str) -> ToolCall:
    return ToolCall(ToolName(name), {})


def test_a_session_in_default_stands_under_nothing() -> None:
    in_force = modes_in_force(POLICY, [(S, FREE)])
    judgement, force = in_force.judge(call("write"))
    assert (in_force.gated, in_force.label, in_force.section) == (False, "default", "")
    assert (judgement.verdict, force) == (Verdict.RELEASE, None)
    assert in_force.may_offer(ToolName("write"))
    assert (in_force.state, in_force.policy) == (FREE, POLICY)


def test_a_session_stands_under_its_own_mode() -> None:
    in_force = modes_in_force(POLICY, [(S, state("plan", 7))])
    judgement, force = in_force.judge(call("write"))
    assert in_force.gated
    assert in_force.modes == (ModeInForce(PLAN, S, Seq(7)),)
    assert (in_force.label, in_force.section) == ("plan", "You plan.")
    assert (judgement, force) == (judge(PLAN, call("write")), in_force.modes[0])
    assert judgement.verdict == Verdict.ANSWER
    assert in_force.judge(call("read"))[0].verdict == Verdict.RELEASE


@pytest.mark.parametrize(
    ("chain", "label"),
    [
        pytest.param([(S, FREE), (P, state("plan"))], "plan", id="B003-child-follows-parent"),
        pytest.param([(S, FREE), (P, FREE), (G, state("plan"))], "plan", id="grandparent"),
        pytest.param([(S, state("review")), (P, state("plan"))], "review+plan", id="both"),
        pytest.param([(S, state("plan")), (P, state("plan", 3))], "plan", id="same-mode-once"),
        pytest.param(
            [(S, state("default", person=True)), (P, state("plan"))], "default", id="freed"
        ),
        pytest.param([(S, state("review", person=True)), (P, state("plan"))], "review", id="own"),
        pytest.param(
            [(S, FREE), (P, state("default", person=True)), (G, state("plan"))],
            "default",
            id="parent-freed-by-a-person",
        ),
    ],
)
def test_a_child_follows_its_parent_until_a_person_sets_its_own(
    chain: list[tuple[SessionId, State]], label: str
) -> None:
    assert modes_in_force(POLICY, chain).label == label


def test_sections_are_joined_and_each_is_there_once() -> None:
    copy = mode("copy", section="You plan.")
    policy = Policy("hash", {**POLICY.modes, copy.id: copy})
    chain = [(S, state("review")), (P, state("locked")), (G, state("plan"))]
    assert modes_in_force(policy, chain).section == "You review.\n\nYou plan."
    assert modes_in_force(policy, [(S, state("copy")), (P, state("plan"))]).section == "You plan."


@pytest.mark.parametrize(
    ("name", "verdict", "decider"),
    [
        pytest.param("read", Verdict.RELEASE, S, id="both-release"),
        pytest.param("grep", Verdict.ASK, S, id="ask-outweighs-release"),
        pytest.param("write", Verdict.ANSWER, P, id="answer-outweighs-release"),
    ],
)
def test_the_strictest_verdict_wins(name: str, verdict: Verdict, decider: SessionId) -> None:
    chain = [(S, state("review")), (P, state("plan"))]
    judgement, force = modes_in_force(POLICY, chain).judge(call(name))
    assert force is not None
    assert (judgement.verdict, force.session) == (verdict, decider)
    reverse = modes_in_force(POLICY, [(S, state("plan")), (P, state("review"))])
    assert reverse.judge(call(name))[0].verdict == verdict


def test_answer_outweighs_ask() -> None:
    chain = [(S, state("review")), (P, state("locked"))]
    judgement, force = modes_in_force(POLICY, chain).judge(call("grep"))
    assert judgement.verdict == Verdict.ANSWER
    assert force is not None
    assert force.mode is LOCKED


def test_a_tool_is_offered_only_if_every_mode_offers_it() -> None:
    in_force = modes_in_force(POLICY, [(S, state("review")), (P, state("plan"))])
    assert in_force.may_offer(ToolName("grep"))
    assert not in_force.may_offer(ToolName("write"))


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([Rule(ALLOW, "search")], True),
        ([Rule(ALLOW, "s*")], True),
        ([Rule(ASK, "search"), Rule(ALLOW, "search")], False),
        ([Rule(DENY, "search"), Rule(ALLOW, "*")], False),
        ([Rule(ALLOW, "search", WHEN)], False),
        ([Rule(ALLOW, "search", WHEN), Rule(ALLOW, "search")], True),
        ([Rule(ASK, "search", WHEN), Rule(ALLOW, "search")], False),
        ([Rule(ALLOW, "search", When({"q": Absent()}, others_any=True))], False),
        ([Rule(ALLOW, "search", When({"q": Not(Equals("x"))}, others_any=True))], False),
        ([Rule(ALLOW, "search", When({"q": Calls()}, optional=("q",)))], False),
        ([Rule(DENY, "search", When({"q": ReadOnly()}, others_any=True)), Rule(ALLOW, "*")], False),
        ([], False),
    ],
)
def test_l6_what_nobody_judges_may_run_only_if_every_call_of_it_is_allowed(
    rules: list[Rule], may: bool
) -> None:
    policy = Policy("hash", {PLAN.id: replace(PLAN, rules=tuple(rules))})
    assert modes_in_force(policy, [(S, state("plan"))]).may_run(ToolName("search")) is may


def test_what_nobody_judges_may_run_only_if_every_mode_allows_it() -> None:
    in_force = modes_in_force(POLICY, [(S, state("review")), (P, state("plan"))])
    assert in_force.may_run(ToolName("read"))
    assert not in_force.may_run(ToolName("grep"))  # asked about in one
    assert not in_force.may_run(ToolName("write"))  # not in the other
    assert modes_in_force(POLICY, [(S, FREE)]).may_run(ToolName("write"))


def test_a_mode_that_has_gone_is_named_with_what_to_do() -> None:
    chain = [(S, FREE), (P, state("old"))]
    with pytest.raises(ModeGone, match=r"'P' is in mode 'old'.*modegate mode P NAME"):
        modes_in_force(POLICY, chain)


def test_an_unreadable_log_refuses_the_steps_of_its_session_and_its_children() -> None:
    broken = State(unreadable="event 3 is not known here")
    with pytest.raises(SessionUnreadable, match="'S' is unreadable: event 3"):
        modes_in_force(POLICY, [(S, broken)])
    with pytest.raises(SessionUnreadable, match="'P'"):
        modes_in_force(POLICY, [(S, state("plan")), (P, broken)])
    own = modes_in_force(POLICY, [(S, state("plan", person=True)), (P, broken)])
    assert own.label == "plan"


def test_a_chain_is_bounded_and_has_no_circle() -> None:
    links = [(SessionId(f"s{i}"), FREE) for i in range(MAX_CHAIN + 1)]
    assert not modes_in_force(POLICY, links[:-1]).gated
    with pytest.raises(BadSession, match="longer than 8"):
        modes_in_force(POLICY, links)
    with pytest.raises(BadSession, match="S < P < S"):
        modes_in_force(POLICY, [(S, FREE), (P, FREE), (S, FREE)])


def test_a_step_under_two_standings_needs_the_release_of_both() -> None:
    before = modes_in_force(POLICY, [(S, state("plan"))])
    after = modes_in_force(Policy("newer", POLICY.modes), [(S, state("review", 2))])
    both = combine(before, after)
    assert [force.mode.id for force in both.modes] == ["plan", "review"]
    assert both.judge(call("write"))[0].verdict == Verdict.ANSWER
    assert (both.state, both.policy) == (after.state, after.policy)
    assert combine(before, before).modes == before.modes


def test_l8_a_mode_that_the_policy_changed_within_a_step_holds_in_both_forms() -> None:
    """A tool is offered, and what the provider runs may run, only if the old and the new rules allow it."""
    old = mode("plan", (ALLOW, "read"), section="OLD")
    new = mode("plan", (ALLOW, "read"), (ALLOW, "grep"), section="NEW")
    policies = (Policy(one.section, {one.id: one}) for one in (old, new))
    before, after = (modes_in_force(policy, [(S, state("plan"))]) for policy in policies)
    both = combine(before, after)
    for may in (both.may_offer, both.may_run):
        assert [name for name in ("read", "grep") if may(ToolName(name))] == ["read"]
    assert (both.label, both.section) == ("plan", "NEW")


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        pytest.param([], "default", id="none"),
        pytest.param(["default", "default"], "default", id="only-default"),
        pytest.param(["default", "review"], "review", id="any-mode-before-default"),
        pytest.param(["review", "plan"], "plan", id="equal-number-first-by-name"),
        pytest.param(["plan", "locked"], "locked", id="rules-that-deny-open-nothing"),
        pytest.param(["locked", "gone"], "gone", id="gone-lets-nothing-through"),
    ],
)
def test_the_tightest_mode(candidates: list[str], chosen: str) -> None:
    assert tightest(POLICY, [ModeId(name) for name in candidates]) == chosen


NOW = 10 * DAY_MS


@pytest.mark.parametrize(
    ("kin", "start"),
    [
        pytest.param([], "default", id="no-kin"),
        pytest.param([FREE, state("plan")], "plan", id="B132-in-force"),
        pytest.param([State(left={ModeId("plan"): NOW - DAY_MS})], "plan", id="left-today"),
        pytest.param(
            [State(left={ModeId("plan"): NOW - DAY_MS - 1})], "default", id="left-long-ago"
        ),
        pytest.param([State(left={ModeId("gone"): NOW})], "default", id="left-and-gone"),
        pytest.param([state("gone")], "gone", id="in-force-and-gone-is-refused-later"),
        pytest.param(
            [state("review"), State(left={ModeId("locked"): NOW})], "locked", id="tightest"
        ),
    ],
)
def test_a_derived_session_starts_where_its_kin_are(kin: list[State], start: str) -> None:
    assert derived_start(POLICY, kin, NOW) == start


@given(
    st.lists(st.sampled_from(["default", "plan", "review", "locked"]), min_size=1, max_size=8),
    st.sampled_from(["read", "grep", "write", "a"]),
)
def test_a_chain_is_never_looser_than_one_of_its_modes(names: list[str], tool: str) -> None:
    chain = [(SessionId(f"s{i}"), state(name)) for i, name in enumerate(names)]
    together, _ = modes_in_force(POLICY, chain).judge(call(tool))
    alone = {judge(POLICY.modes[ModeId(n)], call(tool)).verdict for n in names if n != DEFAULT_MODE}
    order = [Verdict.ANSWER, Verdict.ASK, Verdict.RELEASE]
    assert together.verdict == next((v for v in order if v in alone), Verdict.RELEASE)


PLAN_ID, REVIEW_ID, LOCKED_ID = PLAN.id, REVIEW.id, LOCKED.id
FOR_CI = Sessions(initial_mode_by_tenant={Tenant("ci"): REVIEW_ID})
FOR_CLAUDE = Sessions(
    initial_mode=REVIEW_ID,
    initial_mode_by_tenant={Tenant("ci"): REVIEW_ID, Tenant("free"): DEFAULT_MODE},
    initial_mode_by_agent={
        "claude-cli/*": LOCKED_ID,
        "gptme/*": DEFAULT_MODE,
        "*helper*": PLAN_ID,
        "claude-cli/1.*": REVIEW_ID,
    },
)


@pytest.mark.parametrize(
    ("sessions", "tenant", "agent", "expected"),
    [
        pytest.param(Sessions(), LOCAL, "a/1", DEFAULT_MODE, id="nothing-said"),
        pytest.param(FOR_CI, LOCAL, "a/1", DEFAULT_MODE, id="of-another-tenant"),
        pytest.param(FOR_CI, Tenant("ci"), "a/1", REVIEW_ID, id="of-its-tenant"),
        pytest.param(FOR_CLAUDE, LOCAL, "codex/1", REVIEW_ID, id="of-no-glob"),
        pytest.param(FOR_CLAUDE, LOCAL, "claude-cli/2.1", LOCKED_ID, id="of-its-agent"),
        pytest.param(FOR_CLAUDE, LOCAL, "Claude-CLI/2.1", REVIEW_ID, id="another-case"),
        pytest.param(FOR_CLAUDE, LOCAL, "claude-cli/1.9", LOCKED_ID, id="the-tightest-of-two-globs"),
        pytest.param(FOR_CLAUDE, LOCAL, "gptme/1", DEFAULT_MODE, id="an-agent-freed"),
        pytest.param(FOR_CLAUDE, LOCAL, "gptme/1 helper", PLAN_ID, id="freed-and-not"),
        pytest.param(FOR_CLAUDE, Tenant("ci"), "gptme/1", REVIEW_ID, id="freed-but-not-by-tenant"),
        pytest.param(FOR_CLAUDE, Tenant("ci"), "claude-cli/2", LOCKED_ID, id="agent-tighter"),
        pytest.param(FOR_CLAUDE, Tenant("free"), "claude-cli/2", LOCKED_ID, id="tenant-freed"),
        pytest.param(FOR_CLAUDE, Tenant("free"), "codex/1", DEFAULT_MODE, id="tenant-freed-only"),
        pytest.param(FOR_CLAUDE, LOCAL, None, LOCKED_ID, id="an-agent-that-nobody-knows-yet"),
        pytest.param(FOR_CI, LOCAL, None, DEFAULT_MODE, id="unknown-and-nothing-said"),
        pytest.param(
            Sessions(initial_mode=PLAN_ID, initial_mode_by_agent={"a*": DEFAULT_MODE}),
            LOCAL, None, PLAN_ID, id="unknown-and-perhaps-free",
        ),
    ],
)  # fmt: skip
def test_a_session_begins_in_the_mode_of_its_tenant_and_its_agent(
    sessions: Sessions, tenant: Tenant, agent: str | None, expected: ModeId
) -> None:
    policy = replace(POLICY, sessions=sessions)
    assert initial_mode(policy, tenant, agent) == expected


def test_a_glob_lets_more_through_than_any_number_of_names() -> None:
    names = mode("names", *((ALLOW, f"t{n}") for n in range(9)))
    glob = mode("all", (ALLOW, "*"))
    policy = Policy("hash", {m.id: m for m in (names, glob)})
    assert tightest(policy, [names.id, glob.id]) == names.id


def test_all_calls_of_a_step_may_have_so_many_programs() -> None:
    """A program of 1.7 KB can take 50 ms, and an answer can have a hundred of them."""
    rule = Rule(ALLOW, "exec", When({"input": Calls()}))
    plan = Mode(ModeId("plan"), "Plan", "", "", (rule,))
    step = modes_in_force(Policy("hash", {plan.id: plan}), [(SessionId("s"), State(mode=plan.id))])
    verdicts = [
        step.judge(ToolCall(ToolName("exec"), {"input": f"text({at});\n" * 240}))[0].verdict
        for at in (*range(6), 0, 1)
    ]
    again = [Verdict.RELEASE] * 2  # what was read already takes no more time
    assert verdicts == [Verdict.RELEASE] * 4 + [Verdict.ANSWER] * 2 + again


def test_all_calls_of_a_step_may_have_so_many_words_of_commands() -> None:
    """Each takes its time, and an answer can have hundreds of calls."""
    rule = Rule(ALLOW, "sh", When({"command": ReadOnly()}))
    plan = Mode(ModeId("plan"), "Plan", "", "", (rule,))
    policy = Policy("hash", {plan.id: plan})
    step = modes_in_force(policy, [(SessionId("s"), State(mode=plan.id))])
    long = "; ".join(["ls"] * 250)
    verdicts = [
        step.judge(ToolCall(ToolName("sh"), {"command": f"{long} {at}"}))[0].verdict
        for at in (*range(9), 0)
    ]
    assert verdicts[:4] == [Verdict.RELEASE] * 4
    assert verdicts[-2:] == [Verdict.ANSWER, Verdict.RELEASE]
