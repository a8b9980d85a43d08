"""The control API's questions to people: what is open, how it is answered, and who is told what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import LOCAL, ModeId, SessionId, SessionKey, Tenant
from modegate.core.log.approval_events import ApprovalAsked, ApprovalDetached, Option
from modegate.core.log.approvals import KEPT_SETTLED
from modegate.core.log.open_questions import MAX_COMMENT
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.proxy.approvals import Approvals
from support.approver import plan
from support.running import TOKEN, Running, client, running
from support.stores import entry, mode_set

AUTH = {"authorization": f"Bearer {TOKEN}"}
STREAM = {**AUTH, "accept": "text/event-stream"}


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        yield proxy


async def ask(
    proxy: Running, name: str = "a", session: str = "s", tenant: str = LOCAL, **more: Any
) -> ApprovalAsked:
    """Ask about a plan in a session that is in plan mode, as a step at another replica does."""
    assert proxy.composed
    log, clock, key = (
        proxy.composed.services.log,
        SystemClock(),
        SessionKey(Tenant(tenant), SessionId(session)),
    )
    asked = plan(name, **more)
    await log.append(key, [mode_set("plan")])
    await Approvals(Folds(log, clock), log, clock).ask(key, asked)
    return asked


async def answer(proxy: Running, name: str = "a", **body: Any) -> httpx.Response:
    return await proxy.control("POST", f"/approvals/{name}", json=body)


async def test_what_is_open_is_listed_whole(proxy: Running) -> None:
    text = "# Plan\n\x1b[2J\u202e" + "x" * 200_000
    asked = await ask(proxy, text=text)
    (found,) = (await proxy.control("GET", "/approvals")).json()["approvals"]
    assert isinstance(found.pop("askedAt"), int)
    assert found == {
        "id": "a",
        "session": "s",
        "tenant": "local",
        "open": True,
        "status": "asked",
        "tool": "exit_plan_mode",
        "purpose": "exit",
        "text": text,
        "options": [
            {"id": "approve", "label": "Approve", "kind": "approve", "mode": "default"},
            {"id": "reject", "label": "Reject", "kind": "reject"},
        ],
        "expires": asked.expires,
    }
    session = (await proxy.control("GET", "/sessions/s")).json()
    assert [one["id"] for one in session["approvals"]] == ["a"]


async def test_an_approval_sets_the_mode(proxy: Running) -> None:
    await ask(proxy)
    found = await answer(proxy, option="approve")
    assert found.status_code == 200
    assert found.json() == {
        "id": "a",
        "session": "s",
        "status": "answered",
        "option": "approve",
        "by": "person:control",
        "waited": True,
        "mode": "default",
    }
    assert (await proxy.control("GET", "/approvals")).json() == {"approvals": []}
    session = (await proxy.control("GET", "/sessions/s")).json()
    assert (session["mode"], session["approvals"]) == ("default", [])
    last = (await proxy.events("s"))[-2:]
    assert [(event["type"], event["by"]) for event in last] == [
        ("approval/answered", "person:control"),
        ("mode/set", "person:control"),
    ]


async def test_a_rejection_carries_its_comment(proxy: Running) -> None:
    await ask(proxy)
    found = (await answer(proxy, option="reject", comment="smaller steps")).json()
    assert (found["option"], found["comment"]) == ("reject", "smaller steps")
    assert "mode" not in found
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"


async def test_the_command_line_is_named_as_such(proxy: Running) -> None:
    await ask(proxy)
    async with client() as http:
        headers = {**AUTH, "x-modegate-client": "cli"}
        url = f"{proxy.url}/control/v1/approvals/a"
        found = await http.post(url, json={"option": "reject"}, headers=headers)
    assert found.json()["by"] == "person:cli"


@pytest.mark.parametrize("second", ["approve", "reject", "never offered"])
async def test_who_comes_second_is_told_how_it_was_settled(proxy: Running, second: str) -> None:
    await ask(proxy)
    await answer(proxy, option="reject", comment="no")
    found = await answer(proxy, option=second)
    assert found.status_code == 409
    assert found.json()["error"] == {
        "code": "not_open",
        "message": "approval 'a' is already answered with 'reject' by person:control",
        "status": "answered",
        "option": "reject",
        "by": "person:control",
        "comment": "no",
    }
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"


async def test_a_mode_change_settles_it(proxy: Running) -> None:
    await ask(proxy)
    await proxy.set_mode("review", "s")
    error = (await answer(proxy, option="approve")).json()["error"]
    assert (error["code"], error["status"], error["why"]) == ("not_open", "closed", "superseded")
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "review"


async def test_what_has_expired_is_not_answered(proxy: Running) -> None:
    await ask(proxy, expires=SystemClock().now_ms() + 1)
    assert (await proxy.control("GET", "/approvals")).json() == {"approvals": []}
    found = await answer(proxy, option="approve")
    assert (found.status_code, found.json()["error"]["code"]) == (409, "not_open")
    assert "expired" in found.json()["error"]["message"]
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"


async def test_a_question_that_its_session_has_forgotten_is_not_open(proxy: Running) -> None:
    for n in range(KEPT_SETTLED + 2):
        # Each time the mode is set, what was open is settled.
        await ask(proxy, f"q{n}", text=f"v{n}")
    found = await answer(proxy, "q0", option="approve")
    assert found.status_code == 409
    assert found.json()["error"] == {
        "code": "not_open",
        "message": "there is no approval 'q0' in this session",
    }


async def test_a_late_approval_says_that_nobody_waited(proxy: Running) -> None:
    await ask(proxy)
    assert proxy.composed
    key = SessionKey(LOCAL, SessionId("s"))
    await proxy.composed.services.log.append(key, [entry(ApprovalDetached("a", "nobody"))])
    (found,) = (await proxy.control("GET", "/approvals")).json()["approvals"]
    assert (found["status"], found["why"], found["open"]) == ("detached", "nobody", True)
    done = (await answer(proxy, option="approve")).json()
    assert (done["waited"], done["mode"]) == (False, "default")


async def test_an_option_must_have_been_offered(proxy: Running) -> None:
    await ask(proxy)
    found = await answer(proxy, option="approve-9")
    assert (found.status_code, found.json()["error"]["code"]) == (422, "bad_option")
    assert len((await proxy.control("GET", "/approvals")).json()["approvals"]) == 1


async def test_a_mode_that_is_gone_is_not_set(proxy: Running) -> None:
    assert proxy.composed
    gone = ApprovalAsked(
        *("a", plan().step, plan().lane, plan().call, plan().tool),
        purpose="exit",
        text="# Plan",
        options=(Option("approve", "Approve", "approve", ModeId("gone")),),
        expires=1 << 50,
    )
    key = SessionKey(LOCAL, SessionId("s"))
    await proxy.composed.services.log.append(key, [mode_set("plan"), entry(gone)])
    found = await answer(proxy, option="approve")
    assert found.status_code == 422
    error = found.json()["error"]
    assert (error["code"], error["available"]) == ("unknown_mode", ["default", "plan", "review"])
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"


@pytest.mark.parametrize("path", ["/approvals/x", "/approvals/x/delivered"])
async def test_what_was_never_asked_is_not_found(proxy: Running, path: str) -> None:
    body = {"via": "cli"} if path.endswith("delivered") else {"option": "approve"}
    found = await proxy.control("POST", path, json=body)
    assert (found.status_code, found.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.usefixtures("tenants")
async def test_tenants_cannot_answer_for_each_other(proxy: Running) -> None:
    await ask(proxy, tenant="other")
    assert (await answer(proxy, option="approve")).status_code == 404
    found = await proxy.control("POST", "/approvals/a?tenant=other", json={"option": "reject"})
    assert found.status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", b""),
        ("", b"{}"),
        ("", b"[]"),
        ("", b'"approve"'),
        ("", b'{"option": null}'),
        ("", b'{"option": true}'),
        ("", b'{"option": "approve", "force": true}'),
        ("", b'{"option": "approve", "comment": 1}'),
        ("", b'{"option": "\\ud800"}'),
        ("", b'{"option": "approve", "comment": "' + b"x" * (MAX_COMMENT + 1) + b'"}'),
        ("/delivered", b""),
        ("/delivered", b"{}"),
        ("/delivered", b'{"via": ""}'),
        ("/delivered", b'{"via": "' + b"x" * 65 + b'"}'),
    ],
)
async def test_b007_a_malformed_answer_changes_nothing(
    proxy: Running, path: str, body: bytes
) -> None:
    await ask(proxy)
    found = await proxy.control("POST", f"/approvals/a{path}", content=body)
    assert (found.status_code, found.json()["error"]["code"]) == (400, "bad_request")
    assert len(await proxy.events("s")) == 2


async def test_a_huge_answer_is_refused(proxy: Running) -> None:
    await ask(proxy)
    found = await proxy.control("POST", "/approvals/a", content=b" " * 70_000)
    assert (found.status_code, found.json()["error"]["code"]) == (413, "too_large")


async def test_delivery_is_noted_once_and_told_what_became_of_it(proxy: Running) -> None:
    await ask(proxy)
    for _ in range(2):
        found = await proxy.control("POST", "/approvals/a/delivered", json={"via": "acp"})
        assert found.json() == {"id": "a", "session": "s", "status": "delivered"}
    assert [event["type"] for event in await proxy.events("s")].count("approval/delivered") == 1
    await answer(proxy, option="reject")
    found = await proxy.control("POST", "/approvals/a/delivered", json={"via": "acp"})
    assert (found.status_code, found.json()["status"]) == (200, "answered")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/approvals"), ("POST", "/approvals/a"), ("POST", "/approvals/a/delivered")],
)
async def test_every_call_wants_the_token(proxy: Running, method: str, path: str) -> None:
    await ask(proxy)
    async with client() as http:
        url = f"{proxy.url}/control/v1{path}"
        found = await http.request(method, url, json={"option": "approve"})
    assert found.status_code == 401
    assert len(await proxy.events("s")) == 2


# Following.


@asynccontextmanager
async def following(proxy: Running) -> AsyncIterator[AsyncIterator[Any]]:
    """Follow the questions of the tenant `local`."""
    url = f"{proxy.url}/control/v1/approvals"
    async with client() as http, http.stream("GET", url, headers=STREAM) as found:
        assert found.headers["content-type"].startswith("text/event-stream")
        async with aclosing(objects(found)) as changes:
            yield changes


async def objects(found: httpx.Response) -> Any:
    name = ""
    async for line in found.aiter_lines():
        if line.startswith("event: "):
            name = line
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            yield data["error"] if name == "event: error" else data


def short(change: dict[str, Any]) -> tuple[str, str, bool]:
    return change["id"], change["status"], change["open"]


async def test_questions_are_followed_as_they_come_and_settle(proxy: Running) -> None:
    await ask(proxy)
    async with following(proxy) as changes:
        first = await anext(changes)
        assert short(first) == ("a", "asked", True)
        assert first["text"] == "# Plan"
        await ask(proxy, "c", tenant="other")
        await ask(proxy, "b", session="t")
        assert short(await anext(changes)) == ("b", "asked", True)
        await proxy.control("POST", "/approvals/b/delivered", json={"via": "acp"})
        assert short(await anext(changes)) == ("b", "delivered", True)
        await answer(proxy, option="reject", comment="no")
        last = await anext(changes)
        assert short(last) == ("a", "answered", False)
        assert (last["option"], last["comment"], last["by"]) == ("reject", "no", "person:control")
        await proxy.set_mode("default", "t")
        assert short(await anext(changes)) == ("b", "closed", False)


async def test_a_silent_stream_is_kept_alive(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.control.streams.KEEPALIVE_S", 0.0)
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)
    url = f"{proxy.url}/control/v1/approvals"
    async with client() as http, http.stream("GET", url, headers=STREAM) as found:
        async for line in found.aiter_lines():
            assert line.startswith(":")
            break


async def test_a_stream_ends_when_the_proxy_does(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)
    assert proxy.composed
    url = f"{proxy.url}/control/v1/approvals"
    async with client() as http, http.stream("GET", url, headers=STREAM) as found:
        proxy.composed.control.close()
        assert await found.aread() == b""


async def test_a_stream_says_that_the_log_is_gone(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise LogUnavailable("the log is gone")

    assert proxy.composed
    monkeypatch.setattr(type(proxy.composed.services.log), "questions", unavailable)
    async with following(proxy) as changes:
        assert await anext(changes) == {"code": "log_unavailable", "message": "the log is gone"}


async def test_without_the_log_nothing_is_approved(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(proxy)

    async def unavailable(*_: object, **__: object) -> None:
        raise LogUnavailable("the log is gone")

    assert proxy.composed
    with monkeypatch.context() as patch:
        patch.setattr(type(proxy.composed.services.log), "append", unavailable)
        found = await answer(proxy, option="approve")
    assert (found.status_code, found.json()["error"]["code"]) == (503, "log_unavailable")
    assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"
