"""What cannot be done of what an exchange asks for: the client gets one head and one end, whatever broke."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from starlette.types import Message

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.errors import ModegateError, UpstreamFailed
from modegate.core.ids import StepId
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.effects import Headers
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire.request_body import RequestBody
from modegate.server.clock import SystemClock
from modegate.server.proxy.drive import Drive, DriveContext
from modegate.server.proxy.executor import Executor
from support.playbook import JSON, STREAM, Session, answer, call, request, stream, text, tool_call

WHOLE = answer({"tool_calls": [tool_call("read")]}).body
REFUSED = stream(text("a"), call("write"))
SAYS: dict[str, tuple[Headers, bytes]] = {
    "whole": (JSON, WHOLE),
    "streamed": (STREAM, REFUSED),
    "unlabelled": (JSON, REFUSED),
    "an error": ([*JSON], b"{"),
}


class Hop:
    """An answer that cannot be closed."""

    status = 200

    def __init__(self, headers: Headers, body: bytes, error: type[Exception]) -> None:
        self.headers, self._body, self._error = headers, body, error

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def close(self) -> None:
        raise self._error("it cannot be stopped")


class Watch:
    mark = SimpleNamespace(changed=False)

    def __init__(self, in_force: ModesInForce) -> None:
        self._in_force = in_force

    async def read(self) -> ModesInForce:
        return self._in_force


def driven(says: str, error: type[Exception], sent: list[Message]) -> tuple[Drive, ModesInForce]:
    async def send(message: Message) -> None:
        sent.append(message)

    async def upstream_send(_request: Any) -> Hop:
        return Hop(*SAYS[says], error)

    async def append(*_: Any) -> None:
        return None

    services = MagicMock(clock=SystemClock(), executor=Executor(), keepalive=8.0)
    services.folds.append = append
    services.log.put_blob = append
    in_force = Session().in_force()
    body = RequestBody(
        json.dumps(request("read", "write", stream=says in ("streamed", "unlabelled"))).encode()
    )
    outside = MagicMock(services=services, send=send, watch=Watch(in_force))
    outside.upstream.send = upstream_send
    exchange = Exchange(CHAT, StepRequest(StepId("s"), [], body))
    return Drive(exchange, cast(DriveContext, outside)), in_force


@pytest.mark.parametrize("error", [UpstreamFailed, RuntimeError], ids=["known", "bug"])
@pytest.mark.parametrize("says", SAYS)
async def test_g12_one_head_and_one_end_though_the_upstream_cannot_be_stopped(
    says: str, error: type[Exception]
) -> None:
    """What raises there stands behind the head in its batch of effects."""
    sent: list[Message] = []
    drive, in_force = driven(says, error, sent)
    with suppress(Exception):
        await drive.run(in_force)
    await drive.fail(ModegateError("as who serves the request does"))
    await drive.fail(ModegateError("behind the end nothing is told"))
    assert [one["type"] for one in sent].count("http.response.start") == 1
    ends = [one for one in sent if one["type"].endswith("body") and not one["more_body"]]
    assert len(ends) == 1
    assert sent[-1] is ends[0]
