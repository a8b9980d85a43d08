"""A dialect is one package: nobody else knows its name, or imports its modules."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import modegate
from modegate.core.dialects.registered import DIALECTS

ROOT = Path(modegate.__file__).parent
PACKAGES = "modegate.core.dialects."
REGISTRY = ROOT / "core/dialects/registered.py"
SCRIPTED = ROOT / "scripted"
"""A model of its own, which has a registry of its own."""
SOURCES = [
    path
    for top in (ROOT, ROOT.parents[1] / "acp/modegate_acp")
    for path in sorted(top.rglob("*.py"))
    if (ROOT / "core/dialects") not in path.parents and SCRIPTED not in path.parents
]


def switches(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what decides by a dialect's name: comparisons, keys of tables, cases, types of literals."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, _, others):
                yield from (one for one in (left, *others) if named(one))
            case ast.Dict(keys):
                yield from (key for key in keys if key is not None and named(key))
            case ast.MatchValue(value) if named(value):
                yield value
            case ast.Subscript(ast.Name("Literal"), types) if named(types):
                yield types


def named(node: ast.AST) -> bool:
    """Return whether a dialect's name stands in an expression, by itself or in a collection."""
    return any(
        isinstance(one, ast.Constant) and one.value in DIALECTS.names for one in _parts(node)
    )


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        yield from node.elts


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT.parents[1])))
def test_nobody_switches_on_a_dialects_name_or_imports_its_package(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    assert [node.lineno for node in switches(tree) if isinstance(node, ast.expr)] == []
    packages = tuple(f"{PACKAGES}{name}." for name in (*DIALECTS.names, "common"))
    assert [name for name in imported(tree) if name.startswith(packages)] == []


def test_each_is_one_line_of_the_registry() -> None:
    found = [name for name in imported(ast.parse(REGISTRY.read_bytes())) if PACKAGES in name]
    assert sorted(found) == sorted(
        f"{PACKAGES}{name}.dialect.{name.upper()}" for name in DIALECTS.names
    )


def test_each_stands_in_the_contract_that_no_dialect_knows_another() -> None:
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())
    contracts = {one["name"]: one for one in project["tool"]["importlinter"]["contracts"]}
    modules = contracts["no dialect knows another"]["modules"]
    assert sorted(modules) == sorted(f"{PACKAGES}{name}" for name in DIALECTS.names)


@pytest.mark.parametrize("text", [
    'api == "chat"', '"messages" != api', 'api in ("chat", "other")', '{"responses": 1}',
    'match api:\n    case "chat":\n        pass', 'Literal["chat", "x"]',
])  # fmt: skip
def test_a_switch_is_found(text: str) -> None:
    assert list(switches(ast.parse(text)))
