"""`modegate explain`: what a mode makes of one call, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modegate.cli.check import read
from modegate.server.printable import printable
from modegate.server.settings import default_policies

if TYPE_CHECKING:
    from modegate.core.policy.judge import Judgement
    from modegate.core.policy.model import Policy

SAID = {"release": "allowed", "ask": "asked about", "answer": "refused"}


@click.command(short_help="Say what a mode makes of a call, and why.")
@click.argument("mode")
@click.argument("tool")
@click.argument("arguments", default="{}")
@click.option(
    "--file",
    "-f",
    type=click.Path(path_type=Path),
    envvar="MODEGATE_POLICIES",
    help="The policies file; without it, the one that `serve` would take.",
)
@click.option("--text", is_flag=True, help="ARGUMENTS is the free text of a custom tool.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(
    mode: str, tool: str, arguments: str, file: Path | None, text: bool, as_json: bool
) -> None:
    """Say what MODE of a policies file makes of a call of TOOL with these ARGUMENTS, and which rule says so.

    ARGUMENTS is a JSON object, as the model writes it, or - for what comes on standard input. Where no rule
    covers the call, the one that came nearest is named, with the argument and what is wrong with it.

    \b
    Examples: modegate explain plan exec_command '{"cmd": "sort -o a b"}'
              modegate explain plan exec --text 'await tools.exec_command({cmd: "ls"})'
    """
    path = file or default_policies()
    given = sys.stdin.read() if arguments == "-" else arguments
    if not text and not _is_object(given):
        click.echo(
            "ARGUMENTS is no JSON object; for the text of a custom tool add --text", err=True
        )
    told = _ruling(read(path, as_json=as_json), mode, tool, given, free=text)
    if as_json:
        found = {"verdict": told.verdict, "rule": told.rule, "reason": told.reason}
        click.echo(json.dumps(found))
    else:
        click.echo(printable(f"{SAID[told.verdict]}: {told.reason}"))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _ruling(policy: Policy, name: str, tool: str, arguments: str, *, free: bool) -> Judgement:
    """Judge a call as one that comes in an answer."""
    from modegate.core.ids import Seq, SessionId
    from modegate.core.log.fold import State
    from modegate.core.policy.in_force import ModeInForce, ModesInForce
    from modegate.core.step.answer.calls import Gathered
    from modegate.core.step.answer.rulings import Offer, rule_on

    mode_id = policy.mode_named(name)
    mode = policy.modes.get(mode_id) if mode_id else None
    if mode is None:
        known = ", ".join(policy.modes)
        raise click.ClickException(f"the file defines no mode {name!r}; known: {known}")
    session = SessionId("explain")
    in_force = ModesInForce(State(), (ModeInForce(mode, session, Seq(1)),), policy, (session,))
    call = Gathered(0, "custom" if free else "function", "id", [tool], [arguments])
    offer = Offer(in_force, (), frozenset({tool}))
    return rule_on(call, offer, in_force, ended=False).judgement
