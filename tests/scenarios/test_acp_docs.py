"""The clients that docs/acp.md shows work as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from support.acp_clients import FOLDER, NODE
from support.acp_story import GIVES_IN, mode, proxied, step, until
from support.running import TOKEN, running
from support.waiting import PATIENCE

pytestmark = pytest.mark.timeout(240)
"""Processes start here, which takes long where a machine has other work; nothing waits for the time."""

DOCS = Path(__file__).parents[2] / "docs" / "acp.md"
COMMANDS = {
    "python": [sys.executable, "-"],
    "js": [str(NODE), "--input-type=module", "-"],
}


def example(language: str, url: str, session: str = "s") -> bytes:
    (found,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    code: str = found
    assert "127.0.0.1:8484" in code
    assert code.count('"my-session"') == 2
    host = url.removeprefix("http://")
    return code.replace("127.0.0.1:8484", host).replace("my-session", session).encode()


@pytest.mark.parametrize("language", COMMANDS)
async def test_the_example_lists_loads_sets_and_rejects(tmp_path: Path, language: str) -> None:
    async with proxied(tmp_path) as proxy:

        async def in_plan() -> bool:
            return await mode(proxy) == "plan"

        process = await asyncio.create_subprocess_exec(
            *COMMANDS[language],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=FOLDER,
            env={**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdin
        assert process.stdout
        process.stdin.write(example(language, proxy.url))
        process.stdin.close()
        try:
            async with asyncio.timeout(2 * PATIENCE):
                await until(proxy, in_plan)
                assert (await step(proxy) or "").endswith(GIVES_IN)
        finally:
            process.kill()
        text = (await process.stdout.read()).decode()
        await process.wait()
    first, *others = text.splitlines()
    assert re.search(r"\bs\b", first)
    assert any("Rename foo" in line for line in others)


INSTALLS = {
    "python": r"^pip install 'agent-client-protocol\[http\]==(\S+)'",
    "js": r"^npm install @agentclientprotocol/sdk@(\S+)",
    "acpx": r"\bacpx[ @](\d+\.\d+\.\d+)",
}


@pytest.mark.parametrize("name", INSTALLS)
def test_o17_what_the_docs_install_is_what_is_tested(name: str) -> None:
    """In its version, and with the extra that brings the transport of the example."""
    (said,) = set(re.findall(INSTALLS[name], DOCS.read_text("utf-8"), re.MULTILINE))
    if name == "python":
        assert metadata.version("agent-client-protocol") == said
        needs = metadata.requires("agent-client-protocol") or []
        assert any(re.match(r"websockets.*extra == \"http\"", need) for need in needs)
    else:
        needed = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"]
        assert needed[{"js": "@agentclientprotocol/sdk", "acpx": "acpx"}[name]] == said


@pytest.mark.parametrize("language", COMMANDS)
async def test_o17_the_example_works_with_a_proxy_that_has_seen_nothing(
    tmp_path: Path, language: str
) -> None:
    """After the command that the docs show in front of it."""
    (command,) = re.findall(
        r"^modegate (mode my-session \S+)", DOCS.read_text("utf-8"), re.MULTILINE
    )
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        environ = {**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        environ["MODEGATE_URL"] = proxy.url
        made = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "modegate", *command.split(), env=environ
        )
        assert await made.wait() == 0
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[language],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=FOLDER,
            env=environ,
        )
        assert process.stdin
        assert process.stdout
        process.stdin.write(example(language, proxy.url, session="my-session"))
        process.stdin.close()
        try:
            async with asyncio.timeout(2 * PATIENCE):
                assert b"my-session" in await process.stdout.readline()
                while b"current_mode_update" not in await process.stdout.readline():
                    # Told as soon as it has loaded the session, whichever of the two it is just in.
                    for one in ("review", "plan"):
                        await proxy.set_mode(one, "my-session")
        finally:
            process.kill()
            await process.wait()
