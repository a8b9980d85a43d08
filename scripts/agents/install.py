"""Installs the agents below `.agents/`, which git ignores; what is there already in its version stays."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

REPO = Path(__file__).parents[2]
AGENTS = REPO / ".agents"
NPM = AGENTS / "npm"
NODE_BIN = NPM / "node_modules" / ".bin"

NPM_VERSIONS = {
    "node": "22.23.3",
    "opencode-ai": "1.18.33",
    "@qwen-code/qwen-code": "0.24.4",
    "@openai/codex": "0.171.0",
    "@anthropic-ai/claude-code": "2.1.332",
}
"""The versions that docs/agents.md tells of. `node` is Node itself: distributions are often too old."""

PYPI_VERSIONS = {
    "mini-swe-agent": "2.4.6",
    "gptme": "0.35.1",
    "smolagents": "1.26.0",
    "aider-chat": "0.86.2",
}
"""Each in a virtual environment of its own, as they pin what the others want newer."""

_BESIDE = {
    "smolagents": ["openai", "msgspec"],
    "gptme": ["msgspec"],
    "aider-chat": ["msgspec"],
}
"""What a package needs that it does not ask for; `msgspec` is for parsers.py."""

INSTALL_S = 900


class InstallFailed(Exception):
    """A package could not be installed in any version."""


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def npm_packages(names: list[str]) -> None:
    """Install npm packages.

    Raises:
        InstallFailed: neither its measured nor its latest version could be installed.
    """
    for name in names:
        if _npm_version(name) == NPM_VERSIONS[name]:
            continue
        _first_that_works(
            name, [_npm(name, NPM_VERSIONS[name]), _npm(name, "latest")], NPM_VERSIONS[name]
        )


def pypi_bin(name: str) -> Path:
    """Give where the programs of a package from PyPI are."""
    return AGENTS / name / "bin"


def pypi_packages(names: list[str]) -> None:
    """Install packages from PyPI.

    Raises:
        InstallFailed: neither the measured nor the latest version of one could be installed.
    """
    for name in names:
        version = PYPI_VERSIONS[name]
        if _pypi_version(name) == version:
            continue
        if not (pypi_bin(name) / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(AGENTS / name)], check=True)
        pip = [str(pypi_bin(name) / "pip"), "install", "-q", "--disable-pip-version-check"]
        pip += _BESIDE.get(name, [])
        _first_that_works(name, [[*pip, f"{name}=={version}"], [*pip, name]], version)


def _pypi_version(name: str) -> str:
    stem = name.replace("-", "_")
    found = (AGENTS / name).glob(f"lib/python*/site-packages/{stem}-*.dist-info")
    return next((info.name.removesuffix(".dist-info").rpartition("-")[2] for info in found), "")


def versions() -> dict[str, str]:
    """Give what is installed."""
    found = {name: _npm_version(name) for name in NPM_VERSIONS}
    found |= {name: _pypi_version(name) for name in PYPI_VERSIONS}
    return {name: version for name, version in found.items() if version}


def _npm(name: str, version: str) -> list[str]:
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    return ["npm", "install", "--prefix", str(NPM), *quiet, f"{name}@{version}"]


def _npm_version(name: str) -> str:
    try:
        manifest = (NPM / "node_modules" / name / "package.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    return str(json.loads(manifest)["version"])


def _first_that_works(name: str, commands: list[list[str]], version: str) -> None:
    AGENTS.mkdir(exist_ok=True)
    errors = []
    for command in commands:
        say(f"installing {command[-1]} (a minute or so) ...")
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        except FileNotFoundError as error:
            raise InstallFailed(f"{command[0]} is missing; install Node.js with npm") from error
        except subprocess.TimeoutExpired:
            errors.append(f"{command[-1]}: not done after {INSTALL_S} s")
            continue
        if done.returncode == 0:
            say(f"installed {command[-1]} in {time.monotonic() - began:.0f} s")
            return
        errors.append(f"{command[-1]}: {done.stderr.strip()[-600:]}")
        say(f"could not install {command[-1]}; measured was {version}")
    raise InstallFailed(f"{name} could not be installed:\n" + "\n".join(errors))
