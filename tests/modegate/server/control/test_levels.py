"""The control API by level of token: what each may do, and what is not there for other tenants' tokens."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from modegate.core.ids import SessionId, SessionKey, Tenant
from modegate.core.log.events import SessionOpen
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import Seen
from modegate.server.proxy.approvals import Approvals
from support.approver import plan
from support.running import POLICIES, TOKEN, Running, client, policies_file, running
from support.stores import entry, mode_set

CONTROL = """
control:
  tokens:
    - {name: eye, env: EYE_TOKEN, level: observe}
    - {name: phone, env: PHONE_TOKEN, level: tighten}
    - {name: desk, env: DESK_TOKEN, level: full}
    - {name: away, env: AWAY_TOKEN, level: full, tenants: [away]}
"""
LEVELS = {"eye": "observe", "phone": "tighten", "desk": "full"}


@pytest.fixture
async def proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tenants: None
) -> AsyncIterator[Running]:
    for name in (*LEVELS, "away"):
        monkeypatch.setenv(f"{name.upper()}_TOKEN", f"secret-0123456789-{name}")
    policies_file(tmp_path, POLICIES + CONTROL)
    async with running(
        tmp_path, "http://127.0.0.1:9", policies=tmp_path / "policies.yaml"
    ) as proxy:
        yield proxy


async def call(
    proxy: Running, name: str, method: str, path: str, body: object = None, **headers: str
) -> httpx.Response:
    head = {"authorization": f"Bearer secret-0123456789-{name}", **headers}
    async with client() as http:
        url = f"{proxy.url}/control/v1{path}"
        return await http.request(method, url, headers=head, json=body)


async def prepare(proxy: Running, tenant: str = "local") -> None:
    """Two sessions: `idle` in default, and `asked` in plan with an open question `a`."""
    assert proxy.composed
    log, clock = proxy.composed.services.log, SystemClock()
    idle, asked = (SessionKey(Tenant(tenant), SessionId(name)) for name in ("idle", "asked"))
    await log.touch([Seen(idle, "agent/1", "path", 1)])
    await log.append(asked, [mode_set("plan")])
    await Approvals(Folds(log, clock), log, clock).ask(asked, plan("a"))


READS = [
    ("GET", "/sessions", None),
    ("GET", "/sessions/asked", None),
    ("GET", "/sessions/asked/events", None),
    ("GET", "/approvals", None),
    ("GET", "/policy", None),
]
TIGHTENS = [
    ("PUT", "/sessions/idle/mode", {"mode": "plan"}),
    ("PUT", "/sessions/never-seen/mode", {"mode": "plan"}),
    ("PUT", "/sessions/asked/mode", {"mode": "plan"}),
    ("POST", "/approvals/a", {"option": "reject"}),
    ("POST", "/approvals/a/delivered", {"via": "phone"}),
]
LOOSENS = [
    ("PUT", "/sessions/asked/mode", {"mode": "default"}),
    ("PUT", "/sessions/asked/mode", {"mode": "review"}),
    ("POST", "/approvals/a", {"option": "approve"}),
]
CALLS = [
    (level, *route)
    for level, routes in (("observe", READS), ("tighten", TIGHTENS), ("full", LOOSENS))
    for route in routes
]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize(
    ("needed", "method", "path", "body"),
    CALLS,
    ids=[f"{method} {path} {body or ''}" for _, method, path, body in CALLS],
)
async def test_each_level_may_do_what_it_says(
    proxy: Running, name: str, needed: str, method: str, path: str, body: Any
) -> None:
    await prepare(proxy)
    before = await proxy.events("asked"), await proxy.events("idle")
    answer = await call(proxy, name, method, path, body)
    levels = ["observe", "tighten", "full"]
    if levels.index(LEVELS[name]) >= levels.index(needed):
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert error["code"] == "level_needed"
    assert f"{LEVELS[name]!r}" in error["message"]
    # An observer is told the least that any act of the kind needs.
    assert error["needed"] == ("tighten" if name == "eye" else needed)
    assert (await proxy.events("asked"), await proxy.events("idle")) == before


EVERY = [
    *(route for routes in (READS, TIGHTENS, LOOSENS) for route in routes if route[1] != "/policy"),
    ("GET", "/sessions/nobody", None),
]


@pytest.mark.parametrize(("method", "path", "body"), EVERY)
@pytest.mark.parametrize("stream", [False, True], ids=["", "as a stream"])
async def test_a_tenant_that_a_token_is_not_for_is_not_there(
    proxy: Running, method: str, path: str, body: Any, stream: bool
) -> None:
    """The answer is the same for a tenant that has such a session and for one that nobody ever had."""
    await prepare(proxy, "local")
    headers = {"accept": "text/event-stream"} if stream else {}
    answers = [
        await call(proxy, "away", method, f"{path}?tenant={tenant}", body, **headers)
        for tenant in ("local", "nowhere")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text.replace("local", "nowhere") == answers[1].text
    assert [event["type"] for event in await proxy.events("asked")] == [
        "mode/set",
        "approval/asked",
    ]


async def test_a_token_works_for_its_own_tenant(proxy: Running) -> None:
    await prepare(proxy, "away")
    answer = await call(proxy, "away", "POST", "/approvals/a?tenant=away", {"option": "approve"})
    assert (answer.status_code, answer.json()["mode"]) == (200, "default")
    found = await proxy.control("GET", "/sessions/asked?tenant=away")
    assert found.json()["mode"] == "default"


@pytest.mark.parametrize(
    ("headers", "by"),
    [({}, "person:control/phone"), ({"x-modegate-client": "cli"}, "person:cli/phone")],
)
async def test_the_log_names_the_token(proxy: Running, headers: dict[str, str], by: str) -> None:
    await call(proxy, "phone", "PUT", "/sessions/s/mode", {"mode": "plan"}, **headers)
    (event,) = await proxy.events("s")
    assert event["by"] == by


async def test_a_child_is_not_freed_of_its_parent_by_tightening(proxy: Running) -> None:
    assert proxy.composed
    key = SessionKey(Tenant("local"), SessionId("child"))
    opened = SessionOpen("agent/1", "/v1/x", "path", SessionId("parent"))
    await proxy.composed.services.log.append(key, [entry(opened)])
    answer = await call(proxy, "phone", "PUT", "/sessions/child/mode", {"mode": "plan"})
    assert (answer.status_code, answer.json()["error"]["needed"]) == (403, "full")
    answer = await call(proxy, "desk", "PUT", "/sessions/child/mode", {"mode": "plan"})
    assert answer.status_code == 200


@pytest.mark.parametrize(("mode", "status"), [("plan", 200), ("review", 403), ("default", 403)])
async def test_a_session_to_come_is_not_taken_out_of_its_first_mode(
    proxy: Running, mode: str, status: int
) -> None:
    assert proxy.composed
    policies_file(proxy.folder, f"{POLICIES}{CONTROL}sessions: {{initial_mode: plan}}\n")
    await proxy.composed.services.policies.poll(settle=0)
    answer = await call(proxy, "phone", "PUT", "/sessions/new/mode", {"mode": mode})
    assert answer.status_code == status
    # One that was seen before has begun in default, whatever the policy says now.
    await prepare(proxy)
    answer = await call(proxy, "phone", "PUT", "/sessions/idle/mode", {"mode": mode})
    assert answer.status_code == 200


async def test_a_reload_takes_a_token_away_and_warns_of_one_without_a_secret(
    proxy: Running, caplog: pytest.LogCaptureFixture
) -> None:
    assert proxy.composed
    assert (await call(proxy, "eye", "GET", "/policy")).json()["warnings"] == []
    one = "control: {tokens: [{name: new, env: NOT_SET_ANYWHERE, level: full}]}\n"
    policies_file(proxy.folder, POLICIES + one)
    with caplog.at_level(logging.WARNING, "modegate.server.access"):
        await proxy.composed.services.policies.poll(settle=0)
    warning = "control token 'new' cannot be used: its variable is not set"
    assert warning in [record.getMessage() for record in caplog.records]
    assert (await call(proxy, "eye", "GET", "/policy")).status_code == 401
    assert (await proxy.control("GET", "/policy")).json()["warnings"] == [warning]


async def test_no_secret_is_told(proxy: Running, caplog: pytest.LogCaptureFixture) -> None:
    await call(proxy, "phone", "PUT", "/sessions/s/mode", {"mode": "plan"})
    texts = [
        (await call(proxy, "desk", "GET", path)).text
        for path in ("/policy", "/sessions", "/sessions/s", "/sessions/s/events")
    ]
    assert not any("secret-" in text or TOKEN in text for text in (*texts, caplog.text))
