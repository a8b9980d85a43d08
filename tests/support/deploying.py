"""Readers of what `deploy/` holds: container file, unit, comments with steps, YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def text(name: str) -> str:
    """Return a file of `deploy/`."""
    return (DEPLOY / name).read_text(encoding="utf-8")


def documents(name: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML file of `deploy/`."""
    return list(yaml.safe_load_all(text(name)))


def instructions() -> list[tuple[str, str]]:
    """Return the container file as instructions and what stands behind them, lines joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text("Containerfile"), flags=re.MULTILINE))
    lines = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in lines]


def said(name: str) -> list[str]:
    """Return what the instructions of this name say."""
    return [rest for found, rest in instructions() if found == name]


def image_environment() -> dict[str, str]:
    """Return what `ENV` sets."""
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(said("ENV"))))


def steps(name: str) -> list[str]:
    """Return the commands in a file's comments, which are indented there by three spaces or more."""
    found = re.findall(r"^#   +(\S.*)$", text(name), re.MULTILINE)
    return [re.sub(r"\s{2,}#.*$", "", line) for line in found]


def unit(name: str = "modegate.service") -> list[tuple[str, str, str]]:
    """Return a unit's settings: section, directive, value."""
    section, found = "", []
    for line in text(f"systemd/{name}").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.append((section, name, value))
    return found


def directive(name: str, of: str = "modegate.service") -> list[str]:
    """Return a directive's values."""
    return [value for _, found, value in unit(of) if found == name]


def locked(name: str = "requirements.lock") -> dict[str, str]:
    """Return the entries of a lock: name of a package, and the lines about it."""
    entries = re.split(r"^(?=\S)", text(name), flags=re.MULTILINE)
    return {entry.partition("==")[0]: entry for entry in entries if entry}
