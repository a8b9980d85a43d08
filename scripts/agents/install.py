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
MINI = AGENTS / "mini"
NODE_BIN = NPM / "node_modules" / ".bin"

NPM_VERSIONS = {
    "node": "22.23.3",
    "opencode-ai": "1.18.33",
    "@qwen-code/qwen-code": "0.24.4",
    "@openai/codex": "0.171.0",
    "@anthropic-ai/claude-code": "2.1.332",
}
"""The versions that docs/agents.md tells of. `node` is Node itself: distributions are often too old."""

MINI_VERSION = "2.4.6"
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


def mini() -> None:
    """Install mini-swe-agent in a virtual environment of its own.

    Raises:
        InstallFailed: neither the measured nor the latest version could be installed.
    """
    if list(MINI.glob(f"lib/python*/site-packages/mini_swe_agent-{MINI_VERSION}.dist-info")):
        return
    if not (MINI / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(MINI)], check=True)
    pip = [str(MINI / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    versions = [f"mini-swe-agent=={MINI_VERSION}", "mini-swe-agent"]
    _first_that_works("mini-swe-agent", [[*pip, version] for version in versions], MINI_VERSION)


def versions() -> dict[str, str]:
    """Give what is installed."""
    found = {name: _npm_version(name) for name in NPM_VERSIONS}
    for info in MINI.glob("lib/python*/site-packages/mini_swe_agent-*.dist-info"):
        found["mini-swe-agent"] = info.name.removesuffix(".dist-info").rpartition("-")[2]
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
