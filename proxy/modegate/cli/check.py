"""`modegate check`: read a policies file as the proxy would, and print all that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modegate.cli.control_client import ControlClient, with_proxy_options
from modegate.core.policy.file.problems import PolicyProblems, Problem
from modegate.server.printable import printable, problem_line
from modegate.server.settings import default_policies

if TYPE_CHECKING:
    from modegate.cli.against import Report
    from modegate.core.policy.model import Policy


@click.command(short_help="Check a policies file, and what agents would lose by it.")
@click.argument("file", type=click.Path(path_type=Path), envvar="MODEGATE_POLICIES", required=False)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option(
    "--against",
    metavar="SESSION|CAPTURE",
    help="Say what agents would lose, by a session of a running proxy or by a file of requests.",
)
@click.option(
    "--mode", "names", multiple=True, help="With --against: in this mode; else in each of the file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_proxy_options
def check(
    file: Path | None,
    strict: bool,
    against: str | None,
    names: tuple[str, ...],
    as_json: bool,
    **proxy: Any,
) -> None:
    """Check a policies file; without FILE, the one that `serve` would take.

    If it can be used, the exit code is 0. If not, it is 1, and every problem is printed with its line.
    Warnings tell of lines that can hardly be meant, such as a rule that nothing reaches.

    With --against, also say for each agent which tools stay and which go, and which of its calls would be
    refused. A capture is a file with one JSON object a line, {"agent": "NAME", "body": {…}}, where the body
    is that of a model request; or one body alone, as NAME.json. The arguments of its calls are judged. Of a
    session the log holds only the names: it is looked at in its own mode, unless --mode names another.

    \b
    Examples: modegate check policies.yaml
              modegate check policies.yaml --against my-session
              modegate check policies.yaml --against requests.jsonl --mode plan
    """
    if names and not against:
        raise click.UsageError("--mode says in which mode --against looks; give --against as well")
    path = file or default_policies()
    policy = read(path, as_json=as_json)
    reports = _reports(policy, against, names, proxy, quiet=as_json) if against else None
    if as_json:
        more = {} if reports is None else {"against": [one.summary() for one in reports]}
        click.echo(json.dumps(_summary(path, policy) | more))
    else:
        click.echo(_text(path, policy))
        _tell(path, "warning", policy.warnings)
        for report in reports or ():
            click.echo("\n".join(["", *report.text()]))
    if strict and policy.warnings:
        raise click.exceptions.Exit(1)


def _reports(
    policy: Policy, against: str, names: Sequence[str], proxy: dict[str, Any], *, quiet: bool
) -> list[Report]:
    from modegate.cli.against import of_capture, of_session

    modes = [policy.modes.get(mode) for name in names if (mode := policy.mode_named(name))]
    chosen = [mode for mode in modes if mode is not None]
    if len(chosen) < len(names):
        known = ", ".join(policy.modes)
        raise click.ClickException(f"--mode: the file defines no such mode; known: {known}")
    if Path(against).is_file():
        try:
            return of_capture(
                Path(against), policy, chosen or [*policy.modes.values()], quiet=quiet
            )
        except OSError as error:
            raise click.ClickException(f"{against}: {error.strerror}") from error
    # No session's id has a slash in it.
    if "/" in against or Path(against).suffix in (".json", ".jsonl"):
        raise click.ClickException(f"{against}: no such file")
    with ControlClient(**proxy) as client:
        return of_session(client, against, policy, chosen)


def read(path: Path, *, as_json: bool) -> Policy:
    """Return the policy of a file; if it cannot be used, say why and end with 1."""
    from modegate.core.dialects.registered import DIALECTS
    from modegate.core.policy.file.policy import parse
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
