"""Requests of one connection that are under way beside the others, and how they are cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from modegate.core.errors import ModegateError
from modegate.core.ids import SessionId
from modegate_acp.messages.jsonrpc import CANCELLED, INVALID_REQUEST, Id, Message, Request, RpcError

logger = logging.getLogger(__name__)

MAX_RUNNING = 64
"""Requests of one connection that may be under way."""

SESSION_CANCEL = "session/cancel"
CANCEL_REQUEST = "$/cancel_request"

Result = Callable[[], Awaitable[Message]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class _Answers(Protocol):
    def answer(self, request: Request, session: SessionId | None, result: Message) -> None: ...

    def fail(self, request: Request, session: SessionId | None, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class _Running:
    request: Request
    session: SessionId
    task: asyncio.Task[None]


class RunningRequests:
    """What runs for one connection; each request is answered once."""

    def __init__(self, answers: _Answers, spawn: Spawn) -> None:
        self._answers = answers
        self._spawn = spawn
        self._running: dict[Id, _Running] = {}

    def __contains__(self, request: Id) -> bool:
        return request in self._running

    def later(self, request: Request, session: SessionId, result: Result) -> None:
        """Answer a request when its result is there; others are handled meanwhile.

        Raises:
            RpcError: too many are under way.
        """
        if len(self._running) >= MAX_RUNNING:
            raise RpcError(INVALID_REQUEST, f"{MAX_RUNNING} requests are under way already")
        task = self._spawn(self._run(request, session, result))
        self._running[request.id] = _Running(request, session, task)

    async def _run(self, request: Request, session: SessionId, result: Result) -> None:
        try:
            value = await result()
        except Exception as error:
            if not isinstance(error, RpcError | ModegateError):
                logger.exception("%s of a client failed", request.method)
            if self._running.pop(request.id, None) is not None:
                self._answers.fail(request, session, error)
        else:
            if self._running.pop(request.id, None) is not None:
                self._answers.answer(request, session, value)

    def stop(self, session: SessionId, by: str, *, method: str | None = None) -> None:
        for running in list(self._running.values()):
            if running.session == session and method in (None, running.request.method):
                self._stop(running, by)

    def cancel(self, request: Id) -> None:
        running = self._running.get(request)
        if running is not None:
            self._stop(running, CANCEL_REQUEST)

    def _stop(self, running: _Running, by: str) -> None:
        # It is answered at once, whatever it waits for.
        del self._running[running.request.id]
        running.task.cancel()
        if by == SESSION_CANCEL and running.request.method == "session/prompt":
            # The protocol's way to end a turn: clients show an error as a failure of the agent.
            result: Message = {"stopReason": "cancelled"}
            self._answers.answer(running.request, running.session, result)
        else:
            error = RpcError(CANCELLED, f"cancelled by {by}")
            self._answers.fail(running.request, running.session, error)

    def end(self) -> None:
        """Cancel everything; nobody is left to be answered."""
        running = list(self._running.values())
        self._running.clear()
        for one in running:
            one.task.cancel()
