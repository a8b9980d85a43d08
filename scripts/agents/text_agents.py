"""Agents that run what their model writes in plain text: gptme, smolagents, aider."""

from __future__ import annotations

import json
from pathlib import Path

from agent import KEY, MODEL, Agent, Call, Place, TextHabit
from catalogue import HERE
from install import pypi_bin


def _none(_path: Path) -> Call:
    return {"name": "none", "arguments": {}}


def _no_shell(_command: str) -> Call:
    return {"name": "none", "arguments": {}}


def _openai(place: Place) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": place.base_url,
        "OPENAI_API_BASE": place.base_url,
        "OPENAI_API_KEY": KEY,
        "GPTME_TIKTOKEN_TIMEOUT": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _gptme(style: str) -> Agent:
    program = str(pypi_bin("gptme") / "gptme")
    # Without `+read` its only reader is its shell.
    begin = [program, "-n", "--tool-format", style, "-t", "+read", "-m", f"local/{MODEL}"]

    def write(path: Path, text: str) -> str:
        if style == "markdown":
            return f"I save.\n\n```save {path.name}\n{text}\n```\n"
        call = json.dumps({"path": path.name, "content": f"{text}\n"})
        return f"I save.\n\n@save(call-1): {call}\n"

    return Agent(
        name=f"gptme-{style}",
        declares=style == "tool",
        read=lambda path: {"name": "read", "arguments": {"path": str(path)}},
        write=lambda path, text: {
            "name": "save",
            "arguments": {"path": str(path), "content": text},
        },
        shell=lambda command: {"name": "shell", "arguments": {"command": command}},
        command=lambda _place, prompt: [*begin, prompt],
        resume=lambda _place, prompt: [*begin, "--resume", prompt],
        environment=_openai,
        pypi=("gptme",),
        transcript=".local/share/gptme/logs/*/conversation.jsonl",
        text=TextHabit(write, "save"),
    )


def _smolagents(kind: str, text: TextHabit) -> Agent:
    program = [str(pypi_bin("smolagents") / "python"), str(HERE / "smol_agent.py"), kind]
    return Agent(
        name=f"smolagents-{kind}",
        declares=False,
        read=_none,
        write=None,
        shell=_no_shell,
        command=lambda _place, prompt: [*program, prompt],
        environment=_openai,
        pypi=("smolagents",),
        text=text,
    )


def _json_call(name: str, **arguments: str) -> str:
    return "Action:\n" + json.dumps({"name": name, "arguments": arguments}, indent=1)


def _code(line: str) -> str:
    return f"Thought: I go on.\n<code>\n{line}\n</code>"


def _edit(path: Path, text: str) -> str:
    return f"I edit.\n\n{path.name}\n```\n<<<<<<< SEARCH\n=======\n{text}\n>>>>>>> REPLACE\n```\n"


def _aider(place: Place, prompt: str) -> list[str]:
    files = [
        word
        for kind in ("chat", "input")
        for word in (f"--{kind}-history-file", str(place.home / f"{kind}-history"))
    ]
    quiet = ["--no-check-update", "--no-show-model-warnings", "--analytics-disable"]
    plain = ["--no-auto-commits", "--no-gitignore", "--map-tokens", "0", "--no-detect-urls"]
    model = ["--model", f"openai/{MODEL}", "--edit-format", "diff", "--yes-always"]
    program = str(pypi_bin("aider-chat") / "aider")
    return [program, *model, *files, *quiet, *plain, "--message", prompt]


TEXT_AGENTS = (
    *(_gptme("markdown"), _gptme("tool")),
    _smolagents(
        "tools",
        TextHabit(
            lambda path, text: _json_call("write_file", path=str(path), content=f"{text}\n"),
            "write_file",
            lambda text: _json_call("final_answer", answer=text),
            "final_answer",
        ),
    ),
    _smolagents(
        "code",
        TextHabit(
            lambda path, text: _code(f"print(write_file({str(path)!r}, {text!r}))"),
            "python",
            lambda text: _code(f"final_answer({text!r})"),
            "python",
        ),
    ),
    Agent(
        name="aider",
        declares=False,
        read=_none,
        write=None,
        shell=_no_shell,
        command=_aider,
        environment=_openai,
        pypi=("aider-chat",),
        text=TextHabit(_edit, "search_replace", ran="Applied edit to"),
    ),
)
