"""The door of the control API and of ACP: who gets in, and what they may do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from modegate.core.ids import LOCAL, Tenant
from modegate.core.policy.model import Control, Level, Token
from modegate.server.access import Access, Grant, Guard, Sites, bearer, host_name

TOKEN = "s3cret-token-0123456789"
ABC, DEF, SAME, B = (word * 16 for word in ("abc", "def", "same", "b"))
IN = {"authorization": f"Bearer {TOKEN}"}
OTHER = Tenant("other")


@dataclass
class Policy:
    control: Control


class Policies:
    def __init__(self, *tokens: Token) -> None:
        self.current = Policy(Control(tokens))


def token(name: str, level: Level = Level.TIGHTEN, *tenants: Tenant) -> Token:
    return Token(name, f"{name.upper()}_TOKEN", level, tenants or (LOCAL,))


async def ask(
    headers: Mapping[str, str | bytes], *, hosts: tuple[str, ...] = (), bound: str = "127.0.0.1"
) -> httpx.Response:
    raw = [(n.encode(), v if isinstance(v, bytes) else v.encode()) for n, v in headers.items()]
    access = Access(TOKEN, Policies(), {})
    guard = Guard(PlainTextResponse("in"), access=access, sites=Sites(hosts=hosts, bound=bound))
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8484") as client:
        return await client.get("/control/v1/sessions", headers=raw)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="right"),
        pytest.param(f"bearer  {TOKEN} ", 200, id="scheme in lower case, spaces around"),
        pytest.param(f"Bearer {TOKEN}x", 401, id="longer"),
        pytest.param(f"Bearer {TOKEN[:-1]}", 401, id="shorter"),
        pytest.param("Bearer ", 401, id="empty"),
        pytest.param(f"Basic {TOKEN}", 401, id="another scheme"),
        pytest.param(TOKEN, 401, id="no scheme"),
        pytest.param("Bearer s3cret-töken", 401, id="not ASCII"),
    ],
)
async def test_only_the_token_opens(authorization: str, status: int) -> None:
    answer = await ask({"authorization": authorization})
    assert answer.status_code == status


async def test_without_a_token_the_answer_says_where_it_is() -> None:
    answer = await ask({})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"
    assert "MODEGATE_CONTROL_TOKEN" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8484", 200),
        ("[::1]:8484", 200),
        ("gate.example", 200),
        ("gate.example:9", 200),
        ("ported.example:443", 200),
        ("ported.example:444", 403),
        ("10.1.2.3:8484", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("gate.example.evil.example", 403),
    ],
)
async def test_host_must_be_a_name_of_this_proxy(host: str, status: int) -> None:
    answer = await ask(
        {**IN, "host": host}, hosts=("gate.example", "ported.example:443"), bound="10.1.2.3"
    )
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "host_not_allowed"


async def test_a_wildcard_address_is_no_name() -> None:
    answer = await ask({**IN, "host": "0.0.0.0:8484"}, bound="0.0.0.0")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8484", 200),
        ("https://gate.example", 200),
        ("http://localhost:3000", 403),
        ("http://127.0.0.1:8484", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_origin_must_be_the_proxy_itself(origin: str, status: int) -> None:
    answer = await ask({**IN, "origin": origin}, hosts=("gate.example",))
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("A.example:1", "a.example"),
        ("a.example.", "a.example"),
        ("[::1]:5", "::1"),
        ("[::1]", "::1"),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Basic abc"}, ""),
        ({}, ""),
    ],
)
def test_the_token_in_a_header(headers: dict[str, str], found: str) -> None:
    assert bearer(Headers(headers)) == found


def test_the_own_token_may_do_everything() -> None:
    grant = Access(TOKEN, Policies(), {}).grant(TOKEN)
    assert grant == Grant("control", Level.FULL, None)
    assert all(grant.may(level, tenant) for level in Level for tenant in (LOCAL, OTHER))


@pytest.mark.parametrize(
    ("level", "may"),
    [
        (Level.OBSERVE, [Level.OBSERVE]),
        (Level.TIGHTEN, [Level.OBSERVE, Level.TIGHTEN]),
        (Level.FULL, [Level.OBSERVE, Level.TIGHTEN, Level.FULL]),
    ],
    ids=["observe", "tighten", "full"],
)
def test_a_token_of_the_policy_may_do_what_its_level_covers(level: Level, may: list[Level]) -> None:
    access = Access(TOKEN, Policies(token("phone", level, OTHER)), {"PHONE_TOKEN": ABC})
    grant = access.grant(ABC)
    assert grant == Grant("phone", level, frozenset({OTHER}))
    assert [one for one in Level if grant.may(one, OTHER)] == may
    assert not any(grant.may(one, LOCAL) for one in Level)
    assert (grant.sees(OTHER), grant.sees(LOCAL)) == (True, False)
    assert access.warnings() == []


@pytest.mark.parametrize(
    "given", ["", "ab", ABC[:-1], f"{ABC}d", ABC.upper(), "PHONE_TOKEN", "phone", "\udcff"]
)
def test_another_token_is_nobodys(given: str) -> None:
    access = Access(TOKEN, Policies(token("phone")), {"PHONE_TOKEN": ABC})
    assert access.grant(given) is None


@pytest.mark.parametrize(
    ("environ", "unusable", "why"),
    [
        ({"B_TOKEN": B}, ["a"], "its variable is not set"),
        ({"A_TOKEN": "", "B_TOKEN": B}, ["a"], "its variable is not set"),
        ({"A_TOKEN": "a b", "B_TOKEN": B}, ["a"], "its secret must be printable ASCII"),
        ({"A_TOKEN": "a" * 15, "B_TOKEN": B}, ["a"], "its secret must have 16 characters or more"),
        ({"A_TOKEN": "tök", "B_TOKEN": B}, ["a"], "its secret must be printable ASCII"),
        ({"A_TOKEN": SAME, "B_TOKEN": SAME}, ["a", "b"], "another token has the same secret"),
        ({"A_TOKEN": TOKEN, "B_TOKEN": B}, ["a"], "another token has the same secret"),
    ],
)
def test_a_token_without_a_secret_of_its_own_is_nobodys_and_warned_of(
    caplog: pytest.LogCaptureFixture, environ: dict[str, str], unusable: list[str], why: str
) -> None:
    access = Access(TOKEN, Policies(token("a"), token("b", Level.FULL)), environ)
    names = {"A_TOKEN": "a", "B_TOKEN": "b"}
    for variable, secret in environ.items():
        if secret != TOKEN:
            assert (access.grant(secret) is None) == (names[variable] in unusable)
    own = access.grant(TOKEN)
    assert own is not None
    assert own.name == "control"
    with caplog.at_level(logging.WARNING):
        access.report()
    told = [record.getMessage() for record in caplog.records]
    assert told == access.warnings()
    assert [line.split(":")[0] for line in told] == [
        f"control token {name!r} cannot be used" for name in unusable
    ]
    assert all(why in line and TOKEN not in line for line in told)


def test_a_reload_gives_and_takes_tokens() -> None:
    policies = Policies(token("phone"))
    access = Access(TOKEN, policies, {"PHONE_TOKEN": ABC, "DESK_TOKEN": DEF})
    policies.current = Policy(Control((token("desk", Level.FULL),)))
    assert access.grant(ABC) is None
    assert access.grant(DEF) == Grant("desk", Level.FULL, frozenset({LOCAL}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", f"Bearer {TOKEN}"),
        ("authorization", f"bearer   {TOKEN} "),
        ("authorization", TOKEN),
        ("x-api-key", TOKEN),
        ("api-key", f" {TOKEN}"),
        ("x-goog-api-key", TOKEN),
    ],
)
def test_h18_a_control_token_is_found_wherever_agents_send_keys(name: str, value: str) -> None:
    access = Access(TOKEN, Policies(), {})
    lines = [(b"authorization", b""), (b"accept", b"*/*"), (name.encode(), value.encode())]
    found = access.sent_in(lines, b"")
    assert found is not None
    assert found.name == "control"
    assert access.sent_in([(name.encode(), b"sk-key")], b"") is None


def test_h18_a_token_of_the_policy_or_of_the_query_is_found_too() -> None:
    access = Access(TOKEN, Policies(token("phone")), {"PHONE_TOKEN": ABC})
    for query in (f"key={ABC}".encode(), f"a=1&access_token=%61{ABC[1:]}".encode()):
        found = access.sent_in([], query)
        assert found is not None
        assert found.name == "phone"
    assert access.sent_in([(b"authorization", b"Bearer \xff")], b"key=abcd&x=%FF") is None


class Hand:
    """A clock that is moved by hand."""

    at = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.at

    def new_id(self) -> str:
        return ""


async def test_o13_refused_requests_are_told_and_cannot_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By path, address and reason; never the token that was tried."""
    clock = Hand()
    access = Access(TOKEN, Policies(), {}, clock=clock)
    guard = Guard(PlainTextResponse("in"), access=access, sites=Sites(hosts=(), bound="127.0.0.1"))
    transport = httpx.ASGITransport(guard, client=("10.9.8.7", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        guess = {"authorization": "Bearer gu3ss"}
        with caplog.at_level(logging.INFO):
            await client.get("/control/v1/sessions", headers=IN)
            for headers in (guess, guess, {}, {"host": "evil.example"}):
                await client.get("/control/v1/sessions", headers=headers)
            clock.at = 1.0
            await client.get("/acp", headers={**IN, "host": "evil.example"})
            clock.at = 2.0
            await client.get("/acp")
    told = [one.getMessage() for one in caplog.records if one.name == "modegate.server.access"]
    assert told == [
        "refused /control/v1/sessions from 10.9.8.7: a token that nobody has",
        "refused /acp from 10.9.8.7: under another name, or by another site; 3 more since the last such line",
        "refused /acp from 10.9.8.7: no token",
    ]
    assert "gu3ss" not in caplog.text
