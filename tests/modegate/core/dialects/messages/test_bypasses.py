"""Streams of the Messages API in which a client could find another call than the gate does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from modegate.core.policy.conditions import Equals
from modegate.core.policy.when import When
from support.message_frames import (
    CLIENTS,
    SECRET,
    WRITE,
    begin,
    delta,
    end,
    event,
    said,
    session,
    start,
    stop,
    stream,
    text,
    use,
)
from support.messages import request
from support.playbook import Got, bytewise, mode, policy, rule
from support.speech import Heard
from support.speech_messages import MessagesApi

ASK = request("read", "grep", "write", stream=True)
READ = use(1, "read", '{"p":', "1}", id_="toolu_read")
LOOK = use(0, "read", '{"p":', "1}")
BARE = {"type": "text", "text": ""}
TEXT = start(0, BARE)
EMPTY = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
WRITES = use(0, "write", WRITE)


def step(*hops: bytes) -> Got:
    """Live through one step in plan mode."""
    return session().step(ASK, list(hops))


def heard(got: Got) -> Heard:
    """Read what the client got as a strict client does."""
    return MessagesApi().heard(got.body, streamed=True)


# Each is a stream in which some client could find a call of `write`, or of another than the one judged.
UNREADABLE: dict[str, bytes] = {
    "content in message_start": stream(text(0, "Hi"), content=[{"type": "text", "text": "x"}]),
    "call in message_start": stream(content=[{"type": "tool_use", "id": "t", "name": "write", "input": {}}]),
    "no message_start": text(0, "Hi") + end(),
    "second message_start": begin() + text(0, "Hi") + begin(content=[]) + end(),
    "message is a list": event("message_start", message=[]),
    # The AI SDK leaves out such an event, and would run the call without it.
    "a piece with what nobody may inherit": stream(
        use(0, "read", '{"p":', "1}").replace(b'"type": "content_block_delta"',
            b'"constructor": {"prototype": 1}, "type": "content_block_delta"', 1)),
    "block is a string": begin() + event("content_block_start", index=0, content_block="x"),
    "index a string": begin() + start("0", {"type": "text", "text": ""}),
    "index a float": begin() + start(0.0, {"type": "text", "text": ""}),
    "index true": begin() + start(True, {"type": "text", "text": ""}),
    "index negative": begin() + start(-1, {"type": "text", "text": ""}),
    "arguments after stop": stream(use(0, "read"), delta(0, "input_json_delta", partial_json=WRITE)),
    "arguments in a text": begin() + TEXT
    + delta(0, "input_json_delta", partial_json=WRITE),
    "text in a thinking": begin() + start(0, {"type": "thinking", "thinking": ""})
    + delta(0, "text_delta", text="x"),
    "text in a call": begin() + start(0, EMPTY)
    + delta(0, "text_delta", text=WRITE) + stop(0) + end(),
    "pieces of a redacted thinking": begin() + start(0, {"type": "redacted_thinking", "data": "x"})
    + delta(0, "thinking_delta", thinking="x"),
    "call in an unknown piece of a text": begin() + TEXT + delta(0, "x_delta", x={"type": "tool_use"}),
    "a signature in a text": begin() + TEXT + delta(0, "signature_delta", signature="x"),
    "delta without a type": begin() + TEXT
    + event("content_block_delta", index=0, delta={"text": "x"}),
    "delta a string": begin() + TEXT + event("content_block_delta", index=0, delta="x"),
    "text a number": begin() + TEXT + delta(0, "text_delta", text=1),
    "reason a number": begin() + event("message_delta", delta={"stop_reason": 1}),
    "message_delta without a delta": begin() + event("message_delta", usage={}),
    "call in a message_delta": begin() + event("message_delta", delta={"content": [{"type": "tool_use"}]}),
    "call in a text block": begin() + start(0, {"type": "text", "text": "", "citations": [
        {"type": "tool_use", "name": "write"}]}),
    "call in a result": begin() + start(0, {"type": "web_search_tool_result", "tool_use_id": "s", "content": [
        {"type": "tool_use", "name": "write"}]}) + stop(0),
    "call beside the block": begin() + event("content_block_start", index=0, content_block=BARE,
                                             extra={"type": "tool_use"}),
    "call in an unknown event": begin() + event("content_block_added", content_block={"type": "tool_use"}),
    "call in another spelling": begin() + event("note", item={"type": "ToolUse"}),
    "call of another API": begin() + event("note", item={"type": "function_call", "name": "write"}),
    "chat chunk": begin() + event("note", choices=[{"delta": {"tool_calls": []}}]),
    "key in another case": begin() + event("content_block_start", index=0, content_block=BARE, Index=1),
    "camel case": begin() + event("content_block_start", index=0, contentBlock={"type": "text"}),
    "another name": begin() + event("content_block_start", name="ping", index=0, content_block=BARE),
    "name of an error": begin() + event("ping", name="error"),
    "name of a text": begin() + TEXT
    + delta(0, "text_delta", text="x").replace(b"event: content_block_delta", b"event: ping"),
    "key twice": begin() + b'event: ping\ndata: {"type": "ping", "type": "ping"}\n\n',
    "type twice": begin() + b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, '
    b'"content_block": {"type": "text", "type": "tool_use", "name": "write", "text": ""}}\n\n'
    + stop(0) + end(),
    "block twice": begin() + b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, '
    b'"content_block": {"type": "text"}, "content_block": {"type": "tool_use", "name": "x"}}\n\n'
    + stop(0) + end(),
    "no type": begin() + b'data: {"index": 0}\n\n',
    "no object": begin() + b"data: [1]\n\n",
    "no JSON": begin() + b"data: {\n\n",
    "no sign": begin() + TEXT + delta(0, "text_delta", text="x").replace(b'"x"', b'"\\x"'),
    "odd frame": begin() + b"Data: {}\n\n",
    "deep": begin() + b'data: {"type": "ping", "x": ' + b"[" * 200 + b"]" * 200 + b"}\n\n",
}  # fmt: skip


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_leaves_a_doubt_ends_the_answer(body: bytes) -> None:
    """With the API's own error event; nothing that is held goes."""
    for cut in (lambda all_: [all_], bytewise):
        got = session().step(ASK, [body], cut=cut)
        assert SECRET.encode() not in got.body
        assert b"write" not in got.body
        last = got.body.split(b"\n\n")[-2]
        assert last.startswith(b"event: error\ndata: ")
        assert json.loads(last.split(b"data: ")[1])["error"]["type"] == "api_error"
        assert got.finish is not None
        assert got.finish.outcome == "answer_unreadable"


# Each holds a call of `read` that some client could take for another one, or that cannot be read.
ODD: dict[str, bytes] = {
    "arguments twice": start(0, {"type": "tool_use", "id": "t", "name": "read", "input": {"p": 1}})
    + delta(0, "input_json_delta", partial_json=WRITE) + stop(0),
    "arguments a list": start(0, {"type": "tool_use", "id": "t", "name": "read", "input": [1]}) + stop(0),
    "arguments a string": start(0, {"type": "tool_use", "id": "t", "name": "read", "input": "{}"}) + stop(0),
    "key twice": start(0, {"type": "tool_use", "id": "t", "name": "read", "input": {"k": 1, "q": 2}}).replace(
        b'"q"', b'"k"') + stop(0),
    "name missing": start(0, {"type": "tool_use", "id": "t", "input": {"p": 1}}) + stop(0),
    "name null": use(0, None),
    "name a list": use(0, ["read"]),
    "member of a toolset": use(0, "read", toolset_name="browser"),
    "toolset a number": use(0, "read", toolset_name=1),
    "unknown piece": start(0, EMPTY)
    + delta(0, "input_patch_delta", patch="x") + stop(0),
    "piece a number": start(0, EMPTY)
    + delta(0, "input_json_delta", partial_json=1) + stop(0),
    "another name": use(0, "Read"),
}  # fmt: skip


@pytest.mark.parametrize("frames", ODD.values(), ids=ODD)
def test_a_call_that_cannot_be_read_is_refused(frames: bytes) -> None:
    """It alone: the answer goes on with another hop."""
    got = step(stream(text(0, "I read."), frames.replace(b'"index": 0', b'"index": 1')), said())
    one = heard(got)
    assert (one.text, one.names) == ("I read.\n\nok", [])
    assert SECRET.encode() not in got.body
    assert len(got.requests) == 2


EDIT = policy(mode("plan", rule("edit", When({"path": Equals("plan.md")}))))
EDITS: dict[str, tuple[list[str], bool]] = {
    "one piece": (['{"path":"plan.md"}'], True),
    "many pieces": (["", '{"pa', 'th":"pl', 'an.md"}'], True),
    "another path": (['{"path":"/etc"}'], False),
    "half a sign": (['{"path":"plan.md","t":"', "\ud83d", '"}'], False),
    "none": ([""], False),
}


@pytest.mark.parametrize(("pieces", "goes"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_conditions_see_what_clients_see(
    pieces: list[str], goes: bool, client: Callable[[bytes], list[Any]]
) -> None:
    """However the arguments are cut into pieces."""
    got = session(EDIT).step(
        request("edit", stream=True), [stream(use(0, "edit", *pieces)), said()]
    )
    calls = [block.arguments for block in client(got.body) if block.kind == "tool_use"]
    assert calls == ([json.dumps({"path": "plan.md"}, separators=(",", ":"))] if goes else [])
