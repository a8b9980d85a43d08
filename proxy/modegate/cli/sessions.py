"""`modegate sessions`, `mode` and `log`: see and steer the sessions of a running proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from modegate.cli.control_client import ControlClient, with_client
from modegate.cli.formatting import event_line, table, when
from modegate.server.printable import printable


@click.command(short_help="List sessions, and whether a mode holds what they do.")
@with_client
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many sessions to list.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sessions(client: ControlClient, limit: int, as_json: bool) -> None:
    """List sessions, the most recent first, and whether a mode holds what they do.

    \b
    Example: modegate sessions --limit 10
    """
    from modegate.core.policy.gating import LABELS

    # One more than is shown tells whether there are more.
    rows = list(_session_rows(client, limit + 1))
    if len(rows) > limit:
        rows = rows[:limit]
        click.echo(f"there are more: --limit {2 * limit}", err=True)
    if as_json:
        click.echo(json.dumps({"sessions": rows}))
        return
    if not rows:
        click.echo("no sessions yet", err=True)
        return
    cells = [
        [row["id"], _mode_cell(row), LABELS[row["gate"]], when(row["updatedAt"]), row["agent"]]
        for row in rows
    ]
    click.echo(table(["SESSION", "MODE", "GATED", "LAST SEEN", "AGENT"], cells))
    for row in rows:
        if names := row.get("leftOut"):
            told = printable(", ".join(names))
            click.echo(f"{row['id']}: allowed, but not offered as declared: {told}", err=True)


def _mode_cell(row: dict[str, Any]) -> str:
    holders = ", ".join(one["session"] for one in row.get("heldBy", ()))
    mode = row.get("inForce") or row["mode"] or "?"
    return f"{mode} (by {holders})" if holders else mode


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

    A mode takes effect with the session's next model request. It can be set before the agent starts.

    \b
    Examples: modegate mode my-session
              modegate mode my-session plan
              modegate mode my-session default
    """

    path = session_path(session)
    if mode is None:
        state = client.get(path)
        click.echo(json.dumps(state) if as_json else printable(state["inForce"]))
        if state["heldBy"] and not as_json:
            whom = ", ".join(f"{one['mode']} of {one['session']}" for one in state["heldBy"])
            told = f"its own mode is {state['mode']}; held by its parent: {whom}"
            click.echo(printable(told), err=True)
        return
    answer = client.put(f"{path}/mode", {"mode": mode})
    if "warning" in answer:
        click.echo(printable(f"Warning: {answer['warning']}"), err=True)
    if as_json:
        click.echo(json.dumps(answer))
    elif "followed" in answer:
        told = f"{session}: {answer['mode']}, whatever its parent {answer['followed']} is in"
        click.echo(printable(f"{told} (event {answer['seq']})"))
    elif answer["changed"]:
        click.echo(
            printable(f"{session}: {answer['was']} -> {answer['mode']} (event {answer['seq']})")
        )
    else:
        click.echo(printable(f"{session}: already {answer['mode']}"))


class _LogGroup(click.Group):
    """`log SESSION` prints a session's log; other verbs are about the log as a whole."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take what is no verb for what `show` prints."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_LogGroup, short_help="Print a session's events.")
def log() -> None:
    """Print a session's events (log SESSION), or say that the event log is the right one (log adopt).

    \b
    Examples: modegate log my-session
              modegate log my-session --follow
              modegate log show adopt          a session that is named like a verb
              modegate log adopt
    """


@log.command(short_help="Print a session's events, also as they come.")
@click.argument("session")
@with_client
@click.option("--follow", "-f", is_flag=True, help="Go on with new events as they come, until ^C.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
def show(client: ControlClient, session: str, follow: bool, as_json: bool) -> None:
    """Print a session's events. With --follow go on with new ones, also after the proxy has restarted.

    \b
    Example: modegate log my-session --follow
    """

    path = f"{session_path(session)}/events"
    last = 0
    events = client.follow(path, lambda: {"after": last}) if follow else all_events(client, path)
    try:
        for event in events:
            last = event["seq"]
            click.echo(json.dumps(event) if as_json else event_line(event))
    except KeyboardInterrupt:
        # ^C is how following ends, not a failure.
        return


@log.command(short_help="Serve from the event log as it is now.")
@with_client
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def adopt(client: ControlClient, yes: bool, as_json: bool) -> None:
    """Serve from the event log as it is now, though it is empty, another one, or has lost a part.

    When a proxy finds another log than the one it knew, it refuses every request: the modes that people
    set may be gone. Look first. Is MODEGATE_LOG right? Is the file or the server the right one? Can a
    backup be restored? After this command, sessions that the log does not know begin in
    sessions.initial_mode. Set the modes that matter again before agents go on.

    \b
    Example: modegate log adopt
    """

    now = client.get("/log")
    click.echo(
        printable("the log is one that is served from" if now["ok"] else now["message"]), err=True
    )
    if not now["ok"] and not yes:
        click.confirm("Is it the right one, as it is?", abort=True, err=True)
    answer = client.post("/log/adopt", {})
    click.echo(json.dumps(answer) if as_json else f"adopted {answer['identity']}")


def all_events(client: ControlClient, path: str) -> Iterator[dict[str, Any]]:
    """Yield all events of a session, page by page."""
    after = 0
    while page := client.get(path, after=after)["events"]:
        yield from page
        after = page[-1]["seq"]


def session_path(session: str) -> str:
    """Return where the control API has a session."""
    from modegate.core.errors import BadSession
    from modegate.core.ids import parse_session_id

    try:
        return f"/sessions/{parse_session_id(session)}"
    except BadSession as error:
        raise click.ClickException(str(error)) from error
