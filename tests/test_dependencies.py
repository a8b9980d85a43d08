"""No version with a known fault is let in, and the image is made of nothing but what the locks name."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from support.deploying import ROOT, locked, said, text

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIRED = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
LITELLM = [Requirement(line) for line in PROJECT["project"]["optional-dependencies"]["litellm"]]
BUILD = [Requirement(line) for line in PROJECT["build-system"]["requires"]]

FAULTS = {
    "aiohttp": (
        "3.13.3",
        "CVE-2026-22815, trailers without a limit; also CVE-2025-53643, CVE-2025-69223",
    ),
    "brotli": ("1.1.0", "CVE-2025-6176, a small body that becomes a large one"),
    "h11": ("0.15.0", "CVE-2025-43859, chunks that are read in two ways"),
    "starlette": (
        "1.2.9",
        "CVE-2026-48710 and CVE-2026-54282, a URL that is not the one asked for",
    ),
    "litellm": ("1.83.6", "CVE-2026-42271, and versions that were not its authors'"),
}
"""The last versions with a fault that concerns a server or a client, and which."""


@pytest.mark.parametrize("name", FAULTS)
def test_h22_no_version_with_a_known_fault_is_let_in(name: str) -> None:
    last, why = FAULTS[name]
    (requirement,) = [one for one in [*REQUIRED, *LITELLM] if one.name == name]
    floors = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
    assert max(floors) > Version(last), why


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [("requirements.lock", [*REQUIRED, *LITELLM]), ("build.lock", BUILD)],
    ids=["what runs", "what builds"],
)
def test_h22_a_lock_holds_what_the_project_asks_for(
    lock: str, requirements: list[Requirement]
) -> None:
    """In versions that fit, each by the hashes of its files, and from nowhere in particular."""
    entries = locked(lock)
    image = {"python_version": "3.12", "sys_platform": "linux"}
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate(image):
            entry = entries[canonicalize_name(requirement.name)]
            version = re.match(r"\S+==(\S+) ", entry)
            assert version, entry
            assert requirement.specifier.contains(version[1], prereleases=True), entry
    for entry in entries.values():
        first, *hashes = entry.replace("\\\n", "").split()
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+", first)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)


def test_h22_the_image_takes_nothing_that_is_not_locked() -> None:
    (command,) = [line for line in said("RUN") if "pip install" in line]
    installs = re.findall(r"pip install (.*?)(?: &&|$)", command)
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or {"--no-deps", "--no-index"} <= set(install.split())
    assert "--no-build-isolation" in command
    (base,) = {line.split()[0] for line in said("FROM")}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"--python-version {base.removeprefix('python:').removesuffix('-slim')} " in makefile
    assert "make lock" in text("Containerfile")
