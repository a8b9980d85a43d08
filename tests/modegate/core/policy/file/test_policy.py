"""A policy's text becomes a policy, or every problem that is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.ids import LOCAL
from modegate.core.policy.conditions import Equals, Glob, OneOf
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.model import (
    Effect,
    Exit,
    ExitOption,
    Limits,
    Policy,
    Rule,
    Sessions,
    Waits,
)
from modegate.core.policy.when import When
from support.policies import KEYS, parse

FULL = """\
version: 1
modes:
  plan:
    name: Plan
    description: Look, do not touch.
    section: |
      You are in plan mode; call exit_plan_mode.
    tools:
      - read
      - exit_plan_mode
      - deny: "mcp__docs__delete_*"
      - "mcp__docs__*"
      - ask: web_fetch
      - allow: file_editor
        when: {command: {equals: view}, level: {one_of: [1, two, true, null, -0.5]}, others: any}
      - allow: ls
        when: {path: {glob: "src/*"}}
    exit: {options: [{label: Go, to: default}, {label: Review, to: review}], native: false}
    without_tools: guide
    text_calls: refuse
    section_in: input
  review: {section: s, tools: [read]}
sessions:
  identify: [path, "header:X-My-Session", "body:metadata.session_id"]
  parent: ["header:x-parent"]
  when_missing: reject
  initial_mode: {default: review, tenants: {local: default}}
limits: {body: 128MiB, frame: 1048576, held: 1 GiB, hops: 2, drain: 1.5m, memory: 2GiB}
"""


def problems(text: str | bytes) -> list[tuple[str, int, str]]:
    with pytest.raises(PolicyProblems) as caught:
        parse(text)
    return [(p.path, p.line, f"{p.message} | {p.found}") for p in caught.value.problems]


def in_mode(line: str) -> str:
    return f"modes:\n  plan:\n    section: s\n    tools: [read]\n    {line}\n"


def with_tools(tools: str) -> str:
    return f"modes: {{plan: {{section: s, tools: {tools}}}}}"


def test_every_key_is_read() -> None:
    policy = parse(FULL)
    assert list(policy.modes) == ["plan", "review"]
    plan = policy.modes["plan"]  # type: ignore[index]  # a plain string is what a test would write
    assert (plan.id, plan.name, plan.description) == ("plan", "Plan", "Look, do not touch.")
    assert plan.section == "You are in plan mode; call exit_plan_mode.\n"
    assert plan.without_tools == "guide"
    assert plan.text_calls == "refuse"
    assert policy.modes["review"].text_calls is None  # type: ignore[index]  # the same
    assert plan.section_in == "input"
    assert policy.modes["review"].section_in == "instructions"  # type: ignore[index]  # the same
    one_of = OneOf((1, "two", True, None, -0.5))
    assert plan.rules == (
        Rule(Effect.ALLOW, "read", at=0),
        Rule(Effect.DENY, "mcp__docs__delete_*", at=2),
        Rule(Effect.ALLOW, "mcp__docs__*", at=3),
        Rule(Effect.ASK, "web_fetch", at=4),
        Rule(
            Effect.ALLOW,
            "file_editor",
            When({"command": Equals("view"), "level": one_of}, others_any=True),
            at=5,
        ),
        Rule(Effect.ALLOW, "ls", When({"path": Glob(("src/*",))}), at=6),
    )
    options = (ExitOption("Go", _mode("default")), ExitOption("Review", _mode("review")))
    assert plan.exit == Exit(options, native=False)
    assert policy.sessions == Sessions(
        identify=("path", "header:x-my-session", "body:metadata.session_id"),
        parent=("header:x-parent",),
        when_missing="reject",
        initial_mode=_mode("review"),
        initial_mode_by_tenant={LOCAL: _mode("default")},
    )
    assert policy.limits == Limits(2**27, 2**20, 2**30, 2, 90.0, 2**31)


def _mode(name: str) -> Any:
    return name


def plan_of(policy: Policy) -> Any:
    return policy.modes[_mode("plan")]


def test_the_smallest_policy_has_every_default() -> None:
    policy = parse(with_tools("[read]").encode())
    plan = plan_of(policy)
    assert (plan.name, plan.description, plan.exit, plan.without_tools) == (
        "plan",
        "",
        None,
        "pass",
    )
    assert (policy.sessions, policy.limits) == (Sessions(), Limits())


@pytest.mark.parametrize(
    ("tools", "leave", "expected"),
    [
        ("[read, exit_plan_mode]", "", "default"),
        ("[{allow: exit_plan_mode}]", "", "default"),
        ("[read]", "exit: {}", "default"),
        ("[read]", "exit: {to: plan}", "plan"),
        ("[exit_plan_mode]", "exit: {to: plan}", "plan"),
    ],
)
def test_the_exit_is_switched_on_by_its_key_or_its_name(
    tools: str, leave: str, expected: str
) -> None:
    policy = parse(f"modes:\n  plan:\n    section: exit_plan_mode\n    tools: {tools}\n    {leave}")
    assert plan_of(policy).exit == Exit((ExitOption("Approve", _mode(expected)),))
    assert all(rule.pattern == "read" for rule in plan_of(policy).rules)


def test_B025c_a_section_may_not_name_an_exit_that_is_not_there() -> None:
    text = "modes:\n  plan:\n    tools: [read]\n    section: Then call exit_plan_mode.\n"
    assert problems(text) == [
        (
            "modes.plan.section",
            4,
            "names exit_plan_mode, but the mode has no exit: write exit | 'Then call exit_plan_mode.'",
        )
    ]


def test_all_problems_are_reported_at_once_with_path_and_line() -> None:
    text = """\
version: 2
modes:
  default: {section: s, tools: [read]}
  plan:
    sectoin: s
    tools:
      - read
      - yes
      - {allow: a, deny: b}
    exit: {to: nowhere}
limits: {hops: many}
log: redis
"""
    assert problems(text) == [
        ("version", 1, "must be 1: this modegate reads no other version | '2'"),
        (
            "modes.default",
            3,
            "'default' is reserved: it means no policy and cannot be defined | 'default'",
        ),
        ("modes.plan.sectoin", 5, "unknown key; did you mean 'section'? | 'sectoin'"),
        (
            "modes.plan.tools[1]",
            8,
            "must be a string but is read as the boolean true; quote it | 'yes'",
        ),
        (
            "modes.plan.tools[2]",
            9,
            "has both allow and deny; only one of them can stand here | a mapping",
        ),
        ("modes.plan.exit.to", 10, "no such mode; known: default, plan | 'nowhere'"),
        ("limits.hops", 11, "must be a whole number in plain decimal | 'many'"),
        ("log", 12, f"unknown key; known: {', '.join(KEYS[''])} | 'log'"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "line", "message"),
    [
        ("", "", 1, "the file is empty"),
        ("# only a comment\n", "", 1, "the file is empty"),
        ("[]", "", 1, "must be a mapping"),
        ("version: 1", "", 1, "needs the key 'modes'"),
        ("modes:\n", "modes", 1, "must be a mapping"),
        ("modes: {}", "modes", 1, "needs at least one mode"),
        ("modes: {plan: x}", "modes.plan", 1, "must be a mapping"),
        ("modes: {plan: {section: s}}", "modes.plan", 1, "needs the key 'tools'"),
        ('modes: {plan: {section: " ", tools: [a]}}', "modes.plan.section", 1, "not be empty"),
        ("modes: {-x: {section: s, tools: [a]}}", "modes.-x", 1, "not a mode id"),
        ("modes: {a b: {section: s, tools: [a]}}", "modes.a b", 1, "not a mode id"),
        (with_tools("[]"), "modes.plan.tools", 1, "must not be empty"),
        (with_tools("read"), "modes.plan.tools", 1, "must be a list"),
        (with_tools('[""]'), "modes.plan.tools[0]", 1, "must not be empty"),
        (with_tools("[[read]]"), "modes.plan.tools[0]", 1, "must be a string"),
        (with_tools("[{}]"), "modes.plan.tools[0]", 1, "needs one of the keys allow, ask, deny, use"),
        (with_tools("[{allow: a, wen: b}]"), "modes.plan.tools[0].wen", 1, "did you mean 'when'?"),
        (with_tools("[{allow: [a]}]"), "modes.plan.tools[0].allow", 1, "write an entry for each"),
        (with_tools("[{ask: exit_plan_mode}]"), "modes.plan.tools[0]", 1, "only be named alone"),
        (with_tools("[{deny: exit_plan_mode}]"), "modes.plan.tools[0]", 1, "only be named alone"),
        (in_mode("without_tools: maybe"), "modes.plan.without_tools", 5, "must be one of"),
        (in_mode("without_tools: [a]"), "modes.plan.without_tools", 5, "must be a string"),
        (in_mode("text_calls: maybe"), "modes.plan.text_calls", 5, "must be one of"),
        (in_mode("section_in: system"), "modes.plan.section_in", 5, "must be one of"),
        (in_mode("section_in: [a]"), "modes.plan.section_in", 5, "must be a string"),
        (in_mode("exit: yes"), "modes.plan.exit", 5, "must be a mapping"),
        (in_mode("exit: {native: yes}"), "modes.plan.exit.native", 5, "must be true or false"),
        (in_mode("exit: {to: [a]}"), "modes.plan.exit.to", 5, "must be a string"),
        (in_mode("exit: {to: default, options: [{label: a, to: plan}]}"), "modes.plan.exit", 5,
         "either to or options"),
        (in_mode("exit: {options: []}"), "modes.plan.exit.options", 5, "must not be empty"),
        (in_mode("exit: {options: [a]}"), "modes.plan.exit.options[0]", 5, "must be a mapping"),
        (in_mode("exit: {options: [{label: a}]}"), "modes.plan.exit.options[0]", 5, "needs the key 'to'"),
        (in_mode("exit: {options: [{to: plan}]}"), "modes.plan.exit.options[0]", 5, "needs the key 'label'"),
        (in_mode("name: 2026-01-01"), "modes.plan.name", 5, "is read as a date; quote it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, path: str, line: int, message: str) -> None:
    [(found_path, found_line, found)] = problems(text)
    assert (found_path, found_line) == (path, line)
    assert message in found


@pytest.mark.parametrize(
    ("when", "path", "message"),
    [
        ("[a]", "", "must be a mapping"),
        ("{}", "", "needs a condition on at least one argument"),
        ("{others: any}", "", "needs a condition on at least one argument"),
        ("{optional: [a]}", "", "needs a condition on at least one argument"),
        ("{a: {equals: 1}, others: all}", ".others", "'any', or a list of their names"),
        ("{a: {equals: 1}, others: {equals: 1}}", ".others", "must be a list"),
        ("{a: view}", ".a", "must be a condition, such as"),
        ("{a: {}}", ".a", "needs one of the keys equals, one_of, glob"),
        ("{a: {equals: 1, glob: x}}", ".a", "has both equals and glob"),
        ("{a: {glob: 1}}", ".a.glob", "is read as a number; quote it"),
        ("{a: {equals: yes}}", ".a.equals", "is read as the boolean true; quote it, or spell"),
        ("{a: {equals: [1]}}", ".a.equals", "must be a string, a number, true, false or null"),
        ("{a: {equals: }}", ".a.equals", "is read as null; quote it, or spell"),
        ('{a: {equals: "\\uD800"}}', ".a.equals", "is not valid Unicode"),
        ("{a: {one_of: []}}", ".a.one_of", "must not be empty"),
        ("{a: {one_of: [a, 010]}}", ".a.one_of[1]", "is read as a number; quote it, or spell"),
    ],
)
def test_conditions_are_checked(when: str, path: str, message: str) -> None:
    [(found_path, _, found)] = problems(with_tools(f"[{{allow: t, when: {when}}}]"))
    assert found_path == f"modes.plan.tools[0].when{path}"
    assert message in found


@pytest.mark.parametrize(
    ("section", "path", "message"),
    [
        ("sessions: x", "sessions", "must be a mapping"),
        ("sessions: {identify: []}", "sessions.identify", "must not be empty"),
        ("sessions: {identify: [cookie]}", "sessions.identify[0]", "path, header:NAME or body"),
        ("sessions: {identify: ['header:a b']}", "sessions.identify[0]", "path, header:NAME"),
        ("sessions: {identify: ['body:a..b']}", "sessions.identify[0]", "body:dotted.path"),
        ("sessions: {identify: [1]}", "sessions.identify[0]", "is read as a number"),
        ("sessions: {parent: [path]}", "sessions.parent[0]", "must be header:NAME"),
        ("sessions: {when_missing: drop}", "sessions.when_missing", "derive, reject"),
        ("sessions: {initial_mode: plam}", "sessions.initial_mode", "did you mean 'plan'?"),
        ("sessions: {initial_mode: {tenant: {}}}", "sessions.initial_mode.tenant", "'tenants'"),
        (
            "sessions: {initial_mode: {tenants: {ci: plan}}}",
            "sessions.initial_mode.tenants.ci",
            "no agent can be of tenant 'ci'",
        ),
        ("sessions: {initial_mode: {tenants: []}}", "sessions.initial_mode.tenants", "a mapping"),
        ("sessions: {initial_mode: {default: x}}", "sessions.initial_mode.default", "no such mode"),
        (
            "sessions: {initial_mode: {agents: {a*: x}}}",
            "sessions.initial_mode.agents.a*",
            "no such mode",
        ),
        ("sessions: {initial_mode: {agents: [a]}}", "sessions.initial_mode.agents", "a mapping"),
        ("limits: []", "limits", "must be a mapping"),
        ("approvals: 60s", "approvals", "must be a mapping"),
        ("approvals: {timeout: never}", "approvals.timeout", "must be seconds"),
        ("approvals: {timeout: 25h}", "approvals.timeout", "must be 24h at most"),
        ("approvals: {timeout_whole: 86400.1}", "approvals.timeout_whole", "must be 24h at most"),
        ("approvals: {timeouts: 1}", "approvals.timeouts", "did you mean"),
        ("limits: {body: 0}", "limits.body", "must be bytes"),
        ("limits: {body: 010}", "limits.body", "must be bytes"),
        ("limits: {body: 64Mb}", "limits.body", "must be bytes"),
        ("limits: {body: [1]}", "limits.body", "must be bytes"),
        ("limits: {hops: 0}", "limits.hops", "between 1 and 32"),
        ("limits: {hops: 0x4}", "limits.hops", "plain decimal"),
        ("limits: {hops: '4'}", "limits.hops", "plain decimal"),
        ("limits: {drain: 1:30}", "limits.drain", "must be seconds"),
        ("limits: {drain: -1}", "limits.drain", "must be seconds"),
        ("version: 1.0", "version", "must be 1"),
        ("version: '1'", "version", "must be 1"),
    ],
)
def test_the_other_sections_are_checked(section: str, path: str, message: str) -> None:
    [(found_path, line, found)] = problems(f"{with_tools('[read]')}\n{section}")
    assert (found_path, line) == (path, 2)
    assert message in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "modes:\n  plan: {section: p, tools: [read]}\n  plan: {section: p, tools: [write]}\n",
            ("modes.plan", 3, "duplicate key 'plan': on line 2 and again on line 3 | "),
            id="mode",
        ),
        pytest.param(
            "modes:\n  plan:\n    section: s\n    tools: [a]\n    tools: [b]\n",
            ("modes.plan.tools", 5, "duplicate key 'tools': on line 4 and again on line 5 | "),
            id="nested",
        ),
        pytest.param(
            '{"modes": {"plan": {"section": "s", "tools": ["a"],\n "section": "t"}}}',
            ("modes.plan.section", 2, "duplicate key 'section': on line 1 and again on line 2 | "),
            id="flow",
        ),
    ],
)
def test_B151_a_duplicate_key_names_both_lines(text: str, expected: tuple[str, int, str]) -> None:
    assert problems(text) == [expected]


def test_B152_what_yaml_makes_of_unquoted_words_is_shown() -> None:
    text = (
        "modes: {on: {section: s, tools: [read]}, "
        "plan: {section: no, tools: [read, yes, off, 1, 1e3, 0o17, 2026-01-01, ~]}}"
    )
    found = problems(text)
    assert all("quote it" in message for _, _, message in found)
    assert {(path, message.partition(" is read as ")[2]) for path, _, message in found} == {
        ("modes", "the boolean true; quote it | 'on'"),
        ("modes.plan.section", "the boolean false; quote it | 'no'"),
        ("modes.plan.tools[1]", "the boolean true; quote it | 'yes'"),
        ("modes.plan.tools[2]", "the boolean false; quote it | 'off'"),
        ("modes.plan.tools[3]", "a number; quote it | '1'"),
        ("modes.plan.tools[4]", "a number by YAML 1.2; quote it | '1e3'"),
        ("modes.plan.tools[5]", "a number by YAML 1.2; quote it | '0o17'"),
        ("modes.plan.tools[6]", "a date; quote it | '2026-01-01'"),
        ("modes.plan.tools[7]", "null; quote it | '~'"),
    }


def test_B152_the_same_words_in_quotes_are_names() -> None:
    policy = parse(with_tools('["yes", "off", "1", "1e3", "~"]').replace("plan", '"on"'))
    rules = policy.modes[_mode("on")].rules
    assert [rule.pattern for rule in rules] == ["yes", "off", "1", "1e3", "~"]


def test_B154_merge_keys_and_aliases_share_nothing_and_explicit_keys_win() -> None:
    policy = parse("""\
modes:
  base: &b {section: s, tools: &t [read]}
  plan: *b
  review: {<<: *b, section: other, tools: *t}
""")
    base, plan, review = (policy.modes[_mode(name)] for name in ("base", "plan", "review"))
    assert (base.section, plan.section, review.section) == ("s", "s", "other")
    assert base.rules == plan.rules == review.rules == (Rule(Effect.ALLOW, "read", at=0),)


def test_B154_duplicates_are_found_beside_merge_keys() -> None:
    text = """\
modes:
  base: &b {section: s, tools: [read]}
  plan:
    <<: *b
    section: a
    section: b
    <<: *b
"""
    found = problems(text)
    assert [(path, line) for path, line, _ in found] == [
        ("modes.plan.section", 6),
        ("modes.plan.<<", 7),
    ]


def test_B154_an_exponential_expansion_is_refused() -> None:
    levels = ["x0: &x0 {a: {section: s, tools: [read]}}"]
    levels += [f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, 15)]
    text = "modes:\n  " + "\n  ".join(levels) + "\n"
    assert any("more than 20000 values" in message for _, _, message in problems(text))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "# a comment\n" + text.replace("\n", "  # said\n", 1),
        lambda text: text.replace("body: 128MiB", "body: 134217728").replace("1.5m", '"90s"'),
        lambda text: text.replace("      - exit_plan_mode\n", ""),
    ],
    ids=["comments", "units", "exit named twice"],
)
def test_the_hash_is_of_the_meaning(change: Any) -> None:
    assert parse(change(FULL)).hash == parse(FULL).hash
    assert len(parse(FULL).hash) == 16


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- read\n", "- reads\n"),
        ("equals: view", "glob: view"),
        ("others: any", "other: {equals: any}"),
        ("hops: 2", "hops: 3"),
        ("You are in", "You're in"),
        ("native: false", "native: true"),
        ("deny:", "ask:"),
    ],
)
def test_another_meaning_has_another_hash(old: str, new: str) -> None:
    assert old in FULL
    assert parse(FULL.replace(old, new, 1)).hash != parse(FULL).hash


BY_AGENT = (
    "sessions: {initial_mode: {default: plan, agents: {claude-cli/*: plan, gptme*: default}}}"
)


def test_the_first_mode_by_agent_is_read_and_is_part_of_the_meaning() -> None:
    policy = parse(with_tools("[read]") + f"\n{BY_AGENT}\n")
    assert policy.sessions == Sessions(
        initial_mode=_mode("plan"),
        initial_mode_by_agent={"claude-cli/*": _mode("plan"), "gptme*": _mode("default")},
    )
    other = parse(with_tools("[read]") + "\nsessions: {initial_mode: plan}\n")
    assert policy.hash != other.hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [(FULL, "27d2557db964f3e5"), (with_tools("[read]"), "09ccdfeb6fb1a138")],
    ids=["every key of the first version", "the smallest"],
)
def test_a_policy_without_newer_keys_keeps_its_hash(text: str, expected: str) -> None:
    """Logs and people name policies by it."""
    assert parse(text).hash == expected


words = st.sampled_from(
    [
        "modes", "plan", "section", "tools", "exit", "to", "when", "allow", "sessions", "limits",
        "initial_mode", "identify", "<<", "&a", "*a", "!!str", "!x", "yes", "1", "1e3", "null", "=",
        ":", ": ", "? ", "- ", "[", "]", "{", "}", ",", "\n", "\n  ", "\n    ", '"', "'", "|", ">",
        "%YAML 1.1\n", "---", "...", "#", "\\", '"\\uD800"', '"\\UFFFFFFFF"', "\ufeff", "\t", "\0",
    ]
)  # fmt: skip


def outcome(text: str | bytes) -> Policy | PolicyProblems:
    try:
        return parse(text)
    except PolicyProblems as error:
        return error


@given(st.one_of(st.text(), st.binary(), st.lists(words, max_size=30).map("".join)))
def test_any_text_is_a_policy_or_problems(text: str | bytes) -> None:
    found = outcome(text)
    assert found.modes if isinstance(found, Policy) else found.problems


plain = (
    st.none() | st.booleans() | st.integers() | st.sampled_from(["read", "plan", "default", "any"])
)
keys = st.sampled_from(
    ["allow", "deny", "when", "equals", "glob", "to", "options", "label", "others", "command"]
)
trees = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from(["section", "tools", "exit", "name"]), trees), trees, trees)
def test_any_tree_is_a_policy_or_problems(mode: Any, sessions: Any, limits: Any) -> None:
    for tree in ({"modes": {"plan": mode}}, {"sessions": sessions, "limits": limits}):
        full = {"modes": {"plan": {"section": "s", "tools": ["read"]}}} | tree
        found = outcome(json.dumps(full))
        assert found.modes if isinstance(found, Policy) else found.problems


@pytest.mark.parametrize(
    ("written", "waits"),
    [
        ("{timeout: 40m}", Waits(streamed=2400.0)),
        ("{timeout_whole: 9m}", Waits(whole=540.0)),
        ("{timeout: 24h, timeout_whole: 0}", Waits(streamed=86400.0, whole=0.0)),
        ("{}", Waits()),
    ],
)
def test_r7_how_long_a_person_has(written: str, waits: Waits) -> None:
    policy = parse(f"modes: {{plan: {{section: s, tools: [a]}}}}\napprovals: {written}\n")
    assert policy.approvals == waits
    # What says what was always so is the policy that it always was.
    plain = parse("modes: {plan: {section: s, tools: [a]}}\n")
    assert (policy.hash == plain.hash) is (waits == Waits())
