"""The session of a request: the first source of the list that has an id, made safe; else derived."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import BadSession
from modegate.core.identify.body import BodyFields, body_fields
from modegate.core.identify.session import (
    AGENT_LIMIT,
    PREVIOUS_LIMIT,
    Head,
    Identified,
    from_head,
    identify,
    lane,
)
from modegate.core.identify.sources import DEFAULT_IDENTIFY, body_names
from modegate.core.ids import LOCAL, SessionKey, Tenant, fits_session_id
from modegate.core.policy.model import Sessions
from modegate.core.wire.headers import Headers
from modegate.core.wire.request_body import RequestBody

UUID = "01a22a42-c6dc-7ea1-8bfc-fa55862dcc6e"
DEFAULT = Sessions()
REJECT = Sessions(when_missing="reject")


def head(path: str = "/v1/chat/completions", /, **lines: str) -> Head:
    """Build a head; `x_session_id="a"` becomes the line `x-session-id: a`."""
    headers = [(k.replace("_", "-").encode(), v.encode()) for k, v in lines.items()]
    return Head("POST", DIALECTS.apis.classify("POST", path.encode()), headers)


def of_body(body: dict[str, Any], sessions: Sessions = DEFAULT) -> Identified:
    fields = body_fields(RequestBody(json.dumps(body).encode()), body_names(sessions))
    return identify(head(), fields, sessions, LOCAL)


def user(*parts: str) -> dict[str, Any]:
    """Build a body whose first user message has these parts; a single one is a plain string."""
    content: Any = parts[0] if len(parts) == 1 else [{"type": "text", "text": p} for p in parts]
    return {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("request_head", "session", "how"),
    [
        pytest.param(head("/s/S.1/v1/chat/completions"), "S.1", "path", id="any-agent-by-path"),
        pytest.param(
            head(x_modegate_session="S:1"), "S:1", "header:x-modegate-session", id="given"
        ),
        pytest.param(
            head(x_claude_code_session_id=UUID),
            UUID,
            "header:x-claude-code-session-id",
            id="claude",
        ),
        pytest.param(head(session_id=UUID, thread_id="t"), UUID, "header:session-id", id="codex"),
        pytest.param(
            head(x_codex_turn_metadata=json.dumps({"session_id": UUID, "turn_id": "t"})),
            UUID,
            "header:x-codex-turn-metadata",
            id="codex-turn-metadata",
        ),
        pytest.param(
            head(x_session_id="ses_dd5", x_session_affinity="ses_dd5"),
            "ses_dd5",
            "header:x-session-id",
            id="opencode",
        ),
        pytest.param(
            head(x_session_id="title-ses_dd5"), "ses_dd5", "header:x-session-id", id="kilo-title"
        ),
        pytest.param(
            head(x_session_affinity="title-ses_dd5"),
            "ses_dd5",
            "header:x-session-affinity",
            id="kilo-title-affinity",
        ),
        pytest.param(head(x_affinity=UUID), UUID, "header:x-affinity", id="vibe"),
    ],
)
def test_the_head_alone_identifies_known_agents(request_head: Head, session: str, how: str) -> None:
    found = from_head(request_head, DEFAULT, LOCAL)
    assert found is not None
    assert (found.key, found.how) == (SessionKey(LOCAL, found.key.session), how)
    assert found.key.session == session
    assert found.given is (how in ("path", "header:x-modegate-session"))
    assert (found.derived, found.parent, found.disagree) == (False, None, ())
    assert identify(request_head, BodyFields(), REJECT, LOCAL) == found


@pytest.mark.parametrize(
    ("body", "session", "how"),
    [
        pytest.param(
            {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": UUID})}},
            UUID,
            "body:metadata.user_id",
            id="claude",
        ),
        pytest.param(
            {"metadata": {"user_id": f"user_ab_account__session_{UUID}"}},
            UUID,
            "body:metadata.user_id",
            id="claude-older",
        ),
        pytest.param(
            {"metadata": {"user_id": "user_x_account_y_session_z"}},
            "z",
            "body:metadata.user_id",
            id="B131-sub-agents-share-the-session",
        ),
        pytest.param(
            {"metadata": {"user_id": "u1", "session_id": "m1"}, "prompt_cache_key": "k1"},
            "m1",
            "body:metadata.session_id",
            id="a-plain-user-is-no-session",
        ),
        pytest.param(
            {"metadata": {"user_id": "[1]", "sessionId": "m2"}},
            "m2",
            "body:metadata.sessionId",
            id="user-id-is-other-json",
        ),
        pytest.param(
            {"client_metadata": {"session_id": UUID}},
            UUID,
            "body:client_metadata.session_id",
            id="codex-client-metadata",
        ),
        pytest.param({"prompt_cache_key": UUID}, UUID, "body:prompt_cache_key", id="openhands"),
        pytest.param({"conversation": "conv_1"}, "conv_1", "body:conversation", id="conversation"),
        pytest.param(
            {"conversation": {"id": "conv_2"}}, "conv_2", "body:conversation.id", id="as-object"
        ),
    ],
)
def test_the_body_identifies_where_the_head_does_not(
    body: dict[str, Any], session: str, how: str
) -> None:
    assert from_head(head(), DEFAULT, LOCAL) is None
    found = of_body(body, REJECT)
    assert (found.key.session, found.how, found.given, found.derived) == (
        session,
        how,
        False,
        False,
    )


@pytest.mark.parametrize(
    "metadata", [None, 3, "x", [], {}, {"user_id": 3}, {"user_id": "  "}, {"session_id": ""}]
)
def test_what_holds_no_id_is_passed_over(metadata: Any) -> None:
    assert of_body({"metadata": metadata, "prompt_cache_key": "k"}).key.session == "k"


def test_the_earlier_source_wins_and_the_others_are_named() -> None:
    request_head = head("/s/S/v1/responses", session_id="a", x_session_id="S", x_affinity="b")
    found = from_head(request_head, DEFAULT, LOCAL)
    assert found is not None
    assert found.key.session == "S"
    assert found.disagree == ("header:session-id", "header:x-affinity")
    whole = identify(request_head, BodyFields({"prompt_cache_key": "c"}), DEFAULT, LOCAL)
    assert whole.disagree == (*found.disagree, "body:prompt_cache_key")


def test_r9_a_helper_without_a_parent_is_held_by_the_path_alone() -> None:
    """codex-acp's title writer, which runs calls: a session of its own, where only the wire's id tells."""
    path = "/v1/responses"
    main, title = ({"session_id": UUID, "thread_id": UUID}, {"session_id": "t", "thread_id": "t"})
    by_id = [from_head(head(path, **lines), DEFAULT, LOCAL) for lines in (main, title)]
    assert [found and (found.key.session, found.parent) for found in by_id] == [
        (UUID, None),
        ("t", None),
    ]
    by_path = [from_head(head(f"/s/S{path}", **lines), DEFAULT, LOCAL) for lines in (main, title)]
    assert [found and found.key.session for found in by_path] == ["S", "S"]


@pytest.mark.parametrize("value", [b"", b"s1 ", b"s1\x00", b"s\xc3\xa9", b"a/b", b"x" * 129, b".."])
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/s/S/v1/chat/completions"])
def test_B133_a_given_id_that_is_malformed_is_refused(value: bytes, path: bytes) -> None:
    request_head = Head(
        "POST", DIALECTS.apis.classify("POST", path), [(b"x-modegate-session", value)]
    )
    with pytest.raises(BadSession, match="is not valid"):
        from_head(request_head, DEFAULT, LOCAL)


@pytest.mark.parametrize("name", [b"x-modegate-session", b"x-session-id"])
def test_B133_two_values_of_one_header_are_refused(name: bytes) -> None:
    def twice(other: bytes) -> Head:
        return Head(
            "POST",
            DIALECTS.apis.classify("POST", b"/v1/chat/completions"),
            [(name, b"s1"), (name, other)],
        )

    with pytest.raises(BadSession, match=f"two values of header:{name.decode()}"):
        from_head(twice(b"S1"), DEFAULT, LOCAL)
    found = from_head(twice(b"s1"), DEFAULT, LOCAL)
    assert found is not None
    assert found.key.session == "s1"


def test_B133_the_same_id_of_another_tenant_is_another_session() -> None:
    one, two = (from_head(head("/s/s1/v1"), DEFAULT, Tenant(t)) for t in ("k1", "k2"))
    assert one is not None
    assert two is not None
    assert one.key != two.key


@pytest.mark.parametrize("raw", ["a b", "ä", "x" * 129, "../../etc", "-a"])
def test_an_inferred_id_that_does_not_fit_is_hashed(raw: str) -> None:
    hashed = "h-" + sha256(raw.encode()).hexdigest()[:40]
    by_head = from_head(head(x_affinity=raw), DEFAULT, LOCAL)
    assert by_head is not None
    assert by_head.key.session == hashed
    assert of_body({"prompt_cache_key": raw}).key.session == hashed


def test_the_policy_can_name_other_sources() -> None:
    sessions = Sessions(identify=("body:metadata.run.id", "header:X-Run", "path"))
    body = {"metadata": {"run": {"id": "r1"}}}
    assert of_body(body, sessions).how == "body:metadata.run.id"
    request_head = head("/s/S/v1/chat/completions", x_run="r2")
    assert from_head(request_head, sessions, LOCAL) is None, "the body comes first"
    fallback = identify(request_head, BodyFields(), sessions, LOCAL)
    assert (fallback.key.session, fallback.how, fallback.disagree) == (
        "r2",
        "header:x-run",
        ("path",),
    )


@pytest.mark.parametrize(
    ("lines", "parent"),
    [
        pytest.param({"x_session_id": "c", "x_parent_session_id": "p"}, "p", id="opencode-task"),
        pytest.param(
            {"session_id": "s", "thread_id": "t2", "x_codex_parent_thread_id": "s"},
            None,
            id="B131-codex-child-shares-the-session",
        ),
        pytest.param({"session_id": "s", "x_codex_parent_thread_id": "p"}, "p", id="codex"),
        pytest.param(
            {"session_id": "s", "x_parent_session_id": "s", "x_codex_parent_thread_id": "p"},
            "p",
            id="itself-is-passed-over",
        ),
        pytest.param({"session_id": "s", "x_parent_session_id": ""}, None, id="empty"),
    ],
)
def test_the_parent_is_found(lines: dict[str, str], parent: str | None) -> None:
    found = from_head(head(**lines), DEFAULT, LOCAL)
    assert found is not None
    assert found.parent == parent


def test_the_policy_can_name_another_parent() -> None:
    sessions = Sessions(parent=("body:metadata.parent",))
    found = of_body({"prompt_cache_key": "c", "metadata": {"parent": "p q"}}, sessions)
    assert found.parent == "h-" + sha256(b"p q").hexdigest()[:40]
    assert from_head(head("/s/S/v1"), sessions, LOCAL) is None, "the body may name a parent"


def test_the_agent_is_named_safely() -> None:
    found = from_head(head("/s/S/v1", user_agent="a\x1b[31m\u202eb\t" + "x" * 200), DEFAULT, LOCAL)
    assert found is not None
    assert found.agent == ("a[31mb" + "x" * 200)[:AGENT_LIMIT]
    assert identify(head(), BodyFields(), DEFAULT, LOCAL).agent == ""


# Derived ids -------------------------------------------------------------------------------------


def test_a_derived_id_is_of_the_first_user_message_alone() -> None:
    body = user("Fix the tests")
    first = of_body(body)
    assert first.derived
    assert (first.how, first.given) == ("derived", False)
    assert first.key.session.startswith("d-")
    assert len(first.key.session) == 34
    later: dict[str, Any] = {
        "tools": [{"type": "function"}],
        "messages": [
            {"role": "system", "content": "changed"},
            body["messages"][1],
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "and now?"},
        ],
    }
    assert of_body(later).key == first.key


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(['"Fix it"'], id="opencode-quotes"),
        pytest.param(["[[PLAN]] Fix it"], id="copilot-plan"),
        pytest.param(["Fix it", "<system-reminder># Plan Mode\n</system-reminder>"], id="part"),
        pytest.param(["<system-reminder>a</system-reminder>\n", "Fix it\n"], id="part-in-front"),
        pytest.param(["<system-reminder>a</system-reminder>\nFix it"], id="qwen-context"),
        pytest.param(
            ["Fix it<system-reminder>a</system-reminder> <system-reminder>b</system-reminder>"],
            id="two-blocks",
        ),
    ],
)
def test_what_agents_wrap_around_the_words_does_not_count(parts: list[str]) -> None:
    assert of_body(user(*parts)).key == of_body(user("Fix it")).key


def test_an_unreadable_body_is_a_conversation_of_its_own() -> None:
    found = identify(head(), body_fields(RequestBody(b"[]")), DEFAULT, LOCAL)
    assert found.derived
    assert found.key not in (
        of_body({}).key,
        identify(head(), body_fields(RequestBody(b"[")), DEFAULT, LOCAL).key,
    )


def test_B132_other_words_are_another_session() -> None:
    one = of_body(user("Fix the tests"))
    assert of_body(user("Fix the docs")).key != one.key
    other_tenant = identify(head(), BodyFields({}, "Fix the tests"), DEFAULT, Tenant("k1"))
    assert other_tenant.key.session != one.key.session
    look_alike = identify(
        head("/v1/chat/completions//"), BodyFields({}, "Fix the tests"), DEFAULT, LOCAL
    )
    assert look_alike.key == one.key
    other_api = identify(head("/v1/messages"), BodyFields({}, "Fix the tests"), DEFAULT, LOCAL)
    assert other_api.key.session != one.key.session


@pytest.mark.parametrize(
    ("value", "previous"),
    [
        ("resp_1", "resp_1"),
        ("r" * PREVIOUS_LIMIT, "r" * PREVIOUS_LIMIT),
        ("r" * (PREVIOUS_LIMIT + 1), None),
        ("", None),
        (None, None),
        (["resp_1"], None),
    ],
)
def test_where_nothing_else_is_found_the_earlier_answer_is_named(
    value: Any, previous: str | None
) -> None:
    found = of_body({"previous_response_id": value})
    assert (found.previous, found.derived) == (previous, True)


def test_an_id_goes_before_an_earlier_answer() -> None:
    body = {"previous_response_id": "resp_1", "prompt_cache_key": "k"}
    assert (of_body(body).key.session, of_body(body).previous) == ("k", None)


def test_a_request_without_an_id_can_be_rejected() -> None:
    with pytest.raises(BadSession, match=r"/s/SESSION/v1.*x-modegate-session"):
        identify(head(), BodyFields({}, "hello"), REJECT, LOCAL)
    models = Head("GET", DIALECTS.apis.classify("GET", b"/v1/models"), [])
    assert identify(models, BodyFields(), REJECT, LOCAL).derived


# Lanes -------------------------------------------------------------------------------------------


def test_a_lane_is_the_agents_own_thread_where_it_sends_one() -> None:
    assert lane("messages", True, "x", [(b"x-claude-code-agent-id", b"a07")]) == "a07"
    assert lane("responses", True, "x", [(b"thread-id", b"t1")]) == "t1"
    assert lane("responses", True, "x", [(b"thread-id", b"t 1")]).startswith("h-")


def test_otherwise_a_lane_is_of_dialect_tools_and_first_words() -> None:
    main = lane("chat", True, "Fix it", [])
    assert len(main) == 16
    assert int(main, 16) >= 0
    assert lane("chat", True, '"Fix it"<system-reminder>r</system-reminder>', []) == main
    others = {
        lane("responses", True, "Fix it", []),
        lane("chat", False, "Fix it", []),
        lane("chat", True, "Look at it", []),
        main,
    }
    assert len(others) == 4


def test_B131_sub_agents_of_one_session_have_their_own_lanes() -> None:
    assert lane("messages", True, "main", []) != lane("messages", True, "child", [])


# As it was measured -----------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[3] / "golden" / "identify.jsonl"
RECORDED: dict[str, Any] = {
    one["what"]: one for one in map(json.loads, GOLDEN.read_text("utf-8").splitlines())
}
"""What agents sent, as far as it names a session, a lane or the first words; prose is cut."""

MEASURED = {
    # what: source, session, parent
    "claude-normal": (
        "header:x-claude-code-session-id",
        "77210cd5-3daa-4afd-9a77-e050dc70eb7f",
        None,
    ),
    "claude-subagent-child": (
        "header:x-claude-code-session-id",
        "01e627fe-84c1-4983-873a-6d0e28b11a32",
        None,
    ),
    "claude-tui_plan": (
        "header:x-claude-code-session-id",
        "cd77e019-affb-4514-8955-9b727ebe7097",
        None,
    ),
    "codex-normal": ("header:session-id", "01a22a24-d1d4-7a81-b54a-ba6a0ce9b09d", None),
    "codex-subagent-child": ("header:session-id", "01a22a3a-a32e-7983-b48e-0048e8a5ee98", None),
    "codex-subagent56-child": ("header:session-id", "01a22a3a-a716-7993-9280-5fb1b59c9644", None),
    "codex-resume": ("header:session-id", "01a22a26-0efc-79e1-9af9-cbdaef232222", None),
    "opencode-normal": ("header:x-session-id", "ses_dd5d989ffffeWzbXTPEYbiqtBk", None),
    "opencode-openai": ("header:x-session-id", "ses_dd5c584c0ffeTsLNc5dHMArPcG", None),
    "opencode-anthropic": ("header:x-session-id", "ses_dd5c56f2cffe1oqQ73cXemBH4K", None),
    "opencode-subagent-child": (
        "header:x-session-id",
        "ses_dd5d746b3ffe2lX7dgTNUIxMnP",
        "ses_dd5d7502bffeYZgEsfaUDwBCcu",
    ),
    "kilo-normal-title": ("header:x-session-id", "ses_dd5d4249bffeFbOPj9U9KToy40", None),
    "kilo-subagent-child": (
        "header:x-session-id",
        "ses_dd5c4e8dcffejpiSrwNvi9fTpO",
        "ses_dd5c50e15ffeN9xA2d8fVqzggQ",
    ),
    "vibe-normal": ("header:x-affinity", "76752121-e1b2-53ad-f17f-501ac50df426", None),
    "openhands-normal": ("body:prompt_cache_key", "23d3e74f-d11f-45be-ba9b-321283328bb3", None),
    "pi-responses": ("header:session-id", "01a22a2c-2869-762f-a1c2-352676db4083", None),
    "copilot-responses": ("body:prompt_cache_key", "01034927c26d66e372594e5321c65de0", None),
    "deepagents-normal": ("body:prompt_cache_key", "01a22a40-27d9-715d-9577-e75d6b63bd2d", None),
}
NAMELESS = sorted(RECORDED.keys() - MEASURED.keys())


def recorded(what: str) -> tuple[Identified, Head, str]:
    """Identify a recorded request; give its head and first words too."""
    one = RECORDED[what]
    lines = [(name.encode(), value.encode()) for name, value in one["headers"]]
    request_head = Head("POST", DIALECTS.apis.classify("POST", one["path"].encode()), lines)
    fields = body_fields(
        RequestBody(json.dumps(one["body"]).encode()), history=request_head.endpoint.api.history
    )
    found = identify(request_head, fields, DEFAULT, LOCAL)
    return found, request_head, fields.first_user_text


@pytest.mark.parametrize("what", MEASURED)
def test_what_agents_send_names_their_session(what: str) -> None:
    found, _, _ = recorded(what)
    assert (found.how, found.key.session, found.parent) == MEASURED[what]
    assert not found.disagree


@pytest.mark.parametrize("what", NAMELESS)
def test_agents_without_an_id_keep_the_one_that_is_derived(what: str) -> None:
    found, _, words = recorded(what)
    assert found.derived
    assert "read README.md then create hello.txt" in words
    first = what.removesuffix("-later").replace("-plan", "-normal")
    assert found.key == recorded(first)[0].key


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("claude-subagent-child", "a07cfee82597133c2"),
        ("codex-normal", "01a22a24-d1d4-7a81-b54a-ba6a0ce9b09d"),
        ("codex-subagent-child", "01a22a3a-a3e9-75c0-9733-7f64afb957dc"),
    ],
)
def test_lanes_are_the_agents_own_threads(what: str, expected: str) -> None:
    found, request_head, words = recorded(what)
    named = lane(request_head.endpoint.dialect, True, words, request_head.headers)
    assert named == expected
    assert (str(named) != found.key.session) is what.endswith("-child")


# Anything ----------------------------------------------------------------------------------------

_names = st.sampled_from(
    [s.partition(":")[2].encode() for s in DEFAULT_IDENTIFY if s.startswith("header:")]
)
_headers: st.SearchStrategy[Headers] = st.lists(
    st.tuples(_names | st.just(b"x-parent-session-id"), st.binary(max_size=12)), max_size=4
)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["user_id", "session_id", "id", "role", "content", "text"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
_objects = st.dictionaries(
    st.sampled_from(["metadata", "prompt_cache_key", "conversation", "messages", "x"]), _json
)
_bodies = st.binary(max_size=60) | _objects.map(lambda body: json.dumps(body).encode())


@given(_headers, _bodies, st.sampled_from([DEFAULT, REJECT]))
def test_anything_is_identified_safely_or_refused(
    headers: Headers, body: bytes, sessions: Sessions
) -> None:
    request_head = Head("POST", DIALECTS.apis.classify("POST", b"/v1/chat/completions"), headers)
    fields = body_fields(RequestBody(body))
    try:
        early = from_head(request_head, sessions, LOCAL)
        found = identify(request_head, fields, sessions, LOCAL)
    except BadSession:
        return
    assert fits_session_id(found.key.session)
    assert found.parent is None or fits_session_id(found.parent)
    assert found.parent != found.key.session
    assert early is None or early.key == found.key
    assert SessionKey.parse(str(found.key)) == found.key
    given_ids = [value for name, value in headers if name == b"x-modegate-session"]
    if given_ids:
        assert {found.key.session.encode()} == set(given_ids), "a given id is taken as it is"
