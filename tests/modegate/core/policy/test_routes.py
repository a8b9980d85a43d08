"""Which upstream a request goes to, by its dialect and model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import BadRequest, DialectName
from modegate.core.policy.routes import (
    api_of,
    choose,
    has_model,
    model_of_body,
    model_of_path,
    wants_model,
)
from modegate.core.policy.upstreams import Route
from modegate.core.wire.headers import Headers
from modegate.core.wire.request_body import RequestBody

ROUTES = (
    Route("anthropic", "messages"),
    Route("gemini", "chat", "gemini-*"),
    Route("local", None, "llama?"),
    Route("answers", "responses"),
)


@pytest.mark.parametrize(
    ("dialect", "model", "expected"),
    [
        ("messages", "llama3", "anthropic"),
        ("messages", None, "anthropic"),
        ("chat", "gemini-2.5-pro", "gemini"),
        ("chat", "Gemini-2.5-pro", None),
        ("chat", "x/gemini-2.5-pro", None),
        ("chat", "llama3", "local"),
        ("chat", "llama33", None),
        ("chat", None, None),
        ("responses", "gemini-2.5-pro", "answers"),
        ("responses", "llama3", "local"),
        ("responses", None, "answers"),
    ],
)
def test_the_first_route_that_fits_wins(
    dialect: DialectName, model: str | None, expected: str | None
) -> None:
    assert choose(ROUTES, dialect, model) == expected


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ((), {"chat": False, "responses": False, "messages": False}),
        (ROUTES, {"chat": True, "responses": True, "messages": False}),
        ((Route("a"), Route("b", None, "x")), dict.fromkeys(DIALECTS.names, False)),
        ((Route("b", "chat", "x"), Route("a")), {"chat": True, "responses": False}),
    ],
    ids=["no routes", "several", "all taken before", "all taken behind"],
)
def test_the_model_is_asked_for_only_where_it_decides(
    routes: tuple[Route, ...], expected: dict[DialectName, bool]
) -> None:
    assert {dialect: wants_model(routes, dialect) for dialect in expected} == expected


@given(
    st.lists(
        st.builds(
            Route,
            st.sampled_from("abc"),
            st.sampled_from([None, *DIALECTS.names]),
            st.sampled_from([None, "x", "y*"]),
        )
    ),
    st.sampled_from(DIALECTS.names),
    st.sampled_from(["x", "yz", "q"]),
)
def test_where_the_model_is_not_asked_for_it_changes_nothing(
    routes: list[Route], dialect: DialectName, model: str
) -> None:
    if not wants_model(routes, dialect):
        assert choose(routes, dialect, model) == choose(routes, dialect, None)


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("POST", b"/v1/chat/completions", [], "chat"),
        ("POST", b"/v1/chat/completions", [(b"anthropic-version", b"1")], "chat"),
        ("POST", b"/v1/responses", [], "responses"),
        ("POST", b"/v1/messages", [], "messages"),
        ("POST", b"/v1/messages/count_tokens", [], "messages"),
        ("POST", b"/s/x/v1/messages/batches", [], "messages"),
        ("GET", b"/v1/models", [], "chat"),
        ("GET", b"/v1/models", [(b"anthropic-version", b"2023-06-01")], "messages"),
        ("GET", b"/v1/responses/resp_1", [], "responses"),
        ("POST", b"/responses/resp_1/cancel", [], "responses"),
        ("POST", b"/v1/conversations", [], "responses"),
        ("POST", b"/v1/responsesx", [], "chat"),
        ("POST", b"/v1/embeddings", [], "chat"),
        ("POST", b"/openai/deployments/gpt/chat/completions", [], "chat"),
    ],
)
def test_every_request_belongs_to_an_api(
    method: str, path: bytes, headers: Headers, expected: DialectName
) -> None:
    assert api_of(DIALECTS.apis, DIALECTS.apis.classify(method, path), headers).name == expected


@pytest.mark.parametrize(
    ("path", "content_type", "expected"),
    [
        (b"/v1/messages", None, True),
        (b"/v1/chat/completions", b"text/plain", True),
        (b"/v1/embeddings", b"application/json", True),
        (b"/v1/embeddings", b"Application/JSON; charset=utf-8", True),
        (b"/v1/embeddings", None, False),
        (b"/v1/files", b"multipart/form-data; boundary=x", False),
    ],
)
def test_uploads_are_not_taken_whole_for_their_model(
    path: bytes, content_type: bytes | None, expected: bool
) -> None:
    headers = [(b"content-type", content_type)] if content_type else []
    assert has_model(DIALECTS.apis.classify("POST", path), headers) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/openai/deployments/gpt-4o/chat/completions", "gpt-4o"),
        (b"/openai/deployments/my%20gpt/embeddings", "my gpt"),
        (b"/openai/deployments/gpt-4o", None),
        (b"/v1/openai/deployments/gpt-4o/x", None),
        (b"/v1/chat/completions", None),
    ],
)
def test_a_deployment_in_the_path_is_the_model(path: bytes, expected: str | None) -> None:
    assert model_of_path(DIALECTS.apis, DIALECTS.apis.classify("POST", path)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', "m"),
        (b' {"messages":[{"model":"inner"}], "model" : "a\\u00e9b"}\n', "aéb"),
        (b'{"x":"\\ud83d","model":"m"}', "m"),
        (b'{"model":"m","model":"m"}', "m"),
        (b'{"Model":"m"}', None),
        (b'{"model":7}', None),
        (b'{"messages":[]}', None),
        (b'["model"]', None),
        (b'{"model":"m"', None),
        (b"\x1f\x8b", None),
        (b"", None),
        (b"[" * 5000, None),
    ],
)
def test_the_model_of_a_body(body: bytes, expected: str | None) -> None:
    assert model_of_body(RequestBody(body)) == expected


@pytest.mark.parametrize("body", [b'{"model":"a","model":"b"}', b'{"model":"a","model":null}'])
def test_two_models_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="two models"):
        model_of_body(RequestBody(body))


@given(st.binary())
def test_no_body_breaks_the_choice(body: bytes) -> None:
    assert model_of_body(RequestBody(body)) is None


@given(st.text(st.characters(exclude_categories=["Cs"])), st.dictionaries(st.text(), st.integers()))
def test_any_name_is_read_as_json_has_it(model: str, more: dict[str, int]) -> None:
    assert model_of_body(RequestBody(json.dumps(more | {"model": model}).encode())) == model
