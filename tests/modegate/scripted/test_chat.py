"""The scripted model's chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.errors import BadRequest
from modegate.scripted.chat import CHAT
from modegate.scripted.model import ScriptedCall, Turn
from modegate.scripted.parts import CREATED

WRITE = ScriptedCall("write", '{"path":"a"}')
PATCH = ScriptedCall("patch", "*** Begin", custom=True)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [], **fields}).encode()


def parsed(frames: tuple[bytes, ...]) -> list[Any]:
    """Check the framing; give what the frames hold."""
    assert all(frame.startswith(b"data: ") and frame.endswith(b"\n\n") for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


def deltas(turn: Turn, **fields: Any) -> list[Any]:
    streamed = CHAT.frames(turn, CHAT.read(body(**fields)))
    return [chunk["choices"][0]["delta"] for chunk in parsed(streamed.said)]


def message(turn: Turn) -> Any:
    return json.loads(CHAT.whole(turn, CHAT.read(body())))["choices"][0]["message"]


def test_a_request_is_read() -> None:
    request = body(
        stream=True,
        stream_options={"include_usage": True},
        tools=[
            {"type": "function", "function": {"name": "read"}},
            {"type": "custom", "custom": {"name": "patch"}},
            {"type": "web_search"},
            "nonsense",
        ],
        functions=[{"name": "old"}],
        messages=[
            {"role": "user", "content": "one"},
            {"role": "tool", "content": "before"},
            {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "image_url"}]},
            {"role": "assistant", "content": None},
            {"role": "tool", "content": "r1"},
            {"role": "function", "content": [{"type": "text", "text": "r2"}]},
        ],
    )
    asked = CHAT.read(request)
    assert (asked.model, asked.stream, asked.include_usage) == ("m", True, True)
    assert asked.tools == ("read", "patch", "", "old")
    assert asked.messages == ("one", "before", "two", "", "r1", "r2")
    assert asked.results == ("r1", "r2")
    assert asked.size == len(request)


@pytest.mark.parametrize(
    "request_",
    [b"{}", b'{"messages":3,"tools":{},"stream":1,"stream_options":[]}', b'{"messages":[null,1]}'],
)
def test_a_request_of_another_shape_is_read_as_empty(request_: bytes) -> None:
    asked = CHAT.read(request_)
    assert (asked.stream, asked.include_usage) == (False, False)
    assert (asked.tools, asked.messages, asked.results) == ((), (), ())


@pytest.mark.parametrize("request_", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(request_: bytes) -> None:
    with pytest.raises(BadRequest, match="the scripted model cannot read"):
        CHAT.read(request_)


def test_text_and_reasoning_are_streamed_in_chunks() -> None:
    turn = Turn("Hello you", reasoning="hmm", chunk=4)
    assert deltas(turn) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hmm"},
        {"content": "Hell"},
        {"content": "o yo"},
        {"content": "u"},
    ]


def test_calls_are_streamed_in_fragments() -> None:
    first, begin, one, two, custom, *_ = deltas(Turn(calls=(WRITE, PATCH)))
    assert first == {"role": "assistant", "content": None}
    key = CHAT.read(body()).key
    assert begin["tool_calls"] == [
        {
            "index": 0,
            "id": f"call_{key}_1",
            "type": "function",
            "function": {"name": "write", "arguments": ""},
        }
    ]
    assert one == {"tool_calls": [{"index": 0, "function": {"arguments": '{"path'}}]}
    assert two == {"tool_calls": [{"index": 0, "function": {"arguments": '":"a"}'}}]}
    assert custom["tool_calls"][0]["custom"] == {"name": "patch", "input": ""}
    assert custom["tool_calls"][0]["index"] == 1


def test_a_call_without_arguments_has_no_fragments() -> None:
    assert len(deltas(Turn(calls=(ScriptedCall("ls", ""),)))) == 2


def test_an_id_and_an_index_can_be_given() -> None:
    call = ScriptedCall("ls", "{}", id="call_0", index=7)
    begin = deltas(Turn(calls=(call,)))[1]["tool_calls"][0]
    assert (begin["id"], begin["index"]) == ("call_0", 7)


def test_a_legacy_call_is_streamed() -> None:
    assert deltas(Turn(calls=(WRITE,), legacy=True, fragments=1))[1:] == [
        {"function_call": {"name": "write", "arguments": ""}},
        {"function_call": {"arguments": WRITE.arguments}},
    ]


@pytest.mark.parametrize(
    ("turn", "finish"),
    [
        (Turn("a"), "stop"),
        (Turn(calls=(WRITE,)), "tool_calls"),
        (Turn(calls=(WRITE,), legacy=True), "function_call"),
        (Turn(calls=(WRITE,), finish="stop"), "stop"),
    ],
)
def test_the_finish_fits_streamed_and_whole(turn: Turn, finish: str) -> None:
    asked = CHAT.read(body())
    streamed = CHAT.frames(turn, asked)
    assert streamed.ending[-1] == b"data: [DONE]\n\n"
    (last,) = parsed(streamed.ending[:-1])
    assert last["choices"][0]["finish_reason"] == finish
    assert json.loads(CHAT.whole(turn, asked))["choices"][0]["finish_reason"] == finish


def test_usage_is_streamed_only_if_asked_for() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    asked = CHAT.read(body(stream=True, stream_options={"include_usage": True}))
    streamed = CHAT.frames(Turn("a", usage=usage), asked)
    *before, last = parsed(streamed.said + streamed.ending[:-1])
    assert [chunk["usage"] for chunk in before] == [None] * 3
    assert (last["choices"], last["usage"]) == ([], usage)
    silent = CHAT.frames(Turn("a", usage=usage), CHAT.read(body(stream=True)))
    assert all("usage" not in chunk for chunk in parsed(silent.said + silent.ending[:-1]))


def test_usage_is_estimated() -> None:
    asked = CHAT.read(body())
    usage = json.loads(CHAT.whole(Turn("x" * 40), asked))["usage"]
    assert usage["completion_tokens"] == 11
    assert usage["total_tokens"] == usage["prompt_tokens"] + 11


def test_a_whole_answer_holds_everything() -> None:
    key = CHAT.read(body()).key
    turn = Turn("t", reasoning="r", calls=(WRITE, PATCH))
    assert message(turn) == {
        "role": "assistant",
        "content": "t",
        "reasoning_content": "r",
        "tool_calls": [
            {
                "id": f"call_{key}_1",
                "type": "function",
                "function": {"name": "write", "arguments": WRITE.arguments},
            },
            {
                "id": f"call_{key}_2",
                "type": "custom",
                "custom": {"name": "patch", "input": "*** Begin"},
            },
        ],
    }


def test_a_whole_legacy_call() -> None:
    assert message(Turn(calls=(WRITE,), legacy=True)) == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "write", "arguments": WRITE.arguments},
    }


def test_equal_requests_get_equal_bytes_and_others_other_ids() -> None:
    turn = Turn("t", calls=(WRITE,))
    assert CHAT.whole(turn, CHAT.read(body())) == CHAT.whole(turn, CHAT.read(body()))
    other = json.loads(CHAT.whole(turn, CHAT.read(body(n=1))))
    same = json.loads(CHAT.whole(turn, CHAT.read(body())))
    assert other["id"] != same["id"]
    assert other["created"] == same["created"] == CREATED
