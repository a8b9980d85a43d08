"""H4: the forms in which each API says a text, and the ways in which a call could hide in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.errors import TooLarge
from modegate.core.policy.model import Limits
from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.step.text_calls.passages import Passage
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.scan import Scanner
from modegate.core.wire.sse import Frame
from support.playbook import (
    DONE,
    Got,
    Reply,
    Session,
    answer,
    bytewise,
    chunk,
    frame,
    mode,
    policy,
    request,
    said,
    stream,
    text,
    whole,
)

SECRET = "S3CRET"
CALL = '{"name": "write", "arguments": {"path": "S3CRET"}}'
PLACE = "stood here in plain text"
RULES = policy(mode("plan", "read", text_calls="refuse"))


def halves(of: str = CALL) -> tuple[str, str]:
    """Return a call in two pieces."""
    return of[:23], of[23:]


CHAT_FORMS = {
    "in one delta": [text(f"So {CALL} then")],
    "in three": [text("So "), text(halves()[0]), text(halves()[1])],
    "in parts of a content": [
        chunk({"content": [{"type": "text", "text": "So " + halves()[0]}]}),
        chunk({"content": [{"type": "text", "text": halves()[1]}, {"type": "text", "text": "!"}]}),
    ],
    "in parts that are strings": [chunk({"content": ["So " + halves()[0], halves()[1]]})],
    "behind a finish": [text("So "), text("\n@save(a):"), chunk({}, "stop"), text(" " + CALL)],
    "with its finish": [chunk({"content": f"So {CALL}"}, "stop")],
    "under a `message`": [
        frame(
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": f"So {CALL}"}}]}
        )
    ],
    "beside a `delta`": [
        frame(
            {"choices": [{"index": 0, "delta": {"content": "So "}, "message": {"content": CALL}}]}
        )
    ],
    "in the second choice": [text("So "), chunk({"content": CALL}, index=1), chunk({}, "stop", 1)],
    "with logprobs": [
        frame(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": f"So {CALL}"},
                        "logprobs": {"content": [{"token": SECRET, "logprob": 0}]},
                    }
                ]
            }
        )
    ],
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("frames", CHAT_FORMS.values(), ids=CHAT_FORMS)
def test_h4_chat(frames: list[bytes], cut: Any) -> None:
    got = Session(rules=RULES).step(
        request("read", "write", stream=True),
        [stream(*frames, finish="stop"), said("Fine.")],
        cut=cut,
    )
    assert SECRET.encode() not in got.body
    assert PLACE.encode() in got.body
    assert got.body.endswith(DONE)
    assert got.body.index(b"So ") < got.body.index(PLACE.encode())


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"choices":[{"index":0,"delta":{"content":"x","content":%s}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"Content":%s}}]}\n\n',
    ],
)
def test_h4_chat_a_text_that_can_be_read_in_two_ways_is_not_read(body: bytes) -> None:
    odd = body % json.dumps(CALL).encode()
    got = Session(rules=RULES).step(request("read", stream=True), [odd + DONE])
    assert SECRET.encode() not in got.body
    assert b'"error"' in got.body


def test_h4_chat_whole_in_parts() -> None:
    parts = [{"type": "text", "text": piece} for piece in ("So ", *halves())]
    got = Session(rules=RULES).step(
        request("read"), [answer({"content": parts}, "stop"), answer({"content": "Fine."}, "stop")]
    )
    assert SECRET.encode() not in got.body
    assert "Fine." in json.dumps(got.json)


def test_h4_what_is_held_has_a_limit() -> None:
    rules = policy(mode("plan", "read", text_calls="refuse"), limits=Limits(held=2_000))
    frames = [text("<write_to_file>"), *(text("x" * 100) for _ in range(30))]
    got = Session(rules=rules).step(request("read", stream=True), [stream(*frames)])
    assert b"limits.held" in got.body
    assert b"write_to_file" not in got.body


def test_h4_calls_have_a_number() -> None:
    got = Session(rules=RULES).step(
        request("read", stream=True),
        [stream(*(text('{"name":"a","input":1}') for _ in range(130)))],
    )
    assert b"over 128 calls" in got.body


def event(kind: str, **members: Any) -> bytes:
    """Return one event of Messages or Responses."""
    data = json.dumps({"type": kind, **members})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def message(*blocks: list[str]) -> bytes:
    """Return a streamed Messages answer of text blocks, each in pieces."""
    out = [event("message_start", message={"id": "msg_1", "role": "assistant", "content": []})]
    for at, pieces in enumerate(blocks):
        out.append(
            event("content_block_start", index=at, content_block={"type": "text", "text": ""})
        )
        out += [
            event("content_block_delta", index=at, delta={"type": "text_delta", "text": piece})
            for piece in pieces
        ]
        out.append(event("content_block_stop", index=at))
    end = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1})
    return b"".join([*out, end, event("message_stop")])


MESSAGES_FORMS = {
    "in one block": message(["So ", *halves(), " then"]),
    "over two blocks": message(["So ", halves()[0]], [halves()[1]]),
    "at the head of a block": message(["So"], ["@save(x): ", '{"content": "S3CRET"}']),
    "in the beginning of a block": message(["So"]).replace(
        b'{"type": "text", "text": ""}', json.dumps({"type": "text", "text": CALL}).encode()
    ),
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("body", MESSAGES_FORMS.values(), ids=MESSAGES_FORMS)
def test_h4_messages(body: bytes, cut: Any) -> None:
    asked = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": "write", "input_schema": {"type": "object"}}],
    }
    session = Session(rules=RULES, dialect=MESSAGES)
    got = session.step(asked, [body, message(["Fine."])], cut=cut)
    assert SECRET.encode() not in got.body
    assert PLACE.encode() in got.body
    assert b"Fine." in got.body


def part(words: str) -> dict[str, Any]:
    """Return a part of a Responses message."""
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": [{"token": words}]}


def response(deltas: list[str], told: str, **forms: bool) -> bytes:
    """Return a streamed Responses answer of one message; `told` is what its whole forms say."""
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part(told)]}
    begun = {**item, "content": []}
    whole_ = {"id": "resp_1", "status": "completed", "output": [item]}
    out = [
        event("response.created", response={"id": "resp_1", "output": []}),
        event("response.output_item.added", output_index=0, item=begun),
        event("response.content_part.added", **at, part=part("")),
        *(event("response.output_text.delta", **at, delta=piece) for piece in deltas),
    ]
    if forms.get("text", True):
        out.append(event("response.output_text.done", **at, text=told))
    if forms.get("part", True):
        out.append(event("response.content_part.done", **at, part=part(told)))
    out.append(event("response.output_item.done", output_index=0, item=item))
    return b"".join([*out, event("response.completed", response=whole_)])


SAYS = f"So {CALL} then"
RESPONSES_FORMS = {
    "in pieces": response(["So ", *halves(), " then"], SAYS),
    "only whole": response([], SAYS),
    "only in the item": response([], SAYS, text=False, part=False),
    "pieces are harmless": response(["So nothing"], SAYS),
    "the whole is harmless": response([SAYS], "So nothing"),
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("body", RESPONSES_FORMS.values(), ids=RESPONSES_FORMS)
def test_h4_responses(body: bytes, cut: Any) -> None:
    got = asked_responses(body, cut)
    assert SECRET.encode() not in got.body
    assert PLACE.encode() in got.body
    assert b"Fine." in got.body


def asked_responses(body: bytes, cut: Any) -> Got:
    """Live through a step of the Responses API."""
    tool = {"type": "function", "name": "write", "parameters": {}}
    asked = {"model": "m", "input": "x", "stream": True, "store": False, "tools": [tool]}
    session = Session(rules=RULES, dialect=RESPONSES)
    return session.step(asked, [body, response(["Fine."], "Fine.")], cut=cut)


def test_h4_responses_all_forms_say_the_same() -> None:
    got = asked_responses(RESPONSES_FORMS["in pieces"], whole)
    (data,) = [line[6:] for line in got.body.split(b"\n") if b'"response.completed"' in line[:60]]
    texts = [one["content"][0]["text"] for one in json.loads(data)["response"]["output"]]
    assert texts[0].startswith("So [modegate]")
    assert texts[0].endswith(" then")
    assert got.body.count(PLACE.encode()) == 5


def test_h4_responses_whole() -> None:
    def reply(words: str) -> Reply:
        item = {"id": "m", "type": "message", "role": "assistant", "content": [part(words)]}
        body = {"id": "resp_1", "status": "completed", "output": [item]}
        return Reply(json.dumps(body).encode(), [(b"content-type", b"application/json")])

    session = Session(rules=RULES, dialect=RESPONSES)
    tool = {"type": "function", "name": "write", "parameters": {}}
    asked = {"model": "m", "input": "x", "store": False, "tools": [tool]}
    got = session.step(asked, [reply(SAYS), reply("Fine.")])
    texts = [one["content"][0]["text"] for one in got.json["output"]]
    assert texts == [
        f"So [modegate] A call of `write` {PLACE}. It was refused and did not run. then",
        "Fine.",
    ]
    assert SECRET.encode() not in got.body


def test_h4_what_is_held_has_its_limit_at_once() -> None:
    """A call that never ends is not kept until the answer ends."""
    limits = Limits(held=2_000)
    gate = TextGate(CHAT, TextCalls(frozenset({"write"})), {}, limits.held)
    reader = CHAT.stream_reader(strictly=False)
    hop = Streamed(reader, CHAT.stream_writer(), limits)
    hop.texts = gate
    hop.feed(text("Before. ") + text('{"name": "write", "x": "'))
    assert b"Before." in hop.advance()
    for _ in range(30):
        hop.feed(text("x" * 100))
        hop.advance()
        if hop.failure is not None:
            break
    assert isinstance(hop.failure, TooLarge)
    assert gate.size < 2 * limits.held


def test_h4_what_stands_in_front_of_a_failure_goes() -> None:
    """However the bytes are cut."""
    frames = [text("Before."), *(text('{"name":"read","input":{}}') for _ in range(130))]
    asked = request("read", "write", stream=True)
    for cut in (whole, bytewise):
        got = Session(rules=RULES).step(asked, [stream(*frames)], cut=cut)
        assert b"Before." in got.body
        assert b"over 128 calls" in got.body


def test_h23_texts_that_come_again_are_found_in_linear_time(monkeypatch: Any) -> None:
    """Each was joined anew for each: of 20,000 parts that took minutes."""
    joined: list[Passage] = []

    class Counting(Passage):
        @property
        def text(self) -> str:
            joined.append(self)
            return super().text

    monkeypatch.setattr("modegate.core.step.text_calls.passages.Passage", Counting)
    gate = TextGate(RESPONSES, TextCalls(frozenset({"write"})), {}, 2**24)
    parts = [f"part {at}" for at in range(300)]
    for at, words in enumerate(parts):
        told = event("response.output_text.delta", output_index=0, content_index=at, delta=words)
        gate.take(Frame(told, told.split(b"data: ")[1].strip()))
    item = {"type": "message", "content": [{"type": "output_text", "text": one} for one in parts]}
    end = event("response.completed", response={"output": [item]})
    gate.take(Frame(end, end.split(b"data: ")[1].strip()))
    assert b"".join(frame.raw for frame in gate.ready()).endswith(end)
    assert len(joined) < 3 * len(parts)


def test_h4_a_text_that_is_told_again_ends_where_it_ended_then() -> None:
    """What a server says behind it is no part of it, however the bytes are cut."""
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    told = event("response.output_text.done", **at, text=SAYS)
    body = response([SAYS], SAYS).replace(
        told, told + event("response.output_text.delta", **at, delta="MORE")
    )
    for cut in (whole, bytewise):
        got = asked_responses(body, cut)
        assert SECRET.encode() not in got.body
        told_again = [one for one in got.body.split(b"\n\n") if b"output_text.done" in one[:40]]
        assert PLACE.encode() in told_again[0]
        assert b"MORE" not in told_again[0]


ODD_TYPES = {
    "a part": (
        RESPONSES,
        response(["So"], "So").replace(b'"output_text"', b'{"output_text": 1}'),
    ),
    "an event": (MESSAGES, event("ping").replace(b'"type": "ping"', b'"type": {"ping": 1}')),
    "a block": (MESSAGES, message(["So"]).replace(b'"type": "text"', b'"type": ["text"]')),
    "a message": (MESSAGES, message(["So"]).replace(b'"text_delta"', b"[1]")),
}


@pytest.mark.parametrize(("dialect", "body"), ODD_TYPES.values(), ids=ODD_TYPES)
def test_h4_a_type_that_is_no_word_is_no_error_of_our_own(dialect: Any, body: bytes) -> None:
    asked = {"model": "m", "max_tokens": 9, "stream": True}
    said_ = {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "write"}]}
    if dialect is RESPONSES:
        said_ = {"input": [], "tools": [{"type": "function", "name": "write"}]}
    got = Session(rules=RULES, dialect=dialect).step({**asked, **said_}, [body, body])
    assert got.finish is not None
    assert got.finish.outcome == "answer_unreadable"


def test_h4_nothing_goes_on_with_a_brace_behind_a_finish() -> None:
    begun = [text('So {"why": "'), chunk({}, "stop")]
    rest = text('", "name": "write", "input": {"a": "S3CRET"}}')
    asked = request("read", "write", stream=True)
    for cut in (whole, bytewise):
        got = Session(rules=RULES).step(asked, [stream(*begun, rest)], cut=cut)
        assert SECRET.encode() not in got.body
        assert got.finish is not None
        assert got.finish.outcome == "answer_unreadable"


def test_h4_no_hop_goes_on_with_a_brace_that_only_whole_forms_tell() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "call_0001", "name": "write"}
    done = {**call, "arguments": "{}", "status": "completed"}
    told = 'So {"why": "'
    end = {"id": "resp_1", "status": "completed"}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part(told)]}
    body = response([], told).replace(
        event("response.completed", response={**end, "output": [item]}),
        event("response.output_item.added", output_index=1, item={**done, "arguments": ""})
        + event("response.output_item.done", output_index=1, item=done)
        + event("response.completed", response={**end, "output": [item, done]}),
    )
    got = asked_responses(body, whole)
    assert b"[modegate] Refused" in got.body
    assert len(got.requests) == 1


def test_h23_braces_without_an_end_are_read_once(monkeypatch: Any) -> None:
    looked: list[str] = []
    unended = TextCalls.unended

    def counting(rules: TextCalls, choice: int, shape: Any, head: Any, words: str) -> Any:
        looked.append(words)
        return unended(rules, choice, shape, head, words)

    monkeypatch.setattr(TextCalls, "unended", counting)
    scanner = Scanner(TextCalls(frozenset({"read"})), 0)
    found = [*scanner.feed("{'<read></read>" * 300), *scanner.end()]
    assert sum(one.call is not None for one in found) == 300
    assert len(looked) == 1
