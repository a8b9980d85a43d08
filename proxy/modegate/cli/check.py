"""`modegate check`: read a policies file as the proxy would, and print all that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modegate.core.policy.problems import PolicyProblems, Problem
from modegate.server.printable import printable, problem_line
from modegate.server.settings import default_policies

if TYPE_CHECKING:
    from modegate.core.policy.model import Policy


@click.command(short_help="Check a policies file.")
@click.argument("file", type=click.Path(path_type=Path), envvar="MODEGATE_POLICIES", required=False)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path | None, strict: bool, as_json: bool) -> None:
    """Check a policies file; without FILE, the one that `serve` would take.

    If it can be used, the exit code is 0. If not, it is 1, and every problem is printed with its line.
    Warnings tell of lines that can hardly be meant, such as a rule that nothing reaches.

    \b
    Example: modegate check policies.yaml
    """
    path = file or default_policies()
    policy = read(path, as_json=as_json)
    click.echo(json.dumps(_summary(path, policy)) if as_json else _text(path, policy))
    if not as_json:
        _tell(path, "warning", policy.warnings)
    if strict and policy.warnings:
        raise click.exceptions.Exit(1)


def read(path: Path, *, as_json: bool) -> Policy:
    """Return the policy of a file; if it cannot be used, say why and end with 1."""
    from modegate.core.dialects.registered import DIALECTS
    from modegate.core.policy.file import parse
    from modegate.server.packs import shipped_packs

    try:
        return parse(path.read_bytes(), DIALECTS.names, shipped_packs())
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    except PolicyProblems as error:
        if as_json:
            click.echo(json.dumps({"file": str(path), **_findings(error)}))
        else:
            _tell(path, "", error.problems)
            _tell(path, "warning", error.warnings)
        raise click.exceptions.Exit(1) from error


def _findings(error: PolicyProblems) -> dict[str, Any]:
    found = {"problems": error.problems, "warnings": error.warnings}
    return {name: list(map(asdict, listed)) for name, listed in found.items()}


def _tell(path: Path, kind: str, found: Sequence[Problem]) -> None:
    for one in found:
        click.echo(problem_line(path, one, kind), err=True)


def _summary(path: Path, policy: Policy) -> dict[str, object]:
    modes = [
        {"id": mode.id, "name": mode.name, "rules": len(mode.rules), "exit": mode.exit is not None}
        for mode in policy.modes.values()
    ]
    warnings = list(map(asdict, policy.warnings))
    return {"file": str(path), "hash": policy.hash, "modes": modes, "warnings": warnings}


def _text(path: Path, policy: Policy) -> str:
    lines = [f"{path}: good, policy {policy.hash}, {_count(len(policy.modes), 'mode')}"]
    lines += [
        printable(f"  {mode.id}: {_count(len(mode.rules), 'tool rule')}")
        + (", has an exit" if mode.exit else "")
        for mode in policy.modes.values()
    ]
    return "\n".join(lines)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
