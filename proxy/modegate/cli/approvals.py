"""`modegate approvals`, `approve` and `reject`: what waits for a person, and the person's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from modegate.cli.control_client import ControlClient, with_client
from modegate.cli.formatting import first_words, question_head, table, when, whole
from modegate.cli.question_queue import Question, how_it_ended
from modegate.server.printable import printable

APPROVALS = "/approvals"


@click.command(short_help="List what waits for a person.")
@click.argument("approval", metavar="[ID]", required=False)
@with_client
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def approvals(client: ControlClient, approval: str | None, as_json: bool) -> None:
    """List what waits for a person, the oldest first. With an ID, print that plan or call whole.

    Instead of a whole ID you can give its beginning, if no other ID begins so.

    \b
    Examples: modegate approvals
              modegate approvals mg-perm-5f3a | less
    """

    found = open_ones(client)
    if approval is not None:
        one = pick(found, approval)
        if one is None:
            raise click.ClickException(f"no open approval begins with {approval!r}")
        click.echo(json.dumps(one) if as_json else f"{question_head(one)}\n{whole(one)}")
    elif as_json:
        click.echo(json.dumps({"approvals": found}))
    elif found:
        click.echo(_table(found))
    else:
        click.echo("nothing waits for you", err=True)


def _table(found: list[dict[str, Any]]) -> str:
    cells = [
        [one["id"], one["session"], one["status"], when(one["askedAt"]), first_words(one)]
        for one in found
    ]
    return table(["ID", "SESSION", "STATUS", "ASKED", "WHAT"], cells)


@click.command(short_help="Approve a plan, or allow a call once.")
@click.argument("approval", metavar="ID")
@with_client
@click.option("--option", help="Which way to approve, if there is more than one.")
@click.option("--comment", default="", help="What the model is told with the approval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def approve(
    client: ControlClient, approval: str, option: str | None, comment: str, as_json: bool
) -> None:
    """Approve a plan, or allow a call once. If the model still waits, it is told your comment.

    Instead of a whole ID you can give its beginning, if no other ID begins so.

    \b
    Examples: modegate approve mg-perm-5f3a
              modegate approve mg-perm-5f3a --option approve-2
              modegate approve mg-perm-5f3a --comment "but keep the old API"
    """
    one = _meant(client, approval)
    settle(client, one, option or _only_way(one), comment=comment, as_json=as_json)


@click.command(short_help="Reject a plan or a call, with a reason.")
@click.argument("approval", metavar="ID")
@with_client
@click.option("--reason", default="", help="What the model is told.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reject(client: ControlClient, approval: str, reason: str, as_json: bool) -> None:
    """Reject a plan or a call. If the model still waits, it is told the reason and may try again.

    \b
    Example: modegate reject mg-perm-5f3a --reason "keep the old API"
    """
    one = _meant(client, approval)
    option = next(way["id"] for way in one["options"] if way["kind"] == "reject")
    settle(client, one, option, comment=reason, as_json=as_json)


def open_ones(client: ControlClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(APPROVALS)["approvals"]
    return found


def _meant(client: ControlClient, begins: str) -> dict[str, Any]:
    """Return the open question that a person means; if it was settled lately, raise how."""

    one = pick(open_ones(client), begins)
    if one is not None:
        return one
    over = pick(client.get(APPROVALS, settled="true")["approvals"], begins)
    if over is None:
        raise click.ClickException(f"no approval begins with {begins!r}")
    raise click.ClickException(printable(f"approval {over['id']} is already {how_it_ended(over)}"))


def pick(found: list[dict[str, Any]], begins: str) -> dict[str, Any] | None:
    """Return the question with this id, or the only one whose id begins so; None if there is none."""
    matches = [one for one in found if one["id"].startswith(begins)] if begins else []
    exact = [one for one in matches if one["id"] == begins]
    if len(matches) > 1 and not exact:
        names = ", ".join(one["id"] for one in matches)
        raise click.ClickException(f"{begins!r} could be any of: {names}")
    best = exact or matches
    return best[0] if best else None


def _only_way(one: Question) -> str:
    ways = [way for way in one["options"] if way["kind"] != "reject"]
    if len(ways) == 1:
        return str(ways[0]["id"])

    names = "; ".join(f"--option {way['id']} ({way['label']})" for way in ways)
    raise click.ClickException(printable(f"there is more than one way to approve this: {names}"))


def settle(
    client: ControlClient,
    question: Question,
    option: str,
    *,
    comment: str = "",
    as_json: bool = False,
) -> None:
    """Send a person's answer and say what came of it; if it changed nothing, raise why."""

    name = question["id"]
    body = {"option": option} | ({"comment": comment} if comment else {})
    answer = client.post(f"{APPROVALS}/{quote(name, safe='')}", body)
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(printable(_told(answer)))
    if not answer["waited"]:
        told = "it is told so at its next request" if "mode" in answer else "it is not told"
        click.echo(f"The model had gone on without an answer; {told}.", err=True)


def _told(answer: Mapping[str, Any]) -> str:
    session, option = answer["session"], answer["option"]
    if "mode" in answer:
        return f"{session}: {option}; the mode is {answer['mode']} now"
    return f"{session}: {option}; the mode stays as it is"


def report_shown(client: ControlClient, name: str, viewer: str) -> None:
    """Tell the proxy that a person sees this question, so that its step waits for them."""
    client.post(f"{APPROVALS}/{quote(name, safe='')}/delivered", {"via": "cli", "client": viewer})


def report_left(client: ControlClient, name: str, viewer: str) -> None:
    """Tell the proxy that the person leaves this question to others."""
    client.post(f"{APPROVALS}/{quote(name, safe='')}/left", {"client": viewer})
