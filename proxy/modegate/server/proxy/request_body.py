"""The body of a request as its step needs it: passed on as it comes, or read whole and only once."""

from __future__ import annotations

from collections.abc import AsyncIterator

from modegate.core.errors import BadRequest, ModegateError, TooLarge
from modegate.core.wire import headers as lines
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding, whole
from modegate.core.wire.request_body import RequestBody
from modegate.server.proxy.client import ClientRequest
from modegate.server.proxy.executor import LARGE, Executor
from modegate.server.proxy.memory import Share


class BodyReader:
    """Reads one request's body, as far as somebody asks for it."""

    def __init__(
        self,
        client: ClientRequest,
        headers: lines.Headers,
        limit: int,
        share: Share,
        executor: Executor,
    ) -> None:
        """Take a request of which nothing was read; `limit` is what a decoded body may have."""
        self._client = client
        self._headers = headers
        self._limit = limit
        self._share = share
        self._executor = executor
        self._raw: bytes | None = None
        self._body: RequestBody | None = None
        self._flaw: tuple[type[ModegateError], str] | None = None
        """Why it could not be decoded."""

    async def raw(self) -> bytes:
        if self._raw is None:
            self._raw = await self._client.body()
        return self._raw

    async def read(self) -> RequestBody:
        """Return the whole body; what cannot be decoded stands as it came (`check_decoded`)."""
        if self._body is None:
            self._body = RequestBody(await self.raw(), await self._decoded())
        return self._body

    async def _decoded(self) -> bytes | None:
        raw, encoding = await self.raw(), lines.get_one(self._headers, b"content-encoding")
        if not encoding:
            return None
        try:
            # What some bytes stand for may be long.
            decoded = await self._executor(LARGE, whole, raw, encoding, self._limit)
        except (BadEncoding, UnknownEncoding) as error:
            self._flaw = BadRequest, f"the request body cannot be decoded: {error}"
            return None
        except TooLarge as error:
            self._flaw = TooLarge, str(error)
            return None
        self._share.take(len(decoded))
        return decoded

    def check_decoded(self, *, gated: bool) -> None:
        """Refuse what could not be decoded. Without a mode, a body that is only malformed may pass.

        Raises:
            BadRequest: it is not what its content-encoding says.
            TooLarge: it stands for more than it may.
        """
        if self._flaw is not None:
            kind, why = self._flaw
            if gated or kind is TooLarge:
                raise kind(why)

    async def to_forward(self) -> bytes | AsyncIterator[bytes]:
        """Return the body as it came: whole if somebody has read it, else piece by piece."""
        if self._raw is not None:
            return self._raw
        return self._client.pieces() if has_body(self._headers) else await self.raw()


def has_body(headers: lines.Headers) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in headers
    )
