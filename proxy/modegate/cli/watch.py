"""`modegate watch`: stay at the terminal, be shown each plan as it comes, and answer it there."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from typing import Any

import click

from modegate.cli.approvals import APPROVALS, report_shown, settle
from modegate.cli.client import ControlClient, with_client


@click.command()
@with_client
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print each change as one line of JSON, ask nothing, and count as nobody.",
)
def watch(client: ControlClient, as_json: bool) -> None:
    """Show each plan, and each call that needs you, as it comes, and ask for your answer; until ^C.

    While this runs, the agents' requests wait for you, up to ten minutes where they stream. What you
    leave unanswered stays open: see `modegate approvals`.

    \b
    Example: modegate watch
    """
    try:
        if as_json:
            for change in client.follow(APPROVALS):
                click.echo(json.dumps(change))
        else:
            _sit(client)
    except (KeyboardInterrupt, click.Abort):
        # ^C is how watching ends, not a failure; and it answers nothing.
        click.echo("", err=True)


def _sit(client: ControlClient) -> None:
    from modegate.server.printable import printable

    desk = _Desk(client)
    threading.Thread(target=desk.receive, daemon=True).start()
    click.echo("waiting for plans; ^C ends", err=True)
    while True:
        question = desk.next()
        if question is None:
            continue
        _show(question)
        answer = _asked(question)
        if answer is None:
            click.echo(f"left open: modegate approve {question['id']}", err=True)
            continue
        try:
            settle(client, question, answer[0], comment=answer[1])
        except click.ClickException as error:
            click.echo(printable(error.format_message()), err=True)


class _Desk:
    """Questions on their way to a person, who may be busy with another one."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client
        self._came: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()
        self._now: dict[str, Mapping[str, Any]] = {}

    def receive(self) -> None:
        """Take what comes, in a thread of its own, so that steps wait for a person who is busy."""
        try:
            for change in self._client.follow(APPROVALS):
                new = change["id"] not in self._now
                self._now[change["id"]] = change
                if new and change["open"]:
                    self._came.put(change["id"])
                    self._report(change)
        except (click.ClickException, OSError, RuntimeError) as error:
            self._came.put(error)

    def _report(self, question: Mapping[str, Any]) -> None:
        try:
            report_shown(self._client, question["id"])
        except click.ClickException as error:
            # It can still be answered, or the next read tells that the proxy is gone.
            click.echo(error.format_message(), err=True)

    def next(self) -> Mapping[str, Any] | None:
        """Wait for the next question; None if it was settled while it waited.

        Raises:
            click.ClickException: no more come.
        """
        came = self._came.get()
        if isinstance(came, Exception):
            raise came
        question = self._now[came]
        return question if question["open"] else None


def _show(question: Mapping[str, Any]) -> None:
    from modegate.cli.plan import beginning, question_head

    click.echo("")
    click.secho(question_head(question), bold=True)
    click.echo(beginning(question))


def _asked(question: Mapping[str, Any]) -> tuple[str, str] | None:
    """Ask for one of the options, and a reason if it is a rejection; None leaves the question open."""
    from modegate.server.printable import printable

    ways = [way for way in question["options"] if way["kind"] != "reject"]
    keys = ["y"] if len(ways) == 1 else [str(n) for n in range(1, len(ways) + 1)]
    choices = dict(zip(keys, ways, strict=True))
    choices["n"] = next(way for way in question["options"] if way["kind"] == "reject")
    for key, way in choices.items():
        mode = f" (mode {way['mode']})" if "mode" in way else ""
        click.echo(printable(f"  {key}  {way['label']}{mode}"), err=True)
    click.echo("  s  leave it open", err=True)
    # There is no default: an empty line answers nothing.
    key = click.prompt("Your answer", type=click.Choice([*choices, "s"]), err=True)
    if key == "s":
        return None
    reason = ""
    if choices[key]["kind"] == "reject":
        reason = click.prompt("Reason for the model", default="", show_default=False, err=True)
    return choices[key]["id"], reason
