"""The packs that come with modegate: a file of the package, read once for a process."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from modegate.core.policy.file.packs import Packs
from modegate.core.policy.file.packs_text import read_packs


@cache
def shipped_packs() -> Packs:
    """Return what `use` can name."""
    return read_packs(files("modegate").joinpath("packs.yaml").read_bytes())
