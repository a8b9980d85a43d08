"""acpx, a client of ACP for the terminal, on `modegate acp`: modes are flipped and plans are answered."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.acp_clients import NODE
from support.acp_story import (
    GIVES_IN,
    PLAN,
    POLICIES,
    WRITES,
    mode,
    proxied,
    questions,
    step,
    until,
)
from support.running import TOKEN, Running, policies_file
from support.waiting import PATIENCE

pytestmark = pytest.mark.timeout(240)
"""Many processes start here, which takes long where a machine has other work; nothing waits for the time."""

ACPX = NODE.with_name("acpx")
KINDS = ("current_mode_update", "config_option_update")


class Acpx:
    """acpx in a home of its own, with `modegate acp` as its agent."""

    def __init__(self, proxy: Running, folder: Path) -> None:
        self.proxy = proxy
        self._folder = folder
        # `acpx` wants a newer Node than distributions have: the package's own comes first.
        path = f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"
        own = {"HOME": str(folder), "PATH": path, "MODEGATE_CONTROL_TOKEN": TOKEN}
        self._environ = {**os.environ, **own}

    def command(self, *words: str) -> list[str]:
        """Return the command line; what acpx keeps running ends after 300 s without work, as by default."""
        agent = [sys.executable, "-m", "modegate", "acp", "--url", self.proxy.url]
        options = ["--agent", shlex.join(agent), "--format", "json"]
        return [str(ACPX), *options, "--cwd", str(self._folder), *words]

    async def start(self, *command: str, **more: Any) -> asyncio.subprocess.Process:
        """Start it."""
        return await asyncio.create_subprocess_exec(
            *command, env=self._environ, cwd=self._folder, start_new_session=True, **more
        )

    async def __call__(self, *words: str) -> list[dict[str, Any]]:
        """Run a command to its end, and give the JSON that it printed."""
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        process = await self.start(*self.command(*words), stdin=asyncio.subprocess.DEVNULL, **pipes)
        async with asyncio.timeout(2 * PATIENCE):
            out, told = await process.communicate()
        assert out, told.decode()
        return [json.loads(line) for line in out.splitlines()]

    async def take_up(self) -> None:
        """Have acpx know session `s`."""
        await self("sessions", "new", "--resume-session", "s")

    async def let_go(self) -> None:
        """Have it forget the session and end what it keeps running for it."""
        await self("sessions", "close")


@pytest.fixture
async def acpx(tmp_path: Path) -> AsyncIterator[Acpx]:
    home = tmp_path / "home"
    home.mkdir()
    async with proxied(tmp_path) as proxy:
        run = Acpx(proxy, home)
        await run.take_up()
        yield run
        await run.let_go()


def modes_told(messages: list[dict[str, Any]]) -> list[str]:
    """Return the modes that were told of, which both kinds of update must agree on."""
    told = [one["params"]["update"] for one in messages if one.get("method") == "session/update"]
    kinds = {kind: [one for one in told if one["sessionUpdate"] == kind] for kind in KINDS}
    modes = [one["currentModeId"] for one in kinds["current_mode_update"]]
    assert modes == [
        one["configOptions"][0]["currentValue"] for one in kinds["config_option_update"]
    ]
    return modes


async def test_modes_are_listed_and_set(acpx: Acpx) -> None:
    (listed,) = await acpx("sessions")
    assert [one["sessionId"] for one in listed["sessions"]] == ["s"]
    (set_,) = await acpx("set-mode", "architect")
    assert (set_["action"], await mode(acpx.proxy)) == ("mode_set", "plan")
    # Outside of a prompt it says no to the question whether the mode may be left.
    (refused,) = await acpx("set-mode", "default")
    assert (refused["error"]["code"], await mode(acpx.proxy)) == (-32800, "plan")
    await acpx("--approve-all", "prompt", "/mode default")
    assert await mode(acpx.proxy) == "default"


DOCS = Path(__file__).parents[2] / "docs" / "acp.md"


def recipe() -> list[list[str]]:
    """Return the words of the commands that the docs show, behind `acpx --agent "modegate acp"`."""
    lines = re.findall(r'^acpx --agent "modegate acp" (.*)$', DOCS.read_text("utf-8"), re.MULTILINE)
    return [shlex.split(line.replace("my-session", "s"), comments=True) for line in lines]


async def test_a1_after_the_recipe_of_the_docs_no_plan_is_answered_unread(acpx: Acpx) -> None:
    """Also where what it keeps running stays attached, with the flag that says yes to everything."""
    proxy = acpx.proxy
    await acpx.let_go()
    for words in recipe():
        await acpx(*words)
    assert [words[-1] for words in recipe()] == ["sessions", "s", "plan", "/mode default"]
    assert "--ttl" in recipe()[-1]
    await proxy.set_mode("plan")
    for flag in ("--approve-all", "--deny-all"):
        await acpx(flag, "prompt", "/help")
        before = len(await proxy.events("s"))
        assert "approval/detached" not in await kinds(proxy)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            await until(proxy, lambda: questions(proxy))
            (question,) = await questions(proxy)
            # It is attached, and shows nothing.
            assert "approval/delivered" not in await kinds(proxy, before)
            await proxy.control("POST", f"/approvals/{question['id']}", json={"option": "reject"})
        assert (asking.result() or "").endswith(GIVES_IN)
        answered = [one for one in await proxy.events("s") if one["type"] == "approval/answered"]
        assert [one["by"] for one in answered[-1:]] == ["person:control"]
    assert await mode(proxy) == "plan"


async def kinds(proxy: Running, after: int = 0) -> list[str]:
    """Return the kinds of the session's events."""
    return [one["type"] for one in (await proxy.events("s"))[after:]]


async def answer(acpx: Acpx, flag: str, option: str) -> str:
    """Submit a plan, have acpx connect and answer it as the flag says; give how the step ended."""
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(step(acpx.proxy))
        # It asks for what is open when it connects, so the plan must be there before.
        await until(acpx.proxy, lambda: questions(acpx.proxy))
        messages = await acpx(flag, "prompt", "/status")
    (asked,) = (one for one in messages if one.get("method") == "session/request_permission")
    call = asked["params"]["toolCall"]
    assert call["content"][0]["content"]["text"] == PLAN
    (chosen,) = (one for one in messages if one.get("id") == asked["id"] and "result" in one)
    assert chosen["result"]["outcome"]["optionId"] == option
    assert modes_told(messages) == (["default"] if option == "approve" else [])
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    return asking.result() or ""


async def test_a_plan_is_shown_rejected_and_approved_on_connecting_again(acpx: Acpx) -> None:
    await acpx.proxy.set_mode("plan")
    assert (await answer(acpx, "--deny-all", "reject")).endswith(GIVES_IN)
    assert await mode(acpx.proxy) == "plan"
    # What it keeps running answers by the flag of this prompt, and not by that of the one before.
    assert (await answer(acpx, "--approve-all", "approve")).endswith(WRITES)
    assert await mode(acpx.proxy) == "default"


async def test_a_person_at_the_terminal_cancels(acpx: Acpx) -> None:
    """The question stands until ^C, which ends the prompt and sets nothing."""
    assert acpx.proxy.composed
    policies_file(acpx.proxy.folder, f"{POLICIES}sessions: {{initial_mode: plan}}\n")
    await acpx.proxy.composed.services.policies.poll()
    ours, theirs = os.openpty()
    command = acpx.command("exec", "/mode default")
    process = await acpx.start(*command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    async with asyncio.timeout(2 * PATIENCE):
        while b"(y/N)" not in seen:
            seen += await asyncio.to_thread(os.read, ours, 65536)
        process.send_signal(signal.SIGINT)
        while b'"stopReason":"cancelled"' not in seen:
            seen += await asyncio.to_thread(os.read, ours, 65536)
        await process.wait()
    os.close(ours)
    sessions = (await acpx.proxy.control("GET", "/sessions")).json()["sessions"]
    assert [one["mode"] for one in sessions if one["id"] != "s"] == ["plan"]
