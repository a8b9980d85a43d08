"""`modegate packs`: what is listed, and that what is printed means what the pack does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner, Result

from modegate.cli import main
from modegate.core.policy.file.packs import Pack
from modegate.server.packs import shipped_packs
from support.policies import parse

PACKS = {pack.name: pack for pack in shipped_packs().all}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["packs", *arguments])


def test_packs_are_listed_with_their_agents() -> None:
    done = run()
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["PACK", "RULES", "AGENT"]
    assert [row.split()[0] for row in rows] == list(PACKS)
    (codex,) = [row for row in rows if row.startswith("read-only/codex ")]
    assert codex.split(maxsplit=2)[1:] == [
        str(len(PACKS["read-only/codex"].rules)),
        PACKS["read-only/codex"].agent,
    ]


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_what_is_printed_can_stand_in_a_mode_and_means_the_same(pack: Pack) -> None:
    done = run(pack.name)
    assert done.stdout.startswith(f"# {pack.name}: {pack.agent}\n")
    text = "modes:\n  plan:\n    section: s\n    tools:\n" + "".join(
        f"    {line}\n" for line in done.stdout.splitlines()
    )
    (plan,) = parse(text).modes.values()
    assert tuple(replace(rule, at=None) for rule in plan.rules) == pack.rules


def test_a_kind_is_all_of_its_packs() -> None:
    done = run("read-only")
    assert [line for line in done.stdout.splitlines() if line.startswith("# ")] == [
        f"# {pack.name}: {pack.agent}" for pack in PACKS.values()
    ]
    assert len(yaml.safe_load(done.stdout)) == sum(len(pack.rules) for pack in PACKS.values())


def test_json_has_numbers_in_the_list_and_rules_of_a_pack() -> None:
    listed = json.loads(run("--json").stdout)["packs"]
    assert [(one["name"], one["rules"]) for one in listed] == [
        (pack.name, len(pack.rules)) for pack in PACKS.values()
    ]
    (one,) = json.loads(run("read-only/openhands", "--json").stdout)["packs"]
    assert {
        "allow": "file_editor",
        "when": {"command": {"equals": "view"}, "others": "any"},
    } in one["rules"]


def test_a_pack_that_is_not_there_is_an_error() -> None:
    done = run("read-only/codx")
    assert done.exit_code == 1
    assert done.stderr == "Error: no pack 'read-only/codx'; did you mean 'read-only/codex'?\n"
