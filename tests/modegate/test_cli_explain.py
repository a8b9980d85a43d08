"""`modegate explain`: the verdict on one call, with its rule, its argument and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modegate.cli import main

FILE = """\
version: 1
modes:
  plan:
    section: s
    tools:
      - read
      - {ask: fetch}
      - {allow: sh, when: {cmd: {shell: read-only}, others: [workdir]}}
      - {allow: exec, when: {input: {calls: javascript}}}
"""


def run(tmp_path: Path, *arguments: str, text: str | None = None) -> Result:
    file = tmp_path / "policies.yaml"
    file.write_text(FILE)
    return CliRunner().invoke(main, ["explain", "-f", str(file), *arguments], input=text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "read"], 'allowed: allowed by tools[0] allow "read"'),
        (["plan", "fetch", "{}"], 'asked about: a person decides, by tools[1] ask "fetch"'),
        (["plan", "write"], "refused: no rule of mode 'plan' covers 'write'"),
        (
            ["plan", "sh", '{"cmd": "sort -o a b"}'],
            'refused: tools[2] allow "sh" does not cover it: argument `cmd`: `sort -o` writes; '
            "read-only commands only",
        ),
        (
            ["plan", "sh", '{"cmd": "ls", "shell": "/a"}'],
            'refused: tools[2] allow "sh" does not cover it: argument `shell` must not be there',
        ),
        (
            ["plan", "exec", "--text", "await tools.sh({cmd: 'ls'})"],
            'allowed: allowed by tools[3] allow "exec"',
        ),
        (["plan", "read", "[]"], "refused: its arguments are not one JSON object"),
        (["plan", "exit_plan_mode"], "refused: "),
    ],
)
def test_a_call_is_explained(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.exit_code == 0
    assert done.stdout.startswith(said)


def test_arguments_come_on_standard_input_too(tmp_path: Path) -> None:
    done = run(tmp_path, "plan", "sh", "-", "--json", text='{"cmd": "ls"}')
    assert json.loads(done.stdout) == {
        "verdict": "release",
        "rule": 'tools[2] allow "sh"',
        "reason": 'allowed by tools[2] allow "sh"',
    }


def test_a_mode_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "plam", "read")
    assert done.exit_code == 1
    assert "no mode 'plam'; known: plan" in done.stderr


@pytest.mark.parametrize("arguments", ["ls", "[]", ""])
def test_arguments_that_are_no_object_are_told_of(tmp_path: Path, arguments: str) -> None:
    assert "add --text" in run(tmp_path, "plan", "sh", arguments).stderr
    assert not run(tmp_path, "plan", "sh", arguments, "--text").stderr
