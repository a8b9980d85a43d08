"""`modegate packs`: list the packs of rules that a mode can take over with `use`, and print one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from modegate.cli.formatting import table

if TYPE_CHECKING:
    from modegate.core.policy.file.packs import Pack
    from modegate.core.policy.model import Rule


@click.command(short_help="List the packs of rules for `use`.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def packs(name: str | None, as_json: bool) -> None:
    """List the packs of rules that come with modegate, or print the rules of NAME as a mode's `tools`.

    NAME is a pack, such as read-only/codex, or a kind, such as read-only: all of its packs together.

    \b
    Example: modegate packs read-only/codex
    """
    from modegate.server.packs import shipped_packs

    known = shipped_packs()
    if name is None:
        found = known.all
    elif name in known.by_name:
        found = known.by_name[name]
    else:
        from modegate.core.policy.file.document import suggestion

        raise click.ClickException(f"no pack {name!r}; {suggestion(name, known.by_name)}")
    if as_json:
        click.echo(json.dumps({"packs": [_as_json(pack, full=name is not None) for pack in found]}))
    elif name is None:
        rows = [(pack.name, len(pack.rules), pack.agent) for pack in found]
        click.echo(table(("PACK", "RULES", "AGENT"), rows))
    else:
        click.echo("\n".join(map(_as_yaml, found)), nl=False)


def _as_yaml(pack: Pack) -> str:
    # One by one, since a list of nothing but names would go in one line.
    rules = (
        f"- {one}\n" if isinstance(one, str) else _entry(one) for one in map(written, pack.rules)
    )
    return f"# {pack.name}: {pack.agent}\n{''.join(rules)}"


def _entry(rule: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump([rule], sort_keys=False, default_flow_style=None, width=100))


def _as_json(pack: Pack, *, full: bool) -> dict[str, Any]:
    rules = list(map(written, pack.rules)) if full else len(pack.rules)
    return {"name": pack.name, "agent": pack.agent, "rules": rules}


def written(rule: Rule) -> str | dict[str, Any]:
    """Return a rule as an entry of `tools` that means the same."""
    if rule.when is None and rule.effect == "allow":
        return rule.pattern
    entry: dict[str, Any] = {rule.effect.value: rule.pattern}
    if rule.when is not None:
        when = {path: _plain(one.written()) for path, one in rule.when.conditions.items()}
        if rule.when.optional:
            when["optional"] = list(rule.when.optional)
        if rule.when.others_any:
            when["others"] = "any"
        elif rule.when.others is not None:
            when["others"] = list(rule.when.others)
        entry["when"] = when
    return entry


def _plain(value: Any) -> Any:
    """Return what YAML and JSON have lists and mappings for."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return list(map(_plain, value)) if isinstance(value, tuple) else value
