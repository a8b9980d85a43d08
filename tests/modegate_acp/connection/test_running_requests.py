"""Requests under way: each is answered once, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import SessionId
from modegate_acp.connection.running_requests import MAX_RUNNING, SESSION_CANCEL, RunningRequests
from modegate_acp.messages.jsonrpc import Message, Request, RpcError, as_rpc

S = SessionId("s")
PROMPT = Request(1, "session/prompt")
SET = Request(2, "session/set_mode")


class Answers:
    """What was answered."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, Any]] = []

    def answer(self, request: Request, session: SessionId | None, result: Message) -> None:
        self.got.append((request.id, result))

    def fail(self, request: Request, session: SessionId | None, error: Exception) -> None:
        self.got.append((request.id, as_rpc(error).code))


class Running:
    """Work, and the tasks that it started."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.tasks: list[asyncio.Task[None]] = []
        self.work = RunningRequests(self.answers, self.spawn)
        self.gate = asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    async def held(self) -> Message:
        await self.gate.wait()
        return {"ok": True}

    async def over(self) -> list[tuple[Any, Any]]:
        await asyncio.wait(self.tasks)
        return self.answers.got


async def test_an_answer_comes_when_it_is_there() -> None:
    running = Running()
    running.work.later(PROMPT, S, running.held)
    assert 1 in running.work
    running.gate.set()
    assert await running.over() == [(1, {"ok": True})]
    assert 1 not in running.work


@pytest.mark.parametrize(
    ("error", "code"),
    [(RpcError(-32602, "no"), -32602), (LogUnavailable("gone"), -32603), (KeyError("bug"), -32603)],
)
async def test_an_error_is_an_answer(error: Exception, code: int) -> None:
    running = Running()

    async def failing() -> Message:
        raise error

    running.work.later(SET, S, failing)
    assert await running.over() == [(2, code)]


@pytest.mark.parametrize("started", [False, True], ids=["at once", "while it waits"])
async def test_session_cancel_ends_a_prompt_without_an_error(started: bool) -> None:
    running = Running()
    running.work.later(PROMPT, S, running.held)
    running.work.later(SET, S, running.held)
    if started:
        await asyncio.sleep(0)
    running.work.stop(SessionId("other"), SESSION_CANCEL)
    assert running.answers.got == []
    running.work.stop(S, SESSION_CANCEL)
    running.gate.set()
    assert await running.over() == [(1, {"stopReason": "cancelled"}), (2, -32800)]


async def test_one_method_can_be_stopped() -> None:
    running = Running()
    running.work.later(PROMPT, S, running.held)
    running.work.later(SET, S, running.held)
    running.work.stop(S, "a later request", method=SET.method)
    running.gate.set()
    assert await running.over() == [(2, -32800), (1, {"ok": True})]


async def test_any_request_can_be_cancelled() -> None:
    running = Running()
    running.work.later(PROMPT, S, running.held)
    running.work.cancel("unknown")
    running.work.cancel(1)
    running.work.cancel(1)
    assert await running.over() == [(1, -32800)]


async def test_nobody_is_answered_at_the_end() -> None:
    running = Running()
    running.work.later(PROMPT, S, running.held)
    running.work.end()
    assert await running.over() == []


async def test_who_is_stopped_too_late_is_answered_once() -> None:
    running = Running()

    async def stubborn() -> Message:
        try:
            await running.gate.wait()
        except asyncio.CancelledError:
            return {"ok": True}
        return {}

    running.work.later(PROMPT, S, stubborn)
    await asyncio.sleep(0)
    running.work.cancel(1)
    assert await running.over() == [(1, -32800)]


async def test_there_is_a_limit() -> None:
    running = Running()
    for number in range(MAX_RUNNING):
        running.work.later(Request(number, "session/prompt"), S, running.held)
    with pytest.raises(RpcError):
        running.work.later(Request("more", "session/prompt"), S, running.held)
    running.gate.set()
    await running.over()
