"""A call of which a later piece bears an id or a name again: some clients begin another call there.

The first of the two then has no arguments, or half of them. Found by the differential test. A call of chat
completions therefore goes in one piece, as it was judged; of the others no condition holds.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect as RuleEffect
from modegate.core.policy.model import Exit, ExitOption
from modegate.core.policy.when import When
from modegate.scripted.model import ScriptedCall, Turn
from support import responses
from support.playbook import (
    Cut,
    Reply,
    Session,
    at_every_byte,
    bytewise,
    chunk,
    frames,
    mode,
    piece,
    policy,
    read_stream,
    request,
    rule,
    said,
    stream,
)
from support.speech import Agent
from support.speeches import SPEECHES

VIEW = rule("edit", When({"command": Equals("view")}, others_any=True))
RULES = policy(
    mode(
        "plan",
        "read",
        VIEW,
        rule("fetch", effect=RuleEffect.ASK),
        exit=Exit((ExitOption("go", DEFAULT_MODE),)),
    )
)
ASKED = request("read", "edit", "fetch", "exit_plan_mode", stream=True)
AGAIN: dict[str, dict[str, Any]] = {
    "id": {"id": "c"},
    "name": {"name": True},
    "both": {"id": "c", "name": True},
    "neither": {},
}


def pieces_of(sent: bytes) -> list[Any]:
    """Return the pieces of calls that a client gets."""
    deltas = [choice["delta"] for one in frames(sent) for choice in one["choices"]]
    return [one for delta in deltas for one in delta.get("tool_calls", ())]


def body(tool: str, again: str, arguments: str) -> bytes:
    """Return a call in two pieces, of which the second repeats something."""
    begin = {"index": 0, "id": "c", "type": "function", "function": {"name": tool, "arguments": ""}}
    more = dict(AGAIN[again])
    name = {"name": tool} if more.pop("name", False) else {}
    return stream(piece(**begin), piece(index=0, **more, function={**name, "arguments": arguments}))


def in_one_piece(tool: str, arguments: str) -> dict[str, Any]:
    """Return the one piece in which such a call goes."""
    said = {"name": tool, "arguments": arguments}
    return {"index": 0, "id": "c", "type": "function", "function": said}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("command", ["view", "create"])
def test_a_call_that_is_begun_again_goes_in_one_piece(again: str, command: str) -> None:
    arguments = json.dumps({"command": command})
    sent = body("edit", again, arguments)
    wanted = Session(rules=RULES).step(ASKED, [sent, said("fine")])
    for cut in at_every_byte():
        got = Session(rules=RULES).step(ASKED, [sent, said("fine")], cut=cut)
        assert got.body == wanted.body
    pieces = pieces_of(wanted.body)
    assert pieces == ([] if command == "create" else [in_one_piece("edit", arguments)])


@pytest.mark.parametrize("again", AGAIN)
def test_what_is_allowed_with_any_arguments_goes_so_too(again: str) -> None:
    sent = body("read", again, "{}")
    got = Session(rules=RULES).step(ASKED, [sent])
    if again == "neither":
        assert got.body == sent
    else:
        assert pieces_of(got.body) == [in_one_piece("read", "{}")]


@pytest.mark.parametrize("again", AGAIN)
def test_a_person_is_asked_about_a_plan_all_the_same(again: str) -> None:
    """No client sees that call, and some servers say the id in each piece."""
    got = Session(rules=RULES).step(ASKED, [body("exit_plan_mode", again, '{"plan": "p"}')])
    assert [asked.text for asked in got.asked][:1] == ["p"]


@pytest.mark.parametrize("again", AGAIN)
def test_what_a_person_allowed_goes_as_it_was_shown(again: str) -> None:
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked, "allow_once")
    got = session.step(ASKED, [body("fetch", again, '{"url": "u"}')])
    assert pieces_of(got.body) == [in_one_piece("fetch", '{"url": "u"}')]


ODD: dict[str, dict[str, Any]] = {
    "a chunk with another date": {"created": "today"},
    "a chunk without a model's name": {"model": 5},
    "a chunk with usage of another kind": {"usage": {"prompt_tokens": "1"}},
    "a chunk like the others": {},
}


@pytest.mark.parametrize("person", [True, False], ids=["by-a-person", "by-a-rule"])
@pytest.mark.parametrize("odd", ODD)
def test_no_client_can_leave_out_a_piece_of_what_was_released_for_its_arguments(
    odd: str, person: bool
) -> None:
    """The AI SDK goes on behind a chunk that it cannot read: the call that is left could be another one."""
    tool = "fetch" if person else "edit"
    texts = ['{"command": "', 'view", "note": "', 'create"}']
    begin = {"index": 0, "id": "c", "type": "function", "function": {"name": tool}}
    first, minded, last = (piece(index=0, function={"arguments": text}) for text in texts)
    value = {**json.loads(minded.removeprefix(b"data: ")), **ODD[odd]}
    minded = b"data: " + json.dumps(value).encode() + b"\n\n"
    sent = stream(piece(**begin), first, minded, last)

    def step(cut: Cut) -> bytes:
        session = Session(rules=RULES)
        session.person = lambda asked: session.settle(asked, "allow_once")
        return session.step(ASKED, [sent], cut=cut).body

    wanted = step(bytewise)
    assert pieces_of(wanted) == [in_one_piece(tool, "".join(texts))]
    for cut in at_every_byte():
        assert step(cut) == wanted


def test_no_condition_holds_for_a_call_behind_a_finish() -> None:
    """The stream helpers of OpenAI's SDKs tell of such a call at each of its pieces."""
    early = chunk(None, "tool_calls")
    sent = early + body("edit", "neither", '{"command": "view"}')
    got = Session(rules=RULES).step(ASKED, [sent])
    (choice,) = read_stream(got.body).values()
    assert not choice["calls"]
    allowed = early + body("read", "neither", "{}")
    (choice,) = read_stream(Session(rules=RULES).step(ASKED, [allowed]).body).values()
    assert choice["calls"]


@pytest.mark.parametrize("tool", ["edit", "read"])
def test_arguments_of_which_no_pieces_came_get_one(tool: str) -> None:
    """LangChain puts a call of a Responses stream together from its pieces alone."""
    speech = next(one for one in SPEECHES if str(one) == "responses-streamed")

    def without_pieces(asked: bytes) -> Reply:
        turn = Turn("T", "", (ScriptedCall(tool, '{"command": "view"}'),))
        reply = speech.reply(turn, asked)
        frames = [one for one in reply.body.split(b"\n\n") if b"arguments.delta" not in one]
        return replace(reply, body=b"\n\n".join(frames))

    agent = Agent(speech, RULES, tools=("read", "edit"))
    body_ = speech.api.request(agent.history, agent.tools, streamed=True)
    got = agent.session.step(body_, [without_pieces])
    (called,) = responses.by_id(got.body)
    assert (called.name, called.arguments) == (tool, '{"command": "view"}')


@pytest.mark.parametrize("tool", ["edit", "read"])
def test_a_block_without_an_id_gets_one(tool: str) -> None:
    """LangChain takes the pieces of a block without an id for another call."""
    speech = next(one for one in SPEECHES if str(one) == "messages-streamed")

    def without_id(asked: bytes) -> Reply:
        turn = Turn("T", "", (ScriptedCall(tool, '{"command": "view"}', "toolu_x"),))
        reply = speech.reply(turn, asked)
        return replace(reply, body=reply.body.replace(b'"toolu_x"', b"null"))

    agent = Agent(speech, RULES, tools=("read", "edit"))
    body_ = speech.api.request(agent.history, agent.tools, streamed=True)
    got = agent.session.step(body_, [without_id])
    (called,) = speech.heard(got).calls
    assert called.name == tool
    assert called.id


@pytest.mark.parametrize("between", ["call", "text", "nothing"])
@pytest.mark.parametrize("tool", ["edit", "read"])
def test_the_pieces_of_items_side_by_side_leave_one_item_behind_the_other(
    tool: str, between: str
) -> None:
    """LangChain takes what comes behind the pieces of another item for a call of its own."""
    one = responses.item_events(responses.call(tool, '{"command": "view"}', 1), 0)
    last = responses.call("read", at=2) if between == "call" else responses.message("hm")
    other = responses.item_events(last, 1)
    at = {"call": 1, "text": 3, "nothing": 0}[between]
    if at:
        events = [one[0], *other[:at], *one[1:], *other[at:]]
    else:
        # Some translators end all items at the end.
        events = [*one[:-1], *other[:-1], one[-1], other[-1]]
    sent = b"".join(map(responses.frame, [responses.begin(), *events]))
    sent += responses.frame(responses.end([]))
    asked = responses.request("read", "edit", stream=True)
    for cut in (bytewise, lambda all_: [all_]):
        got = responses.session(rules=RULES).step(asked, [sent], cut=cut)
        plain = [responses.begin(), *one, *other, responses.end([])]
        assert got.body == b"".join(map(responses.frame, plain))
