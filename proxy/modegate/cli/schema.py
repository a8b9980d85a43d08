"""`modegate schema`: policies.yaml as JSON Schema, for editors that complete and check while one types."""

from __future__ import annotations

import json

import click


@click.command(short_help="Print the JSON Schema of policies files, for editors.")
def schema() -> None:
    """Print the JSON Schema of policies files, for editors that complete keys and explain them.

    Name it in the first line of your policies file, as the shipped one does:

    \b
      # yaml-language-server: $schema=policies.schema.json

    \b
    Example: modegate schema > policies.schema.json
    """
    from modegate.core.policy.file.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
