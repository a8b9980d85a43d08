"""`modegate watch`: stay at the terminal, be shown each plan as it comes, and answer it there."""

from __future__ import annotations

import json
import os
import queue
import secrets
import select
import sys
import termios
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import click

from modegate.cli.approvals import APPROVALS, open_ones, report_left, report_shown, settle
from modegate.cli.control_client import ControlClient, with_client
from modegate.cli.formatting import beginning, question_head
from modegate.cli.question_queue import (
    ANSWER,
    Action,
    Ask,
    Leave,
    Question,
    QuestionQueue,
    Say,
    Settle,
    Show,
    keys,
)
from modegate.server.printable import printable

STDIN = 0
CHUNK = 4096


@click.command(short_help="Show each plan as it comes, and ask for your answer.")
@with_client
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print each change as one line of JSON, ask nothing, and count as nobody.",
)
def watch(client: ControlClient, as_json: bool) -> None:
    """Show each plan, and each call that needs you, one after the other, and ask for your answer, until ^C.

    While you are shown a question, its request waits for you: for an hour, or one minute if it does not
    stream, unless the policy says another time. What you do not answer stays open: see `modegate approvals`.
    If the proxy restarts, the command waits for it. If standard input is no terminal, the command asks
    nothing, and counts as nobody.

    \b
    Example: modegate watch
    """
    try:
        if as_json:
            for change in client.follow(APPROVALS):
                click.echo(json.dumps(change))
        elif os.isatty(STDIN):
            _Terminal(client).sit()
        else:
            _look_on(client)
    except (KeyboardInterrupt, click.Abort):
        # ^C is how watching ends, not a failure; and it answers nothing.
        click.echo("", err=True)


def _look_on(client: ControlClient) -> None:
    """Print what comes; nobody is here who could answer."""
    click.echo("standard input is no terminal: this shows plans and asks nobody", err=True)
    for change in client.follow(APPROVALS):
        if change["open"] and change["status"] == "asked":
            _print(change)


class _Terminal:
    """A person at a terminal, who may read one question while others come."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client
        self._questions = QuestionQueue()
        self._came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._wakes, self._wake = os.pipe()
        self._name = ""
        """Names the connection, so that the proxy knows when it is gone."""

    def sit(self) -> None:
        """Show and ask until ^C or the end of input."""
        threading.Thread(target=self._receive, daemon=True).start()
        click.echo("waiting for plans; ^C ends", err=True)
        while True:
            # One thread reads the terminal, so that a question that is over needs no line to go away.
            ready, _, _ = select.select([STDIN, self._wakes], [], [])
            if self._wakes in ready:
                os.read(self._wakes, CHUNK)
                self._take_all()
            if STDIN in ready:
                line = os.read(STDIN, CHUNK)
                if not line:
                    return
                self._do(self._questions.line(line.decode("utf-8", "replace"), time.monotonic()))

    def _receive(self) -> None:
        def params() -> Mapping[str, str]:
            self._name = f"cli:{secrets.token_hex(8)}"
            return {"client": self._name}

        def opened() -> None:
            self._put(open_ones(self._client))

        try:
            for change in self._client.follow(APPROVALS, params, opened=opened):
                self._put(change)
        except (click.ClickException, OSError, RuntimeError) as error:
            self._put(error)

    def _put(self, what: Any) -> None:
        self._came.put(what)
        os.write(self._wake, b".")

    def _take_all(self) -> None:
        while not self._came.empty():
            came = self._came.get()
            now = time.monotonic()
            match came:
                case Exception():
                    raise came
                case list():
                    self._do(self._questions.opened(came, now))
                case _:
                    self._do(self._questions.changed(came, now))

    def _do(self, what: Iterable[Action]) -> None:
        for one in what:
            try:
                self._do_one(one)
            except click.ClickException as error:
                # It can still be answered, or the stream tells that the proxy is gone.
                _say(error.format_message())

    def _do_one(self, one: Action) -> None:
        match one:
            case Show(question, fresh):
                if fresh:
                    _print(question)
                    _offer(question)
                report_shown(self._client, question["id"], self._name)
            case Ask(prompt):
                _ask(prompt)
            case Say(text, dropped):
                if dropped:
                    termios.tcflush(STDIN, termios.TCIFLUSH)
                    click.echo("", err=True)
                _say(text)
            case Leave(question):
                report_left(self._client, question["id"], self._name)
            case Settle(question, option, comment):
                settle(self._client, question, option, comment=comment)


def _print(question: Question) -> None:
    click.echo("")
    click.secho(question_head(question), bold=True)
    click.echo(beginning(question))
    sys.stdout.flush()


def _offer(question: Question) -> None:
    """Name the options. There is no default: an empty line answers nothing."""
    for key, way in keys(question).items():
        mode = f" (mode {way['mode']})" if "mode" in way else ""
        _say(f"  {key}  {way['label']}{mode}")
    _say("  s  leave it open")
    _ask(ANSWER)


def _ask(prompt: str) -> None:
    click.echo(f"{prompt}: ", nl=False, err=True)


def _say(text: str) -> None:
    click.echo(printable(text), err=True)
