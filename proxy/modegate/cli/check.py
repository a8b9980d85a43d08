"""`modegate check`: read a policies file as the proxy would, and print all that is wrong with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modegate.core.policy.problems import PolicyProblems
from modegate.server.printable import printable, problem_line
from modegate.server.settings import default_policies

if TYPE_CHECKING:
    from modegate.core.policy.model import Policy


@click.command(short_help="Check a policies file.")
@click.argument("file", type=click.Path(path_type=Path), envvar="MODEGATE_POLICIES", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path | None, as_json: bool) -> None:
    """Check a policies file; without FILE, the one that `serve` would take.

    If it can be used, the exit code is 0. If not, it is 1, and every problem is printed with its line.

    \b
    Example: modegate check policies.yaml
    """
    from modegate.core.dialects.registered import DIALECTS
    from modegate.core.policy.file import parse

    path = file or default_policies()
    try:
        policy = parse(path.read_bytes(), DIALECTS.names)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    except PolicyProblems as error:
        if as_json:
            click.echo(
                json.dumps({"file": str(path), "problems": list(map(asdict, error.problems))})
            )
        else:
            for problem in error.problems:
                click.echo(problem_line(path, problem), err=True)
        raise click.exceptions.Exit(1) from error
    click.echo(json.dumps(_summary(path, policy)) if as_json else _text(path, policy))


def _summary(path: Path, policy: Policy) -> dict[str, object]:
    modes = [
        {"id": mode.id, "name": mode.name, "rules": len(mode.rules), "exit": mode.exit is not None}
        for mode in policy.modes.values()
    ]
    return {"file": str(path), "hash": policy.hash, "modes": modes}


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
