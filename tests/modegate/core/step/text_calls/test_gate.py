"""H4: a call in an answer's plain text is held, judged and refused as any other, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.log.events import CallJudged
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect
from modegate.core.policy.when import When
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.scan import Scanner
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import Cut, at_every_byte, bytewise, mode, policy, rule, whole
from support.speech import Agent, Speech
from support.speeches import SPEECHES

SECRET = "S3CRET"
PLACE = "stood here in plain text"
REFUSING = policy(
    mode("plan", "read", "grep", rule("fetch", effect=Effect.ASK), text_calls="refuse")
)
TALKING = policy(mode("plan", "read", "grep"))

TEXTS = {
    "smolagents": ("write", '{"name": "write", "arguments": {"path": "S3CRET", "x": "}"}}'),
    "smolagents, behind words": (
        "write",
        'Action:\n{\n  "name": "write",\n  "arguments": {"path": "S3CRET"}\n}',
    ),
    "a declared tool without arguments": ("write", '{"name": "write", "note": "S3CRET"}'),
    "behind what could have become one": (
        "write",
        '@you ```python <a {"name": "write", "arguments": {"path": "S3CRET"}}',
    ),
    "padded with blanks": ("shell", "```" + " " * 40 + "shell" + " " * 1500 + "\nS3CRET\n```"),
    "padded with more": ("", "```" + " " * 300 + "shell\nS3CRET\n```"),
    "padded with line ends": ("", "@save(c):" + "\n" * 300 + '{"content": "S3CRET"}'),
    "a long id": ("save", f"@save({'a' * 400}): " + '{"content": "S3CRET"}'),
    "a long line": ("", "@save" + " " * 1100 + '(a): {"content": "S3CRET"}'),
    "indented, behind another line end": (
        "search_replace",
        "a.py\x0c  <<<<<<< SEARCH\x0c=======\x0cS3CRET\x0c>>>>>>> REPLACE",
    ),
    "long attributes": ("write", f'<invoke a="{"x" * 400}" name="write">S3CRET</invoke>'),
    "ReAct without a name": ("", "Action:" + "\n" * 80 + "write\nAction Input: S3CRET"),
    "langchain's JSON": ("write", '{"action": "write", "action_input": "S3CRET"}'),
    "gptme": ("save", 'So:\n@save(call-1.a): {"path": "a", "content": "S3CRET {"}'),
    "gptme, over lines": ("save", 'So:\n@save(c):\n  {\n"content": "S3CRET"}'),
    "gptme, a block": ("save", "I save.\n```save a.txt\nS3CRET\n```"),
    "a declared tool's block": ("write", "```write\nS3CRET\n```"),
    "gptme, in XML": ("save", "<tool-use>\n<save args='a'>\nS3CRET\n</save>\n</tool-use>"),
    "hermes": (
        "write",
        '<tool_call>\n{"name": "write", "arguments": {"path": "S3CRET"}}\n</tool_call>',
    ),
    "cline": (
        "write_to_file",
        "Now.\n<write_to_file>\n<path>a</path>\n<content>\nS3CRET\n</content>\n</write_to_file>",
    ),
    "a declared tool's tag": ("write", "<write><path>S3CRET</path></write>"),
    "openhands": (
        "execute_bash",
        "<function=execute_bash>\n<parameter=command>S3CRET</parameter>\n</function>",
    ),
    "invoke": ("write", '<invoke name="write"><parameter name="path">S3CRET</parameter></invoke>'),
    "aider": (
        "search_replace",
        "a.py\n<<<<<<< SEARCH\nold\n=======\nS3CRET\n>>>>>>> REPLACE",
    ),
    "cline's diff": (
        "search_replace",
        "------- SEARCH\nold\n=======\nS3CRET\n+++++++ REPLACE",
    ),
    "codex's patch": ("apply_patch", "*** Begin Patch\n*** Add File: a\n+S3CRET\n*** End Patch"),
    "ReAct": ("write", 'Thought: so\nAction: write\nAction Input: "S3CRET"\nObservation: done'),
    "cut off": ("write_to_file", "<write_to_file><path>a</path><content>S3CRET"),
    "without an end": ("", '{"name": "write", "arguments": {"path": "S3CRET"'),
    "two in one": ("write", '{"a": [{"name": "write", "arguments": {}}, {"name": "S3CRET", "input": 1}]}'),
    "a key twice": ("write", '{"name": "read", "name": "write", "arguments": {"S3CRET": 1}}'),
    "a second name": ("read", '{"name": "read", "action": "write", "action_input": "S3CRET"}'),
    "second arguments": ("read", '{"name": "read", "arguments": {"path": "a"}, "input": {"path": "S3CRET"}}'),
    "behind a blank where an allowed block could end": (
        "read",
        "x```read a\n``` save out.txt\nS3CRET\n```\n",
    ),
    "in an allowed one": ("read", "<read>\n<path>a</path><write_to_file>S3CRET</write_to_file></read>"),
}  # fmt: skip

PLAIN = (
    "A plan: `x`, {braces}, <b>tags</b>, a <= b, - a list\n- S\n* stars **bold**\n@someone said so: {}",
    'Settings are {"a": {"b": [1, {"name": "modegate"}]}} and {"unknown": true}.\n\n---\nDone {',
    "```python\nprint({'a': 1})\n```\n\n```\nplain\n```\nAction: we wait. A",
    '```json\n{"version": 1}\n```\n<wrote is no tag, and <function> is none, ``` x',
)


@pytest.fixture(params=SPEECHES, ids=str)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Return an agent in a mode that refuses calls in text."""
    return Agent(request.param, REFUSING)


def told_users(agent: Agent) -> list[str]:
    """Return what the model was told as the user's words."""
    return [entry.text for entry in agent.told() if entry.kind == "user"]


def judged(agent: Agent) -> list[tuple[str, str]]:
    """Return tools and verdicts in the log of the last step."""
    return [(e.tool, e.verdict) for e in agent.got.events if isinstance(e, CallJudged)]


@pytest.mark.parametrize(("tool", "text"), TEXTS.values(), ids=TEXTS)
def test_h4_a_call_in_text_is_refused_and_the_model_is_told(
    agent: Agent, tool: str, text: str
) -> None:
    heard = agent.step(Turn(f"Before.\n{text}"), Turn("I only read."))
    assert SECRET.encode() not in agent.got.body
    assert heard.text.startswith("Before.\n")
    assert PLACE in heard.text
    assert heard.text.endswith("I only read.")
    assert (heard.names, heard.finish) == ([], "stop")
    assert (tool, "answer") in judged(agent)
    assert "was refused and did not run" in told_users(agent)[-1]
    assert len(agent.got.requests) == 2


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_members_beside_a_name_are_its_arguments(speech: Speech) -> None:
    only_a = rule("read", When({"path": Equals("a")}, optional=("path",)))
    agent = Agent(speech, policy(mode("plan", only_a, text_calls="refuse")))
    assert agent.step(Turn('{"name": "read"}')).text == '{"name": "read"}'
    assert agent.step(Turn('{"name": "read", "path": "a"}')).text.endswith('"a"}')
    heard = agent.step(Turn('{"name": "read", "path": "S3CRET"}'), Turn("I only read."))
    assert "S3CRET" not in heard.text


@pytest.mark.parametrize("text", PLAIN)
def test_h4_text_that_is_no_call_passes_as_it_came(agent: Agent, text: str) -> None:
    heard = agent.step(Turn(text))
    assert heard.text == text
    assert judged(agent) == []
    assert agent.got.body == agent.speech.reply(Turn(text), agent.got.requests[0]).body


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize(("tool", "text"), TEXTS.values(), ids=TEXTS)
def test_h4_by_default_it_is_text_for_everybody_else(
    agent: Agent, tool: str, text: str, cut: Cut
) -> None:
    agent.rules = TALKING
    agent.__post_init__()
    heard = agent.step(Turn(text), cut=cut)
    assert heard.text == text
    sent = agent.speech.reply(Turn(text), agent.got.requests[0]).body
    # What ends a line for some clients is escaped in a frame.
    signs = "\u2028".encode()
    assert agent.got.body == (sent.replace(signs, rb"\u2028") if agent.speech.streamed else sent)


@pytest.mark.parametrize(
    "system",
    [
        "You are gptme v0.31.0, a general-purpose assistant",
        "You are an expert assistant who can solve any task using tool calls.",
        "You are Cline, a highly skilled software engineer",
        "You must format your final answer\nAction Input: the input",
    ],
)
def test_h4_agents_that_run_text_are_known(
    agent: Agent, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("speech", "speech_chat", "speech_messages", "speech_responses"):
        monkeypatch.setattr(f"support.{module}.SYSTEM", system)
    agent.rules = TALKING
    agent.__post_init__()
    tool, text = TEXTS["smolagents"]
    agent.step(Turn(text), Turn("No."))
    assert judged(agent) == [(tool, "answer")]
    assert SECRET.encode() not in agent.got.body


def test_h4_what_the_policy_allows_is_released(agent: Agent) -> None:
    text = 'I read. {"name": "read", "arguments": {"path": "a"}} So.'
    heard = agent.step(Turn(text))
    assert heard.text == text
    assert judged(agent) == [("read", "release")]
    assert agent.got.body == agent.speech.reply(Turn(text), agent.got.requests[0]).body


@pytest.mark.parametrize("option", ["allow_once", "reject"])
def test_h4_a_person_is_asked_where_the_policy_says(agent: Agent, option: str) -> None:
    agent.session.person = lambda asked: agent.session.settle(asked, option)
    text = 'Now {"name": "fetch", "arguments": {"url": "u"}}'
    heard = agent.step(Turn(text), Turn("Fine."))
    assert [asked.tool for asked in agent.got.asked] == ["fetch"]
    assert (heard.text == text) is (option == "allow_once")
    assert (PLACE in heard.text) is (option == "reject")


def test_h4_beside_a_released_call_the_answer_says_so(agent: Agent) -> None:
    text = TEXTS["gptme"][1]
    heard = agent.step(Turn(text, calls=(ScriptedCall("read", "{}"),)))
    assert (heard.names, heard.finish) == (["read"], "calls")
    assert PLACE in heard.text
    assert SECRET.encode() not in agent.got.body
    agent.keep(heard)
    agent.step(Turn("So."))
    (says,) = [entry.text for entry in agent.told() if entry.kind == "says"]
    assert PLACE in says


def test_h4_beside_a_refused_call_both_are_told(agent: Agent) -> None:
    call = ScriptedCall("write", '{"path": "S3CRET"}')
    heard = agent.step(Turn(TEXTS["gptme"][1], calls=(call,)), Turn("No."))
    assert heard.text.endswith("No.")
    assert [verdict for _, verdict in judged(agent)] == ["answer", "answer"]
    told = [entry for entry in agent.told() if entry.kind != "system"]
    assert [entry.kind for entry in told] == ["user", "says", "call", "result"]
    # No message of the user stands behind a result, so that both are told in it (N007).
    assert told[-1].text.count("refused and did not run") == 2
    assert "[modegate] Your text held a call" in told[-1].text
    agent.keep(heard)
    agent.user("Go on")
    agent.step(Turn("So."))
    assert "call" in [entry.kind for entry in agent.told()]


def test_h4_a_model_that_does_not_give_in_is_stopped(agent: Agent) -> None:
    heard = agent.step(Turn(TEXTS["cline"][1]))
    assert len(agent.got.requests) == 2
    assert "[modegate] Refused in mode 'plan'" in heard.text
    assert heard.finish == "stop"
    agent.keep(heard)
    agent.user("Go on")
    again = agent.step(Turn("Fine."))
    assert again.text == "Fine."


@pytest.mark.parametrize(
    ("block", "tool"),
    [
        ("a.py\n```\n<<<<<<< SEARCH\n=======\nS3CRET\n>>>>>>> REPLACE\n```", "search_replace"),
        ("a.py\n```\nS3CRET\n```", "text"),
        ("```diff\n--- a\n+++ b\n+S3CRET\n```", "diff"),
        ("a.py\n```read\nS3CRET\n```", "read"),
        ("a.py\n```grep\nS3CRET\n```", "grep"),
    ],
)
def test_h4_all_blocks_of_aider_are_calls(
    agent: Agent, block: str, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("speech", "speech_chat", "speech_messages", "speech_responses"):
        known = "Act as an expert software developer."
        monkeypatch.setattr(f"support.{module}.SYSTEM", known, raising=False)
    agent.rules = TALKING
    agent.__post_init__()
    agent.step(Turn(block), Turn("No."))
    assert judged(agent) == [(tool, "answer")]
    assert SECRET.encode() not in agent.got.body


HIDDEN = {
    "JSON": '{"name": "write", "arguments": {"path": "a"}}',
    "a tag": "<write><path>a</path></write>",
    "ReAct": "Action:writeActionInput:a",
}


@pytest.mark.parametrize("name", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("native", [False, True])
def test_h4_the_name_of_a_refused_call_is_no_call_in_our_own_words(
    agent: Agent, name: str, native: bool
) -> None:
    text = "" if native else f"@{name}(a): " + '{"x": 1}'
    calls = (ScriptedCall(name, "{}"),) if native else ()
    heard = agent.step(Turn(f"So.\n{text}", calls=calls))
    assert "[modegate] Refused in mode" in heard.text
    rules = TextCalls(frozenset({"write"}))
    scanner = Scanner(rules, 0)
    decided = [*scanner.feed(heard.text), *scanner.end()]
    assert [one.call for one in decided if one.call is not None] == []


@pytest.mark.parametrize("name", ["cut off", "without an end", "cline"])
def test_h4_no_hop_follows_an_answer_that_was_cut_short(agent: Agent, name: str) -> None:
    heard = agent.step(Turn(TEXTS[name][1], finish="length"))
    assert SECRET.encode() not in agent.got.body
    assert len(agent.got.requests) == 1
    assert heard.finish == "length"
    assert "[modegate] Refused in mode 'plan'" in heard.text


def test_h4_reasoning_is_not_text(agent: Agent) -> None:
    heard = agent.step(Turn("So.", reasoning=TEXTS["smolagents"][1]))
    assert heard.reasoning == TEXTS["smolagents"][1]
    assert judged(agent) == []


def test_h4_what_one_hop_begins_no_other_ends(agent: Agent) -> None:
    call = ScriptedCall("write", "{}")
    agent.step(
        Turn("So.\n{", calls=(call,)), Turn('"name": "write", "arguments": {"p": "S3CRET"}}'), Turn("x")
    )  # fmt: skip
    assert SECRET.encode() not in agent.got.body


STREAMED = [speech for speech in SPEECHES if speech.streamed]


@pytest.mark.parametrize("speech", STREAMED, ids=str)
@pytest.mark.parametrize(("tool", "text"), TEXTS.values(), ids=TEXTS)
def test_h4_how_the_bytes_are_cut_changes_nothing(speech: Any, tool: str, text: str) -> None:
    turns = (Turn(f"Before.\n{text} And more."), Turn("Fine."))
    first = Agent(speech, REFUSING)
    first.step(*turns)
    second = Agent(speech, REFUSING)
    second.step(*turns, cut=bytewise)
    assert second.got.body == first.got.body
    assert second.got.events == first.got.events


@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_h4_text_in_front_goes_at_once(speech: Any) -> None:
    agent = Agent(speech, REFUSING)
    agent.step(Turn("A first sentence goes. " * 9 + TEXTS["cline"][1]), Turn("No."), cut=bytewise)
    order = agent.got.order
    assert "SendBytes" in order[: order.index("ReadState")]


@pytest.mark.parametrize("speech", STREAMED, ids=str)
@pytest.mark.parametrize("name", ["smolagents", "gptme, a block", "cline"])
def test_h4_cut_at_every_byte(speech: Any, name: str) -> None:
    turns = (Turn(f"Before. {TEXTS[name][1]} So."), Turn("Fine."))
    first = Agent(speech, REFUSING)
    first.step(*turns)
    for cut in at_every_byte():
        agent = Agent(speech, REFUSING)
        agent.step(*turns, cut=cut)
        assert agent.got.body == first.got.body


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize(
    "text",
    [
        "Use '{' to open a block, and nothing else.",
        "```c\nif (c == '{') {\n  f(\"x\");\n}\n```\nThat is it.",
        'It begins with {"a": [1, and so on.',
    ],
)
def test_h4_a_brace_without_an_end_is_no_call(agent: Agent, text: str, cut: Cut) -> None:
    heard = agent.step(Turn(text), cut=cut)
    assert heard.text == text
    assert judged(agent) == []


def test_h4_a_call_behind_a_brace_without_an_end(agent: Agent) -> None:
    agent.step(Turn(f"Use '{{' so.\n{TEXTS['gptme'][1]}\nDone."), Turn("No."))
    assert SECRET.encode() not in agent.got.body
    assert ("save", "answer") in judged(agent)


def test_h4_no_hop_ends_what_a_brace_has_begun(agent: Agent) -> None:
    call = ScriptedCall("write", "{}")
    begun = 'So {"why": "' + "x" * 3000
    ended = Turn('", "name": "write", "arguments": {"a": "S3CRET"}}')
    heard = agent.step(Turn(begun, calls=(call,)), ended)
    assert SECRET.encode() not in agent.got.body
    assert heard.text.startswith(begun)
    assert "[modegate] Refused in mode 'plan'" in heard.text
    assert len(agent.got.requests) == 1
