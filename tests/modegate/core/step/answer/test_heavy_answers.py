"""Answers that would cost too much to read are refused, in each API, streamed and whole (H23)."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from modegate.core.dialects import registered
from modegate.core.dialects.chat.answer import calls as chat_calls
from modegate.core.dialects.chat.answer import stream as chat_stream
from modegate.core.dialects.chat.answer.parsing import MAX_CALLS, parse_answer
from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.answer import stream as responses_stream
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.dialect import AnyDialect
from modegate.core.wire.sse_reader import parse
from modegate.core.wire.surrogates import MAX_HALVES
from modegate.core.wire.weight import ANSWER_VALUES, ESCAPES
from support import message_frames as messages
from support import responses
from support.playbook import answer, frame

DIALECTS: dict[str, tuple[AnyDialect, bytes, bytes]] = {
    "chat": (
        CHAT,
        answer({"content": "HERE"}, "stop").body,
        frame({"choices": [{"index": 0, "delta": {"content": "HERE"}}]}),
    ),
    "messages": (
        MESSAGES,
        messages.whole({"type": "text", "text": "HERE"}).body,
        messages.begin() + messages.event("ping", x="HERE"),
    ),
    "responses": (
        RESPONSES,
        responses.whole(responses.message("HERE")).body,
        responses.frame({"type": "response.output_text.delta", "delta": "HERE"}),
    ),
}
TOO_MUCH: dict[str, Any] = {
    "halves": "\ud83d" * (MAX_HALVES + 1),
    "escapes": "\n" * (ESCAPES * ANSWER_VALUES + 1),
    "values": [1] * (ANSWER_VALUES + 1),
}


def read(dialect: AnyDialect, body: bytes) -> None:
    """Read all frames of a stream."""
    reader = dialect.stream_reader(strictly=False)
    for raw in body.split(b"\n\n")[:-1]:
        reader.read(parse(raw + b"\n\n", raw + b"\n\n"))


def test_every_dialect_is_in_the_table() -> None:
    assert sorted(DIALECTS) == sorted(registered.DIALECTS.names)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("what", TOO_MUCH)
def test_h23_what_no_model_says_is_refused(name: str, what: str) -> None:
    dialect, whole, streamed = DIALECTS[name]
    here = json.dumps(TOO_MUCH[what]).encode()
    with pytest.raises(AnswerUnreadable):
        dialect.read_whole(whole.replace(b'"HERE"', here))
    with pytest.raises(AnswerUnreadable):
        read(dialect, streamed.replace(b'"HERE"', here))


@pytest.mark.parametrize("name", ["messages", "responses"])
def test_h23_what_no_model_says_is_not_straightened_either(name: str) -> None:
    """It stands in front of what refuses it, and would make objects of all of it."""
    dialect = DIALECTS[name][0]
    much = json.dumps(TOO_MUCH["values"]).encode()
    call_ = b'{"type":"tool_use","id":"","name":"x"},{"type":"function_call","name":"x"}'
    whole = b'{"content":[%b],"output":[%b],"x":%b}' % (call_, call_, much)
    assert dialect.straight_whole(whole, Ids("seed", ())) == whole
    straight = dialect.straightener(2**30, Ids("seed", ()))
    assert straight is not None
    raw = b'event: ping\ndata: {"x":%b}\n\n' % much
    found = parse(raw, raw)
    assert straight.take(found) == [found]


@pytest.mark.parametrize("cut", [2**20 - 3, 2**20, 2**20 + 3])
def test_h23_a_call_is_seen_wherever_the_slices_of_a_long_event_end(cut: int) -> None:
    """What could be a call makes it read strictly, in which a key in another case is refused."""
    start = b'{"choices":[],"x":"'
    data = start + b"x" * (cut - len(start)) + b'","Tool_Calls":[]}'
    with pytest.raises(AnswerUnreadable):
        parse_answer(data, strictly=False)
    twice = start + b"x" * (cut - len(start)) + b'","choices":[]}'
    with pytest.raises(AnswerUnreadable):
        parse_answer(twice, strictly=False)


def test_long_texts_are_read() -> None:
    words = "some code { [ , \u2028 " * 200_000
    for dialect, whole, streamed in DIALECTS.values():
        here = json.dumps(words).encode()
        dialect.read_whole(whole.replace(b'"HERE"', here))
        read(dialect, streamed.replace(b'"HERE"', here))


def counted(
    monkeypatch: pytest.MonkeyPatch, *names: str, module: ModuleType = chat_stream
) -> list[str]:
    """Note each use of some functions in a module of streams."""
    used: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        does = getattr(module, name)

        def use(*given: Any) -> Any:
            used.append(name)
            return does(*given)

        return use

    for name in names:
        monkeypatch.setattr(module, name, noting(name))
    return used


@pytest.mark.parametrize("index", [False, True])
def test_h23_a_piece_is_held_against_no_other_call_twice(
    monkeypatch: pytest.MonkeyPatch, *, index: bool
) -> None:
    """In the order in which clients could take one for another, 64 KiB of pieces took seconds."""
    looks = counted(monkeypatch, "share", "_meet")
    calls = [{"id": f"c{at}", **({"index": at} if index else {})} for at in range(MAX_CALLS)]
    read(CHAT, frame({"choices": [{"index": 0, "delta": {"tool_calls": 40 * calls}}]}))
    assert len(looks) < 2 * MAX_CALLS**2


def test_h23_a_frame_with_halves_of_characters_is_read_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = counted(monkeypatch, "exactly", module=chat_calls)
    call = {"index": 0, "id": "c", "function": {"name": "read", "arguments": "\ud83d"}}
    choices = [{"index": at, "delta": {"tool_calls": [call]}} for at in range(MAX_CALLS)]
    read(CHAT, frame({"choices": choices}))
    assert len(reads) == 1


def test_h23_a_call_under_ever_new_indices_is_none() -> None:
    """Each could be that of another call."""
    reader = CHAT.stream_reader(strictly=False)
    for at in range(chat_stream.MAX_PLACES + 1):
        piece = {"id": "c", "index": at, "function": {"arguments": ""}}
        raw = frame({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
        (part,) = reader.read(parse(raw, raw))
        assert bool(part.calls[0].odd) == (at == chat_stream.MAX_PLACES)


def test_h23_calls_that_only_the_last_event_tells_of_are_found_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To find one means to pass over all of the event, which may have many megabytes."""
    looks = counted(monkeypatch, "listed_places", module=responses_stream)
    items = [responses.call("read", at=at) for at in range(100)]
    read(
        RESPONSES,
        responses.frame(responses.begin()) + responses.frame(responses.end(items)),
    )
    assert len(looks) == 1
