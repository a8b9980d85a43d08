"""`shell` of a policy: programs in the form of the table, or every problem with its place."""

from __future__ import annotations

import shlex

import pytest

from modegate.core.argument.shell.entry import Entry, ShellSection
from modegate.core.argument.shell.programs import STANDARD, why_not
from modegate.core.argument.shell.words import Word
from modegate.core.policy.file.document import read_document
from modegate.core.policy.file.shell_section import read


def section(text: str) -> ShellSection:
    value = read_document(text)
    found = read(value)
    assert [str(problem) for problem in value.document.problems] == []
    assert found is not None
    return found


def problems(text: str) -> list[str]:
    value = read_document(text)
    read(value)
    return [f"{problem.path}: {problem.message}" for problem in value.document.problems]


WHOLE = """
commands:
  tokei: any
  git fetch: {options: [--dry-run], operands: none}
  scc:
    options: [-w, --wide]
    values: [-s, --sort, -f]
    optional: [--color]
    choices: {-f: [json, csv]}
    refused: {-o: writes}
    numbers: true
    operands: 2
    not_operand: ["*.lock"]
  terraform:
    commands:
      show: {options: [-json, -no-color], style: one-dash, needs: [-json], operands: 1}
      state: {options: [-h], alone: true, operands: none, commands: {list: {operands: any}}}
without: [cat, git blame]
"""


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("tokei -e x --files .", ""),
        ("git fetch --dry-run", ""),
        ("git fetch origin", "`git fetch` only reads with no operand"),
        ("git log -1", ""),
        ("scc -ws name -f json --color=always -5 src", ""),
        ("scc -f html", "`scc -f` may only be json or csv"),
        ("scc -o x", "`scc -o` writes"),
        ("scc -wo x", "`scc -o` writes"),
        ("scc a.lock", "`scc a.lock` does more than read"),
        ("scc a b c", "`scc` only reads with 2 operands at most"),
        ("terraform show -json x", ""),
        ("terraform show x", "`terraform show` only reads with `-json`"),
        ("terraform state list a b c", ""),
        ("terraform apply", "`terraform apply` is not among the commands known to only read"),
        ("terraform", "`terraform` is not among the commands known to only read"),
        ("terraform state -h", ""),
        ("terraform state rm", "`terraform state` only reads with no operand"),
        ("cat x", "`cat` is not among the programs known to only read"),
        ("git blame x", "`git blame` is not among the commands known to only read"),
    ],
)
def test_an_entry_says_of_a_program_what_the_table_says(command: str, reason: str) -> None:
    found = section(WHOLE)
    programs = STANDARD.with_(found.commands, found.without)
    assert why_not([Word(text) for text in shlex.split(command)], programs) == reason


def test_an_entry_without_anything_takes_operands_alone() -> None:
    assert section("commands: {x: {}}").commands == {"x": Entry()}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("command: {}", ": unknown key; did you mean 'commands'?"),
        ("commands: [x]", "commands: must be a mapping"),
        ("commands: {x: all}", "commands.x: must be `any`"),
        ("commands: {x: [-n]}", "commands.x: must be `any`"),
        ("commands: {./x: any}", "commands../x: must be a program's plain name"),
        ("commands: {'git  fetch': any}", "must be a program's plain name"),
        (
            "commands: {x: {option: [-n]}}",
            "commands.x.option: unknown key; did you mean 'options'?",
        ),
        (
            "commands: {x: {options: [n]}}",
            "commands.x.options[0]: must be an option with its dashes",
        ),
        ("commands: {x: {options: ['-n=1']}}", "must be an option with its dashes"),
        ("commands: {x: {options: [-name]}}", "'-name' is several options"),
        ("commands: {x: {options: [-n], values: [-n]}}", "'-n' stands in two lists"),
        ("commands: {x: {needs: [-n]}}", "commands.x.needs: '-n' is in none of options, values"),
        ("commands: {x: {options: [--lines], needs: [[--line]]}}", "did you mean '--lines'?"),
        ("commands: {x: {choices: {-n: [a]}}}", "commands.x.choices: '-n' is in none of"),
        ("commands: {x: {listing: [-l]}}", "commands.x.listing: '-l' is in none of"),
        (
            "commands: {x: {options: [-o], refused: {-o: writes}}}",
            "'-o' is refused here and allowed",
        ),
        ("commands: {x: {operands: some}}", "commands.x.operands: must be any, none, or how many"),
        ("commands: {x: {operands: 65}}", "commands.x.operands: must be any, none, or how many"),
        ("commands: {x: {style: two-dash}}", "commands.x.style: must be one of: gnu, one-dash"),
        ("commands: {x: {numbers: yes}}", "commands.x.numbers: must be true or false"),
        ("commands: {bash: any}", "commands.bash: runs what stands behind it"),
        ("commands: {ssh: {operands: 1}}", "commands.ssh: runs what stands behind it"),
        ("commands: {xargs: {options: [-n]}}", "commands.xargs: runs what stands behind it"),
        ("commands: {x: {alone: true, commands: {y: any}}}", "commands.x.alone: would let every"),
        ("without: [nothing]", "without[0]: is not in the table"),
        ("without: [git log, git blam]", "without[1]: is not in the table"),
        ("without: [gti]", "did you mean 'git'?"),
        ("{commands: {cat: any}, without: [cat]}", "without: 'cat' is added by commands"),
        (
            "commands: {a: {commands: {b: {commands: {c: {commands: {d: {commands: {e: any}}}}}}}}}",
            "has more than 4 levels of commands",
        ),
        ("commands: &a {x: {commands: *a}}", "has more than 4 levels of commands"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, problem: str) -> None:
    found = problems(text)
    assert any(problem in one for one in found), found


def test_an_interpreter_may_tell_its_version() -> None:
    assert section("commands: {fish: {options: [--version], operands: none}}").commands
