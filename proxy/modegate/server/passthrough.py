"""The default mode's path: bytes both ways as they come (L1)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.types import Send

from modegate.core.errors import UpstreamFailed
from modegate.server.report import Report
from modegate.server.upstream import Upstream, UpstreamRequest


async def pass_through(
    upstream: Upstream, request: UpstreamRequest, send: Send, report: Report
) -> str:
    """Forward a request and its answer, chunk by chunk; give the outcome.

    An answer that breaks off is cut towards the client too: the connection is closed without the end
    that HTTP wants, so that the client notices.

    Raises:
        UpstreamFailed: there was no answer at all.
    """
    report.sent()
    with report.elsewhere():
        answer = await upstream.send(request)
    report.answered()
    try:
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        try:
            await _copy(answer.chunks(), send)
        except UpstreamFailed:
            return "cut"
    finally:
        await answer.close()
    return "passed"


async def _copy(chunks: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
