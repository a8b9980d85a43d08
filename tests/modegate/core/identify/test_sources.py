"""The places of a session's id: how they are written in a policy, and how agents write an id there."""

from __future__ import annotations

import json

import pytest

from modegate.core.identify.sources import (
    DEFAULT_IDENTIFY,
    DEFAULT_PARENT,
    GIVEN,
    body_names,
    id_in,
    of_parent,
    of_session,
)
from modegate.core.policy.model import Sessions, Source


@pytest.mark.parametrize(
    "text",
    ["", "paths", "path:x", "header", "header:", "header:a b", "body:", "body:a..b", "cookie:a"],
)
def test_an_unknown_source_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not `path`"):
        Source.parse(text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("path", Source("path", "path")),
        ("header:X-Run", Source("header:x-run", "header", name=b"x-run")),
        ("body:a.b", Source("body:a.b", "body", keys=("a", "b"))),
    ],
)
def test_a_source_is_read(text: str, source: Source) -> None:
    assert Source.parse(text) == source


def test_every_default_source_can_be_read() -> None:
    for entries in (DEFAULT_IDENTIFY, DEFAULT_PARENT):
        assert [Source.parse(entry).text for entry in entries] == list(entries)
    assert DEFAULT_IDENTIFY[: len(GIVEN)] == GIVEN


def test_a_policy_takes_the_place_of_a_default() -> None:
    assert [source.text for source in of_session(Sessions())] == list(DEFAULT_IDENTIFY)
    assert [source.text for source in of_parent(Sessions())] == list(DEFAULT_PARENT)
    own = Sessions(identify=("path",), parent=("header:x-my-parent",))
    assert [source.text for source in of_session(own)] == ["path"]
    assert [source.text for source in of_parent(own)] == ["header:x-my-parent"]


def test_the_fields_to_decode() -> None:
    assert body_names(Sessions(identify=("path",))) == {"previous_response_id"}
    assert body_names(Sessions(parent=("body:user.x",))) == {
        "metadata",
        "client_metadata",
        "prompt_cache_key",
        "conversation",
        "previous_response_id",
        "user",
    }


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("header:x-affinity", "title-a", "title-a"),
        ("header:x-session-id", "title-ses_1", "ses_1"),
        ("header:X-Session-Affinity", "ses_1", "ses_1"),
        ("header:x-codex-turn-metadata", json.dumps({"session_id": "s", "turn_id": 3}), "s"),
        ("header:x-codex-turn-metadata", "user_a_session_b", None),
        ("body:metadata.user_id", json.dumps({"device_id": "d", "session_id": "s"}), "s"),
        ("body:metadata.user_id", "user_ab_account__session_s", "s"),
        ("body:metadata.user_id", "alice", None),
        ("body:metadata.user_id", "[1]", None),
        ("body:metadata.user_id", '{"session_id": 1}', None),
        ("body:metadata.user_id", '{"session_id": ""}', None),
        ("body:metadata.user_id", "{}", None),
        ("body:metadata.user_id", "[" * 100_000, None),
        ("body:metadata.user_id", "\udcff", None),
        ("body:other", '{"session_id": "s"}', '{"session_id": "s"}'),
    ],
)
def test_the_id_in_what_an_agent_sends(place: str, text: str, found: str | None) -> None:
    assert id_in(Source.parse(place), text) == found
