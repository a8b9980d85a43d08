"""A stored answer on its way back to the client: taken whole, looked at, sent on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from starlette.types import Send

from modegate.core.errors import AnswerUnreadable, TooLarge
from modegate.core.ids import StepId
from modegate.core.policy.in_force import ModesInForce, combine
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.stored_answers_get import Fetch, judge, reworded
from modegate.core.wire import headers as lines
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding, decoder
from modegate.server.proxy.executor import LARGE, Executor
from modegate.server.proxy.memory import Share
from modegate.server.proxy.watchers import SessionWatch
from modegate.server.upstream.pool import ChosenUpstream
from modegate.server.upstream.protocol import UpstreamAnswer, UpstreamRequest


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A step that asks for a stored answer, and what the session stands under."""

    step: StepId
    dialect: AnyDialect
    planned: Fetch
    in_force: ModesInForce
    share: Share
    executor: Executor


async def fetch(
    upstream: ChosenUpstream,
    request: UpstreamRequest,
    what: StoredRequest,
    send: Send,
    watch: SessionWatch,
) -> str:
    """Forward a request for a stored answer, and what the mode in force allows of it; give the outcome.

    Raises:
        UpstreamFailed: there was no answer, or one that cannot be read.
        TooLarge: it is over `limits.body`.
        Overloaded: it is more than may be held now.
    """
    in_force = what.in_force
    answer = await upstream.send(request)
    try:
        body = await _whole(answer, in_force.policy.limits.body, what)
    finally:
        await answer.close()
    now = combine(in_force, await watch.read())
    if 200 <= answer.status < 300:
        body = await what.executor(len(body), _allowed, body, replace(what, in_force=now))
    elif answer.status < 400:
        # A client that follows a redirect would get an answer that nobody looks at.
        raise AnswerUnreadable(f"the upstream answers {answer.status}, and no stored answer")
    elif now.gated:
        plain = lines.replace(answer.headers, b"content-encoding", None)
        complaint = Rejection(answer.status, plain, bytearray(body))
        await what.executor(len(body), complaint.check)
    head = lines.replace(lines.as_utf8(answer.headers), b"content-encoding", None)
    head = lines.replace(head, b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})
    return "fetched"


def _allowed(body: bytes, what: StoredRequest) -> bytes:
    stored, step, planned, in_force = what.dialect.stored, what.step, what.planned, what.in_force
    if stored is None:
        raise TypeError("this dialect's answers are not kept")
    if planned.asked:
        return judge(step, stored.fetched_items(body), planned, in_force)
    body = reworded(step, body, what.dialect, in_force)
    return judge(step, stored.fetched(body), planned, in_force)


async def _whole(answer: UpstreamAnswer, limit: int, what: StoredRequest) -> bytes:
    coding = lines.get_one(answer.headers, b"content-encoding") or b""
    body = bytearray()
    try:
        undo = decoder(coding, limit)
        async for chunk in answer.chunks():
            size = LARGE if coding else len(chunk)
            body += await what.executor(size, undo.feed, chunk)
            if len(body) > limit:
                raise TooLarge(f"the upstream's answer is over {limit} bytes (limits.body)")
            what.share.answer(len(body))
        undo.finish()
    except (BadEncoding, UnknownEncoding) as error:
        raise AnswerUnreadable(str(error)) from error
    return bytes(body)
