"""Every implementation of `Upstream` that speaks HTTP: what is promised holds for each of them.

A test takes the fixture `dial` and opens whichever it is given:

    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from modegate.core.dialects.registered import DIALECTS
from modegate.core.endpoints import Api
from modegate.core.policy.upstreams import CONNECT_TIMEOUT, READ_TIMEOUT
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.pool import Upstreams
from modegate.server.upstream.protocol import Headers, Upstream, UpstreamAnswer, UpstreamRequest
from support.dialect_facts import api
from support.policies import parse

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Maker(Protocol):
    """Makes an upstream at a base URL; timeouts are in seconds."""

    def __call__(
        self, base: str, /, *, connect_timeout: float = ..., read_timeout: float = ...
    ) -> Upstream: ...


class _OfPolicy:
    """An upstream as a policy describes it."""

    def __init__(
        self,
        base: str,
        /,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        timeouts = f"{{connect: {connect_timeout}, read: {read_timeout}}}"
        self._all = Upstreams(_default, {}, DIALECTS)
        self._all.adopt(
            parse(
                "modes: {plan: {section: s, tools: [read]}}\n"
                f"upstreams: {{only: {{url: '{base}', timeouts: {timeouts}}}}}\n"
                "routes: [{upstream: only}]\n"
            )
        )

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        with self._all.pick(api("chat"), None) as picked:
            return await picked.send(request)

    async def close(self) -> None:
        await self._all.close()


MAKERS: dict[str, Maker] = {
    "http": HttpUpstream,
    "policy": _OfPolicy,
}
"""By name; one more implementation is one more line."""


class Dial(Protocol):
    """Opens an upstream for the time of a with block."""

    def __call__(
        self, base: str, /, *, connect_timeout: float = ..., read_timeout: float = ...
    ) -> AbstractAsyncContextManager[Upstream]: ...


def dialling(make: Maker) -> Dial:
    """Return what opens upstreams of one implementation and closes them again."""

    @asynccontextmanager
    async def dial(base: str, /, **timeouts: float) -> AsyncIterator[Upstream]:
        upstream = make(base, **timeouts)
        try:
            yield upstream
        finally:
            await upstream.close()

    return dial


def post(
    body: bytes | AsyncIterator[bytes] = b"{}", headers: Headers | None = None
) -> UpstreamRequest:
    """Return a model request."""
    return UpstreamRequest("POST", b"/v1/chat/completions", headers or [], body)


def get(target: bytes = b"/v1/models") -> UpstreamRequest:
    """Return a request without a body."""
    return UpstreamRequest("GET", target, [], b"")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """Yield a body that comes in pieces."""
    for part in parts:
        yield part


async def read(answer: UpstreamAnswer) -> bytes:
    """Read an answer to its end."""
    body = b"".join([chunk async for chunk in answer.chunks()])
    await answer.close()
    return body


def _default(api: Api) -> HttpUpstream:
    return HttpUpstream(api.home)
