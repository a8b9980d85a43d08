"""`modegate sessions`, `mode` and `log`: see and steer the sessions of a running proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from modegate.cli.client import ControlClient, with_client


@click.command()
@with_client
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sessions(client: ControlClient, limit: int, as_json: bool) -> None:
    """List sessions, the most recent first.

    \b
    Example: modegate sessions --limit 10
    """
    from modegate.cli.text import table, when

    rows = list(_session_rows(client, limit))
    if as_json:
        click.echo(json.dumps({"sessions": rows}))
        return
    if not rows:
        click.echo("no sessions yet", err=True)
        return
    cells = [[row["id"], row["mode"], row["agent"], when(row["updatedAt"])] for row in rows]
    click.echo(table(["SESSION", "MODE", "AGENT", "LAST SEEN"], cells))


def _session_rows(client: ControlClient, limit: int) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while limit > 0:
        page = client.get("/sessions", limit=min(limit, 200), **cursor)
        yield from page["sessions"]
        limit -= len(page["sessions"])
        if not page.get("nextCursor"):
            return
        cursor = {"cursor": page["nextCursor"]}


@click.command()
@click.argument("session")
@click.argument("mode", required=False)
@with_client
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def mode(client: ControlClient, session: str, mode: str | None, as_json: bool) -> None:
    """Show a session's mode, or set it.

    It takes effect with the session's next model request; a session may be set before its agent starts.

    \b
    Examples: modegate mode my-session
              modegate mode my-session plan
              modegate mode my-session default
    """
    from modegate.server.printable import printable

    path = _path(session)
    if mode is None:
        state = client.get(path)
        click.echo(json.dumps(state) if as_json else printable(state["mode"]))
        return
    answer = client.put(f"{path}/mode", {"mode": mode})
    if "warning" in answer:
        click.echo(printable(f"Warning: {answer['warning']}"), err=True)
    if as_json:
        click.echo(json.dumps(answer))
    elif answer["changed"]:
        click.echo(
            printable(f"{session}: {answer['was']} -> {answer['mode']} (event {answer['seq']})")
        )
    else:
        click.echo(printable(f"{session}: already {answer['mode']}"))


@click.command()
@click.argument("session")
@with_client
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until ^C.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
def log(client: ControlClient, session: str, follow: bool, as_json: bool) -> None:
    """Print a session's events.

    \b
    Example: modegate log my-session --follow
    """
    from modegate.cli.text import event_line

    path = f"{_path(session)}/events"
    events = client.follow(path, after=0) if follow else _all_events(client, path)
    try:
        for event in events:
            click.echo(json.dumps(event) if as_json else event_line(event))
    except KeyboardInterrupt:
        # ^C is how following ends, not a failure.
        return


def _all_events(client: ControlClient, path: str) -> Iterator[dict[str, Any]]:
    after = 0
    while page := client.get(path, after=after)["events"]:
        yield from page
        after = page[-1]["seq"]


def _path(session: str) -> str:
    from modegate.core.errors import BadSession
    from modegate.core.ids import parse_session_id

    try:
        return f"/sessions/{parse_session_id(session)}"
    except BadSession as error:
        raise click.ClickException(str(error)) from error
