"""The `modegate` command.

What a command needs beyond click is imported when it runs, so that `modegate mode` answers quickly and
shell completion is instant. Results go to stdout, messages to stderr; a failure is a non-zero exit.
"""

from __future__ import annotations

import click

from modegate import __version__
from modegate.cli.approvals import approvals, approve, reject
from modegate.cli.check import check
from modegate.cli.demo import demo
from modegate.cli.explain import explain
from modegate.cli.packs import packs
from modegate.cli.schema import schema
from modegate.cli.serve import acp, serve
from modegate.cli.sessions import log, mode, sessions
from modegate.cli.watch import watch

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__)
def main() -> None:
    """Hold a coding agent's mode outside the agent.

    \b
    modegate serve                     start the proxy
    modegate mode my-session plan      hold a session in plan mode
    modegate watch                     read its model's plans, and answer them
    modegate log my-session --follow   see what its model asks for, as it comes
    """


for _command in (
    serve, check, explain, schema, packs, sessions, mode, watch, approvals, approve, reject, log, acp, demo
):  # fmt: skip
    main.add_command(_command)
