"""More agents that run the calls of the API, from PyPI: Vibe, OpenHands."""

from __future__ import annotations

from typing import Any

from agent import KEY, MODEL, Agent, Call, Command, Place, bash
from install import pypi_bin


def _vibe(*options: str) -> Command:
    begin = [str(pypi_bin("mistral-vibe") / "vibe"), "--trust", "--auto-approve", *options]
    return lambda _place, prompt: [*begin, "-p", prompt]


def _vibe_config(place: Place) -> dict[str, Any]:
    lines = (
        f'active_model = "{MODEL}"',
        "enable_telemetry = false",
        "enable_update_checks = false",
        "[[providers]]",
        'name = "modegate"',
        f'api_base = "{place.base_url}"',
        'api_key_env_var = "OPENAI_API_KEY"',
        "[[models]]",
        f'name = "{MODEL}"',
        'provider = "modegate"',
        f'alias = "{MODEL}"',
    )
    return {".vibe/config.toml": "\n".join(lines) + "\n"}


VIBE = Agent(
    name="vibe",
    read=lambda path: {"name": "read_file", "arguments": {"path": str(path)}},
    write=lambda path, text: {
        "name": "write_file",
        "arguments": {"path": str(path), "content": text},
    },
    shell=lambda command: bash(command, timeout_seconds=60),
    looks=lambda work: {
        "read": {"name": "read_file", "arguments": {"path": str(work / "notes.md")}},
        "part": {"name": "read_file", "arguments": {"path": "notes.md", "offset": 1, "limit": 1}},
    },
    command=_vibe(),
    resume=_vibe("--continue"),
    environment=lambda _place: {"OPENAI_API_KEY": KEY},
    files=_vibe_config,
    pypi=("mistral-vibe",),
)


def _openhands(*options: str) -> Command:
    begin = ["--headless", "--json", "--override-with-envs", *options, "-t"]
    return lambda _place, prompt: [str(pypi_bin("openhands") / "openhands"), *begin, prompt]


def _risk(name: str, **arguments: Any) -> Call:
    return {"name": name, "arguments": {"security_risk": "LOW", **arguments}}


OPENHANDS = Agent(
    name="openhands",
    read=lambda path: _risk("file_editor", command="view", path=str(path)),
    write=lambda path, text: _risk("file_editor", command="create", path=str(path), file_text=text),
    shell=lambda command: _risk("terminal", command=command),
    looks=lambda work: {
        "list": _risk("file_editor", command="view", path=str(work / "src")),
        "read": _risk("file_editor", command="view", path=str(work / "notes.md")),
        "part": _risk(
            "file_editor", command="view", path=str(work / "notes.md"), view_range=[2, 2]
        ),
    },
    command=_openhands(),
    resume=_openhands("--resume", "--last"),
    environment=lambda place: {
        "LLM_BASE_URL": place.base_url,
        "LLM_API_KEY": KEY,
        "LLM_MODEL": f"openai/{MODEL}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    pypi=("openhands",),
    fails_on_400=False,
)
