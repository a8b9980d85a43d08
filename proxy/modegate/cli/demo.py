"""`modegate demo`: see an agent held in plan mode, offline."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Let the agent work in this folder and keep it.  [default: a temporary one]",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Approve the plan without asking. Without a terminal that is the default.",
)
def demo(folder: Path | None, *, yes: bool) -> None:
    """See an agent held in plan mode: no key, no network, no model.

    A small agent on the openai SDK works in a temporary folder, through modegate, against a scripted model.
    If any part of the story does not happen, the exit code is not 0.

    \b
    Example: modegate demo
    """
    try:
        from modegate.demo.story import DemoFailed
        from modegate.demo.story import demo as tell_all
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        message = (
            "the demo's agent is built on the openai SDK; install it: pip install openai, or '.[demo]' in "
            "modegate's checkout"
        )
        raise click.ClickException(message) from error
    from modegate.server import logs

    logs.configure("warning", "console")
    try:
        told = asyncio.run(tell_all(folder, yes=yes or not sys.stdin.isatty()))
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
    end = "All of it happened." if told else "You rejected the plan, so nothing more is to be told."
    click.secho(f"\n{end}", bold=True)
