"""H23: while one body is read, however long that takes, everybody else is served."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modegate.core.dialects.chat.answer.stream import ChatStreamReader
from modegate.core.dialects.chat.answer.whole import ChatWhole
from modegate.core.step.request.hop_requests import HopRequests
from modegate.server.proxy import step as step_module
from modegate.server.proxy.executor import LARGE
from support.playbook import chunk, request, stream, text
from support.raw_upstream import RawUpstream, Received, chunked, whole
from support.running import exchange, post, running
from support.waiting import PATIENCE

PATH = "/s/s/v1/chat/completions"
LONG = "x" * (LARGE + 1000)
SHORT = json.dumps({"model": "m", "messages": []}).encode()
STREAM = {"stream": True}


def asked(**more: Any) -> bytes:
    return json.dumps(request("read", "write") | more).encode()


ANSWER = {"id": "x", "object": "chat.completion", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": LONG}}]}  # fmt: skip

CASES: dict[str, tuple[Any, str, bytes, str, list[Any]]] = {
    "a request": (HopRequests, "read", asked(**STREAM, pad=LONG), PATH, chunked(stream(text("a")))),
    "a request without an id": (
        step_module,
        "body_fields",
        asked(**STREAM, pad=LONG),
        "/v1/chat/completions",
        chunked(stream(text("a"))),
    ),
    "a whole answer": (
        ChatWhole,
        "__init__",
        asked(),
        PATH,
        whole(json.dumps(ANSWER).encode()),
    ),
    "an event": (
        ChatStreamReader,
        "read",
        asked(**STREAM),
        PATH,
        chunked(stream(chunk({"content": LONG}), chunk({}, "stop"))),
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_h23_others_are_served_while_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The reading itself waits until another session has its whole answer."""
    owner, method, body, path, answered = CASES[name]
    began, served = threading.Event(), threading.Event()
    read: Callable[..., Any] = getattr(owner, method)

    def slowly(*given: Any, **more: Any) -> Any:
        began.set()
        assert served.wait(PATIENCE)
        return read(*given, **more)

    def answer(one: Received) -> list[Any]:
        return whole(b"{}") if b"/other/" in one.target or one.body == SHORT else answered

    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        monkeypatch.setattr(owner, method, slowly)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            reading = group.create_task(exchange(proxy.port, post(path, body)))
            while not began.is_set():  # noqa: ASYNC110 -- it is a thread that sets it
                await asyncio.sleep(0)
            other = post("/s/other/v1/chat/completions", SHORT)
            assert b" 200 " in await exchange(proxy.port, other)
            served.set()
            assert b" 200 " in await reading
