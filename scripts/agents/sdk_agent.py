"""The smallest agent: the openai SDK, a loop and three tools, in the working directory.

It does what most home-made agents do, and nothing in it knows modegate: the SDK itself reads OPENAI_BASE_URL
and OPENAI_API_KEY. A conversation is kept in a file, and goes on from there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai

MAX_STEPS = 10


def _tool(name: str, *arguments: str) -> dict[str, Any]:
    properties = {argument: {"type": "string"} for argument in arguments}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS: list[Any] = [
    _tool("read_file", "path"),
    _tool("write_file", "path", "content"),
    _tool("run_shell", "command"),
]


def act(name: str, given: dict[str, str]) -> str:
    """Run a tool."""
    if name == "read_file":
        return Path(given["path"]).read_text(encoding="utf-8")
    if name == "write_file":
        Path(given["path"]).write_text(given["content"], encoding="utf-8")
        return "written"
    if name == "run_shell":
        done = subprocess.run(given["command"], shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr
    return f"error: there is no tool {name}"


def answer(client: openai.OpenAI, messages: list[Any], *, stream: bool) -> Any:
    """Ask the model once, in one way or the other."""
    if not stream:
        whole = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
        return whole.choices[0].message
    with client.chat.completions.stream(model="scripted", messages=messages, tools=TOOLS) as events:
        for _event in events:
            pass
        return events.get_final_completion().choices[0].message


def run(client: openai.OpenAI, messages: list[Any], *, stream: bool) -> None:
    """Go on until the model has nothing more to call."""
    for _ in range(MAX_STEPS):
        message = answer(client, messages, stream=stream)
        calls = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.function.name, "arguments": c.function.arguments},
            }
            for c in message.tool_calls or ()
        ]
        messages.append(
            {"role": "assistant", "content": message.content}
            | ({"tool_calls": calls} if calls else {})
        )
        print(message.content or "", flush=True)
        if not calls:
            return
        for call in calls:
            print(f"runs {call['function']['name']}", flush=True)
            result = act(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    sys.exit(f"no end after {MAX_STEPS} steps")


def main() -> None:
    """Work on one prompt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--history", type=Path, required=True, help="conversation, kept as JSON")
    parser.add_argument("prompt")
    args = parser.parse_args()
    messages: list[Any] = [{"role": "system", "content": "You are a coding agent."}]
    if args.history.exists():
        messages = json.loads(args.history.read_text(encoding="utf-8"))
    messages.append({"role": "user", "content": args.prompt})
    try:
        run(openai.OpenAI(max_retries=2), messages, stream=args.stream)
    except openai.APIError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    args.history.write_text(json.dumps(messages), encoding="utf-8")


if __name__ == "__main__":
    main()
