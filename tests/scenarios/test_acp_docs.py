"""The clients that docs/acp.md shows work as they stand there."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from support.acp_clients import FOLDER, NODE, PATIENCE
from support.acp_story import GIVES_IN, mode, proxied, step, until
from support.running import TOKEN

DOCS = Path(__file__).parents[2] / "docs" / "acp.md"
COMMANDS = {
    "python": [sys.executable, "-"],
    "js": [str(NODE), "--input-type=module", "-"],
}


def example(language: str, url: str) -> bytes:
    (found,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    code: str = found
    assert "127.0.0.1:8484" in code
    assert code.count('"my-session"') == 2
    host = url.removeprefix("http://")
    return code.replace("127.0.0.1:8484", host).replace("my-session", "s").encode()


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
