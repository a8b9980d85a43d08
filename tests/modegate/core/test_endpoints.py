"""Known endpoints are known by their bytes; whatever only looks like one is `other`."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modegate.core.dialects.registered import DIALECTS
from modegate.core.endpoints import Api, Apis, Endpoint, Kind, Operation
from modegate.core.errors import BadSession
from modegate.core.ids import fits_session_id


@pytest.mark.parametrize(
    ("path", "name", "dialect"),
    [
        (b"/chat/completions", "chat", "chat"),
        (b"/responses", "responses", "responses"),
        (b"/messages", "messages", "messages"),
        (b"/messages/count_tokens", "count_tokens", "messages"),
        (b"/responses/input_tokens", "input_tokens", "responses"),
        (b"/responses/compact", "compact", "responses"),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
@pytest.mark.parametrize("base", [b"/v1", b""], ids=["v1", "bare"])
@pytest.mark.parametrize("slash", [b"", b"/"], ids=["", "B126-one-slash"])
@pytest.mark.parametrize("prefix", [b"", b"/s/S.1"], ids=["", "session"])
def test_gated_endpoints(
    prefix: bytes, base: bytes, path: bytes, slash: bytes, name: str, dialect: str
) -> None:
    endpoint = DIALECTS.apis.classify("POST", prefix + base + path + slash)
    api = DIALECTS.named(dialect).api
    (operation,) = [one for one in api.operations if one.name == name]
    path = base + path + slash
    assert endpoint == Endpoint(Kind.GATED, endpoint.session, path, api, operation)
    assert endpoint.session == ("S.1" if prefix else None)
    assert endpoint.gated
    assert (endpoint.dialect, endpoint.name) == (dialect, name)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", b"/"),
        ("HEAD", b"/v1/models"),
        ("GET", b"/v1/models"),
        ("GET", b"/models"),
        ("GET", b"/v1/models/gpt-5.5"),
        ("GET", b"/v1/models/openai%2Fgpt-5"),
        ("GET", b"/v1/models/openai/gpt-5:online"),
        ("GET", b"/v1/models/ft%3Agpt@1"),
        ("POST", b"/v1/embeddings"),
        ("POST", b"/v1/moderations"),
        ("POST", b"/v1/audio/transcriptions"),
        ("POST", b"/v1/audio/translations"),
        ("POST", b"/v1/audio/speech"),
        ("GET", b"/v1/files"),
        ("POST", b"/v1/files"),
        ("GET", b"/v1/files/file-a_1"),
        ("DELETE", b"/v1/files/file-a_1"),
        ("GET", b"/v1/files/file-a_1/content"),
        ("GET", b"/api/hello"),
        ("HEAD", b"/api/hello"),
        ("OPTIONS", b"/v1/chat/completions"),
        ("OPTIONS", b"/v1/anything"),
    ],
)
def test_b124_b125_harmless_endpoints(method: str, path: bytes) -> None:
    endpoint = DIALECTS.apis.classify(method, path)
    assert endpoint == Endpoint(Kind.HARMLESS, None, path, DIALECTS.apis.first)
    assert not endpoint.gated
    assert endpoint.dialect == "chat"
    assert DIALECTS.apis.classify(method, b"/s/S" + path).kind == Kind.HARMLESS


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", b"/v1/chat/completions//"),
        ("POST", b"/v1/responses//"),
        ("POST", b"//v1/chat/completions"),
        ("POST", b"/v1//chat/completions"),
        ("POST", b"/v1/./chat/completions"),
        ("POST", b"/v1/x/../chat/completions"),
        ("POST", b"/v1/chat%2Fcompletions"),
        ("POST", b"/v1/ch%61t/completions"),
        ("POST", b"/v1\\chat\\completions"),
        ("POST", b"/v1/chat/completions;a=b"),
        ("POST", b"/v1/chat/completions?a=b"),
        ("POST", b"/v1/chat/completions\n"),
        ("POST", b"/v1/Chat/Completions"),
        ("POST", b"/V1/chat/completions"),
        ("POST", b"/v1/v1/chat/completions"),
        ("POST", b"/v10/chat/completions"),
        ("POST", b"/S/x/v1/chat/completions"),
        ("POST", b"//s/x/v1/chat/completions"),
        ("POST", b"/%73/x/v1/chat/completions"),
        ("POST", b"/s/x/s/y/v1/chat/completions"),
        ("POST", b"/s/x//v1/chat/completions"),
        ("post", b"/v1/chat/completions"),
        ("GET", b"/v1/chat/completions"),
        ("PUT", b"/v1/chat/completions"),
        ("GET", b"/v1/responses"),
        ("POST", b"/v1/messages/batches"),
        ("POST", b"/v1/completions"),
        ("POST", b"/v1/images/generations"),
        ("POST", b"/v1/batches"),
        ("POST", b"/v1/threads/t1/runs"),
        ("GET", b"/v1/realtime"),
        ("POST", b"/api/chat"),
        ("POST", b"/openai/deployments/d/chat/completions"),
        ("POST", b"/v1beta/models/m:streamGenerateContent"),
        ("POST", b"/v1/models/m"),
        ("DELETE", b"/v1/models/m"),
        ("GET", b"/v1/models/.."),
        ("GET", b"/v1/models/..%2Fresponses"),
        ("GET", b"/v1/models/a/../../responses/r1"),
        ("GET", b"/v1/models/a%2f%2e%2e"),
        ("GET", b"/v1/models/a\n"),
        ("GET", b"/v1/models//"),
        ("GET", b"/v1/files/a/b"),
        ("GET", b"/"),
        ("POST", b"/"),
        ("POST", b""),
        ("GET", b"/v1"),
        ("GET", b"/s"),
    ],
)
def test_b126_look_alikes_and_all_else_are_other(method: str, path: bytes) -> None:
    assert DIALECTS.apis.classify(method, path).kind == Kind.OTHER


@pytest.mark.parametrize(
    ("raw", "session", "path"),
    [
        (b"/s/S", "S", b"/"),
        (b"/s/S/", "S", b"/"),
        (b"/s/a:b/v1/models", "a:b", b"/v1/models"),
        (b"/s/a%3Ab/v1/models", "a:b", b"/v1/models"),
        (b"/s/S/x%20y//z", "S", b"/x%20y//z"),
        (b"/v1/s/S", None, b"/v1/s/S"),
    ],
)
def test_the_prefix_goes_and_every_other_byte_stays(
    raw: bytes, session: str | None, path: bytes
) -> None:
    endpoint = DIALECTS.apis.classify("GET", raw)
    assert (endpoint.session, endpoint.path) == (session, path)


@pytest.mark.parametrize(
    "segment",
    [
        b"",
        b".",
        b"..",
        b"%2e%2e",
        b"a%2Fb",
        b"a%00",
        b"a%20",
        b"a%",
        b"a\xff",
        b"%C3%A9",
        b"-a",
        b"a" * 129,
    ],
)
def test_b133_a_malformed_session_in_the_path_is_refused(segment: bytes) -> None:
    with pytest.raises(BadSession, match="is not valid"):
        DIALECTS.apis.classify("POST", b"/s/" + segment + b"/v1/chat/completions")


@given(st.binary(max_size=40) | st.from_regex(rb"/s/[^/]{0,5}(/v1)?/(chat/completions|models)/?"))
@example(b"/s/a\xff/v1")
def test_the_path_that_is_forwarded_is_the_end_of_the_path_that_came(raw: bytes) -> None:
    try:
        endpoint = DIALECTS.apis.classify("POST", raw)
    except BadSession:
        assert raw.startswith(b"/s/")
        return
    assert raw.endswith(endpoint.path) or endpoint.path == b"/"
    if endpoint.session is None:
        assert endpoint.path == raw
    else:
        assert fits_session_id(endpoint.session)
    if endpoint.gated:
        known = endpoint.path.removeprefix(b"/v1").removesuffix(b"/")
        assert known in (
            b"/chat/completions",
            b"/responses",
            b"/messages",
            b"/messages/count_tokens",
        )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b"/v1/v1/messages", "leave that out"),
        (b"/v1/v1/chat/completions", "leave that out"),
        (b"/v1/assistants", "/v1/messages"),
        (b"/v1/v10/x", "/v1/responses"),
    ],
)
def test_o16_what_to_do_about_another_path(path: bytes, words: str) -> None:
    assert words in DIALECTS.apis.advice(path)


def test_o16_a_path_with_a_version_of_its_own_is_told_as_it_is() -> None:
    operations = (Operation("generate", "/v1beta/models/{model}:generate"),)
    other = Api(name="other", home="https://other.invalid", operations=operations)
    apis = Apis((DIALECTS.apis.first, other))
    told = "use /v1/chat/completions or /v1beta/models/{model}:generate"
    assert apis.advice(b"/v1/assistants") == told
    assert apis.classify("POST", b"/v1beta/models/m:generate").operation == operations[0]
