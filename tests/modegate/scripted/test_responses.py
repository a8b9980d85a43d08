"""The scripted model's responses, with the OpenAI SDK as judge."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.errors import BadRequest
from modegate.scripted.model import ScriptedCall, Turn
from modegate.scripted.responses import RESPONSES
from support import judges

WRITE = ScriptedCall("write", '{"path":"a"}')
PATCH = ScriptedCall("patch", "*** Begin", custom=True)
SPAWN = ScriptedCall("spawn", "{}", id="c9", namespace="agents")
ALL = Turn("Hello you", "Think first", (WRITE, PATCH, SPAWN), chunk=4)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def events(turn: Turn, **fields: Any) -> list[Any]:
    """Check the framing; give the events."""
    streamed = RESPONSES.frames(turn, RESPONSES.read(body(**fields)))
    found = []
    for frame in streamed.said + streamed.ending:
        name, data, *rest = frame.split(b"\n")
        found.append(json.loads(data.removeprefix(b"data: ")))
        assert (name, rest) == (b"event: " + found[-1]["type"].encode(), [b"", b""])
    return found


def whole(turn: Turn, **fields: Any) -> Any:
    return json.loads(RESPONSES.whole(turn, RESPONSES.read(body(**fields))))


def test_a_request_is_read() -> None:
    request = body(
        stream=True,
        instructions="Be good",
        tools=[
            {"type": "function", "name": "read"},
            {"type": "custom", "name": "patch"},
            {"type": "web_search"},
            {
                "type": "namespace",
                "name": "agents",
                "tools": [{"type": "function", "name": "spawn"}],
            },
            "nonsense",
        ],
        input=[
            {"type": "additional_tools", "role": "developer", "tools": [{"name": "exec"}]},
            {"role": "user", "content": "one"},
            {"type": "function_call_output", "call_id": "c1", "output": "before"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c2", "output": "r1"},
            {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "r2"}]},
        ],
    )
    asked = RESPONSES.read(request)
    assert (asked.model, asked.stream, asked.include_usage, asked.sealed) == (
        "m",
        True,
        True,
        False,
    )
    assert asked.tools == ("read", "patch", "web_search", "spawn", "exec")
    assert asked.messages == ("Be good", "one", "before", "two", "r1", "r2")
    assert asked.results == ("r1", "r2")
    assert asked.size == len(request)


def test_a_text_as_input_is_a_user_message() -> None:
    assert RESPONSES.read(body()).messages == ("hi",)


@pytest.mark.parametrize(
    "request_", [b"{}", b'{"input":3,"tools":{},"stream":1,"include":null}', b'{"input":[null,1]}']
)
def test_a_request_of_another_shape_is_read_as_empty(request_: bytes) -> None:
    asked = RESPONSES.read(request_)
    assert (asked.stream, asked.tools, asked.messages, asked.results) == (False, (), (), ())


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(BadRequest, match="the scripted model cannot read"):
        RESPONSES.read(b"[]")


@pytest.mark.parametrize(
    "turn",
    [ALL, Turn("a"), Turn(calls=(WRITE,)), Turn(reasoning="r"), Turn(), Turn("a", finish="length")],
)
def test_the_sdk_reads_the_same_streamed_and_whole(turn: Turn) -> None:
    asked = RESPONSES.read(body(stream=True))
    streamed = RESPONSES.frames(turn, asked)
    last = json.loads(streamed.ending[-1].split(b"data: ")[1])["response"]
    assert last == json.loads(RESPONSES.whole(turn, asked))
    if turn.finish is None:  # the SDK has no final response of one that is incomplete
        read = judges.responses(b"".join(streamed.said + streamed.ending), streamed=True)
        assert [item.id for item in read.output] == [item["id"] for item in last["output"]]
    response = judges.responses(RESPONSES.whole(turn, asked), streamed=False)
    assert response.output_text == turn.text
    assert [
        getattr(item, "arguments", getattr(item, "input", None))
        for item in response.output
        if item.type in ("function_call", "custom_tool_call")
    ] == [call.arguments for call in turn.calls]


def test_a_whole_answer_holds_everything() -> None:
    answer = whole(ALL)
    key = RESPONSES.read(body()).key
    assert (answer["id"], answer["status"], answer["model"]) == (f"resp_{key}", "completed", "m")
    reasoning, message, write, patch, spawn = answer["output"]
    assert reasoning == {
        "id": f"rs_{key}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Think first"}],
    }
    assert message["content"] == [
        {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello you"}
    ]
    assert write == {
        "id": f"fc_{key}_1",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{key}_1",
        "name": "write",
        "arguments": WRITE.arguments,
    }
    assert (patch["type"], patch["id"], patch["input"]) == (
        "custom_tool_call",
        f"ctc_{key}_2",
        PATCH.arguments,
    )
    assert (spawn["call_id"], spawn["namespace"]) == ("c9", "agents")


def test_a_stream_tells_each_thing_in_its_order() -> None:
    turn = Turn("ab", "r", (WRITE, PATCH), chunk=1, fragments=1)
    kinds = [event["type"].removeprefix("response.") for event in events(turn)]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]


def test_events_are_numbered_and_name_their_item() -> None:
    found = events(ALL)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    for before, event in pairwise(found):
        if "item_id" in event:
            known = before.get("item_id", before.get("item", {}).get("id"))
            assert (event["item_id"], event["output_index"]) == (known, before["output_index"])


def test_an_item_begins_empty() -> None:
    begun = [e["item"] for e in events(ALL) if e["type"] == "response.output_item.added"]
    assert [item.get("status") for item in begun] == [None, *["in_progress"] * 4]
    assert (begun[0]["summary"], begun[1]["content"]) == ([], [])
    assert (begun[2]["arguments"], begun[3]["input"], begun[4]["name"]) == ("", "", "spawn")


def test_an_index_can_be_given() -> None:
    calls = (ScriptedCall("a", "{}", index=7), ScriptedCall("b", "{}"))
    found = [e for e in events(Turn("t", calls=calls)) if e["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in found] == [0, 7, 2]


def test_what_ends_a_stream_begins_with_the_end_of_its_last_item() -> None:
    streamed = RESPONSES.frames(Turn(calls=(WRITE,)), RESPONSES.read(body()))
    assert streamed.said[-1].startswith(b"event: response.function_call_arguments.delta")
    assert [frame.split(b"\n")[0] for frame in streamed.ending] == [
        b"event: response.function_call_arguments.done",
        b"event: response.output_item.done",
        b"event: response.completed",
    ]


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        (None, "completed", None),
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_the_finish_fits_streamed_and_whole(finish: str, status: str, reason: Any) -> None:
    turn = Turn("a", calls=(WRITE,), finish=finish)
    answer = whole(turn)
    assert (answer["status"], answer["incomplete_details"]) == (status, reason)
    assert [item["status"] for item in answer["output"]] == ["completed", status]
    assert events(turn)[-1]["type"] == f"response.{status}"


def test_usage_is_the_scripts_in_this_apis_words() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "x": 4}
    assert whole(Turn("a", usage=usage))["usage"] == {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "x": 4,
    }


def test_usage_is_estimated() -> None:
    usage = whole(Turn("x" * 40))["usage"]
    assert usage["output_tokens"] == 11
    assert usage["total_tokens"] == usage["input_tokens"] + 11


def test_the_request_is_repeated() -> None:
    tools = [{"type": "function", "name": "read"}]
    fields = {"previous_response_id": "resp_1", "instructions": "Be good", "tools": tools}
    answer = whole(Turn("a"), **fields, store=False, conversation="conv_1")
    assert {name: answer[name] for name in fields} == fields
    assert (answer["store"], answer["conversation"]) == (False, {"id": "conv_1"})
    assert whole(Turn("a"), conversation={"id": "conv_2"})["conversation"] == {"id": "conv_2"}
    plain = whole(Turn("a"))
    assert (plain["store"], plain["previous_response_id"]) == (True, None)
    assert "conversation" not in plain


def test_reasoning_is_sealed_if_that_is_asked_for() -> None:
    include = ["reasoning.encrypted_content"]
    assert whole(Turn(reasoning="r"), include=include)["output"][0]["encrypted_content"]


def test_equal_requests_get_equal_bytes_and_others_other_ids() -> None:
    assert events(ALL) == events(ALL)
    assert whole(ALL, user="u")["id"] != whole(ALL)["id"]
