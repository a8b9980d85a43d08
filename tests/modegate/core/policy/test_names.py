"""H5: names that a client could take for one another, and what rules say of them."""

from __future__ import annotations

import json

import pytest

from modegate.core.ids import ToolName
from modegate.core.policy.conditions import Equals
from modegate.core.policy.judge import ToolCall, Verdict, judge, may_offer
from modegate.core.policy.model import Effect, Rule
from modegate.core.policy.names import folded, misspelled, similar
from modegate.core.policy.when import When
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import mode, policy, rule
from support.speech import Agent, Speech
from support.speeches import SPEECHES

DENIED = rule("write", effect=Effect.DENY)
SECRET = json.dumps({"path": "S3CRET"})
MISSES = [
    "Write", "WRITE", "wri_te", "wri-te", "wri te", " write", "functions.write", "default_api:write",
    "default_api.Write", "mcp__fs__write", "fs.write", "fs/write", "tools.functions.write",
    "write<|channel|>json", "functions.write:0", "ｗｒｉｔｅ", "write ",
]  # fmt: skip
OTHERS = ["read", "rewrite", "writer", "write_file", "write2", "", "w", "unwrite", "write__x"]


@pytest.mark.parametrize("name", MISSES)
def test_h5_a_near_miss_of_a_denied_name_in_front_of_a_glob(name: str) -> None:
    """Clients repair such names, and run the tool that was denied."""
    plan = mode("plan", DENIED, "*")
    judged = judge(plan, ToolCall(ToolName(name), {}))
    assert judged.verdict is Verdict.ANSWER
    assert judged.rule == 'tools[0] deny "write"'
    assert not may_offer(plan, ToolName(name))


@pytest.mark.parametrize("name", OTHERS)
def test_h5_other_names_are_the_globs(name: str) -> None:
    """What is another word is another tool."""
    plan = mode("plan", DENIED, "*")
    assert judge(plan, ToolCall(ToolName(name), {})).verdict is Verdict.RELEASE
    assert may_offer(plan, ToolName(name))


@pytest.mark.parametrize(("pattern", "name", "is_near"), [
    ("mcp__docs__delete_*", "mcp__docs__Delete-Page", True),
    ("mcp__docs__delete_*", "MCP.docs.delete_page", True),
    ("mcp__docs__delete_*", "mcp__docs__deletePage", True),
    ("mcp__docs__delete_*", "mcp__docs__read", False),
    ("delete_*", "mcp__docs__delete_page", True),
    ("delete_*", "undelete_page", False),
    ("git_*", "github_search", False),
    ("git_*", "functions.git_push", True),
    ("Write?", "write1", True),
    ("write_file", "WriteFile", True),
    ("mcp__fs__write", "write", False),
])  # fmt: skip
def test_h5_globs_are_missed_too(pattern: str, name: str, is_near: bool) -> None:
    """Words are told apart by what stands between them, or by their capitals."""
    assert misspelled(pattern, name) is is_near


def test_h5_a_rule_that_writes_a_name_means_it() -> None:
    """In front of the glob it is no near miss of another."""
    plan = mode("plan", DENIED, "Write", "*")
    assert judge(plan, ToolCall(ToolName("Write"), {})).verdict is Verdict.RELEASE
    assert may_offer(plan, ToolName("Write"))
    assert judge(plan, ToolCall(ToolName("WRITE"), {})).verdict is Verdict.ANSWER


def test_h5_only_what_stands_in_front_of_the_glob_counts() -> None:
    """First match wins: a rule behind it was never reached."""
    plan = mode("plan", "mcp__*", DENIED)
    assert judge(plan, ToolCall(ToolName("mcp__fs__write"), {})).verdict is Verdict.RELEASE


def test_h5_the_strictest_rule_counts() -> None:
    """A refusal over a question, a question over a release; a question of a glob stays one."""
    asking = rule("write", effect=Effect.ASK)
    plan = mode("plan", asking, rule("WRITE", effect=Effect.DENY), "*")
    assert judge(plan, ToolCall(ToolName("Write"), {})).verdict is Verdict.ANSWER
    assert judge(mode("plan", asking, "*"), ToolCall(ToolName("Write"), {})).verdict is Verdict.ASK
    glob = rule("*", effect=Effect.ASK)
    assert judge(mode("plan", asking, glob), ToolCall(ToolName("Write"), {})).verdict is Verdict.ASK
    assert (
        judge(mode("plan", DENIED, glob), ToolCall(ToolName("Write"), {})).verdict is Verdict.ANSWER
    )


def test_h5_conditions_hold_for_near_names() -> None:
    """Unless nobody can read what they depend on."""
    when = When({}, others_any=True)
    never = When({"a": Equals(2)})
    for one, arguments, verdict in (
        (when, {"a": 1}, Verdict.ANSWER),
        (never, {"a": 1}, Verdict.RELEASE),
        (never, None, Verdict.ANSWER),
    ):
        plan = mode("plan", rule("write", one, Effect.DENY), "*")
        assert judge(plan, ToolCall(ToolName("Write"), arguments)).verdict is verdict
        assert may_offer(plan, ToolName("Write"))


def test_h5_near_names_of_an_agent() -> None:
    """One is the other, or its tail; two servers' tools are two."""
    names = frozenset({"write", "mcp__a__write", "mcp__b__write", "read", "Write"})
    assert similar("WRITE", names) == ["Write", "mcp__a__write", "mcp__b__write", "write"]
    assert similar("mcp__c__write", names) == ["Write", "write"]
    assert similar("write", frozenset({"write", "read"})) == []
    assert similar("x" * 2000, names) == []


def test_h23_a_name_is_not_held_against_each_of_thousands() -> None:
    """A request may declare thousands of names, and an answer call hundreds that are none of them."""
    names = frozenset(f"server{number}__tool_{number}" for number in range(3000))

    def looked() -> int:
        found = folded.cache_info()
        return found.hits + found.misses

    assert similar("tool_7", names) == ["server7__tool_7"]
    before = looked()
    for number in range(100):
        assert similar(f"elsewhere__Tool-{number}", names) == []
    assert looked() - before < 1000


def agent(speech: Speech, *rules: str | Rule, tools: tuple[str, ...]) -> Agent:
    """Return an agent under a mode of these rules."""
    return Agent(speech, policy(mode("plan", *rules)), tools=tools)


@pytest.mark.parametrize("name", ["Write", "functions.write", "mcp__fs__write", "wri te"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h5_what_the_client_would_make_of_it_is_judged(speech: Speech, name: str) -> None:
    """A glob covers the name that was called, but the agent has another that is near."""
    allowed = ("read", "W?ite", "functions.*", "mcp__*", "wri *")
    one = agent(speech, *allowed, tools=("read", "write"))
    heard = one.step(Turn("hm", calls=(ScriptedCall(name, SECRET),)), Turn("ok"))
    assert heard.calls == ()
    assert b"S3CRET" not in one.got.body
    assert one.shown() == ["read"]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h5_a_name_that_the_agent_has_is_itself(speech: Speech) -> None:
    """Nothing is repaired, whatever else it has."""
    one = agent(speech, "mcp__*", tools=("mcp__fs__write", "write"))
    heard = one.step(Turn("hm", calls=(ScriptedCall("mcp__fs__write", SECRET),)))
    assert heard.names == ["mcp__fs__write"]
    assert one.shown() == ["mcp__fs__write"]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h5_a_near_name_is_neither_shown_nor_released(speech: Speech) -> None:
    """Also where the agent declares it itself: the rule means the tool, not its spelling."""
    one = agent(speech, DENIED, "*", tools=("read", "Write"))
    heard = one.step(Turn("hm", calls=(ScriptedCall("Write", SECRET),)), Turn("ok"))
    assert heard.calls == ()
    assert b"S3CRET" not in one.got.body
    assert one.shown() == ["read"]


def test_h5_a_near_name_asks_nobody_in_two_ways() -> None:
    """What a person would be shown is not what runs."""
    asking = policy(mode("plan", rule("W*", effect=Effect.ASK), rule("write", effect=Effect.ASK)))
    one = Agent(SPEECHES[0], asking, tools=("write",))
    heard = one.step(Turn("hm", calls=(ScriptedCall("Write", SECRET),)), Turn("ok"))
    assert heard.calls == ()
    assert one.got.asked == []
