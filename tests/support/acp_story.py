"""A proxy for ACP clients, and the agent whose model submits a plan to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from modegate.core.policy.model import Waits
from support.playbook import request
from support.running import Running, policies_file, running
from support.sdk_clients import openai_client
from support.waiting import PATIENCE

WRITES, GIVES_IN = "Now I write.", "Then not."
"""How a step ends whose plan was approved, and one whose plan was rejected."""

WAIT_S = 2 * PATIENCE
"""Longer than any client takes to start; nothing waits for it to pass."""

WAITS = Waits(nobody=WAIT_S, streamed=WAIT_S, whole=WAIT_S)
PLAN = "# Rename foo\n\n1. Rename it — everywhere."
POLICIES = """
modes:
  plan:
    name: Plan
    description: Look, do not touch.
    section: PLAN-SECTION
    tools: [read, exit_plan_mode]
    aliases: [architect]
  review:
    section: REVIEW-SECTION
    tools: [read]
"""
SCRIPT = """
answers:
  - when: {last_result: "approved the plan", offers: write, lacks: exit_plan_mode}
    text: "Now I write."
  - when: {last_result: "reject"}
    text: "Then not."
  - when: {offers: exit_plan_mode}
    text: "Here is my plan."
    calls: [{name: exit_plan_mode, arguments: {plan: "# Rename foo\\n\\n1. Rename it — everywhere."}}]
  - text: "Hello."
"""
TOOLS: Any = request("read", "write")["tools"]


@asynccontextmanager
async def proxied(
    folder: Path, policies: str = POLICIES, waits: Waits = WAITS
) -> AsyncIterator[Running]:
    """Run a proxy whose model submits a plan wherever it can; session `s` has sent a request."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    file = policies_file(folder, policies)
    async with running(folder, f"scripted:{script}", waits=waits, policies=file) as proxy:
        assert await step(proxy) == "Hello."
        assert proxy.composed
        await proxy.composed.services.batch_writer.flush()  # so that the session is in the index
        yield proxy


async def step(proxy: Running, task: str = "rename foo") -> str | None:
    """Do what an agent does: one request with tools; give the text that ended it."""
    messages: Any = [{"role": "user", "content": task}]
    async with openai_client(proxy.base()) as openai:
        stream = openai.chat.completions.stream(model="m", messages=messages, tools=TOOLS)
        async with stream as events:
            async for _ in events:
                pass
            return (await events.get_final_completion()).choices[0].message.content


async def mode(proxy: Running) -> str:
    """Return the mode of session `s`."""
    return str((await proxy.control("GET", "/sessions/s")).json()["mode"])


async def until(proxy: Running, holds: Callable[[], Awaitable[Any]]) -> None:
    """Wait until something holds that the log decides; it is looked at again after each event."""
    assert proxy.composed
    log = proxy.composed.services.log
    position = (await log.changes(None)).position
    async with asyncio.timeout(WAIT_S):
        while not await holds():
            position = (await log.changes(position, wait=1.0)).position


async def questions(proxy: Running) -> list[Any]:
    """Return what a person could answer now."""
    found: list[Any] = (await proxy.control("GET", "/approvals")).json()["approvals"]
    return found
