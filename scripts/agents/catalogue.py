"""The agents: how each is configured, started without a person, and told of a base URL.

Each runs in a HOME of its own with a clean environment, a dummy key, and telemetry and updates off. What
they send was measured once; docs/agents.md tells it to users.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from install import MINI, NODE_BIN

Call = dict[str, Any]
"""A call as a script writes it: `name` and `arguments`."""

KEY = "sk-no-key-is-needed"
MODEL = "scripted"
TRAJECTORY = "trajectory.json"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """Where one run happens."""

    home: Path
    work: Path
    base_url: str


@dataclass(frozen=True)
class Agent:
    """One real agent."""

    name: str
    read: Callable[[Path], Call]
    """Makes a call that reads a file."""
    write: Callable[[Path, str], Call] | None
    """Makes a call that writes a file; None if its shell is its only tool."""
    shell: Callable[[str], Call]
    command: Callable[[Place, str], list[str]]
    resume: Callable[[Place, str], list[str]] | None = None
    """Goes on with its last conversation."""
    environment: Callable[[Place], dict[str, str]] = lambda _place: {}
    files: Callable[[Place], dict[str, Any]] = lambda _place: {}
    """Its configuration: JSON by path below HOME."""
    npm: tuple[str, ...] = ()
    transcript: str = ""
    """A file below HOME that tells more than what is printed."""
    needs_calls: bool = False
    """It takes an answer without a call for a mistake, and ends by a command."""
    fails_on_400: bool = True
    """An error status makes its exit code other than 0."""
    limit: int = 12
    """Most model requests that any run may take."""

    def prepare(self, place: Place) -> dict[str, str]:
        """Write its configuration and give its whole environment."""
        for path, content in self.files(place).items():
            file = place.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(content), encoding="utf-8")
        path = f"{NODE_BIN}{os.pathsep}/usr/local/bin:/usr/bin:/bin"
        common = {"HOME": str(place.home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"}
        quiet = {"DO_NOT_TRACK": "1", "NO_COLOR": "1", "CI": "1", "NO_PROXY": "127.0.0.1"}
        return common | quiet | self.environment(place)


def _opencode_config(place: Place) -> dict[str, Any]:
    limit = {"context": 128_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "modegate",
        "options": {"baseURL": place.base_url, "apiKey": KEY},
        "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": limit}},
    }
    config = {
        "provider": {"modegate": provider},
        "model": f"modegate/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
    }
    return {".config/opencode/opencode.json": config}


def _opencode(_place: Place, prompt: str) -> list[str]:
    return [str(NODE_BIN / "opencode"), "run", "--format", "json", prompt]


OPENCODE = Agent(
    name="opencode",
    read=lambda path: {"name": "read", "arguments": {"filePath": str(path)}},
    write=lambda path, text: {
        "name": "write",
        "arguments": {"filePath": str(path), "content": text},
    },
    shell=lambda command: {
        "name": "bash",
        "arguments": {"command": command, "description": "run a command"},
    },
    command=_opencode,
    resume=lambda place, prompt: [*_opencode(place, prompt), "--continue"],
    environment=lambda _place: {
        f"OPENCODE_DISABLE_{what}": "1"
        for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    },
    files=_opencode_config,
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
        "arguments": {"command": command, "is_background": False},
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


def _bash(command: str) -> Call:
    return {"name": "bash", "arguments": {"command": command}}


MINI_SWE = Agent(
    name="mini",
    read=lambda path: _bash(f"cat {path}"),
    write=None,
    shell=_bash,
    command=lambda place, prompt: [
        *(str(MINI / "bin" / "mini"), "-y", "--exit-immediately"),
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
    )


AGENTS = (OPENCODE, QWEN, MINI_SWE, _sdk("openai-sdk"), _sdk("openai-sdk-stream", "--stream"))
