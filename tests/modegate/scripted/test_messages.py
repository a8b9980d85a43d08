"""The scripted model's messages, with the Anthropic SDK as judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.errors import BadRequest
from modegate.scripted.messages import MESSAGES, count
from modegate.scripted.model import ScriptedCall, Turn
from support import judges

WRITE = ScriptedCall("write", '{"path":"a"}')
PATCH = ScriptedCall("patch", "*** Begin", custom=True)
LIST = ScriptedCall("ls", "", id="toolu_x")
ALL = Turn("Hello you", "Think first", (WRITE, PATCH, LIST), chunk=4)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "messages": [], **fields}).encode()


def events(turn: Turn, **fields: Any) -> list[Any]:
    """Check the framing; give the events."""
    streamed = MESSAGES.frames(turn, MESSAGES.read(body(**fields)))
    found = []
    for frame in streamed.said + streamed.ending:
        name, data, *rest = frame.split(b"\n")
        found.append(json.loads(data.removeprefix(b"data: ")))
        assert (name, rest) == (b"event: " + found[-1]["type"].encode(), [b"", b""])
    return found


def whole(turn: Turn, **fields: Any) -> Any:
    return json.loads(MESSAGES.whole(turn, MESSAGES.read(body(**fields))))


def deltas(turn: Turn) -> list[Any]:
    return [e["delta"] for e in events(turn) if e["type"] == "content_block_delta"]


def result(text: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": text}


def test_a_request_is_read() -> None:
    words = {"type": "text", "text": "two"}
    request = body(
        stream=True,
        system=[{"type": "text", "text": "Be good"}],
        tools=[{"name": "read"}, {"type": "web_search_20250305", "name": "web_search"}, "nonsense"],
        messages=[
            {"role": "user", "content": "one"},
            {"role": "user", "content": [result("before")]},
            {"role": "user", "content": [words, {"type": "image"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read"}]},
            {
                "role": "user",
                "content": [result("r1"), result([words]), {"type": "text", "text": "!"}],
            },
        ],
    )
    asked = MESSAGES.read(request)
    assert (asked.model, asked.stream, asked.include_usage) == ("m", True, True)
    assert asked.tools == ("read", "web_search")
    assert asked.messages == ("Be good", "one", "before", "two", "", "r1", "two", "!")
    assert asked.results == ("r1", "two")
    assert asked.size == len(request)
    assert count(asked) == {"input_tokens": len(request) // 4}


@pytest.mark.parametrize(
    "request_", [b"{}", b'{"messages":3,"tools":{},"stream":1,"system":5}', b'{"messages":[null]}']
)
def test_a_request_of_another_shape_is_read_as_empty(request_: bytes) -> None:
    asked = MESSAGES.read(request_)
    assert (asked.stream, asked.tools, asked.messages, asked.results) == (False, (), (), ())


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(BadRequest, match="the scripted model cannot read"):
        MESSAGES.read(b"[]")


@pytest.mark.parametrize(
    "turn",
    [ALL, Turn("a"), Turn(calls=(WRITE,)), Turn(reasoning="r"), Turn(), Turn("a", finish="length")],
)
def test_the_sdk_reads_the_same_streamed_and_whole(turn: Turn) -> None:
    asked = MESSAGES.read(body(stream=True))
    streamed = MESSAGES.frames(turn, asked)
    read = judges.messages(b"".join(streamed.said + streamed.ending), streamed=True)
    full = judges.messages(MESSAGES.whole(turn, asked), streamed=False)
    assert read.to_dict(exclude_unset=False, exclude_none=True) == full.to_dict(
        exclude_unset=False, exclude_none=True
    )


def test_a_whole_answer_holds_everything() -> None:
    answer = whole(ALL)
    key = MESSAGES.read(body()).key
    assert (answer["id"], answer["stop_reason"]) == (f"msg_{key}", "tool_use")
    assert answer["content"] == [
        {"type": "thinking", "thinking": "Think first", "signature": f"signed-{key}"},
        {"type": "text", "text": "Hello you"},
        {"type": "tool_use", "id": f"toolu_{key}_1", "name": "write", "input": {"path": "a"}},
        {
            "type": "tool_use",
            "id": f"toolu_{key}_2",
            "name": "patch",
            "input": {"input": "*** Begin"},
        },
        {"type": "tool_use", "id": "toolu_x", "name": "ls", "input": {}},
    ]


def test_a_stream_tells_each_thing_in_its_order() -> None:
    turn = Turn("ab", "r", (WRITE,), chunk=1, fragments=1)
    assert [event["type"] for event in events(turn)] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert deltas(turn) == [
        {"type": "thinking_delta", "thinking": "r"},
        {"type": "signature_delta", "signature": f"signed-{MESSAGES.read(body()).key}"},
        {"type": "text_delta", "text": "a"},
        {"type": "text_delta", "text": "b"},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"path":"a"}'},
    ]


def test_a_block_begins_empty() -> None:
    begun = [e["content_block"] for e in events(ALL) if e["type"] == "content_block_start"]
    assert begun[0] == {"type": "thinking", "thinking": "", "signature": ""}
    assert begun[1] == {"type": "text", "text": ""}
    assert [block["input"] for block in begun[2:]] == [{}, {}, {}]


@pytest.mark.parametrize("arguments", ['{"a', "", '{"a": 1, "a": 2}', "[1e400]"])
def test_arguments_are_streamed_as_they_are_written(arguments: str) -> None:
    said = deltas(Turn(calls=(ScriptedCall("w", arguments),), fragments=3))
    assert "".join(delta["partial_json"] for delta in said) == arguments


def test_arguments_keep_their_bytes_in_a_whole_answer() -> None:
    turn = Turn(calls=(ScriptedCall("w", '{"a": 1, "a": 2}'), ScriptedCall("w", '{"a')))
    answer = MESSAGES.whole(turn, MESSAGES.read(body()))
    assert b'"input":{"a": 1, "a": 2}' in answer
    assert json.loads(answer)["content"][1]["input"] == '{"a'


def test_an_index_can_be_given() -> None:
    calls = (ScriptedCall("a", "{}", index=7), ScriptedCall("b", "{}"))
    found = [e for e in events(Turn("t", calls=calls)) if e["type"] == "content_block_start"]
    assert [event["index"] for event in found] == [0, 7, 2]


def test_what_ends_a_stream_begins_with_the_end_of_its_last_block() -> None:
    streamed = MESSAGES.frames(Turn(calls=(WRITE,)), MESSAGES.read(body()))
    assert b"input_json_delta" in streamed.said[-1]
    assert [frame.split(b"\n")[0] for frame in streamed.ending] == [
        b"event: content_block_stop",
        b"event: message_delta",
        b"event: message_stop",
    ]


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn("a"), "end_turn"),
        (Turn(calls=(WRITE,)), "tool_use"),
        (Turn(calls=(WRITE,), finish="stop"), "end_turn"),
        (Turn("a", finish="length"), "max_tokens"),
        (Turn("a", finish="content_filter"), "refusal"),
        (Turn("a", finish="pause_turn"), "pause_turn"),
    ],
)
def test_the_finish_fits_streamed_and_whole(turn: Turn, reason: str) -> None:
    assert whole(turn)["stop_reason"] == reason
    assert events(turn)[-2]["delta"] == {"stop_reason": reason, "stop_sequence": None}


def test_usage_is_the_scripts_in_this_apis_words() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    turn = Turn("a", usage=usage)
    assert whole(turn)["usage"] == {"input_tokens": 1, "output_tokens": 2}
    start, *_, delta, _stop = events(turn)
    assert start["message"]["usage"] == {"input_tokens": 1, "output_tokens": 1}
    assert delta["usage"] == {"input_tokens": 1, "output_tokens": 2}


def test_usage_is_estimated() -> None:
    usage = whole(Turn("x" * 40))["usage"]
    assert usage["output_tokens"] == 11
    assert usage["input_tokens"] == len(body()) // 4


def test_equal_requests_get_equal_bytes_and_others_other_ids() -> None:
    assert events(ALL) == events(ALL)
    assert whole(ALL, user="u")["id"] != whole(ALL)["id"]
