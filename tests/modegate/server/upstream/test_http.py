"""What is HttpUpstream's own; what holds for each `Upstream` is in the files beside this one."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from modegate.core.errors import BadRequest, UpstreamFailed
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.protocol import UpstreamRequest
from support.raw_upstream import RawUpstream
from support.upstreams import PROXY_VARIABLES, dialling, get, pieces, post, read


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own proxy variables out."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


client = dialling(HttpUpstream)


@pytest.mark.parametrize(
    "request_",
    [post(headers=[(b"x-a", b"\xe9")]), get(b"/\xff"), get(b"http://elsewhere/v1/x")],
    ids=["header", "path", "absolute"],
)
async def test_what_cannot_go_out_unchanged_is_refused(request_: UpstreamRequest) -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(BadRequest):
            await upstream.send(request_)
    assert raw.connections == 0


# No connection


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Return a list of errors that the next attempts to connect meet, one each."""
    errors: list[BaseException] = []
    connect = aiohttp.TCPConnector.connect

    async def refused(self: aiohttp.TCPConnector, *args: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return await connect(self, *args, **more)

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", refused)
    return errors


def tls_error() -> ssl.SSLError:
    error = ssl.SSLError(1, "no")
    error.reason = "NO"
    return error


def unconnected(error: OSError) -> aiohttp.ClientConnectorError:
    key = cast(Any, SimpleNamespace(host="h", port=1, ssl=True, is_ssl=False))
    return aiohttp.ClientConnectorError(key, error)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_connection_that_was_refused_is_tried_once_more(
    refusals: list[BaseException], streamed: bool
) -> None:
    refusals.append(unconnected(ConnectionRefusedError(111, "refused")))
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        assert await read(await upstream.send(post(pieces(b"a", b"b") if streamed else b"ab")))
    assert [request.body for request in raw.requests] == [b"ab"]


@pytest.mark.parametrize(
    "error",
    [
        unconnected(tls_error()),
        aiohttp.ConnectionTimeoutError(),
        aiohttp.ClientConnectorDNSError(cast(Any, SimpleNamespace(host="h")), OSError(1, "no")),
    ],
    ids=["TLS", "timeout", "name"],
)
async def test_what_would_only_fail_again_or_took_long_is_not_tried_again(
    refusals: list[BaseException], error: Exception
) -> None:
    refusals += [error, AssertionError("tried again")]
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed):
            await upstream.send(post())
    assert len(refusals) == 1


async def test_a_second_refusal_is_told(refusals: list[BaseException]) -> None:
    refusals += [unconnected(ConnectionRefusedError(111, "refused")) for _ in range(2)]
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed, match="Connection refused"):
            await upstream.send(post())
    assert (raw.connections, refusals) == (0, [])


# Proxies


async def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawUpstream() as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.replace("//", "//user:pass@"))
        async with client("http://model.invalid/v1") as upstream:
            await read(await upstream.send(post(headers=[(b"authorization", b"Bearer k")])))
    request = proxy.requests[0]
    assert request.target == b"http://model.invalid/v1/chat/completions"
    assert request.header("authorization") == [b"Bearer k"]
    assert request.header("proxy-authorization") == [b"Basic dXNlcjpwYXNz"]


async def test_no_proxy_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawUpstream() as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url)
        monkeypatch.setenv("no_proxy", "model.invalid")
        async with client("http://model.invalid/v1") as upstream:
            with pytest.raises(UpstreamFailed):
                await upstream.send(get())
        assert proxy.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "0.0.0.0"])
@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_this_machine_is_never_reached_by_a_proxy(
    host: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model on this machine works where a company's proxy is set, whatever NO_PROXY says."""
    async with RawUpstream() as proxy, RawUpstream() as raw:
        monkeypatch.setenv(variable, proxy.base_url)
        monkeypatch.setenv("no_proxy", "company.example")
        async with client(raw.base_url.replace("127.0.0.1", host)) as upstream:
            await read(await upstream.send(get()))
        assert proxy.requests == []
    assert raw.requests[0].target == b"/v1/models"


async def test_this_machine_has_no_unusable_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(get()))
    assert len(raw.requests) == 1


def test_a_proxy_that_cannot_be_used_is_told_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ValueError, match="proxies"):
        HttpUpstream("https://model.invalid/v1")
