"""The demo's story: what happens, in which order, and the facts that prove it.

Every step ends in facts that are checked: what the model was offered and told (as the upstream got it),
what the agent ran, and what is on disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from modegate.core.dialects.registered import DIALECTS
from modegate.core.step.texts import REFUSED
from modegate.demo.agent import Agent
from modegate.scripted.upstream import ScriptedUpstream
from modegate.server.compose import Composed, compose
from modegate.server.process.serving import Server, bind, serve_with
from modegate.server.settings import Settings, shipped_policies

SESSION = "demo"
SCRIPT = Path(__file__).with_name("script.yaml")
COLORS = {
    "user": "cyan",
    "person": "cyan",
    "model": "yellow",
    "agent": "green",
    "modegate": "magenta",
}
READY_TRIES = 200
PATIENCE_S = 20.0


class DemoFailed(Exception):
    """Something of the story did not happen."""


def tell(who: str, what: str) -> None:
    label = click.style(f"{who:>9}", fg=COLORS.get(who), bold=True)
    first, *rest = what.rstrip("\n").split("\n")
    click.echo(f"{label}  {first}")
    for line in rest:
        click.echo(f"{'':>9}  {line}")


async def confirmed(question: str) -> bool:
    """Ask at the terminal; anything but yes is no. No thread waits there: ^C could not end it."""
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    click.echo(question, nl=False)
    loop.add_reader(sys.stdin.fileno(), answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Story:
    def __init__(
        self, url: str, token: str, folder: Path, upstream: ScriptedUpstream, *, yes: bool
    ) -> None:
        """Take a running proxy, an empty folder and the model to check; `yes` approves the plan."""
        self._yes = yes
        self._env = {**os.environ, "MODEGATE_URL": url, "MODEGATE_CONTROL_TOKEN": token}
        self._folder = folder
        self._file = folder / "greeting.txt"
        self._upstream = upstream
        base = f"{url}/s/{SESSION}/v1"
        # Nothing here leaves the machine, so no proxy of the environment is asked.
        direct = DefaultAsyncHttpxClient(trust_env=False)
        self._client = AsyncOpenAI(base_url=base, api_key="none", max_retries=0, http_client=direct)
        self._agent = Agent(self._client, folder, tell)
        tell("modegate", f"the agent's base URL is {base}; its files are in {folder}")

    async def run(self) -> bool:
        """Tell it all, and return whether the plan was approved; if it was not, the story ends there."""
        try:
            await self._default()
            await self._plan_mode()
            approved = await self._plan_submitted()
            if approved:
                await self._default_again()
            _title("The log: all of this, append-only")
            shown = await self._modegate("log", SESSION)
            self._check("mode/set" in shown and "write_file" in shown, "the log tells it")
            return approved
        finally:
            await self._client.close()

    async def _default(self) -> None:
        _title("1. Default mode: modegate is invisible")
        await self._agent.ask("Create greeting.txt with the line hello.")
        self._offered("read_file", "write_file", "run_shell")
        self._on_disk("hello\n", "the file is on disk: 'hello'")

    async def _plan_mode(self) -> None:
        _title("2. A person sets plan mode, from outside the agent")
        await self._modegate("mode", SESSION, "plan")
        ran = len(self._agent.ran)
        await self._agent.ask("Add the line world to it.")
        self._offered("read_file", "exit_plan_mode")
        refusal = self._refusal()
        told = click.wrap_text(refusal, width=88)
        tell("modegate", f"refused write_file; the model was told:\n{told}")
        named = "write_file" in refusal and "plan" in refusal
        self._check(named, "the refusal names tool and mode")
        ran_now = self._agent.ran[ran:]
        self._check(ran_now == ["read_file"], "the agent only ran read_file: it never saw the call")
        self._on_disk("hello\n", "the file on disk is unchanged: 'hello'")

    async def _plan_submitted(self) -> bool:
        _title("3. The model submits its plan, and a person decides")
        async with asyncio.TaskGroup() as group:
            person = group.create_task(self._person())
            await self._agent.ask("Submit your plan, and carry it out when it is approved.")
            try:
                approved = await asyncio.wait_for(person, PATIENCE_S)
            except TimeoutError:
                raise DemoFailed("no plan was submitted") from None
        if approved:
            self._offered("read_file", "write_file", "run_shell")
            self._on_disk("hello\nworld\n", "the file is on disk: 'hello', 'world'")
        else:
            self._on_disk("hello\n", "nothing was written: that is how it should be")
        return approved

    async def _person(self) -> bool:
        question = await self._question()
        tell("person", f"is shown the plan:\n{question['text']}")
        if self._yes or await confirmed(f"{'':>9}  Approve it? [y/N]: "):
            await self._modegate("approve", question["id"])
            return True
        await self._modegate("reject", question["id"], "--reason", "not like this")
        return False

    async def _question(self) -> dict[str, Any]:
        url = f"{self._env['MODEGATE_URL']}/control/v1/approvals"
        head = {"authorization": f"Bearer {self._env['MODEGATE_CONTROL_TOKEN']}"}
        async with httpx.AsyncClient(trust_env=False, headers=head) as client:
            open_ones: list[dict[str, Any]] = []
            while not open_ones:
                await asyncio.sleep(0.05)
                open_ones = (await client.get(url)).json()["approvals"]
            question = open_ones[0]
            # Somebody is there: the agent's request waits.
            await client.post(f"{url}/{question['id']}/delivered", json={"via": "demo"})
            return question

    async def _default_again(self) -> None:
        _title("4. Or a person sets another mode at any time")
        await self._modegate("mode", SESSION, "plan")
        await self._modegate("mode", SESSION, "default")
        await self._agent.ask("Add the line again to it.")
        self._offered("read_file", "write_file", "run_shell")
        self._on_disk("hello\nworld\nagain\n", "the file on disk has a third line")
        refused = REFUSED in self._refusal()
        self._check(refused, "the model still finds its refused call in the history")

    def _last_request(self) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(self._upstream.requests[-1])
        return request

    def _offered(self, *names: str) -> None:
        tools = self._last_request().get("tools", ())
        offered = [tool["function"]["name"] for tool in tools]
        tell("modegate", f"tools that the model was offered: {', '.join(offered)}")
        self._check(offered == list(names), f"exactly these: {', '.join(names)}")

    def _refusal(self) -> str:
        results = [
            str(message["content"])
            for message in self._last_request()["messages"]
            if message["role"] == "tool" and REFUSED in str(message["content"])
        ]
        return results[-1] if results else ""

    def _on_disk(self, text: str, what: str) -> None:
        found = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        self._check(found == text, what)

    def _check(self, fact: bool, what: str) -> None:
        if not fact:
            raise DemoFailed(f"this did not hold: {what}")
        click.echo(click.style("        ✓", fg="green", bold=True) + f"  {what}")

    async def _modegate(self, *arguments: str) -> str:
        click.echo(f"{'$':>9}  modegate {' '.join(arguments)}")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "modegate", *arguments,
            env=self._env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        text = out.decode()
        for line in text.splitlines():
            click.echo(f"{'':>9}  {line}")
        if process.returncode:
            raise DemoFailed(f"modegate {' '.join(arguments)} failed")
        return text


def _title(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")


async def _ready(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(READY_TRIES):
            try:
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
    raise DemoFailed("the proxy did not become ready")


class _Inner(Server):
    """A server that leaves ^C to the story, which waits at the terminal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(composed: Composed, token: str, folder: Path, *, yes: bool) -> bool:
    upstream = composed.steps.upstreams.default(DIALECTS.apis.first)
    if not isinstance(upstream, ScriptedUpstream):
        raise TypeError("the demo runs on the scripted model")
    with bind("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = _Inner(composed.app(), drain=1.0, on_drain=composed.drain)
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_with(server, [listener], composed.jobs))
            try:
                await _ready(url)
                return await Story(url, token, folder, upstream, yes=yes).run()
            finally:
                server.should_exit = True


async def demo(folder: Path | None = None, *, yes: bool = True) -> bool:
    """Tell the story in a folder, or in a temporary one; without `yes` a person is asked about the plan.

    Return whether the story was told to its end. If the person rejects the plan, it is not.

    Raises:
        DemoFailed: something of it did not happen.
    """
    with tempfile.TemporaryDirectory(prefix="modegate-demo-") as temporary:
        token = "demo-" + os.urandom(12).hex()
        state = Path(temporary) / "state"
        work = folder or Path(temporary) / "work"
        work.mkdir(parents=True, exist_ok=True)
        settings = Settings(
            port=0,
            policies=shipped_policies(),
            upstream=f"scripted:{SCRIPT}",
            state_dir=state,
            control_token=token,
            log_level="warning",
        )
        try:
            async with compose(settings) as composed:
                return await _run(composed, token, work, yes=yes)
        except* DemoFailed as failed:
            raise _first(failed) from None
    raise AssertionError("the story was told or has failed")


def _first(failed: BaseExceptionGroup[DemoFailed]) -> DemoFailed:
    """Return the failure itself, however many task groups it came through."""
    one = failed.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
