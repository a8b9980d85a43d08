"""The control API over the embedded log: what it shows, what it sets, what it refuses."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import SessionId, SessionKey, Tenant
from modegate.core.log.events import SessionOpen
from modegate.core.log.records import Entry
from modegate.server.log.protocol import Seen
from support.running import TOKEN, Running, client, policies_file, running

AUTH = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        yield proxy


def key(session: str, tenant: str = "local") -> SessionKey:
    return SessionKey(Tenant(tenant), SessionId(session))


async def see(proxy: Running, session: str, at: int, tenant: str = "local") -> None:
    assert proxy.composed
    await proxy.composed.services.log.touch([Seen(key(session, tenant), "agent/1", "path", at)])


async def append(proxy: Running, session: str, event: Any, by: str = "gate") -> None:
    assert proxy.composed
    await proxy.composed.services.log.append(key(session), [Entry(1, by, event)])


async def test_a_mode_is_set_shown_and_logged(proxy: Running) -> None:
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "plan"})
    assert answer.status_code == 200
    assert answer.json() == {"mode": "plan", "seq": 1, "changed": True, "was": "default"}

    state = (await proxy.control("GET", "/sessions/s1")).json()
    assert (state["id"], state["tenant"], state["mode"]) == ("s1", "local", "plan")
    assert (state["seq"], state["modeSeq"], state["lanes"]) == (1, 1, [])

    (event,) = (await proxy.control("GET", "/sessions/s1/events")).json()["events"]
    assert (event["seq"], event["type"], event["by"]) == (1, "mode/set", "person:control")
    assert event["data"] == {"mode": "plan"}


@pytest.mark.parametrize(("name", "by"), [("cli", "person:cli"), ("root", "person:control")])
async def test_the_command_line_is_named_as_such_and_nobody_else(
    proxy: Running, name: str, by: str
) -> None:
    url = f"{proxy.url}/control/v1/sessions/s1/mode"
    async with client() as http:
        await http.put(url, json={"mode": "plan"}, headers={**AUTH, "x-modegate-client": name})
    assert [event["by"] for event in await proxy.events("s1")] == [by]


async def test_the_mode_in_force_is_set_without_an_event(proxy: Running) -> None:
    await proxy.set_mode("plan", "s1")
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "plan"})
    assert answer.json() == {"mode": "plan", "seq": 1, "changed": False, "was": "plan"}
    assert len(await proxy.events("s1")) == 1


async def test_default_can_always_be_set(proxy: Running) -> None:
    await proxy.set_mode("plan", "s1")
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "default"})
    assert answer.json() == {"mode": "default", "seq": 2, "changed": True, "was": "plan"}


async def test_an_unknown_mode_is_refused_and_changes_nothing(proxy: Running) -> None:
    await proxy.set_mode("plan", "s1")
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "plna"})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "unknown_mode"
    assert error["available"] == ["default", "plan", "review"]
    assert len(await proxy.events("s1")) == 1


async def test_a_derived_session_comes_with_a_warning(proxy: Running) -> None:
    await append(proxy, "d-1", SessionOpen("agent/1", "/v1/x", "derived", derived=True))
    answer = await proxy.control("PUT", "/sessions/d-1/mode", json={"mode": "plan"})
    assert answer.status_code == 200
    assert "/s/d-1/v1" in answer.json()["warning"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"mode": 1}', b'{"mode": "plan", "force": true}', b'"plan"'],
)
async def test_a_body_that_is_no_mode_is_refused(proxy: Running, body: bytes) -> None:
    answer = await proxy.control("PUT", "/sessions/s1/mode", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"


async def test_a_huge_body_is_refused(proxy: Running) -> None:
    answer = await proxy.control("PUT", "/sessions/s1/mode", content=b" " * 70_000)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/sessions/nobody", 404, "not_found"),
        ("GET", "/sessions/nobody/events", 404, "not_found"),
        ("GET", "/sessions/a%20b", 400, "bad_session"),
        ("PUT", "/sessions/.hidden/mode", 400, "bad_session"),
        ("GET", "/sessions?limit=0", 400, "bad_request"),
        ("GET", "/sessions?limit=201", 400, "bad_request"),
        ("GET", "/sessions?limit=x", 400, "bad_request"),
        ("GET", "/sessions?tenant=", 422, "unknown_tenant"),
        ("GET", "/sessions?tenant=ci", 422, "unknown_tenant"),
        ("GET", "/sessions/s?tenant=ci", 422, "unknown_tenant"),
        ("GET", "/sessions/s/events?tenant=ci", 422, "unknown_tenant"),
        ("GET", "/approvals?tenant=ci", 422, "unknown_tenant"),
        ("GET", "/sessions/s1/events?after=-1", 400, "bad_request"),
        ("GET", "/sessions/s1/events?after=99999999999999999999", 400, "bad_request"),
        ("GET", "/sessions/s1/events?after=%D9%A1", 400, "bad_request"),
        ("DELETE", "/sessions/s1", 405, "method_not_allowed"),
        ("POST", "/sessions/s1/mode", 405, "method_not_allowed"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/sessions/", 404, "not_found"),
    ],
)
async def test_what_cannot_be_answered_says_why(
    proxy: Running, method: str, path: str, status: int, code: str
) -> None:
    answer = await proxy.control(method, path, content=b'{"mode": "plan"}')
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


async def test_a_cursor_that_nobody_gave_is_refused(proxy: Running) -> None:
    answer = await proxy.control("GET", "/sessions?cursor=%00nonsense")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"


async def test_sessions_are_listed_newest_first_page_by_page(proxy: Running) -> None:
    for at, session in enumerate(("a", "b", "c"), 1_000):
        await see(proxy, session, at)
    await proxy.set_mode("plan", "b")

    first = (await proxy.control("GET", "/sessions?limit=2")).json()
    rest = (await proxy.control("GET", f"/sessions?limit=2&cursor={first['nextCursor']}")).json()
    rows = first["sessions"] + rest["sessions"]
    assert [(row["id"], row["mode"], row["seq"]) for row in rows] == [
        ("b", "plan", 1),
        ("c", "default", 0),
        ("a", "default", 0),
    ]
    assert rows[1] == {
        "id": "c",
        "tenant": "local",
        "mode": "default",
        "inForce": "default",
        "heldBy": [],
        "gate": "default",
        "leftOut": [],
        "seq": 0,
        "agent": "agent/1",
        "how": "path",
        "updatedAt": 1_002,
    }
    assert "nextCursor" not in rest


async def test_o2_no_mode_is_set_for_a_tenant_that_no_agent_can_have(proxy: Running) -> None:
    """It would look as if it held somebody."""
    answer = await proxy.control("PUT", "/sessions/s9/mode?tenant=ci", json={"mode": "plan"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_tenant")
    assert "'ci'" in answer.json()["error"]["message"]
    assert "'local'" in answer.json()["error"]["message"]
    assert proxy.composed
    assert not await proxy.composed.services.log.was_seen(key("s9", "ci"))
    assert (await proxy.control("PUT", "/sessions/s9/mode", json={"mode": "plan"})).is_success


@pytest.mark.usefixtures("tenants")
async def test_tenants_do_not_see_each_other(proxy: Running) -> None:
    await see(proxy, "s1", 1, tenant="other")
    await proxy.set_mode("plan", "s1")
    assert len((await proxy.control("GET", "/sessions?tenant=other")).json()["sessions"]) == 1
    state = (await proxy.control("GET", "/sessions/s1?tenant=other")).json()
    assert (state["tenant"], state["mode"]) == ("other", "default")
    assert (await proxy.control("GET", "/sessions/s1?tenant=third")).status_code == 404


async def test_a_session_that_was_only_seen_is_known(proxy: Running) -> None:
    await see(proxy, "s1", 1)
    assert (await proxy.control("GET", "/sessions/s1")).json()["mode"] == "default"
    assert (await proxy.control("GET", "/sessions/s1/events")).json() == {"events": []}


async def test_an_unreadable_session_is_shown_and_its_mode_is_not_set(proxy: Running) -> None:
    await proxy.set_mode("plan", "s1")
    with closing(sqlite3.connect(proxy.folder / "state" / "log.db")) as db, db:
        envelope = b'{"v":2,"type":"mode/future","at":1,"by":"gate","data":{}}'
        db.execute("insert into events values (?, 2, ?)", (str(key("s1")), envelope))
        db.execute("insert into feed (key, seq) values (?, 2)", (str(key("s1")),))
    state = (await proxy.control("GET", "/sessions/s1")).json()
    assert "mode/future" in state["unreadable"]
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "default"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "session_unreadable")


async def test_o3_r4_a_list_says_how_each_session_is_held(proxy: Running) -> None:
    """One of which the log has lost events is a row, and does not make the list fail."""
    for session in ("lost", "odd", "held"):
        await proxy.set_mode("plan", session)
    await proxy.set_mode("default", "lost")
    with closing(sqlite3.connect(proxy.folder / "state" / "log.db")) as db, db:
        envelope = b'{"v":2,"type":"mode/future","at":1,"by":"gate","data":{}}'
        db.execute("insert into events values (?, 2, ?)", (str(key("odd")), envelope))
        db.execute("insert into feed (key, seq) values (?, 2)", (str(key("odd")),))
        db.execute("delete from events where key = ?", (str(key("lost")),))
        db.execute("insert into feed (key, seq) values (?, 3)", (str(key("lost")),))
    await see(proxy, "plain", 1)
    rows = (await proxy.control("GET", "/sessions")).json()["sessions"]
    assert {row["id"]: (row["mode"], row["gate"]) for row in rows} == {
        "plain": ("default", "default"),
        "held": ("plan", "on"),
        "odd": ("plan", "unreadable"),
        "lost": (None, "unreadable"),
    }


async def test_events_come_in_pages(proxy: Running) -> None:
    for mode in ("plan", "review", "default"):
        await proxy.set_mode(mode, "s1")
    answer = (await proxy.control("GET", "/sessions/s1/events?after=1&limit=1")).json()
    assert [event["seq"] for event in answer["events"]] == [2]
    assert (await proxy.control("GET", "/sessions/s1/events?after=3")).json() == {"events": []}


async def next_event(lines: AsyncIterator[str]) -> tuple[str, Any]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            break
    return fields.get("id", fields.get("event", "")), json.loads(fields["data"])


async def test_events_are_followed_as_they_come(proxy: Running) -> None:
    await proxy.set_mode("plan", "s1")
    headers = {**AUTH, "accept": "text/event-stream"}
    url = f"{proxy.url}/control/v1/sessions/s1/events"
    async with client() as http, http.stream("GET", url, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = answer.aiter_lines()
        seq, event = await next_event(lines)
        assert (seq, event["data"]) == ("1", {"mode": "plan"})
        await proxy.set_mode("plan", "another")
        await proxy.set_mode("default", "s1")
        seq, event = await next_event(lines)
        assert (seq, event["data"]) == ("2", {"mode": "default"})


@pytest.mark.parametrize(
    ("headers", "query"),
    [({"last-event-id": "1"}, ""), ({}, "?after=1"), ({"last-event-id": "junk"}, "?after=1")],
)
async def test_following_goes_on_where_it_ended(
    proxy: Running, headers: dict[str, str], query: str
) -> None:
    await proxy.set_mode("plan", "s1")
    await proxy.set_mode("default", "s1")
    headers = {**AUTH, "accept": "text/event-stream", **headers}
    url = f"{proxy.url}/control/v1/sessions/s1/events{query}"
    async with client() as http, http.stream("GET", url, headers=headers) as answer:
        assert (await next_event(answer.aiter_lines()))[0] == "2"


async def test_a_silent_stream_is_kept_alive(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.control.streams.KEEPALIVE_S", 0.0)
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)
    headers = {**AUTH, "accept": "text/event-stream"}
    url = f"{proxy.url}/control/v1/sessions/not-yet-there/events"
    async with client() as http, http.stream("GET", url, headers=headers) as answer:
        async for line in answer.aiter_lines():
            assert line.startswith(":")
            break


async def test_a_stream_ends_when_the_proxy_does(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)
    assert proxy.composed
    headers = {**AUTH, "accept": "text/event-stream"}
    url = f"{proxy.url}/control/v1/sessions/s1/events"
    async with client() as http, http.stream("GET", url, headers=headers) as answer:
        proxy.composed.control.close()
        assert await answer.aread() == b""


async def unavailable(*_args: object, **_named: object) -> None:
    raise LogUnavailable("the log is gone")


async def test_without_the_log_nothing_is_set(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proxy.composed
    monkeypatch.setattr(type(proxy.composed.services.log), "append", unavailable)
    answer = await proxy.control("PUT", "/sessions/s1/mode", json={"mode": "plan"})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"] == {"code": "log_unavailable", "message": "the log is gone"}


async def test_a_stream_says_that_the_log_is_gone(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proxy.composed
    monkeypatch.setattr(type(proxy.composed.services.log), "read", unavailable)
    headers = {**AUTH, "accept": "text/event-stream"}
    url = f"{proxy.url}/control/v1/sessions/s1/events"
    async with client() as http, http.stream("GET", url, headers=headers) as answer:
        name, data = await next_event(answer.aiter_lines())
    assert (name, data["error"]["code"]) == ("error", "log_unavailable")


async def test_lines_that_can_hardly_be_meant_are_shown_with_the_policy(proxy: Running) -> None:
    assert proxy.composed
    assert (await proxy.control("GET", "/policy")).json()["warnings"] == []
    policies_file(proxy.folder, "modes:\n  plan:\n    section: s\n    tools: [read, read]\n")
    await proxy.composed.services.policies.poll(settle=0)
    (warning,) = (await proxy.control("GET", "/policy")).json()["warnings"]
    assert warning.startswith('line 4, modes.plan.tools[1]: allow "read" is never reached')


async def test_the_policy_and_its_last_reload_are_shown(proxy: Running) -> None:
    assert proxy.composed
    policy = (await proxy.control("GET", "/policy")).json()
    assert (policy["generation"], policy["reload"]) == (1, {"ok": True, "problems": []})
    assert [(mode["id"], mode["rules"]) for mode in policy["modes"]] == [("plan", 2), ("review", 2)]

    policies_file(proxy.folder, "modes:\n  plan:\n    tolls: [read]\n")
    await proxy.composed.services.policies.poll(settle=0)
    after = (await proxy.control("GET", "/policy")).json()
    assert after["hash"] == policy["hash"]
    assert after["reload"]["ok"] is False
    assert 3 in [problem["line"] for problem in after["reload"]["problems"]]
    async with client() as http:
        ready = await http.get(f"{proxy.url}/readyz")
        assert ready.status_code == 200
        assert "warning" in ready.json()
        page = (await http.get(f"{proxy.url}/metrics")).text
    assert "modegate_policy_problems 0.0" not in page


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/sessions"),
        ("GET", "/sessions/s1"),
        ("PUT", "/sessions/s1/mode"),
        ("GET", "/sessions/s1/events"),
        ("GET", "/policy"),
        ("GET", "/nothing"),
    ],
)
async def test_every_call_wants_the_token(proxy: Running, method: str, path: str) -> None:
    async with client() as http:
        url = f"{proxy.url}/control/v1{path}"
        answer: httpx.Response = await http.request(method, url, json={"mode": "plan"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert await proxy.events("s1") == []
