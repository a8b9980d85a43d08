"""Codex, in both styles: the name of its model decides which tools it declares."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import KEY, Agent, Call, Command, Place, patch
from install import NODE_BIN


def _codex(*options: str) -> Command:
    everything = "--dangerously-bypass-approvals-and-sandbox"
    begin = ["exec", "--json", everything, "--skip-git-repo-check", *options]
    return lambda _place, prompt: [str(NODE_BIN / "codex"), *begin, prompt]


def _codex_config(model: str) -> Callable[[Place], dict[str, Any]]:
    def files(place: Place) -> dict[str, Any]:
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


def _codex_shell(command: str, **more: Any) -> Call:
    return {"name": "exec_command", "arguments": {"cmd": command, **more}}


CODEX = Agent(
    name="codex",
    # Its only reader of text is its shell.
    read=lambda path: {"name": "view_image", "arguments": {"path": str(path)}},
    write=patch,
    shell=lambda command: _codex_shell(command, yield_time_ms=10_000, max_output_tokens=2_000),
    looks=lambda _work: {"part": _codex_shell("sed -n 2,2p notes.md", workdir=".", tty=False)},
    disguises=lambda file: [
        _codex_shell("cat notes.md", shell=str(file)),
        _codex_shell("cat notes.md", sandbox_permissions="require_escalated"),
        patch(file, "made"),
    ],
    command=_codex(),
    resume=_codex("resume", "--last"),
    environment=lambda _place: {"OPENAI_API_KEY": KEY},
    files=_codex_config("gpt-5.5"),
    npm=("node", "@openai/codex"),
)


def _program(code: str) -> Call:
    return {"name": "exec", "type": "custom", "arguments": code}


def _script_of(command: str) -> Call:
    given = json.dumps({"cmd": command, "max_output_tokens": 2_000})
    return _program(f"const done = await tools.exec_command({given});\ntext(done.output);")


def _disguised_programs(file: Path) -> list[Call]:
    """Make programs that write by another call, or by a call whose name or command is made up."""
    touch = json.dumps(f"touch {file}")
    added = f"*** Begin Patch\n*** Add File: {file.name}\n+made\n*** End Patch\n"
    return [
        _program(f"text(await tools.apply_patch({json.dumps(added)}));"),
        _program(f"const run = tools.exec_command; text((await run({{cmd: {touch}}})).output);"),
        _program(f"const n = 'exec_' + 'command'; text(await tools[n]({{cmd: {touch}}}));"),
        _program(f"const c = {touch}; text((await tools.exec_command({{cmd: c}})).output);"),
    ]


CODEX_LITE = replace(
    CODEX,
    name="codex-lite",
    # All that it can do is written in one tool's code; its tools are declared within `input`.
    read=lambda path: _script_of(f"cat {path}"),
    write=None,
    shell=_script_of,
    looks=lambda _work: {
        "find": _program(
            "const [py, all] = await Promise.all([\n"
            "  tools.exec_command({cmd: \"find . -name '*.py'\"}),\n"
            "  tools.exec_command({cmd: 'git status --short'}),\n"
            "]);\ntext(py.output);"
        )
    },
    disguises=_disguised_programs,
    files=_codex_config("gpt-5.6-sol"),
)
