"""Policies of tests, whose routes may name every dialect that modegate speaks."""

from __future__ import annotations

import importlib
import pkgutil

from modegate.core.dialects.registered import DIALECTS
from modegate.core.policy import file
from modegate.core.policy.file import policy
from modegate.core.policy.file.schema import Section
from modegate.core.policy.model import Policy
from modegate.server.packs import shipped_packs

KEYS = {
    section.path: section.keys
    for module in pkgutil.iter_modules(file.__path__, f"{file.__name__}.")
    for section in vars(importlib.import_module(module.name)).values()
    if isinstance(section, Section)
}
"""Every key that is known, by the path of its section; `docs/policies.md` names each."""


def parse(text: str | bytes) -> Policy:
    """Read a policy."""
    return policy.parse(text, DIALECTS.names, shipped_packs())
