"""The documentation names everything that people can set, call, read or type."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, cast

import click
import pytest
from prometheus_client.metrics_core import Metric
from starlette.routing import Route

from modegate.cli import main
from modegate.core.log.events import TYPES
from modegate.core.wire.own_paths import OWN
from modegate.server.control.routes import Control
from modegate.server.extension import Services
from modegate.server.metrics import Metrics, Watched
from modegate.server.settings import Settings
from support.policies import KEYS

ROOT = Path(__file__).parents[1]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("setting", fields(Settings), ids=lambda setting: setting.name)
def test_every_setting_has_a_row(setting: Field[Any]) -> None:
    name, default = setting.name, setting.default
    start = f"| `--{name.replace('_', '-')}` | `MODEGATE_{name.upper()}` |"
    (row,) = [line for line in OPERATIONS.splitlines() if line.startswith(start)]
    if default not in (MISSING, None, "", ()):
        assert f"| `{default}` |" in row


def policy_keys() -> Iterator[tuple[str, str]]:
    for place, keys in KEYS.items():
        for key in keys:
            yield place, key


@pytest.mark.parametrize(("place", "key"), list(policy_keys()))
def test_every_policy_key_is_described(place: str, key: str) -> None:
    page = "docs/commands.md" if place.startswith("shell") else "docs/policies.md"
    assert re.search(rf"\b{key}\b", read(page)), f"{place}.{key}"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_event_is_described(name: str) -> None:
    assert f"`{name}`" in read("docs/events.md")


def control_routes() -> list[str]:
    nothing: Any = None
    parts = {field.name: nothing for field in fields(Services)}
    control = Control(Services(**parts))
    routes = cast(list[Route], control.router().routes)
    return [
        f"{method} /control{route.path}"
        for route in routes
        for method in (route.methods or set()) - {"HEAD"}
    ]


@pytest.mark.parametrize("call", control_routes())
def test_every_call_of_the_control_api_is_described(call: str) -> None:
    assert f"`{call}" in OPERATIONS


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_reserved_path_is_described(name: str) -> None:
    assert f"`/{name}" in OPERATIONS


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_a_row(name: str) -> None:
    assert re.search(rf"^\| `modegate {name}\b", OPERATIONS, re.MULTILINE)


def metric_names() -> list[str]:
    metrics = Metrics()
    metrics.watch(
        Watched(
            lost=lambda: 0,
            generation=lambda: 1,
            problems=lambda: 0,
            tasks=lambda: 0,
            held=lambda: 0,
            policy=lambda: "abc",
        )
    )
    found: list[Metric] = list(metrics.registry.collect())
    own = [metric for metric in found if metric.name.startswith("modegate_")]
    return [f"{m.name}_total" if m.type == "counter" else m.name for m in own]


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_has_a_row(name: str) -> None:
    assert f"| `{name}` |" in OPERATIONS


def agent_words() -> Iterator[str]:
    """Yield the agents and stories of `make agents`, and the versions that it installs."""
    folder = ROOT / "scripts" / "agents"
    told = subprocess.run(
        [sys.executable, str(folder / "run.py"), "--help"],
        env={**os.environ, "COLUMNS": "10000"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for kind in ("agent", "story"):
        (names,) = re.findall(rf"{kind}: (.*)", told)
        yield from (f"`{name}`" if kind == "story" else name for name in names.split(", "))
    yield from re.findall(r'": "(\d+\.\d+\.\d+)"', (folder / "install.py").read_text("utf-8"))


def test_the_page_on_agents_tells_of_each_agent_story_and_version_that_is_run() -> None:
    page = read("docs/agents.md")
    node = "22.23.3"
    assert [word for word in agent_words() if word not in page and word != node] == []


def shown_commands() -> Iterator[str]:
    names = ("acp", "operations", "policies", "scripted")
    for name in ("README.md", *(f"docs/{name}.md" for name in names)):
        for block in re.findall(
            r"^```(?:sh|console|bash)\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL
        ):
            yield from re.findall(r"^(?:[A-Z_]+=\S+ )*(modegate [^\n]*)", block, re.MULTILINE)


@pytest.mark.parametrize("line", sorted(set(shown_commands())))
def test_every_command_shown_can_be_typed(line: str) -> None:
    _, verb, *words = shlex.split(line, comments=True)
    command = main.commands[verb]
    if isinstance(command, click.Group):
        # Words that are no verb of it are what `show` takes.
        command = command.commands.get(words[0] if words else "", command.commands["show"])
    parameters = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= parameters | {
        "--help"
    }
    assert isinstance(command, click.Command)


TREE = [
    path.relative_to(ROOT)
    for top in ("proxy", "acp", "tests", "docs", "bench")
    for path in (ROOT / top, *(ROOT / top).rglob("*"))
    if not {"node_modules", "__pycache__"} & set(path.parts)
]
CODE = "\n".join((ROOT / path).read_text("utf-8") for path in TREE if path.suffix == ".py")
CODE_WORDS = set(re.findall(r"\w+", CODE)) | {path.stem for path in TREE}
PAGES_ON_CODE = ("docs/architecture.md", "CONTRIBUTING.md")


def in_code_marks(page: str, pattern: str) -> list[str]:
    """Return what a page writes as code, if all of it fits a pattern."""
    return [span for span in re.findall(r"`([^`\n]+)`", read(page)) if re.fullmatch(pattern, span)]


def alternatives(path: str) -> list[str]:
    """Return the paths that `a/{b,c}.py` stands for."""
    before, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, after = rest.partition("}")
    return [one for name in names.split(",") for one in alternatives(before + name + after)]


def is_path(path: str) -> bool:
    """Return whether it is there: it may begin in any room, lack `.py`, or end with a name in the module."""
    module, _, name = path.rpartition(".")
    wanted = {path, f"{path}.py", *([f"{module}.py"] if name != "py" else [])}
    return any(one.match(pattern) for one in TREE for pattern in wanted)


@pytest.mark.parametrize("page", PAGES_ON_CODE)
def test_every_path_named_exists(page: str) -> None:
    spans = in_code_marks(page, r"[\w*{},.-]+\.py|[\w*{},-]+/[\w*{},./-]*")
    paths = [path for span in spans for path in alternatives(span) if path not in TYPES]
    assert len(paths) > 40
    assert [path for path in paths if not is_path(path)] == []


@pytest.mark.parametrize("page", PAGES_ON_CODE)
def test_every_name_in_code_marks_is_in_the_code(page: str) -> None:
    names = in_code_marks(page, r"(\w+/)*\w+(\.\w+)*")
    assert len(names) > 15
    assert [name for name in names if not set(re.findall(r"\w+", name)) <= CODE_WORDS] == []


def test_o19_no_page_installs_a_package_that_is_not_published() -> None:
    """Only a checkout can be installed; a name in a registry could be somebody else's."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    sources = [
        *(ROOT / "proxy").rglob("*.py"),
        *(ROOT / "acp").rglob("*.py"),
        *(ROOT / "deploy").rglob("*"),
    ]
    found = [
        path
        for path in (*pages, *sources)
        if path.is_file()
        and re.search(r"pip install\S* (-\S+ )*['\"]?modegate", path.read_text("utf-8"))
    ]
    assert found == []
