"""Installs the agents below `.agents/`, which git ignores; what is there already in its version stays."""

from __future__ import annotations

import json
import os
import shutil
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
    "cline": "3.0.65",
    "@kilocode/cli": "7.7.7",
    "@earendil-works/pi-coding-agent": "1.6.0",
    "@continuedev/cli": "1.5.47",
    "@github/copilot": "1.0.102",
}
"""The versions that docs/agents.md tells of. `node` is Node itself: distributions are often too old."""

PYPI_VERSIONS = {
    "mini-swe-agent": "2.4.6",
    "gptme": "0.35.1",
    "smolagents": "1.26.0",
    "aider-chat": "0.86.2",
    "mistral-vibe": "2.26.1",
    "openhands": "1.16.0",
}
"""Each in a virtual environment of its own, as they pin what the others want newer."""

_PYTHON = {"mistral-vibe": (3, 12), "openhands": (3, 12)}
"""Which Python a package asks for, where the one that runs this may be too old."""

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
    """Return where the programs of a package from PyPI are."""
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
            python = _python(name)
            subprocess.run([python, "-m", "venv", str(AGENTS / name)], check=True)
        pip = [str(pypi_bin(name) / "pip"), "install", "-q", "--disable-pip-version-check"]
        pip += _BESIDE.get(name, [])
        _first_that_works(name, [[*pip, f"{name}=={version}"], [*pip, name]], version)


def _python(name: str) -> str:
    """Find a Python that is new enough, also where pyenv keeps several.

    Raises:
        InstallFailed: there is none.
    """
    wanted = _PYTHON.get(name, (3, 11))
    if sys.version_info[:2] >= wanted:
        return sys.executable
    names = [f"python{wanted[0]}.{minor}" for minor in range(wanted[1], wanted[1] + 4)]
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    paths = [found for one in names if (found := shutil.which(one))]
    paths += [str(path) for one in names for path in sorted(kept.glob(f"*/bin/{one}"))]
    for path in paths:
        # One of pyenv's shims is found whether or not it leads anywhere.
        if subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
            return path
    raise InstallFailed(f"{name} needs Python {wanted[0]}.{wanted[1]} or newer, and none was found")


def _pypi_version(name: str) -> str:
    stem = name.replace("-", "_")
    found = (AGENTS / name).glob(f"lib/python*/site-packages/{stem}-*.dist-info")
    return next((info.name.removesuffix(".dist-info").rpartition("-")[2] for info in found), "")


def versions() -> dict[str, str]:
    """Return what is installed."""
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
