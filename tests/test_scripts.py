"""What scripts and benchmarks take from the project is there: no type checker reads them, and few runs do."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("modegate", "modegate_acp", "support")
SCRIPTS = [
    file for folder in ("scripts", "bench") for file in sorted((ROOT / folder).rglob("*.py"))
]


def taken(file: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a script imports from the project."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            yield from ((node.module, one.name) for one in node.names)
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names if one.name.split(".")[0] in OURS)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_script_imports_is_there(file: Path) -> None:
    for module, name in taken(file):
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
