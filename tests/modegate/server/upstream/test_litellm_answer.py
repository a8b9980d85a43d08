"""What of an answer by translation comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.chat.translation import chat_object
from modegate.core.dialects.messages.translation import messages_frame, messages_object
from modegate.core.dialects.responses.translation import responses_object
from modegate.core.errors import DialectName
from modegate.core.step.translation import named_frame
from modegate.server.upstream.litellm_answer import MESSAGE_LIMIT, join_thinking, told
from modegate.server.upstream.litellm_request import asked
from support.dialect_facts import translation


def test_a_chat_completion_keeps_what_the_dialect_knows() -> None:
    call = {
        "index": 2,
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "provider_specific_fields": {},
    }
    message = {
        "role": "assistant",
        "tool_calls": [call],
        "images": [],
        "provider_specific_fields": 1,
    }
    given = {
        "id": "i",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "x": 1}],
        "usage": {"prompt_tokens": 1, "cache_read_input_tokens": 3},
        "vertex_ai_safety_results": [],
    }
    kept = {key: call[key] for key in ("id", "type", "function")}
    assert chat_object(given) == {
        "id": "i",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "tool_calls": [kept], "content": None},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1},
    }


def test_a_text_alone_stays_as_it_is() -> None:
    message = {"role": "assistant", "content": "x"}
    (choice,) = chat_object({"choices": [{"index": 0, "message": message}]})["choices"]
    assert choice["message"] == message


def test_a_chunk_keeps_the_places_of_its_calls_and_says_that_it_is_not_the_last() -> None:
    call = {"index": 1, "function": {"arguments": "{"}}
    given = {"choices": [{"index": 0, "delta": {"tool_calls": [call], "images": ["x"]}}]}
    (choice,) = chat_object(given)["choices"]
    assert choice == {
        "index": 0,
        "delta": {"tool_calls": [call], "images": ["x"]},
        "finish_reason": None,
    }


REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "t"}],
}
MENDED = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "t"}]}


@pytest.mark.parametrize("wrap", [False, True], ids=["whole", "event"])
def test_reasoning_items_are_what_the_responses_api_has(wrap: bool) -> None:
    call = {"type": "function_call", "call_id": "c", "provider_specific_fields": {}}
    response = {
        "output": [dict(REASONING), call],
        "usage": {"input_tokens": 1, "cost": 0.1},
        "provider_specific_fields": {},
    }
    given = {"type": "response.completed", "response": response} if wrap else response
    got = responses_object(given)
    response = got["response"] if wrap else got
    assert response == {
        "output": [MENDED, {"type": "function_call", "call_id": "c"}],
        "usage": {"input_tokens": 1},
    }


def test_an_item_that_ends_carries_what_the_provider_wants_back() -> None:
    event = {"type": "response.output_item.done", "item": dict(REASONING)}
    assert responses_object(event, "[]")["item"] == MENDED | {"encrypted_content": "[]"}
    done = {"type": "response.output_item.done", "item": dict(MENDED)}
    assert responses_object(done)["item"] == MENDED


def test_a_signature_travels_in_the_calls_id_and_back() -> None:
    block = {"type": "tool_use", "id": "c", "provider_specific_fields": {"signature": "c2ln"}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    sent = messages_frame(named_frame(start))
    (data,) = [line for line in sent.split(b"\n") if line.startswith(b"data: ")]
    back = json.loads(data.removeprefix(b"data: "))["content_block"]
    assert back == {"type": "tool_use", "id": "c__thought__c2ln"}
    body = json.dumps({"messages": [1, {"content": "x"}, {"content": [1, back]}]}).encode()
    given = asked(translation("messages"), body).arguments["messages"][2]["content"][1]
    assert given == back | {"provider_specific_fields": {"signature": "c2ln"}}


def test_other_frames_and_blocks_of_messages_stay() -> None:
    odd = b'event: ping\ndata: { "type":"ping" }\n\n'
    assert messages_frame(odd) == odd
    text = {"type": "text", "text": "x"}
    signed = {"type": "tool_use", "id": "c__thought__x"}
    more = {"provider_specific_fields": {"signature": "x"}}
    given = {"content": [text | more, signed | more]}
    assert messages_object(given) == {"content": [text, signed]}


def test_frames_are_those_of_the_dialect() -> None:
    chunk = b'data: {"id":"a","choices":[]}\n\n'
    assert translation("chat").frame({"id": "a", "b": 1}, lambda: None) == chunk
    event = b'event: response.created\ndata: {"type":"response.created"}\n\n'
    assert translation("responses").frame({"type": "response.created"}, lambda: None) == event


@pytest.mark.parametrize(
    ("dialect", "status", "kind"),
    [
        ("chat", 400, "invalid_request_error"),
        ("chat", 401, "authentication_error"),
        ("responses", 429, "rate_limit_error"),
        ("chat", 503, "server_error"),
        ("messages", 401, "authentication_error"),
        ("messages", 422, "invalid_request_error"),
        ("messages", 529, "overloaded_error"),
        ("messages", 500, "api_error"),
    ],
)
def test_an_error_is_told_as_the_dialect_tells_it(
    dialect: DialectName, status: int, kind: str
) -> None:
    body = json.loads(translation(dialect).failure(status, "words"))
    assert (body["error"]["type"], body["error"]["message"]) == (kind, "words")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('litellm.X: YException - {"error": {"message": "too long"}}', "too long"),
        ('litellm.X: b\'{"error": {"message": "too long"}}\'. Handle with `X`.', "too long"),
        ("litellm.X: nothing to read", "litellm.X: nothing to read"),
        ('{"error": "words"}', '{"error": "words"}'),
        ('{"error": {"message": 1}}', '{"error": {"message": 1}}'),
        ('{"error": {"message": "no k-geheim here"}}', "no *** here"),
        ("x" * 3000, "x" * MESSAGE_LIMIT),
    ],
)
def test_a_providers_words_are_told_and_its_credential_is_not(text: str, expected: str) -> None:
    assert told(text, "k-geheim") == expected


def test_without_a_credential_there_is_nothing_to_hide() -> None:
    assert told("k-geheim") == "k-geheim"


def test_pieces_of_thinking_are_joined_as_they_were_signed() -> None:
    blocks: list[dict[str, Any]] = []
    for piece in (
        {"type": "thinking", "thinking": "a"},
        {"type": "thinking", "thinking": "b"},
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "c", "signature": "T"},
        {"type": "thinking", "thinking": "d"},
    ):
        join_thinking(blocks, piece)
    assert blocks == [
        {"type": "thinking", "thinking": "ab", "signature": "S"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "c", "signature": "T"},
        {"type": "thinking", "thinking": "d", "signature": ""},
    ]
