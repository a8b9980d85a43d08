"""`modegate serve`: settings from flags and variables, then the proxy until it is told to stop.

`modegate acp`: the proxy's ACP endpoint for editors that only start processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

from modegate.cli.control_client import find_token, with_proxy_options
from modegate.server.printable import printable
from modegate.server.settings import BadSettings, Settings


def _words(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return None if value is None else tuple(word.strip() for word in value.split(","))


def _option(setting: Field[Any], annotation: Any) -> Callable[[Any], Any]:
    kind: dict[str, Any] = {}
    if annotation == tuple[str, ...]:
        kind["callback"] = _words
    elif annotation is Path:
        kind["type"] = click.Path(path_type=Path)
    elif annotation in (int, int | None):
        kind["type"] = int
    elif all(isinstance(choice, str) for choice in get_args(annotation) or [None]):
        kind["type"] = click.Choice(get_args(annotation))
    default = setting.metadata["shown"] or ("" if setting.default is MISSING else setting.default)
    return click.option(
        f"--{setting.name.replace('_', '-')}",
        envvar=f"MODEGATE_{setting.name.upper()}",
        show_envvar=True,
        help=f"{setting.metadata['help']}  [default: {default}]",
        **kind,
    )


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    hints = get_type_hints(Settings)
    for setting in reversed(fields(Settings)):
        command = _option(setting, hints[setting.name])(command)
    return command


@click.command()
@_setting_options
def serve(**given: Any) -> None:
    """Start the proxy.

    An agent is given the base URL http://HOST:PORT/s/SESSION/v1, with any SESSION of your choice.

    \b
    Examples: modegate serve
              modegate serve --upstream http://localhost:11434/v1
              MODEGATE_LOG=redis://localhost modegate serve --policies policies.yaml
    """
    from modegate.server.jobs import StartFailed, TaskDied
    from modegate.server.logs import say
    from modegate.server.process.main import run
    from modegate_acp.endpoint import build

    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
        run(settings, acp=build)
    except BadSettings as error:
        for problem in error.problems:
            click.echo(f"Error: setting {problem}", err=True)
        raise click.exceptions.Exit(2) from error
    except StartFailed as error:
        say(*error.lines)
        raise click.exceptions.Exit(error.exit_code) from error
    except TaskDied as error:
        say(f"Error: {error}")
        raise click.exceptions.Exit(1) from error


@click.command(short_help="Speak ACP on stdin and stdout, for editors.")
@with_proxy_options
def acp(url: str, state_dir: Path | None, tenant: str) -> None:
    """Speak ACP on stdin and stdout: set modes and approve plans from an editor.

    An editor starts this command as if it were an agent. The command talks to a running proxy's /acp until
    the editor closes its end. What goes wrong is told to the editor, and on stderr.

    \b
    Example: acpx --agent "modegate acp" sessions
    """
    import asyncio

    from modegate_acp.stdio.bridge import Stdio, from_file, to_file, websocket

    def tell(text: str) -> None:
        click.echo(printable(f"modegate acp: {text}"), err=True)

    async def talk() -> None:
        connect = websocket(url, lambda: find_token(state_dir), tenant)
        await Stdio(connect, to_file(1), tell).run(from_file(0))

    asyncio.run(talk())
