"""A stored answer on its way back to the client: taken whole, looked at, sent on."""

from __future__ import annotations

from starlette.types import Send

from modegate.core import headers as lines
from modegate.core.dialects.responses.fetched import FetchedItems, FetchedResponse
from modegate.core.encoding import BadEncoding, UnknownEncoding, decoder
from modegate.core.errors import AnswerUnreadable, TooLarge
from modegate.core.fetching import Fetch, judge
from modegate.core.ids import StepId
from modegate.core.standing import Standing
from modegate.server.memory import Share
from modegate.server.upstream import Upstream, UpstreamAnswer, UpstreamRequest


async def fetch(
    upstream: Upstream,
    request: UpstreamRequest,
    what: tuple[StepId, Fetch, Standing],
    send: Send,
    share: Share,
) -> str:
    """Forward a request for a stored answer, and what the mode in force allows of it; give the outcome.

    Raises:
        UpstreamFailed: there was no answer, or one that cannot be read.
        TooLarge: it is over `limits.body`.
        Overloaded: it is more than may be held now.
    """
    step, planned, standing = what
    answer = await upstream.send(request)
    try:
        body = await _whole(answer, standing.policy.limits.body, share)
    finally:
        await answer.close()
    if 200 <= answer.status < 300:
        read = FetchedItems if planned.asked else FetchedResponse
        body = judge(step, read(body), planned, standing)
    elif answer.status < 400:
        # A client that follows a redirect would get an answer that nobody looks at.
        raise AnswerUnreadable(f"the upstream answers {answer.status}, and no stored answer")
    head = lines.replace(lines.as_utf8(answer.headers), b"content-encoding", None)
    head = lines.replace(head, b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})
    return "fetched"


async def _whole(answer: UpstreamAnswer, limit: int, share: Share) -> bytes:
    coding = lines.get_one(answer.headers, b"content-encoding") or b""
    body = bytearray()
    try:
        undo = decoder(coding, limit)
        async for chunk in answer.chunks():
            body += undo.feed(chunk)
            if len(body) > limit:
                raise TooLarge(f"the upstream's answer is over {limit} bytes (limits.body)")
            share.answer(len(body))
        undo.finish()
    except (BadEncoding, UnknownEncoding) as error:
        raise AnswerUnreadable(str(error)) from error
    return bytes(body)
