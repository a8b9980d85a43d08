"""Ways around a condition on arguments, in every dialect: each is a call that must not arrive.

A call that the condition covers arrives as it was sent.
"""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import pytest

from modegate.core.policy.conditions import Absent, Equals, Glob, OneOf
from modegate.core.policy.model import Effect
from modegate.core.policy.understood import Calls, PatchUnder, ReadOnly, Under
from modegate.core.policy.when import When
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import at_every_byte, bytewise, mode, policy, rule
from support.speech import Agent, Speech
from support.speeches import SPEECHES

SECRET = "S3CRET"
DOCS = ("docs/",)
NO_OTHER_ASK = When({"path": Under(DOCS)}, others=())
RULES = policy(
    mode(
        "plan",
        rule("sh", When({"cmd": ReadOnly()}, others=("workdir",))),
        rule(
            "bash",
            When(
                {"command": ReadOnly(), "background": OneOf((False,)), "shell": Absent()},
                others=("description",),
                optional=("background",),
            ),
        ),
        rule("exec", When({"input": Calls()})),
        rule("patch", When({"input": PatchUnder(DOCS)})),
        rule("edits", When({"edits[].path": Under(DOCS)}, others=("edits[].new",))),
        rule("deep", When({"options.force": Equals(False)}, others=("options.why", "list[]"))),
        rule("fetch", When({"url": Glob(("*intern*",))}, others_any=True), Effect.DENY),
        "fetch",
        rule("send", NO_OTHER_ASK, Effect.ASK),
        "send",
    )
)
TOOLS = ("sh", "bash", "exec", "patch", "edits", "deep", "fetch", "send", "write")


def js(**more: Any) -> str:
    return json.dumps(more)


def envelope(*files: str) -> str:
    sections = "".join(f"*** Add File: {one}\n+{SECRET}\n" for one in files)
    return f"*** Begin Patch\n{sections}*** End Patch"


BAD: list[tuple[str, str]] = [
    # The command itself.
    ("sh", js(cmd=f"ls; touch {SECRET}")),
    ("sh", js(cmd=f"ls\ntouch {SECRET}")),
    ("sh", js(cmd=f"ls $(touch {SECRET})")),
    ("sh", js(cmd=f"ls > {SECRET}")),
    ("sh", js(cmd=f"sort -o {SECRET} a")),
    ("sh", js(cmd=f"touch\t{SECRET}")),
    ("sh", js(cmd=["bash", "-lc", f"touch {SECRET}"])),
    ("sh", js(cmd=["bash", "-lc", "ls", "&&", SECRET, "-c"])),
    ("sh", js(cmd=["touch", SECRET])),
    ("sh", js(cmd=[["ls"], SECRET])),
    ("sh", js(cmd={"script": SECRET})),
    ("sh", js(cmd=None, workdir=SECRET)),
    ("sh", js(workdir=SECRET)),
    ("sh", js(cmd="", workdir=SECRET)),
    # Which argument it is.
    ("sh", f'{{"cmd": "ls", "cmd": "touch {SECRET}"}}'),
    ("sh", f'{{"cmd": "touch {SECRET}", "cmd": "ls"}}'),
    ("sh", f'{{"c\\u006dd": "touch {SECRET}", "cmd": "ls"}}'),
    ("sh", js(cmd="ls", Cmd=f"touch {SECRET}")),
    ("sh", js(CMD=f"touch {SECRET}", cmd="ls")),
    ("sh", js(cmd="ls", c_md=f"touch {SECRET}")),
    ("sh", js(cmd="ls", command=f"touch {SECRET}")),
    ("sh", js(cmd="ls", shell=f"/tmp/{SECRET}")),
    ("sh", js(cmd="ls", __proto__={"cmd": SECRET})),
    ("sh", js(cmd="ls", workdir={"__proto__": SECRET})),
    ("sh", f'[{{"cmd": "ls {SECRET}"}}]'),
    ("sh", f'"ls {SECRET}"'),
    ("sh", f'{{"cmd": "ls {SECRET}"'),
    ("sh", f'{{"cmd": "ls"}} {{"cmd": "touch {SECRET}"}}'),
    ("bash", js(command=f"ls {SECRET}", background=True)),
    ("bash", js(command=f"ls {SECRET}", background=0)),
    ("bash", js(command=f"ls {SECRET}", background="false")),
    ("bash", js(command=f"ls {SECRET}", background=None)),
    ("bash", js(command=f"ls {SECRET}", shell=None)),
    ("bash", js(command=f"ls {SECRET}", Background=True)),
    # Programs, and patches.
    ("exec", js(input=f"await tools.sh({{cmd: 'touch {SECRET}'}})")),
    ("exec", js(input=f"await tools.sh({{cmd: 'ls', Cmd: '{SECRET}'}})")),
    ("exec", js(input=f"await tools.exec('{SECRET}')")),
    ("exec", js(input=f"await tools.exit_plan_mode({{plan: '{SECRET}'}})")),
    ("exec", js(input=f"await tools.send({{path: 'docs/{SECRET}'}})")),
    ("exec", js(input=f"require('fs').writeFileSync('{SECRET}', '')")),
    ("exec", js(input="text('')", source=SECRET)),
    ("exec", js(input=[SECRET])),
    ("patch", js(input=envelope("docs/a", f"src/{SECRET}"))),
    ("patch", js(input=envelope(f"docs/../{SECRET}"))),
    (
        "patch",
        js(input=f"*** Begin Patch\n*** Update File: docs/a\n*** Move to: {SECRET}\n*** End Patch"),
    ),
    ("patch", js(input=envelope("docs/a"), workdir=SECRET)),
    # Within objects and lists.
    ("edits", js(edits=[{"path": "docs/a"}, {"path": SECRET}])),
    ("edits", js(edits=[{"path": "docs/a"}, {"new": SECRET}])),
    ("edits", js(edits=[{"path": "docs/a", "old": SECRET}])),
    ("edits", js(edits=[{"path": "docs/a", "Path": SECRET}])),
    ("edits", js(edits={"path": "docs/a", "new": SECRET})),
    ("edits", js(edits=[["docs/a", SECRET]])),
    ("edits", js(edits=[], path=SECRET)),
    ("edits", js(edits=json.dumps([{"path": "docs/a", "new": SECRET}]))),
    ("edits", f'{{"edits": [{{"path": "{SECRET}", "path": "docs/a"}}]}}'),
    ("deep", js(options={"force": True, "why": SECRET})),
    ("deep", js(options={"force": False, "FORCE": SECRET})),
    ("deep", js(options={"force": False, "more": SECRET})),
    ("deep", js(options=[{"force": False, "why": SECRET}])),
    ("deep", js(options={"force": False}, list=SECRET)),
    ("deep", js(options={"force": False}, list={"0": SECRET})),
    ("deep", js(**{"options.force": False, "why": SECRET})),
    # A deny, and an ask, in front of what allows the rest.
    ("fetch", js(url=f"http://intern/{SECRET}")),
    ("fetch", js(url=f"http://intern/{SECRET}", more=1)),
    ("fetch", js(url=[f"http://intern/{SECRET}"])),
    ("fetch", js(url="http://a", URL=f"http://intern/{SECRET}")),
    ("fetch", f'{{"url": "http://intern/{SECRET}", "url": "http://a"}}'),
    ("send", js(path=f"docs/{SECRET}", more=1)),
    ("send", js(path=f"~/{SECRET}")),
    ("send", js(path=[f"docs/{SECRET}"])),
]
GOOD: list[tuple[str, str]] = [
    ("sh", js(cmd="git log -3 | head", workdir="/a")),
    ("sh", js(cmd=["bash", "-lc", "ls -l"])),
    ("bash", js(command="ls", background=False, description="list")),
    ("bash", js(command="ls")),
    ("exec", js(input="text(await tools.sh({cmd: 'ls'}))")),
    ("patch", js(input=envelope("docs/a").replace(SECRET, "x"))),
    ("edits", js(edits=[{"path": "docs/a", "new": "x"}, {"path": "./docs/b"}])),
    ("deep", js(options={"force": False, "why": "x"}, list=["y"])),
    ("fetch", js(url="http://a", more=1)),
    ("send", js(path="src/a")),
]  # fmt: skip
CUSTOM_BAD = [
    ("exec", f"await tools.sh({{cmd: 'touch {SECRET}'}})"),
    ("exec", js(input="text('')", source=SECRET)),
    ("patch", envelope(SECRET)),
    ("patch", js(input=envelope("docs/a"), path=SECRET)),
    ("sh", js(cmd="ls", path=SECRET)),
    ("sh", f"touch {SECRET}"),
]
CUSTOM_GOOD = [
    ("exec", "text(await tools.sh({cmd: 'ls'}))"),
    ("patch", envelope("docs/a").replace(SECRET, "x")),
]

PARTS = 5
"""Answers that hold all of `BAD`: no answer may hold too many calls."""
STREAMED = [speech for speech in SPEECHES if speech.streamed]
FREEFORM = [speech for speech in SPEECHES if speech.name != "messages"]


def turn(calls: list[tuple[str, str]], fragments: int, *, custom: bool = False) -> Turn:
    made = (ScriptedCall(name, text, custom=custom) for name, text in calls)
    return Turn("Look.", calls=tuple(made), fragments=fragments)


def told(agent: Agent) -> list[tuple[str, Any]]:
    """Return what the client got, by name and arguments."""
    heard = agent.speech.heard(agent.got)
    return [
        (one.name, one.arguments if one.custom else json.loads(one.arguments))
        for one in heard.calls
    ]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize(
    ("name", "arguments"), BAD, ids=[f"{n}-{at}" for at, (n, _) in enumerate(BAD)]
)
def test_what_gets_around_a_condition_does_not_arrive(
    speech: Speech, name: str, arguments: str
) -> None:
    agent = Agent(speech, RULES, tools=TOOLS)
    heard = agent.step(turn([(name, arguments)], 5), Turn("Fine."))
    assert heard.calls == ()
    assert SECRET.encode() not in agent.got.body
    assert agent.got.asked == []


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize("fragments", [1, 7])
def test_what_a_condition_covers_arrives(speech: Speech, fragments: int) -> None:
    agent = Agent(speech, RULES, tools=TOOLS)
    agent.step(turn(GOOD, fragments))
    assert told(agent) == [(name, json.loads(text)) for name, text in GOOD]


@pytest.mark.parametrize("speech", STREAMED, ids=str)
@pytest.mark.parametrize("part", range(PARTS))
def test_cut_at_every_byte(speech: Speech, part: int) -> None:
    """What may go goes, and of what may not no byte goes, however an answer with many calls is cut."""
    bad = BAD[part::PARTS]
    calls = [one for pair in zip(bad, cycle(GOOD), strict=False) for one in pair]
    first = Agent(speech, RULES, tools=TOOLS)
    first.step(turn(calls, 3))
    assert told(first) == [(name, json.loads(text)) for name, text in calls[1::2]]
    assert SECRET.encode() not in first.got.body
    for cut in (bytewise, *at_every_byte(16)):
        agent = Agent(speech, RULES, tools=TOOLS)
        agent.step(turn(calls, 3), cut=cut)
        assert agent.got.body == first.got.body


@pytest.mark.parametrize("speech", FREEFORM, ids=str)
@pytest.mark.parametrize(("name", "text"), CUSTOM_BAD)
def test_free_text_counts_as_the_argument_input(speech: Speech, name: str, text: str) -> None:
    agent = Agent(speech, RULES, tools=TOOLS)
    assert agent.step(turn([(name, text)], 5, custom=True), Turn("Fine.")).calls == ()
    assert SECRET.encode() not in agent.got.body


@pytest.mark.parametrize("speech", FREEFORM, ids=str)
def test_free_text_that_is_covered_arrives(speech: Speech) -> None:
    agent = Agent(speech, RULES, tools=TOOLS)
    agent.step(turn(CUSTOM_GOOD, 5, custom=True))
    assert told(agent) == CUSTOM_GOOD


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_the_model_is_told_which_argument_and_why(speech: Speech) -> None:
    agent = Agent(speech, RULES, tools=TOOLS)
    agent.step(turn([("sh", js(cmd="sort -o b a"))], 1), Turn("Fine."))
    (refusal,) = [entry.text for entry in agent.told() if entry.kind == "result"]
    assert 'tools[0] allow "sh" does not cover it: argument `cmd`: `sort -o` writes' in refusal


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_all_calls_of_an_answer_may_have_so_many_words_of_commands(speech: Speech) -> None:
    """Each of them is read, also where the modes in force are read anew between two calls."""
    commands = [f"ls {at}" + " a" * 900 for at in range(6)]
    agent = Agent(speech, RULES, tools=TOOLS)
    agent.step(turn([("sh", js(cmd=one)) for one in commands], 1))
    assert told(agent) == [("sh", {"cmd": one}) for one in commands[:4]]
