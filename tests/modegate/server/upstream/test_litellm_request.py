"""What of a body goes to a translated provider."""

from __future__ import annotations

import json

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.dialects.responses.request.stored import unstored
from modegate.core.errors import BadRequest, DialectName
from modegate.core.wire.request_body import RequestBody
from modegate.server.upstream.litellm_request import Asked, asked, model_for, renamed
from support.dialect_facts import translation


@pytest.mark.parametrize(
    ("pattern", "model", "expected"),
    [
        ("gemini/*", "gemini-2.5-pro", ("gemini", "gemini-2.5-pro")),
        ("gemini/*", "gemini/gemini-2.5-pro", ("gemini", "gemini-2.5-pro")),
        ("openrouter/acme/*", "m", ("openrouter", "acme/m")),
        ("anthropic/claude-x", "m", ("anthropic", "claude-x")),
        ("anthropic/claude-x", None, ("anthropic", "claude-x")),
    ],
)
def test_the_star_is_the_clients_model(
    pattern: str, model: str | None, expected: tuple[str, str]
) -> None:
    assert model_for(pattern, model) == expected


def test_without_a_model_there_is_nothing_to_ask() -> None:
    with pytest.raises(BadRequest, match="names no model"):
        model_for("gemini/*", None)


@pytest.mark.parametrize("dialect", DIALECTS.names)
def test_only_what_the_dialect_knows_goes_on(dialect: DialectName) -> None:
    """No address, key or switch of the library is among it."""
    every = dict.fromkeys(translation(dialect).fields, 1) | {
        "stream": True,
        "metadata": {"user_id": "u"},
    }
    more = {"api_base": "x", "api_key": "x", "mock_response": "x", "model": "m"}
    got = asked(translation(dialect), json.dumps(every | more).encode())
    assert (got.model, got.streamed) == ("m", True)
    assert got.arguments.keys() == translation(dialect).fields
    for name in ("api_base", "base_url", "api_key", "model", "mock_response", "extra_headers"):
        assert name not in translation(dialect).fields


def test_a_null_is_left_out_and_half_a_pair_is_read() -> None:
    body = b'{"model": 1, "messages": "\\ud83d", "stop": null, "stream": "true"}'
    got = asked(translation("chat"), body)
    assert got == Asked(None, {"messages": "\ufffd", "stream": "true"})
    assert not got.streamed


def test_tools_that_would_be_run_here_are_left_out() -> None:
    kept = [
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "g"},
        {"type": "namespace", "tools": []},
        {"type": "web_search_20250305"},
        {"type": "bash_20250124"},
        {"name": "h", "input_schema": {}},
    ]
    dropped = [
        {"type": "mcp", "server_url": "litellm_proxy"},
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "code_interpreter"},
        {"type": "shell"},
        {"type": ["function"]},
        "function",
    ]
    body = json.dumps({"tools": [*dropped, *kept]}).encode()
    assert asked(translation("responses"), body).arguments == {"tools": kept}
    assert asked(translation("chat"), json.dumps({"tools": dropped}).encode()).arguments == {}
    assert asked(translation("chat"), b'{"tools": 1}').arguments == {"tools": 1}


def test_metadata_of_messages_is_its_user_alone() -> None:
    body = b'{"messages": [], "metadata": {"user_id": "u", "tags": ["x"]}}'
    assert asked(translation("messages"), body).arguments["metadata"] == {"user_id": "u"}
    assert (
        "metadata"
        not in asked(translation("messages"), b'{"messages": [], "metadata": 1}').arguments
    )


@pytest.mark.parametrize(
    ("dialect", "body", "words"),
    [
        ("chat", b"[]", "not a JSON object"),
        ("chat", b"{", "not a JSON object"),
        ("chat", b"[" * 5000, "not a JSON object"),
        ("responses", b'{"previous_response_id": "r"}', "previous_response_id"),
        ("responses", b'{"prompt": {"id": "p"}}', "prompt"),
    ],
)
def test_what_translation_cannot_give_is_refused(
    dialect: DialectName, body: bytes, words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        asked(translation(dialect), body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{ "model" : "a", "n":1.0 }', b'{ "model" : "x", "n":1.0 }'),
        (b'{"model":"a","model":"b"}', b'{"model":"x","model":"x"}'),
        (b'{"n":1}', b'{"n":1}'),
    ],
)
def test_the_model_is_renamed_and_nothing_else(body: bytes, expected: bytes) -> None:
    assert renamed(body, "anthropic/x") == expected


def test_a_body_that_cannot_be_read_cannot_be_renamed() -> None:
    with pytest.raises(BadRequest):
        renamed(b"{", "anthropic/x")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{ "input":1}', b'{"store":false, "input":1}'),
        (b" {}", b' {"store":false}'),
        (b'{"a":1.0, "store" : true }', b'{"a":1.0, "store" : false }'),
        (b'{"store":null,"store":true}', b'{"store":false,"store":false}'),
        (b"[1]", b"[1]"),
        (b"{", b"{"),
    ],
)
def test_nothing_is_asked_to_be_stored(body: bytes, expected: bytes) -> None:
    assert unstored(RequestBody(body)) == expected


def test_a_signature_in_a_calls_id_is_given_back_beside_it() -> None:
    call = {"type": "tool_use", "id": "c__thought__c2ln"}
    others = [1, {"type": "text", "id": "c__thought__x"}, {"type": "tool_use", "id": "c"}]
    messages = [1, {"content": "x"}, {"content": [*others, call]}]
    given = asked(translation("messages"), json.dumps({"messages": messages}).encode()).arguments[
        "messages"
    ]
    assert given[2]["content"][:3] == others
    assert given[2]["content"][3] == call | {"provider_specific_fields": {"signature": "c2ln"}}
    assert asked(translation("messages"), b'{"messages": 1}').arguments["messages"] == 1
