"""The agents: how each is configured, started without a person, and told of a base URL.

Each runs in a HOME of its own with a clean environment, a dummy key, and telemetry and updates off. What
they send was measured once; docs/agents.md tells it to users.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from install import NODE_BIN, pypi_bin

Call = dict[str, Any]
"""A call as a script writes it: `name` and `arguments`."""

KEY = "sk-no-key-is-needed"
MODEL = "scripted"
TRAJECTORY = "trajectory.json"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class YamlValue:
    """Where one run happens."""

    home: Path
    work: Path
    base_url: str
    """Ends in `/v1`."""


Command = Callable[[YamlValue, str], list[str]]
"""Makes the command that runs an agent once, with a prompt."""


@dataclass(frozen=True)
class TextHabit:
    """What an agent makes of plain text."""

    write: Callable[[Path, str], str]
    """Makes a text of which it writes a file."""
    tool: str
    """Under which name modegate judges that."""
    say: Callable[[str], str] = lambda text: text
    """Makes a text that ends a run."""
    end_tool: str = ""
    """The tool that this calls, in text, if it does."""
    ran: str = ""
    """What is shown once the file is written, where the model is not asked again."""


@dataclass(frozen=True)
class Agent:
    """One real agent."""

    name: str
    read: Callable[[Path], Call]
    """Makes a call that reads a file."""
    write: Callable[[Path, str], Call] | None
    """Makes a call that writes a file; None if its shell is its only tool."""
    shell: Callable[[str], Call]
    command: Command
    resume: Command | None = None
    """Goes on with its last conversation."""
    declares: bool = True
    """It declares tools, and runs calls of the API."""
    text: TextHabit | None = None
    """How it writes files where it runs what its model says in plain text."""
    environment: Callable[[YamlValue], dict[str, str]] = lambda _place: {}
    files: Callable[[YamlValue], dict[str, Any]] = lambda _place: {}
    """Its configuration by path below HOME: text as it is, else as JSON."""
    npm: tuple[str, ...] = ()
    pypi: tuple[str, ...] = ()
    transcript: str = ""
    """A pattern for files below HOME that tell more than what is printed."""
    needs_calls: bool = False
    """It takes an answer without a call for a mistake, and ends by a command."""
    fails_on_400: bool = True
    """An error status makes its exit code other than 0."""
    limit: int = 12
    """Most model requests that any run may take."""

    def prepare(self, place: YamlValue) -> dict[str, str]:
        """Write its configuration and give its whole environment."""
        for path, content in self.files(place).items():
            file = place.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            file.write_text(text, encoding="utf-8")
        path = f"{NODE_BIN}{os.pathsep}/usr/local/bin:/usr/bin:/bin"
        common = {"HOME": str(place.home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"}
        quiet = {"DO_NOT_TRACK": "1", "NO_COLOR": "1", "CI": "1", "NO_PROXY": "127.0.0.1"}
        return common | quiet | self.environment(place)


def opencode_config(place: YamlValue) -> dict[str, Any]:
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


def _opencode(_place: YamlValue, prompt: str) -> list[str]:
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
    files=lambda place: {".config/opencode/opencode.json": opencode_config(place)},
    npm=("node", "opencode-ai"),
)


def _qwen(_place: YamlValue, prompt: str) -> list[str]:
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


def _codex(*options: str) -> Command:
    everything = "--dangerously-bypass-approvals-and-sandbox"
    begin = ["exec", "--json", everything, "--skip-git-repo-check", *options]
    return lambda _place, prompt: [str(NODE_BIN / "codex"), *begin, prompt]


def _codex_config(model: str) -> Callable[[YamlValue], dict[str, Any]]:
    def files(place: YamlValue) -> dict[str, Any]:
        lines = (
            f'model = "{model}"',
            'model_provider = "modegate"',
            "check_for_update_on_startup = false",
            "[analytics]",
            "enabled = false",
            "[model_providers.modegate]",
            'name = "modegate"',
            f'base_url = "{place.base_url}"',
            'env_key = "OPENAI_API_KEY"',
            'wire_api = "responses"',
        )
        return {".codex/config.toml": "\n".join(lines) + "\n"}

    return files


def patch(path: Path, text: str) -> Call:
    """Make a call that writes a file by a patch."""
    body = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path.name}\n{body}*** End Patch\n"
    return {"name": "apply_patch", "type": "custom", "arguments": patch}


CODEX = Agent(
    name="codex",
    # Its only reader of text is its shell.
    read=lambda path: {"name": "view_image", "arguments": {"path": str(path)}},
    write=patch,
    shell=lambda command: {"name": "exec_command", "arguments": {"cmd": command}},
    command=_codex(),
    resume=_codex("resume", "--last"),
    environment=lambda _place: {"OPENAI_API_KEY": KEY},
    files=_codex_config("gpt-5.5"),
    npm=("node", "@openai/codex"),
)


def _script_of(command: str) -> Call:
    code = (
        f"const done = await tools.exec_command({json.dumps({'cmd': command})}); text(done.output);"
    )
    return {"name": "exec", "type": "custom", "arguments": code}


CODEX_LITE = replace(
    CODEX,
    name="codex-lite",
    # All that it can do is written in one tool's code; its tools are declared within `input`.
    read=lambda path: _script_of(f"cat {path}"),
    write=None,
    shell=_script_of,
    files=_codex_config("gpt-5.6-sol"),
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
        "arguments": {"command": command, "description": "run a command"},
    },
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


def bash(command: str) -> Call:
    """Make a call of a shell that is told of as `bash`."""
    return {"name": "bash", "arguments": {"command": command}}


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
    def command(place: YamlValue, prompt: str) -> list[str]:
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


NATIVE = (
    *(OPENCODE, QWEN, CODEX, CODEX_LITE, CLAUDE, MINI_SWE),
    *(_sdk("openai-sdk"), _sdk("openai-sdk-stream", "--stream")),
)
"""Agents that run the calls of the API, and no others."""
