"""A small coding agent: the openai SDK, a loop, and three tools that really act in one folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_STEPS = 8
SYSTEM = "You are a coding agent. Use your tools to do what the user asks."


def _tool(name: str, about: str, *arguments: str) -> dict[str, Any]:
    properties = {argument: {"type": "string"} for argument in arguments}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    function = {"name": name, "description": about, "parameters": schema}
    return {"type": "function", "function": function}


TOOLS: list[Any] = [
    _tool("read_file", "Read a file.", "path"),
    _tool("write_file", "Write a file.", "path", "content"),
    _tool("run_shell", "Run a shell command.", "command"),
]


class Agent:
    """Knows nothing of modes: it is given a base URL, as any agent is."""

    def __init__(self, client: AsyncOpenAI, folder: Path, tell: Callable[[str, str], None]) -> None:
        self._client = client
        self._folder = folder
        self._tell = tell
        self.ran: list[str] = []
        """Names of the tools that it ran."""
        self._messages: list[Any] = [{"role": "system", "content": SYSTEM}]

    async def ask(self, prompt: str) -> None:
        """Let the model work on a prompt until it has nothing more to call."""
        self._tell("user", prompt)
        self._messages.append({"role": "user", "content": prompt})
        for _ in range(MAX_STEPS):
            message = await self._answer()
            self._messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                result = self._run(call["function"]["name"], call["function"]["arguments"])
                self._messages.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": result}
                )
        raise RuntimeError(f"the agent did not come to an end in {MAX_STEPS} steps")

    async def _answer(self) -> dict[str, Any]:
        stream = self._client.chat.completions.stream(
            model="scripted", messages=self._messages, tools=TOOLS
        )
        async with stream as events:
            async for _event in events:
                pass
            message = (await events.get_final_completion()).choices[0].message
        if message.content:
            self._tell("model", message.content)
        kept = message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        for call in kept.get("tool_calls") or ():
            call["function"].pop("parsed_arguments", None)
        return kept

    def _run(self, name: str, arguments: str) -> str:
        given = json.loads(arguments)
        self.ran.append(name)
        self._tell("agent", f"runs {name}({', '.join(map(repr, given.values()))})")
        try:
            return self._act(name, given)
        except OSError as error:
            return f"error: {error.strerror}"

    def _act(self, name: str, given: dict[str, str]) -> str:
        if name == "read_file":
            return (self._folder / given["path"]).read_text(encoding="utf-8")
        if name == "write_file":
            (self._folder / given["path"]).write_text(given["content"], encoding="utf-8")
            return f"wrote {len(given['content'])} characters"
        if name == "run_shell":
            command = ["/bin/sh", "-c", given["command"]]
            done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True)  # noqa: S603 -- it is what the tool is for
            return done.stdout + done.stderr
        return f"error: there is no tool {name}"
