"""Streams of the Messages API through the gate: what goes, when, and what leaves a doubt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.messages.answer import parsing
from modegate.core.dialects.messages.answer.stream import MessagesStreamReader
from modegate.core.dialects.messages.answer.write import MessagesStreamWriter
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.errors import AnswerUnreadable
from modegate.core.ids import StepId
from modegate.core.policy.model import Limits
from modegate.core.step.answer.parts import MAX_TEXT, Kind
from modegate.core.step.effects import Finish, ReadState, SendBytes
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire.request_body import RequestBody
from modegate.core.wire.sse_reader import FrameReader
from support.message_frames import (
    SECRET,
    WRITE,
    begin,
    delta,
    end,
    event,
    events,
    said,
    session,
    start,
    stop,
    stream,
    text,
    thinking,
    use,
)
from support.messages import request
from support.playbook import STREAM, Got, bytewise, cut_at, mode, policy
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


ALLOWED = {
    "text": stream(text(0, "Hi ", "there"), reason="end_turn"),
    "empty": stream(reason="end_turn"),
    "thinking": stream(thinking(0, "Hm."), text(1, "Hi"), reason="end_turn"),
    "redacted": stream(start(0, {"type": "redacted_thinking", "data": "eHg="}), stop(0), text(1, "Hi"),
                       reason="end_turn"),
    "call": stream(text(0, "I look."), READ),
    "two calls": stream(use(0, "read"), use(1, "grep", "", '{"q":"\\u00e9"}')),
    "input null": stream(start(0, {**EMPTY, "input": None}), stop(0)),
    "input empty": stream(start(0, {**EMPTY, "input": ""}),
                          delta(0, "input_json_delta", partial_json="{}"), stop(0)),
    "no input": stream(start(0, EMPTY), stop(0)),
    "ping": begin() + event("ping") + text(0, "Hi") + b":\n\n" + READ + event("ping") + end(),
    "citations": stream(start(0, {"type": "text", "text": "", "citations": []}),
                        delta(0, "citations_delta", citation={"type": "char_location"}), stop(0),
                        reason="end_turn"),
    "unknown piece of a text": stream(TEXT, delta(0, "note_delta", note=1), stop(0), reason="end_turn"),
    "unknown event": begin() + event("message_note", note=1) + text(0, "Hi") + end("end_turn"),
    "calls and end_turn": stream(LOOK, reason="end_turn"),
    "no reason": stream(LOOK, reason=None),
    "max_tokens": stream(text(0, "Hi"), reason="max_tokens"),
    "usage twice": begin() + text(0, "Hi") + event("message_delta", delta={}, usage={"output_tokens": 1})
    + end("end_turn"),
    "compaction": stream(start(0, {"type": "compaction", "content": ""}),
                         delta(0, "compaction_delta", content="So far"), stop(0), reason="end_turn"),
    "crlf": said().replace(b"\n", b"\r\n"),
    "no names": stream(text(0, "Hi"), READ).replace(b"event: ", b"id: "),
    "spaced": said().replace(b'"index": 0', b'"index" :  0'),
    "thinking split in the middle of a sign": stream(
        start(0, {"type": "thinking", "thinking": ""}), delta(0, "thinking_delta", thinking="\ud83d"),
        delta(0, "thinking_delta", thinking="\ude00"), stop(0), reason="end_turn"),
}  # fmt: skip


@pytest.mark.parametrize("body", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_passes_to_the_byte(body: bytes) -> None:
    """In one piece and byte by byte; what follows the end does not pass."""
    for cut in (lambda all_: [all_], bytewise):
        got = session().step(ASK, [body + event("content_block_start", index=9)], cut=cut)
        assert got.body == body
        assert got.finish is not None
        assert got.finish.outcome == "answered"


def test_text_goes_at_once_and_a_call_when_it_is_complete() -> None:
    """No byte of text waits; a call goes as a whole with its end."""
    frames = [begin(), TEXT, delta(0, "text_delta", text="Hi"), stop(0)]
    call = [one + b"\n\n" for one in READ.removesuffix(b"\n\n").split(b"\n\n")]
    pieces = [*frames, *call, end()]
    got = session().step(ASK, [b"".join(pieces)], cut=lambda _: pieces)
    assert got.pieces[: len(frames)] == frames
    assert got.pieces[len(frames)] == b"".join(call)


def test_a_ping_passes_a_held_call() -> None:
    """It keeps the client waiting, and has no place."""
    head, tail = READ[: READ.rindex(b"event: ")], READ[READ.rindex(b"event: ") :]
    got = step(begin() + text(0, "Hi") + head + event("ping") + tail + end())
    assert got.body == begin() + text(0, "Hi") + event("ping") + READ + end()


def test_a_wholly_refused_answer_is_followed_by_another_hop() -> None:
    """The client sees one message: one start, blocks in a row, one end, all the tokens."""
    first = stream(thinking(0, "Hm.", "signed-a"), text(1, "I write."), use(2, "write", WRITE))
    second = stream(thinking(0, "Oh.", "signed-b"), text(1, "I read."), use(2, "read", "{}"))
    got = step(first, second)
    assert SECRET.encode() not in got.body
    one = heard(got)
    assert one.text == "I write.\n\nI read."
    assert one.names == ["read"]
    assert (one.finish, one.usage) == ("calls", (7, 10))
    assert [block["type"] for block in one.kept[0]["content"]] == [
        "thinking", "text", "thinking", "text", "tool_use",
    ]  # fmt: skip
    assert got.body.startswith(
        first[: first.index(b'{"type": "content_block_start", "index": 2') - 32]
    )


def test_the_next_hop_holds_the_models_turn() -> None:
    """Blocks as they were, the refused call under its id, our answer as its result."""
    opaque = start(2, {"type": "redacted_thinking", "data": "eHg="}) + stop(2)
    first = stream(
        thinking(0, "Hm.", "signed-a+/="), text(1, "I write", "."), opaque,
        text(3, " \n"), thinking(4, "cut", ""), use(5, "write", '{"n":', "1.0}"),
    )  # fmt: skip
    got = step(first, said())
    assistant, user = got.upstream["messages"][1:]
    assert assistant == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "signed-a+/="},
            {"type": "text", "text": "I write."},
            {"type": "redacted_thinking", "data": "eHg="},
            {"type": "tool_use", "id": "toolu_0000_5", "name": "write", "input": {"n": 1.0}},
        ],
    }
    (result,) = user["content"]
    assert (user["role"], result["type"], result["is_error"]) == ("user", "tool_result", True)
    assert result["tool_use_id"] == "toolu_0000_5"
    assert "refused" in result["content"]
    assert b'"input":{"n":1.0}' in got.requests[1]


def test_a_turn_is_told_again_with_all_that_stands_in_it() -> None:
    """Where a text is taken from, summaries, signs that came in two halves; thinking that is torn is not."""
    cited = (
        start(0, BARE)
        + delta(0, "text_delta", text="So")
        + delta(0, "citations_delta", citation={"n": 1})
        + stop(0)
    )
    summary = (
        start(1, {"type": "compaction", "content": None})
        + delta(1, "compaction_delta", content="Then")
        + stop(1)
    )
    fallback = start(2, {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}) + stop(
        2
    )
    torn = start(3, {"type": "thinking", "thinking": ""})
    torn += delta(3, "thinking_delta", thinking="\ud83d") + delta(
        3, "thinking_delta", thinking="\ude00"
    )
    torn += delta(3, "signature_delta", signature="s") + delta(3, "x_delta", x=1) + stop(3)
    twice = (
        thinking(4, "Hm.").removesuffix(stop(4))
        + delta(4, "signature_delta", signature="t")
        + stop(4)
    )
    begun = start(5, {"type": "thinking", "thinking": "Hm", "signature": "u"}) + stop(5)
    strange = start(6, {"type": "compaction", "content": None})
    strange += delta(6, "compaction_delta", content=None, encrypted_content="x") + stop(6)
    hop = stream(
        cited, summary, fallback, torn, twice, begun, strange, text(7, "\ud83d"), use(8, "write")
    )
    got = step(hop, said())
    assert got.upstream["messages"][1]["content"][:-1] == [
        {"type": "text", "text": "So", "citations": [{"n": 1}]},
        {"type": "compaction", "content": "Then"},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "thinking", "thinking": "Hm", "signature": "u"},
        {"type": "text", "text": "\ufffd"},
    ]


def test_signs_that_came_in_two_halves_leave_as_they_came() -> None:
    """In a later hop, too, where frames are edited."""
    halves = (
        begin()
        + TEXT
        + delta(0, "text_delta", text="\ud83d")
        + delta(0, "text_delta", text="\ude00")
        + stop(0)
    )
    got = step(stream(text(0, "I."), use(1, "write")), halves + end("end_turn"))
    assert heard(got).text == "I.\n\n\ud83d\ude00"
    call = use(2, "read", '{"p":"\ud83d\ude00"}')
    assert call.replace(b'"index": 2', b'"index": 0') in step(stream(use(0, "write"), call)).body


def test_a_message_delta_without_usage_has_none_to_change() -> None:
    """As some servers send it, be it null."""
    nothing: list[dict[str, Any]] = [{}, {"usage": None}, {"usage": {}}]
    for usage in nothing:
        last = event("message_delta", delta={"stop_reason": "end_turn"}, **usage)
        got = step(stream(use(0, "write")), begin() + text(0, "ok") + last + event("message_stop"))
        assert last in got.body


def test_a_client_that_waits_is_told_so() -> None:
    """By an event that means nothing."""
    assert MessagesStreamWriter().keepalive() == b'event: ping\ndata: {"type":"ping"}\n\n'


@pytest.mark.parametrize("arguments", ['{"a', "[1]", '{"a":1,"a":2}', "no", '"x"', "NaN"])
def test_arguments_that_do_not_parse_go_back_as_none(arguments: str) -> None:
    """Providers would refuse the history for ever after."""
    got = step(stream(use(0, "read", arguments)), said())
    assert heard(got).text == "ok"
    (call,) = got.upstream["messages"][1]["content"]
    assert call["input"] == {}


@pytest.mark.parametrize(("name", "id_", "shown"), [
    ("bad name!", "toolu_0000_0", ("bad_name_", "toolu_0000_0")),
    ("", "functions.w:0", ("unknown", "functions_w_0")),
    ("write", "", ("write", None)),
    (7, "toolu_0000_0", ("unknown", "toolu_0000_0")),
    ("write", 7, ("write", None)),
], ids=str)  # fmt: skip
def test_the_next_hop_holds_names_and_ids_as_the_api_takes_them(
    name: Any, id_: Any, shown: tuple[str, str | None]
) -> None:
    """Letters, digits, `_` and `-`; the call and its result agree."""
    block = {"type": "tool_use", "id": id_, "name": name, "input": {"p": 1}}
    got = step(stream(start(0, block), stop(0)), said())
    assistant, user = got.upstream["messages"][1:]
    (call,), (result,) = assistant["content"], user["content"]
    assert call["name"] == shown[0]
    assert call["id"] == result["tool_use_id"]
    assert shown[1] in (None, call["id"])


def test_members_of_a_call_that_nobody_knows_stay_with_it() -> None:
    """Such as who called it, or a signature of another provider's."""
    got = step(stream(use(0, "write", caller={"type": "direct"}, thought_signature="x")), said())
    (call,) = got.upstream["messages"][1]["content"]
    assert (call["caller"], call["thought_signature"]) == ({"type": "direct"}, "x")


def test_some_of_each() -> None:
    """What is released goes as it came; behind a gap the blocks are numbered anew."""
    first = text(0, "Both.") + use(1, "read", "{}")
    got = step(stream(first, use(2, "write", WRITE), text(3, "and"), use(4, "grep", '{"q":1}')))
    one = heard(got)
    assert one.names == ["read", "grep"]
    assert one.finish == "calls"
    assert SECRET.encode() not in got.body
    assert got.body.startswith(begin() + first)
    assert use(4, "grep", '{"q":1}').replace(b'"index": 4', b'"index": 3') in got.body


@pytest.mark.parametrize(("reason", "kept"), [("tool_use", "end_turn"), ("max_tokens", "max_tokens"),
    ("refusal", "refusal"), ("pause_turn", "pause_turn"), ("end_turn", "end_turn"), (None, "end_turn"),
    ("model_context_window_exceeded",) * 2])  # fmt: skip
def test_an_end_without_a_call(reason: str | None, kept: str) -> None:
    """A call's stop reason never goes out without one; those that end a turn stay, without another hop."""
    first = stream(text(0, "I"), use(1, "write", WRITE), reason=reason)
    got = step(first, stream(use(0, "write", WRITE), reason=reason))
    final = kept != "end_turn"
    assert len(got.requests) == (1 if final else 2)
    deltas = [
        one["delta"] for one in events(got.body, named=True) if one["type"] == "message_delta"
    ]
    assert [one["stop_reason"] for one in deltas] == [kept]
    assert b"[modegate] Refused" in got.body
    assert got.body.endswith(b"\n\n")
    assert b"message_stop" in got.body.split(b"\n\n")[-2]


def test_a_finish_that_tells_of_calls_where_none_was_made_is_a_normal_one() -> None:
    """Sent on, it makes agents loop or fail."""
    got = step(stream(text(0, "Hi")))
    assert heard(got).finish == "stop"
    assert len(got.requests) == 1


@pytest.mark.parametrize(("name", "released"), [("read", True), ("write", False)])
def test_b048_a_call_that_is_cut_at_the_limit(name: str, released: bool) -> None:
    """It passes if it is allowed, as no client runs it; the reason stays, and no hop follows."""
    body = stream(use(0, name, f'{{"p":"{SECRET}'), reason="max_tokens")
    got = step(body)
    assert len(got.requests) == 1
    assert b'"stop_reason": "max_tokens"' in got.body
    assert (got.body == body) is released
    assert (SECRET.encode() in got.body) is released


def test_a_call_without_an_end_is_judged_with_the_answer() -> None:
    """Some clients run it none the less."""
    cut = WRITES[: WRITES.rindex(b"event: ")]
    got = step(begin() + cut + end(), said())
    assert heard(got).text == "ok"
    allowed = begin() + use(0, "read").removesuffix(stop(0)) + end()
    assert heard(step(allowed)).names == ["read"]


def test_an_upstream_that_stops_says_so() -> None:
    """Held calls go nowhere, no end is invented, and the client does not wait."""
    got = step(begin() + text(0, "Hi") + start(1, EMPTY))  # fmt: skip
    assert got.body.startswith(begin() + text(0, "Hi") + b"event: error\n")
    assert heard(got).error == "the upstream stopped before its answer was complete"


def test_an_upstreams_own_error_passes_once() -> None:
    """As it came, in front of whatever is held."""
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    held = start(1, EMPTY)
    got = step(begin() + text(0, "Hi") + held + error)
    assert got.body == begin() + text(0, "Hi") + error


LATER = {
    "error": begin() + text(0, "So") + event("error", error={"type": "overloaded_error", "message": "no"}),
    "cut": begin() + thinking(0, "Hm.") + start(1, BARE) + delta(1, "text_delta", text="So"),
    "nonsense": begin() + text(0, "So") + b"data: {\n\n",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("second", LATER.values(), ids=LATER)
def test_a_later_hop_that_fails_ends_with_the_closing_text(second: bytes) -> None:
    """Text is out, so an error would be sent again: what was refused is said, and a normal stop."""
    got = step(stream(text(0, "I write."), use(1, "write", WRITE)), second)
    one = heard(got)
    assert one.finish == "stop"
    assert one.text.startswith("I write.")
    assert "[modegate] Refused" in one.text
    assert one.usage == (7, 5)


def test_tokens_of_the_prompt_are_the_last_hops() -> None:
    """They stand in a hop's first event, of which the client has got one already."""
    usage = {
        "input_tokens": 90,
        "output_tokens": 1,
        "cache_read_input_tokens": 50,
        "service_tier": "x",
    }
    got = step(stream(use(0, "write")), stream(text(0, "ok"), reason="end_turn", usage=usage))
    assert (
        b'"usage": {"input_tokens":90,"cache_read_input_tokens":50,"output_tokens": 10}' in got.body
    )


def test_each_cut_gives_the_same() -> None:
    """Wherever the bytes of two hops are cut."""
    first = stream(text(0, "I"), use(1, "write", WRITE))
    second = stream(text(0, "so"), use(1, "read", '{"p":1}'), use(2, "write", WRITE))
    whole = step(first, second)
    for at in range(1, max(len(first), len(second)), 13):
        got = session().step(ASK, [first, second], cut=cut_at(at))
        assert got.body == whole.body
        assert got.requests == whole.requests


def test_what_is_held_and_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that never ends, a text without end, blocks and calls without number."""
    small = policy(mode("plan", "read"), limits=Limits(held=2_000))
    endless = start(0, EMPTY)
    piece = delta(0, "input_json_delta", partial_json="x" * 100)
    got = session(small).step(ASK, [begin() + endless + piece * 30])
    assert b"limits.held" in got.body
    reader = MessagesStreamReader(strictly=False)
    frames = FrameReader(1 << 20)
    body = begin() + TEXT + delta(0, "text_delta", text="x" * 9999) * 60  # fmt: skip
    for frame in frames.feed(body):
        assert reader.read(frame)[0].kind is Kind.LIVE
    read = reader.choices[0]
    assert not read.whole
    assert sum(len(piece) for piece in read.blocks[0].pieces) <= MAX_TEXT
    for frame in frames.feed(delta(0, "citations_delta", citation={"x": "y"}) + stop(0)):
        reader.read(frame)
    assert read.blocks[0].citations == []
    monkeypatch.setattr(parsing, "MAX_BLOCKS", 9)
    for frame in frames.feed(b"".join(text(at) for at in range(1, 9))):
        reader.read(frame)
    (one_more,) = frames.feed(start(9, {"type": "text", "text": "y" * 99}))
    with pytest.raises(AnswerUnreadable, match="too many blocks"):
        reader.read(one_more)
    assert read.blocks[-2].start == {}


def test_calls_are_counted() -> None:
    """No more than the gate is ready to judge."""
    many = b"".join(use(at, "read", id_=f"toolu_{at:06}") for at in range(parsing.MAX_CALLS + 1))
    got = step(stream(many))
    assert b"too many blocks" in got.body


def test_b075_the_end_reaches_the_client_while_the_upstream_keeps_the_connection_open() -> None:
    """With it the call that was held: nothing waits for the end of the bytes, which may never come."""
    body = stream(use(0, "read", '{"path":"a"}', id_="toolu_read_1"))
    asked = json.dumps(ASK).encode()
    exchange = Exchange(MESSAGES, StepRequest(StepId("0" * 20), [], RequestBody(asked)))
    one = session()
    exchange.begin(one.in_force())
    exchange.upstream_head(200, list(STREAM))
    effects = exchange.upstream_data(body)
    while any(isinstance(effect, ReadState) for effect in effects):
        effects = [*effects[:-1], *exchange.state(one.in_force())]
    sent = b"".join(effect.data for effect in effects if isinstance(effect, SendBytes))
    assert sent == body
    assert isinstance(effects[-1], Finish)
