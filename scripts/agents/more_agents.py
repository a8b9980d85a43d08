"""More agents that run the calls of the API, from npm: Cline, Kilo, Pi, Continue, Copilot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import KEY, MODEL, Agent, Call, Command, Place, bash, patch
from catalogue import OPENCODE, opencode_config
from install import NODE_BIN
from pypi_agents import OPENHANDS, VIBE


def _cline(*options: str) -> Command:
    begin = ["--json", "-P", "openai-compatible", "-m", MODEL, *options]
    return lambda _place, prompt: [str(NODE_BIN / "cline"), *begin, prompt]


def _cline_read(path: Path, **lines: int) -> Call:
    return {"name": "read_files", "arguments": {"files": [{"path": str(path), **lines}]}}


CLINE = Agent(
    name="cline",
    read=_cline_read,
    write=lambda path, text: {
        "name": "editor",
        "arguments": {"path": str(path), "new_text": text},
    },
    shell=lambda command: {"name": "run_commands", "arguments": {"commands": [command]}},
    looks=lambda work: {
        "search": {"name": "search_codebase", "arguments": {"queries": ["TODO"]}},
        "read": _cline_read(work / "notes.md"),
        "part": _cline_read(work / "notes.md", start_line=2, end_line=2),
    },
    disguises=lambda file: [
        {"name": "run_commands", "arguments": {"commands": ["cat notes.md", f"touch {file}"]}}
    ],
    command=_cline(),
    files=lambda place: {
        ".cline/data/settings/providers.json": {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {
                "openai-compatible": {
                    "settings": {
                        "provider": "openai-compatible",
                        "apiKey": KEY,
                        "model": MODEL,
                        "baseUrl": place.base_url,
                    },
                    "updatedAt": "2026-01-01T00:00:00.000Z",
                    "tokenSource": "manual",
                }
            },
        }
    },
    npm=("node", "cline"),
)


def _pi(*options: str) -> Command:
    begin = ["--provider", "modegate", "--model", MODEL, "--mode", "json", *options, "-p"]
    return lambda _place, prompt: [str(NODE_BIN / "pi"), *begin, prompt]


def _pi_config(api: str) -> Callable[[Place], dict[str, Any]]:
    def files(place: Place) -> dict[str, Any]:
        url = place.base_url.removesuffix("/v1") if api.startswith("anthropic") else place.base_url
        provider = {"baseUrl": url, "api": api, "apiKey": KEY, "models": [{"id": MODEL}]}
        return {".pi/agent/models.json": {"providers": {"modegate": provider}}}

    return files


PI = Agent(
    name="pi",
    read=lambda path: {"name": "read", "arguments": {"path": str(path)}},
    write=lambda path, text: {"name": "write", "arguments": {"path": str(path), "content": text}},
    shell=lambda command: bash(command, timeout=60),
    looks=lambda work: {
        "read": {"name": "read", "arguments": {"path": str(work / "notes.md")}},
        "part": {"name": "read", "arguments": {"path": "notes.md", "offset": 2, "limit": 1}},
    },
    command=_pi(),
    resume=_pi("--continue"),
    environment=lambda _place: {"PI_OFFLINE": "1"},
    files=_pi_config("openai-completions"),
    npm=("node", "@earendil-works/pi-coding-agent"),
    fails_on_400=False,
)
PI_RESPONSES = replace(PI, name="pi-responses", files=_pi_config("openai-responses"))
PI_MESSAGES = replace(PI, name="pi-messages", files=_pi_config("anthropic-messages"))


def _continue(*options: str) -> Command:
    return lambda place, prompt: [
        *(str(NODE_BIN / "cn"), "--config", str(place.home / "config.yaml"), "--auto"),
        *(*options, "-p", prompt),
    ]


CONTINUE = Agent(
    name="continue",
    read=lambda path: {"name": "Read", "arguments": {"filepath": str(path)}},
    write=lambda path, text: {
        "name": "Write",
        "arguments": {"filepath": str(path), "content": text},
    },
    shell=lambda command: {"name": "Bash", "arguments": {"command": command}},
    looks=lambda work: {
        "list": {"name": "List", "arguments": {"dirpath": "src"}},
        "read": {"name": "Read", "arguments": {"filepath": str(work / "notes.md")}},
    },
    command=_continue(),
    resume=_continue("--resume"),
    environment=lambda _place: {"CONTINUE_TELEMETRY_ENABLED": "0"},
    # JSON is YAML.
    files=lambda place: {
        "config.yaml": {
            "name": "modegate",
            "version": "1.0.0",
            "schema": "v1",
            "models": [
                {
                    "name": MODEL,
                    "provider": "openai",
                    "model": MODEL,
                    "apiBase": place.base_url,
                    "apiKey": KEY,
                    "roles": ["chat"],
                    "capabilities": ["tool_use"],
                }
            ],
        }
    },
    npm=("node", "@continuedev/cli"),
)


def _kilo(*options: str) -> Command:
    begin = ["run", "--format", "json", *options]
    return lambda _place, prompt: [str(NODE_BIN / "kilo"), *begin, prompt]


KILO = replace(
    OPENCODE,
    name="kilo",
    command=_kilo(),
    resume=_kilo("--continue"),
    environment=lambda _place: {
        f"KILO_DISABLE_{what}": "1"
        for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE", "SESSION_INGEST")
    },
    files=lambda place: {".config/kilo/kilo.json": opencode_config(place)},
    npm=("node", "@kilocode/cli"),
)


def _copilot(*options: str) -> Command:
    quiet = ["--disable-builtin-mcps", "--allow-all", "--no-color"]
    return lambda _place, prompt: [str(NODE_BIN / "copilot"), *options, "-p", prompt, *quiet]


def _copilot_wire(api: str) -> Callable[[Place], dict[str, str]]:
    return lambda place: {
        "COPILOT_PROVIDER_BASE_URL": place.base_url,
        "COPILOT_PROVIDER_API_KEY": KEY,
        # Which tools it declares depends on the model's name.
        "COPILOT_MODEL": "gpt-5.4",
        "COPILOT_PROVIDER_WIRE_API": api,
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


COPILOT = Agent(
    name="copilot",
    read=lambda path: {"name": "view", "arguments": {"path": str(path)}},
    write=patch,
    shell=lambda command: {
        "name": "bash",
        "arguments": {"command": command, "description": "run a command"},
    },
    looks=lambda work: {
        "list": {"name": "view", "arguments": {"path": str(work / "src")}},
        "find": {"name": "glob", "arguments": {"pattern": "**/*.py"}},
        "search": {"name": "rg", "arguments": {"pattern": "TODO", "output_mode": "content"}},
        "read": {"name": "view", "arguments": {"path": str(work / "notes.md")}},
        "part": {
            "name": "view",
            "arguments": {"path": str(work / "notes.md"), "view_range": [2, 2]},
        },
    },
    disguises=lambda _file: [
        {
            "name": "bash",
            "arguments": {"command": "cat notes.md", "description": "look", "mode": "async"},
        }
    ],
    command=_copilot("--trust-folder"),
    resume=_copilot("--continue"),
    environment=_copilot_wire("completions"),
    npm=("node", "@github/copilot"),
)
COPILOT_RESPONSES = replace(
    COPILOT, name="copilot-responses", environment=_copilot_wire("responses")
)
COPILOT_MESSAGES = replace(
    COPILOT,
    name="copilot-messages",
    write=lambda path, text: {
        "name": "create",
        "arguments": {"path": str(path), "file_text": text},
    },
    environment=lambda place: {
        **_copilot_wire("completions")(place),
        "COPILOT_PROVIDER_BASE_URL": place.base_url.removesuffix("/v1"),
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_MODEL": "claude-sonnet-4",
    },
)


MORE = (
    *(CLINE, KILO, PI, PI_RESPONSES, PI_MESSAGES, CONTINUE),
    *(COPILOT, COPILOT_RESPONSES, COPILOT_MESSAGES, VIBE, OPENHANDS),
)
