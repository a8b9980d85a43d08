"""Agents that run the calls of the API, and no others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agent import KEY, MODEL, Agent, Command, Place, bash
from codex import CODEX, CODEX_LITE
from install import NODE_BIN, pypi_bin

TRAJECTORY = "trajectory.json"
HERE = Path(__file__).parent


def opencode_config(place: Place) -> dict[str, Any]:
    """Return what OpenCode and its kin are told."""
    limit = {"context": 128_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "modegate",
        "options": {"baseURL": place.base_url, "apiKey": KEY},
        "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": limit}},
    }
    return {
        "provider": {"modegate": provider},
        "model": f"modegate/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
    }


def _opencode(_place: Place, prompt: str) -> list[str]:
    return [str(NODE_BIN / "opencode"), "run", "--format", "json", prompt]


OPENCODE = Agent(
    name="opencode",
    read=lambda path: {"name": "read", "arguments": {"filePath": str(path)}},
    write=lambda path, text: {
        "name": "write",
        "arguments": {"filePath": str(path), "content": text},
    },
    shell=lambda command: bash(command, timeout=60_000),
    looks=lambda work: {
        "list": {"name": "read", "arguments": {"filePath": str(work / "src")}},
        "find": {"name": "glob", "arguments": {"pattern": "**/*.py", "path": str(work)}},
        "search": {"name": "grep", "arguments": {"pattern": "TODO", "include": "*.py"}},
        "read": {"name": "read", "arguments": {"filePath": str(work / "notes.md")}},
        "part": {
            "name": "read",
            "arguments": {"filePath": str(work / "notes.md"), "offset": 2, "limit": 1},
        },
    },
    command=_opencode,
    resume=lambda place, prompt: [*_opencode(place, prompt), "--continue"],
    environment=lambda _place: {
        f"OPENCODE_DISABLE_{what}": "1"
        for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    },
    files=lambda place: {".config/opencode/opencode.json": opencode_config(place)},
    npm=("node", "opencode-ai"),
)


def _qwen(_place: Place, prompt: str) -> list[str]:
    return [str(NODE_BIN / "qwen"), "-p", prompt, "--output-format", "json", "--yolo"]


QWEN = Agent(
    name="qwen",
    read=lambda path: {"name": "read_file", "arguments": {"file_path": str(path)}},
    write=lambda path, text: {
        "name": "write_file",
        "arguments": {"file_path": str(path), "content": text},
    },
    shell=lambda command: {
        "name": "run_shell_command",
        "arguments": {"command": command, "is_background": False, "description": "look"},
    },
    looks=lambda work: {
        "list": {"name": "glob", "arguments": {"pattern": "src/*"}},
        "find": {"name": "glob", "arguments": {"pattern": "**/*.py", "path": str(work)}},
        "search": {"name": "grep_search", "arguments": {"pattern": "TODO", "path": str(work)}},
        "read": {"name": "read_file", "arguments": {"file_path": str(work / "notes.md")}},
        "part": {
            "name": "read_file",
            "arguments": {"file_path": str(work / "notes.md"), "offset": 1, "limit": 1},
        },
    },
    command=_qwen,
    resume=lambda place, prompt: [*_qwen(place, prompt), "--continue"],
    environment=lambda place: {
        "OPENAI_BASE_URL": place.base_url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": MODEL,
    },
    files=lambda _place: {
        ".qwen/settings.json": {
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        }
    },
    npm=("node", "@qwen-code/qwen-code"),
)


def _claude(*options: str) -> Command:
    begin = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
    return lambda _place, prompt: [str(NODE_BIN / "claude"), *options, "-p", prompt, *begin]


CLAUDE = Agent(
    name="claude",
    read=lambda path: {"name": "Read", "arguments": {"file_path": str(path)}},
    write=lambda path, text: {
        "name": "Write",
        "arguments": {"file_path": str(path), "content": text},
    },
    shell=lambda command: {
        "name": "Bash",
        "arguments": {"command": command, "description": "run a command", "timeout": 60_000},
    },
    looks=lambda work: {
        "read": {"name": "Read", "arguments": {"file_path": str(work / "notes.md")}},
        "part": {
            "name": "Read",
            "arguments": {"file_path": str(work / "notes.md"), "offset": 2, "limit": 1},
        },
    },
    disguises=lambda _file: [
        {"name": "Bash", "arguments": {"command": "cat notes.md", flag: True}}
        for flag in ("run_in_background", "dangerouslyDisableSandbox")
    ],
    command=_claude(),
    resume=_claude("--continue"),
    environment=lambda place: {
        "ANTHROPIC_BASE_URL": place.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    },
    npm=("node", "@anthropic-ai/claude-code"),
)


MINI_SWE = Agent(
    name="mini",
    read=lambda path: bash(f"cat {path}"),
    write=None,
    shell=bash,
    command=lambda place, prompt: [
        *(str(pypi_bin("mini-swe-agent") / "mini"), "-y", "--exit-immediately"),
        *("-m", f"openai/{MODEL}", "-t", prompt, "-o", str(place.home / TRAJECTORY)),
    ],
    environment=lambda place: {
        "OPENAI_API_BASE": place.base_url,
        "OPENAI_API_KEY": KEY,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "3",  # it asks ten times, for minutes, also after a 400
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    pypi=("mini-swe-agent",),
    transcript=TRAJECTORY,
    needs_calls=True,
)


def _sdk(name: str, *options: str) -> Agent:
    def command(place: Place, prompt: str) -> list[str]:
        history = ["--history", str(place.home / "history.json")]
        return [sys.executable, str(HERE / "sdk_agent.py"), *options, *history, prompt]

    return Agent(
        name=name,
        read=lambda path: {"name": "read_file", "arguments": {"path": str(path)}},
        write=lambda path, text: {
            "name": "write_file",
            "arguments": {"path": str(path), "content": text},
        },
        shell=lambda line: {"name": "run_shell", "arguments": {"command": line}},
        command=command,
        resume=command,
        environment=lambda place: {"OPENAI_BASE_URL": place.base_url, "OPENAI_API_KEY": KEY},
        shell_reads=False,  # it is nobody's but ours
    )


NATIVE = (
    *(OPENCODE, QWEN, CODEX, CODEX_LITE, CLAUDE, MINI_SWE),
    *(_sdk("openai-sdk"), _sdk("openai-sdk-stream", "--stream")),
)
