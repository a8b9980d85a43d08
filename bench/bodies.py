"""Request bodies of the benchmark: what a coding agent sends, at a given size.

A system prompt, tools with long schemas and a history of calls and results, with the quotes, newlines and
non-ASCII text that real ones hold: plain ASCII would flatter every JSON library. The same size gives the
same bytes.
"""

from __future__ import annotations

import json
from typing import Any

_TOOLS = (
    "read",
    "write",
    "edit",
    "bash",
    "glob",
    "grep",
    "list",
    "webfetch",
    "todowrite",
    "todoread",
)
_PROSE = (
    "You are a coding agent. Keep the user's words, “quotes” included; say what you did — briefly.\n"
    'Paths such as "src/naïve/парсер.py" are relative to the workspace.\tNever guess: read the file first.\n'
)
_SOURCE = (
    'def greet(name: str) -> str:\n    """Return a greeting, e.g. "Grüße, Zoë"."""\n'
    '    return f"Grüße, {name}!\\n"  # → stdout, C:\\temp\\out.txt\n\n'
)


def request_body(size: int, *, stream: bool) -> bytes:
    """Return a chat completions request of exactly `size` bytes (at least 2,000)."""
    small = size < 20_000
    request: dict[str, Any] = {
        "model": "bench",
        "stream": stream,
        "messages": [
            {"role": "system", "content": _repeat(_PROSE, 500 if small else 8_000)},
            {"role": "user", "content": "Tidy up the parser, please."},
        ],
        "tools": [_tool(name, 100 if small else 1_400) for name in _TOOLS[: 2 if small else None]],
        "tool_choice": "auto",
    }
    history: list[dict[str, Any]] = request["messages"]
    while not small and size - len(_encode(request)) > 4_000:
        history += _exchange(len(history))
    history.append({"role": "user", "content": ""})
    missing = size - len(_encode(request))
    if missing < 0:
        raise ValueError(f"a body of {size} bytes is too small")
    history[-1]["content"] = "x" * missing
    return _encode(request)


def _encode(request: dict[str, Any]) -> bytes:
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _repeat(text: str, length: int) -> str:
    return (text * (length // len(text) + 1))[:length]


def _tool(name: str, prose: int) -> dict[str, Any]:
    """Return a tool's definition whose description has `prose` characters."""
    parameters = {
        "type": "object",
        "properties": {
            "filePath": {"type": "string", "description": 'The path, e.g. "src/main.py"'},
            "limit": {"type": "integer", "minimum": 1, "description": "Lines at most"},
        },
        "required": ["filePath"],
        "additionalProperties": False,
    }
    description = f"The {name} tool. " + _repeat(_PROSE, prose)
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _exchange(n: int) -> list[dict[str, Any]]:
    """Return an earlier call of the model and its result, about 2.5 KB."""
    arguments = json.dumps({"filePath": f"src/naïve/module_{n}.py", "limit": 200})
    call = {
        "id": f"call_{n}",
        "type": "function",
        "function": {"name": "read", "arguments": arguments},
    }
    return [
        {"role": "assistant", "content": "I read the file first.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": _repeat(_SOURCE, 2_000)},
    ]
