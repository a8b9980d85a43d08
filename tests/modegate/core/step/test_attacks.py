"""What a hostile upstream could do beside sending calls: break us, fill memory, be read in another way.

Each of these once did.
"""

from __future__ import annotations

import json
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest

from modegate.core.dialects.messages.answer.parsing import TOKENS
from modegate.core.dialects.messages.answer.stream import MessagesStreamReader
from modegate.core.dialects.responses.answer.sent_items import MAX_KEPT, OpenItem
from modegate.core.step.answer.calls import MAX_GLUED, MAX_ID, MAX_NAME
from modegate.core.wire.content_encoding import MAX_DECODED
from modegate.core.wire.headers import as_utf8
from modegate.core.wire.sse_reader import parse
from modegate.core.wire.weight import ANSWER_VALUES
from support import message_frames as messages
from support import responses
from support.playbook import (
    JSON,
    STREAM,
    Got,
    Reply,
    Session,
    answer,
    call,
    chunk,
    frame,
    mode,
    piece,
    policy,
    read_stream,
    request,
    said,
    stream,
    text,
    tool_call,
)

SECRET = "S3CRET-ARGUMENT"
WRITE = json.dumps({"p": SECRET})
ASKED = request("read", "write", stream=True)
HALF = "cut \ud83d here"
"""Half of an emoji, as JavaScript's `JSON.stringify` writes it: `\\ud83d`."""


def step(*replies: Any) -> Got:
    """Live through one step in plan mode."""
    return Session().step(ASKED, list(replies))


# Half a pair of surrogates beside what has to be edited.


def test_half_an_emoji_in_a_body_of_which_something_is_refused() -> None:
    calls = [tool_call("write", WRITE, "call_000000001"), tool_call("read", "{}", "call_000000002")]
    got = step(answer({"content": HALF, "tool_calls": calls}))
    message = got.json["choices"][0]["message"]
    assert message["content"] == HALF
    assert [one["function"]["name"] for one in message["tool_calls"]] == ["read"]


def test_half_an_emoji_in_a_body_that_ends_with_our_words() -> None:
    got = step(answer({"content": HALF, "tool_calls": [tool_call("write", WRITE)]}, "tool_calls"))
    message = got.json["choices"][0]["message"]
    assert message["content"].startswith("cut \ufffd here")
    assert "tool_calls" not in message


def test_half_an_emoji_in_a_frame_of_which_something_is_refused() -> None:
    piece = {"index": 0, "id": "w", "type": "function", "function": {"name": "write"}}
    got = step(stream(chunk({"content": HALF, "tool_calls": [piece]})), said("done"))
    assert read_stream(got.body)[0] == {"text": f"{HALF}\n\ndone", "calls": {}, "finish": "stop"}


def test_half_an_emoji_in_a_history_into_which_something_is_put_back() -> None:
    session = Session()
    session.step(ASKED, [stream(text("a"), call("write")), stream(text("b"), finish="stop")])
    content = [{"type": "text", "text": "a\n\nb", "unknown": HALF}]
    history = [*ASKED["messages"], {"role": "assistant", "content": content}]
    history.append({"role": "user", "content": HALF})
    sent = session.step({**ASKED, "messages": history}, [said()]).upstream["messages"]
    assert [one["role"] for one in sent[2:]] == ["assistant", "tool", "assistant", "user"]
    assert sent[4]["content"] == [{"type": "text", "text": "b", "unknown": HALF}]


# Shapes that nobody expects.

BEGIN = responses.begin()
ADDED = responses.added(responses.message("a"), 0)
ODD_EVENTS: dict[str, list[dict[str, Any]]] = {
    "response-is-a-list": [{**BEGIN, "response": [1]}],
    "item-is-a-list": [BEGIN, {**ADDED, "item": [1]}],
    "type-of-a-part-is-a-list": [
        BEGIN,
        {**ADDED, "item": {**ADDED["item"], "content": [{"type": ["output_text"], "text": ""}]}},
    ],
}


@pytest.mark.parametrize("events", ODD_EVENTS.values(), ids=ODD_EVENTS)
def test_odd_events_of_responses_are_refused(events: list[dict[str, Any]]) -> None:
    """As what cannot be read, and not by an exception of our own."""
    asked = responses.request("read", "write", stream=True)
    got = responses.session().step(asked, [responses.stream(events)])
    assert got.finish is not None
    assert got.finish.outcome == "answer_unreadable"


def test_an_item_that_is_a_number_stands_beside_a_piece_of_text() -> None:
    """In a later hop, where items are renamed."""
    events = responses.events(responses.message("b"), n=2)
    events[3]["item"] = 3
    asked = responses.request("read", "write", stream=True)
    first = responses.answer(responses.message("a"), responses.call("write", WRITE, 2))
    got = responses.session().step(asked, [first, responses.stream(events)])
    assert got.finish is not None
    assert got.finish.outcome == "answered"
    assert SECRET.encode() not in got.body


@pytest.mark.parametrize("streamed", [True, False])
def test_an_item_of_an_unknown_type_is_also_judged_by_the_name_that_it_bears(
    streamed: bool,
) -> None:
    """Its type could be the name of a tool that is allowed."""
    item = {**responses.call("write", WRITE), "type": "read"}
    reply = responses.answer(item) if streamed else responses.whole(item)
    got = responses.session().step(responses.request("read", "write", stream=streamed), [reply])
    assert SECRET.encode() not in got.body


# Some hundred bytes that stand for gigabytes.


def test_a_compressed_stream_brings_no_more_than_a_limit_at_once() -> None:
    compressor = brotli.Compressor()
    pieces = range(MAX_DECODED // 2**20 + 1)
    body = b"".join(compressor.process(b": " + bytes(2**20 - 2)) for _ in pieces)
    lines = [*STREAM, (b"content-encoding", b"br")]
    got = step(Reply(body + compressor.finish(), lines))
    assert got.finish is not None
    assert got.finish.outcome == "too_large"


def test_a_compressed_stream_may_be_longer_than_what_it_brings_at_once() -> None:
    words = [text(f"{number} " * 30_000) for number in range(80)]
    body = stream(*words, finish="stop")
    assert len(body) > MAX_DECODED
    lines = [*STREAM, (b"content-encoding", b"br")]
    packed = brotli.compress(body, quality=1)
    got = Session().step(
        ASKED,
        [Reply(packed, lines)],
        cut=lambda whole: (whole[at : at + 64] for at in range(0, len(whole), 64)),
    )
    assert got.body == body


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1"], ids=str)
def test_a_body_of_values_alone_is_not_read(value: bytes) -> None:
    """It costs some hundred times its length, and seconds."""
    values = b",".join([value] * (ANSWER_VALUES + 1))
    start, end = answer({"content": "a"}).body.split(b'"a"')
    got = step(Reply(start + b"[" + values + b"]" + end, list(JSON)))
    assert got.finish is not None
    assert got.finish.outcome == "answer_unreadable"


def test_a_large_body_of_words_is_read() -> None:
    words = json.dumps("some code { [ , " * 200_000)[1:-1]
    got = step(answer({"content": words}, "stop"))
    assert got.json["choices"][0]["message"]["content"] == words


# What grows with a stream that never ends.


def test_usage_under_ever_new_keys_is_not_kept() -> None:
    reader = MessagesStreamReader(strictly=False)
    frames = [messages.begin()]
    for number in range(100):
        usage = {f"key_{number}": number, "output_tokens": number, "input_tokens": None}
        frames.append(messages.event("message_delta", delta={"stop_reason": None}, usage=usage))
    for raw in frames:
        reader.read(parse(raw, raw))
    assert reader.usage == {"input_tokens": 7, "output_tokens": 99}
    assert set(TOKENS).issuperset(reader.usage)


def test_parts_of_an_item_without_an_end_are_not_kept() -> None:
    unended = OpenItem()
    unended.note("response.output_item.added", {"item": {"type": "message", "content": []}})
    part = {"type": "output_text", "text": "x" * 100_000}
    for _ in range(30):
        unended.note("response.content_part.added", {"part": {**part, "text": ""}})
        unended.note("response.content_part.done", {"part": part})
    assert 0 < len(json.dumps(unended.item())) <= MAX_KEPT


@pytest.mark.parametrize(
    ("name", "id_"), [("read", "c" * (MAX_ID + 1)), ("mcp__" + "r" * MAX_NAME, "c1")]
)
def test_ids_and_names_that_would_stay_in_memory_are_not_released(name: str, id_: str) -> None:
    """The log and the session's state hold those of released calls."""
    session = Session()
    got = session.step(request("read", name), [stream(call(name, id_=id_)), said("ok")])
    assert read_stream(got.body)[0]["calls"] == {}
    assert all(len(str(event)) < MAX_ID for event in got.events)


def test_calls_that_could_be_taken_for_one_another_have_few_names() -> None:
    """Each name is held against every tool, for each call: a stream of many would take all the time."""
    rules = policy(mode("plan", "mcp__*"))
    pieces = [
        piece(id=f"call_{number:09}", function={"name": f"mcp__{number}", "arguments": "{}"})
        for number in range(100)
    ]
    got = Session(rules=rules).step(request("mcp__1", stream=True), [stream(*pieces)])
    assert 0 < len(got.body.split(b'"name"')) - 1 <= MAX_GLUED
    assert b"mcp__99" not in got.body.split(b"[modegate]")[0]


# What says that text is to be read in another way than the gate has read it.

CHARSETS = {
    b"application/json": b"application/json",
    b"application/json; charset=utf-8": b"application/json; charset=utf-8",
    b'text/event-stream;charset="UTF8"': b'text/event-stream;charset="UTF8"',
    b"text/event-stream; charset=utf-7": b"text/event-stream; charset=utf-8",
    b"application/json;x=1; CharSet=shift_jis": b"application/json; charset=utf-8",
    b"application/json; charset=utf-8; charset=utf-7": b"application/json; charset=utf-8",
    b"application/json; charset=utf-8, text/html": b"application/json; charset=utf-8",
}


@pytest.mark.parametrize(("given", "told"), CHARSETS.items(), ids=map(str, CHARSETS))
def test_what_was_read_as_utf_8_is_said_to_be_so(given: bytes, told: bytes) -> None:
    lines = [(b"x-a", b"1"), (b"content-type", given), (b"x-b", b"2")]
    assert as_utf8(lines) == [(b"x-a", b"1"), (b"content-type", told), (b"x-b", b"2")]


def in_utf_7(value: dict[str, Any]) -> bytes:
    """Return JSON that says nothing but a text, unless it is read as UTF-7."""
    hidden = json.dumps(value)[1:-1].encode()
    quoted = hidden.replace(b"+", b"+-").replace(b'"', b"+ACI-").replace(b"\\", b"+AFw-")
    return b'{"choices":[],"x":"+ACI-,' + quoted + b',+ACI-y+ACI-:+ACI-"}'


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_that_is_one_in_utf_7_is_text(streamed: bool) -> None:
    message = {"content": None, "tool_calls": [tool_call("write", WRITE)]}
    choice = {"index": 0, "delta" if streamed else "message": message, "finish_reason": "stop"}
    hidden = in_utf_7({"choices": [choice]})
    as_it_is_meant = json.loads(hidden.decode("utf-7"))
    assert as_it_is_meant["choices"][0]["finish_reason"] == "stop"
    kind = (STREAM if streamed else JSON)[0][1] + b"; charset=utf-7"
    body = b"data: " + hidden + b"\n\n" + stream(text("a"), finish="stop") if streamed else hidden
    got = step(Reply(body, [(b"content-type", kind)]))
    assert got.head is not None
    assert dict(got.head.headers)[b"content-type"].endswith(b"; charset=utf-8")


def test_what_nobody_gated_keeps_its_head() -> None:
    session = Session()
    session.step(ASKED, [said()])
    session.set_mode("default")
    kind = (b"content-type", b"application/json; charset=latin-1")
    got = session.step(ASKED, [Reply(frame({"choices": []})[6:], [kind])])
    assert got.head is not None
    assert kind in got.head.headers


@pytest.mark.parametrize("status", [300, 302, 399, 600, 799, 999])
@pytest.mark.parametrize("streamed", [True, False])
def test_what_is_neither_an_answer_nor_an_error_is_refused(status: int, streamed: bool) -> None:
    """`requests` raises for 400 to 599 alone, and would take the body of all others for an answer."""
    body = stream(call("write", WRITE)) if streamed else answer({"content": "a"}).body
    got = step(Reply(body, list(STREAM if streamed else JSON), status))
    assert got.head is not None
    assert got.head.status == 502
    assert SECRET.encode() not in got.body
