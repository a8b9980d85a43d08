"""What the relay of `modegate acp` passes on, answers by itself, and takes up again on a new connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate_acp.messages.jsonrpc import MAX_MESSAGE
from modegate_acp.stdio.relay import Lines, Out, Relay, Tell, ToEditor, ToProxy, too_long

INIT = {"protocolVersion": 1, "clientCapabilities": {}}
MODES = {"currentModeId": "plan", "availableModes": []}
OPTIONS = [{"id": "mode", "currentValue": "plan"}]
GONE = "the proxy is gone"


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def request(id_: Any, method: str, **params: Any) -> bytes:
    return line(id=id_, method=method, params=params)


def answer(id_: Any, **result: Any) -> bytes:
    return line(id=id_, result=result)


def told(out: list[Out]) -> list[Any]:
    """Return what the editor gets, read."""
    return [json.loads(one.message) for one in out if isinstance(one, ToEditor)]


def sent(out: list[Out]) -> list[Any]:
    """Return what the proxy gets, read."""
    return [json.loads(one.message) for one in out if isinstance(one, ToProxy)]


def attached(*sessions: str) -> Relay:
    """Return a relay whose editor is initialized and hears of these sessions."""
    relay = Relay()
    relay.connected()
    relay.from_editor(request(0, "initialize", **INIT))
    relay.from_proxy(answer(0, protocolVersion=1))
    for number, session in enumerate(sessions, 1):
        relay.from_editor(request(number, "session/load", sessionId=session, cwd=f"/{session}"))
        relay.from_proxy(answer(number, modes=MODES))
    assert not relay.busy
    return relay


@pytest.mark.parametrize(
    "message",
    [
        b'{"id" : 1,"method":"initialize","params":{}, "params":{}}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"x":1.50}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"a"}]',
        b'{"neither": 1}',
        b'"text"',
        b'{"id":null,"method":"a"}\r',
    ],
)
def test_what_the_editor_says_goes_on_as_it_is(message: bytes) -> None:
    relay = Relay()
    assert relay.connected() == []
    assert relay.from_editor(message) == [ToProxy(message)]


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (b'{"id": 1, "result": {"a": 1.0}}', b'{"id": 1, "result": {"a": 1.0}}'),
        (b'{"id": 1,\n "result":\r\n {}}', b'{"id": 1,  "result":   {}}'),
        (b'{"method": "session/update"}', b'{"method": "session/update"}'),
        (b"[]", b"[]"),
    ],
)
def test_what_the_proxy_says_becomes_one_line(message: bytes, written: bytes) -> None:
    relay = Relay()
    relay.connected()
    assert relay.from_proxy(message) == [ToEditor(written)]


def test_what_is_no_json_from_the_proxy_reaches_only_the_person() -> None:
    (out,) = attached().from_proxy(b"<html>")
    assert isinstance(out, Tell)


@pytest.mark.parametrize("blank", [b"", b"  ", b"\r"])
def test_a_blank_line_says_nothing(blank: bytes) -> None:
    assert attached().from_editor(blank) == []


@pytest.mark.parametrize("text", [b"{", b"hello", b'"\xff"', b"{}{}", b'{"a":"\\ud800"}'])
@pytest.mark.parametrize("connected", [True, False])
def test_a_line_that_is_no_json_is_answered(text: bytes, connected: bool) -> None:
    relay = Relay()
    if connected:
        relay.connected()
    (error,) = told(relay.from_editor(text))
    assert (error["id"], error["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (request(7, "initialize"), [7]),
        (request("seven", "session/list"), ["seven"]),
        (line(method="session/cancel", params={}), []),
        (line(id=3, result={}), []),
        (b"[]", [None]),
    ],
)
def test_without_a_proxy_each_request_is_told_why(message: bytes, ids: list[Any]) -> None:
    relay = Relay()
    assert relay.lost(GONE) == [Tell(GONE)]
    out = relay.from_editor(message)
    assert sent(out) == []
    assert [(error["id"], error["error"]) for error in told(out)] == [
        (one, {"code": -32603, "message": GONE}) for one in ids
    ]
    assert not relay.busy


def test_the_same_failure_is_told_to_the_person_once() -> None:
    relay = Relay()
    assert relay.lost(GONE) == [Tell(GONE)]
    assert relay.lost(GONE) == []
    assert relay.lost("another") == [Tell("another")]


def test_who_waits_when_the_connection_ends_is_told() -> None:
    relay = attached()
    relay.from_editor(request(1, "session/list"))
    relay.from_editor(request("1", "session/prompt"))
    relay.from_proxy(answer(1))
    assert relay.busy
    out = relay.lost(GONE)
    assert [(one["id"], one["error"]["message"]) for one in told(out)] == [("1", GONE)]
    assert not relay.busy


def test_a_new_connection_takes_up_where_the_last_one_ended() -> None:
    relay = attached("one", "two")
    relay.lost(GONE)
    initialize, *resumes = sent(relay.connected())
    assert (initialize["method"], initialize["params"]) == ("initialize", INIT)
    assert [(one["method"], one["params"]) for one in resumes] == [
        ("session/resume", {"sessionId": name, "cwd": f"/{name}", "mcpServers": []})
        for name in ("one", "two")
    ]
    # The editor hears nothing of the answers, but what mode its sessions are in now.
    assert relay.from_proxy(answer(initialize["id"], protocolVersion=1)) == []
    meta = {"modegate/seq": 7}
    shown = answer(resumes[0]["id"], modes=MODES, configOptions=OPTIONS, _meta=meta)
    out = relay.from_proxy(shown)
    assert [one["params"] for one in told(out)] == [
        {
            "sessionId": "one",
            "update": {
                "sessionUpdate": "current_mode_update",
                "currentModeId": "plan",
                "modeId": "plan",
            },
            "_meta": meta,
        },
        {
            "sessionId": "one",
            "update": {"sessionUpdate": "config_option_update", "configOptions": OPTIONS},
            "_meta": meta,
        },
    ]
    (bare,) = told(relay.from_proxy(answer(resumes[1]["id"], configOptions=OPTIONS)))
    assert "_meta" not in bare["params"]
    assert not relay.busy


def test_ids_of_our_own_are_never_used_twice() -> None:
    relay = attached("one")
    ids = []
    for _ in range(3):
        relay.lost(GONE)
        ids += [one["id"] for one in sent(relay.connected())]
    assert len(set(ids)) == len(ids) == 6


def test_a_session_that_cannot_be_resumed_is_let_go() -> None:
    relay = attached("one")
    relay.lost(GONE)
    _, resume = sent(relay.connected())
    error = {"code": -32002, "message": "no such session"}
    (out,) = relay.from_proxy(line(id=resume["id"], error=error))
    assert isinstance(out, Tell)
    assert "no such session" in out.text
    relay.lost(GONE)
    assert [one["method"] for one in sent(relay.connected())] == ["initialize"]


@pytest.mark.parametrize(
    ("method", "params", "result", "resumed"),
    [
        ("session/new", {"cwd": "/w"}, {"sessionId": "new"}, ["new"]),
        ("session/resume", {"sessionId": "old", "cwd": "/w"}, {}, ["old"]),
        ("session/load", {"sessionId": "old"}, {}, ["old"]),
        ("session/load", {"sessionId": "old"}, None, []),
        ("session/load", None, {}, []),
        ("session/close", {"sessionId": "one"}, {}, []),
        ("session/list", {}, {"sessions": []}, []),
    ],
)
def test_what_is_attached_is_learned_from_answers(
    method: str, params: Any, result: Any, resumed: list[str]
) -> None:
    relay = attached() if method != "session/close" else attached("one")
    relay.from_editor(line(id=9, method=method, params=params))
    relay.from_proxy(line(id=9, result=result) if result is not None else line(id=9, error={}))
    relay.lost(GONE)
    _, *resumes = sent(relay.connected())
    assert [one["params"]["sessionId"] for one in resumes] == resumed


def test_before_an_initialize_that_was_answered_nothing_is_repeated() -> None:
    relay = Relay()
    relay.connected()
    relay.from_editor(request(0, "initialize", **INIT))
    relay.lost(GONE)
    assert relay.connected() == []


def test_a_question_of_a_lost_connection_is_withdrawn_and_its_answer_goes_nowhere() -> None:
    relay = attached("one")
    ask = request("mg-perm-1", "session/request_permission", sessionId="one")
    assert relay.from_proxy(ask) == [ToEditor(ask)]
    (withdrawn,) = told(relay.lost(GONE))
    assert (withdrawn["method"], withdrawn["params"]) == (
        "$/cancel_request",
        {"requestId": "mg-perm-1"},
    )
    relay.connected()
    assert relay.from_editor(answer("mg-perm-1", outcome={})) == []


def test_a_question_is_answered_once() -> None:
    relay = attached("one")
    relay.from_proxy(request("mg-perm-1", "session/request_permission"))
    reply = answer("mg-perm-1", outcome={})
    assert relay.from_editor(reply) == [ToProxy(reply)]
    assert relay.from_editor(reply) == []
    assert told(relay.lost(GONE)) == []


def test_a_question_that_the_proxy_withdrew_is_not_withdrawn_again() -> None:
    relay = attached("one")
    relay.from_proxy(request("mg-perm-1", "session/request_permission"))
    cancel = line(method="$/cancel_request", params={"requestId": "mg-perm-1"})
    assert relay.from_proxy(cancel) == [ToEditor(cancel)]
    assert told(relay.lost(GONE)) == []


@pytest.mark.parametrize(
    ("head", "answered"), [({"id": 5, "method": "a"}, True), ({"method": "a"}, False)]
)
def test_a_message_that_the_proxy_would_not_take_is_refused_here(
    head: dict[str, Any], answered: bool
) -> None:
    relay = attached()
    out = relay.from_editor(line(**head, params={"x": "y" * MAX_MESSAGE}))
    assert sent(out) == []
    if answered:
        assert [(one["id"], one["error"]["code"]) for one in told(out)] == [(5, -32600)]
    else:
        assert isinstance(out[0], Tell)
    assert not relay.busy


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(1, 9), min_size=1))
def test_lines_are_the_same_however_they_come(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    expected = [one if len(one) <= 8 else None for one in data.split(b"\n")]
    reader, found, at = Lines(8), [], 0
    for cut in cuts:
        found += reader.feed(data[at : at + cut])
        at += cut
    found += reader.feed(data[at:])
    # Nothing stands behind a last line end, so no line does.
    assert found + reader.end() == (expected if expected[-1] != b"" else expected[:-1])


def test_of_a_line_that_is_too_long_nothing_is_kept() -> None:
    reader = Lines(4)
    for _ in range(1000):
        assert reader.feed(b"x" * 1000) == []
    assert reader.feed(b"x\nab\n") == [None, b"ab"]
    (error,) = told([too_long(4)])
    assert (error["id"], error["error"]["code"]) == (None, -32600)
