"""`modegate acp`: the proxy's ACP endpoint for editors that only start processes."""

from __future__ import annotations

from pathlib import Path

import click

from modegate.cli.control_client import find_token, with_proxy_options
from modegate.server.printable import printable


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
