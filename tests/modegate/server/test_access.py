"""The control API's door: who gets in, and how the token is kept."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from modegate.server.access import Guard, ensure_token, host_name, read_token

TOKEN = "s3cret-token"
IN = {"authorization": f"Bearer {TOKEN}"}


async def ask(
    headers: Mapping[str, str | bytes], *, hosts: tuple[str, ...] = (), bound: str = "127.0.0.1"
) -> httpx.Response:
    raw = [(n.encode(), v if isinstance(v, bytes) else v.encode()) for n, v in headers.items()]
    guard = Guard(PlainTextResponse("in"), token=TOKEN, hosts=hosts, bound=bound)
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


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    token = ensure_token(state)
    assert len(token) >= 32
    assert ensure_token(state) == read_token(state) == token
    assert stat.S_IMODE((state / "control-token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [path.name for path in state.iterdir()] == ["control-token"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_could_read_is_replaced(tmp_path: Path, mode: int) -> None:
    token = ensure_token(tmp_path)
    (tmp_path / "control-token").chmod(mode)
    assert read_token(tmp_path) is None
    assert ensure_token(tmp_path) not in (token, None)


def test_an_empty_token_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control-token"
    path.touch(mode=0o600)
    assert read_token(tmp_path) is None
    assert ensure_token(tmp_path)


def test_no_token_before_the_first_start(tmp_path: Path) -> None:
    assert read_token(tmp_path / "nowhere") is None


def test_starting_together_ends_with_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: ensure_token(tmp_path), range(32)))
    assert len(tokens) == 1
