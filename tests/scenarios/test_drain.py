"""SIGTERM with streams and questions open, to one process and to several: nothing breaks off or is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.playbook import call, request, said, stream, text
from support.raw_upstream import RawUpstream, Received, chunked
from support.running import Process, Running, client, policies_file, process
from support.waiting import PATIENCE

POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, exit_plan_mode]
limits: {drain: 20s}
"""
PLAN = stream(text("My plan."), call("exit_plan_mode", '{"plan":"# Rename foo"}'))

workers = pytest.mark.parametrize("workers", [1, 2])


@contextlib.contextmanager
def serving(folder: Path, upstream: str, workers: int) -> Iterator[Process]:
    policies_file(folder, POLICIES)
    with process(folder, upstream, "--workers", str(workers)) as started:
        yield started


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until there is something."""
    async with asyncio.timeout(PATIENCE):
        while not (value := await found()):  # noqa: ASYNC110 -- the other process is asked each time
            await asyncio.sleep(0)
        return value


async def closed(running: Running) -> bool:
    """Return whether its port takes nobody any more."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def ended(started: Process) -> int:
    return await asyncio.to_thread(started.process.wait, PATIENCE)


async def question(running: Running) -> Any:
    return (await running.control("GET", "/approvals")).json()["approvals"]


@workers
async def test_streams_end_as_they_would_have(tmp_path: Path, workers: int) -> None:
    """In default mode and in a mode, while nobody new is let in."""
    go_on = asyncio.Event()
    answer = stream(text("first"), text("last"), finish="stop")
    first, last = answer[:40], answer[40:]
    async with RawUpstream(chunked(first, go_on, last)) as up:
        with serving(tmp_path, up.base_url, workers) as started:
            await started.running.set_mode("plan", "held")
            async with client() as http, asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(
                        http.post(
                            f"{started.running.base(name)}/chat/completions",
                            json=request("read", stream=True),
                        )
                    )
                    for name in ("free", "held")
                ]
                await up.received(2)
                started.process.send_signal(signal.SIGTERM)
                await until(lambda: closed(started.running))
                assert started.process.poll() is None
                go_on.set()
            assert [one.result().content for one in asked] == [answer] * 2
            assert await ended(started) == 0


@workers
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_an_open_question_outlives_the_process(
    tmp_path: Path, workers: int, streamed: bool
) -> None:
    """Its step is told that nobody answered, and the plan is approved in the next process."""

    def model(asked: Received) -> Any:
        return chunked(said("Then later.") if b"nobody answered" in asked.body else PLAN)

    async with RawUpstream(model) as up:
        with serving(tmp_path, up.base_url, workers) as started:
            await started.running.set_mode("plan")
            async with client() as http, asyncio.TaskGroup() as group:
                body = request("read", "write", stream=True)
                step = group.create_task(ask(http, started.running, body, streamed=streamed))
                (asked,) = await until(lambda: question(started.running))
                shown = f"/approvals/{asked['id']}/delivered"
                await started.running.control("POST", shown, json={"via": "test"})
                started.process.send_signal(signal.SIGTERM)
            assert b"Then later." in step.result()
            assert await ended(started) == 0
        with serving(tmp_path, up.base_url, workers) as again:
            (same,) = await question(again.running)
            assert (same["id"], same["why"]) == (asked["id"], "shutdown")
            settled = await again.running.control(
                "POST", f"/approvals/{same['id']}", json={"option": "approve"}
            )
            assert settled.json()["mode"] == "default"


async def ask(http: Any, running: Running, body: dict[str, Any], *, streamed: bool) -> bytes:
    """Send a step, and give the answer, streamed or in one piece."""
    url = f"{running.base()}/chat/completions"
    if not streamed:
        return bytes((await http.post(url, json=body)).content)
    async with http.stream("POST", url, json=body) as answer:
        return b"".join([part async for part in answer.aiter_raw()])


async def test_a_request_whose_connection_is_new_is_served(tmp_path: Path) -> None:
    """It was on its way when the end began; what follows it on the connection is not."""
    async with RawUpstream() as up:
        with serving(tmp_path, up.base_url, 1) as started:
            reader, writer = await asyncio.open_connection("127.0.0.1", started.running.port)
            await until(lambda: reached(started))
            started.process.send_signal(signal.SIGTERM)
            await until(lambda: closed(started.running))
            one = b"GET /s/s/v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
            writer.write(one + one)
            answers = await reader.read()
            writer.close()
            assert answers.count(b"HTTP/1.1 200") == 1
            assert await ended(started) == 0


async def reached(started: Process) -> bool:
    """Return whether the process answers, so that it has taken all connections before this one too."""
    async with client() as http:
        return (await http.get(f"{started.running.url}/healthz")).status_code == 200


async def test_workers_do_not_outlive_the_first_process(tmp_path: Path) -> None:
    async with RawUpstream() as up:
        with serving(tmp_path, up.base_url, 2) as started:
            await until(lambda: reached(started))
            os.kill(started.process.pid, signal.SIGKILL)
            started.process.wait()
            await until(lambda: closed(started.running))
