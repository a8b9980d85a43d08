"""Names of tools and arguments that no known agent has, and conditions that nothing can meet."""

from __future__ import annotations

import pytest

from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.mistakes.doubtful_conditions import doubtful_conditions
from modegate.core.policy.mistakes.doubtful_names import doubtful_name, near
from modegate.core.policy.mistakes.known_tools import known_tools
from modegate.server.packs import shipped_packs
from support.policies import parse

FILE = "modes:\n  plan:\n    section: x\n    tools:\n    - "


def problems(rule: str) -> list[str]:
    try:
        parse(FILE + rule)
    except PolicyProblems as error:
        return list(map(str, error.problems))
    return []


def warnings(rule: str) -> list[str]:
    try:
        return list(map(str, parse(FILE + rule).warnings))
    except PolicyProblems as error:
        return list(map(str, error.warnings))


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("bahs", "did you mean 'Bash' or 'bash'?"),
        ("READ", "did you mean 'Read' or 'read'?"),
        ("read-file", "did you mean 'read_file'?"),
        ("readFile", "did you mean 'read_file'?"),
        ("exec_comand", "did you mean 'exec_command'?"),
        ("{ask: veiw}", "did you mean 'view'?"),
        ("functions.write", "in requests it is 'write'"),
        ("fs.read", "in requests it is 'fs__read'"),
        ('"fs/*"', "in requests it is 'fs__*'"),
        ('"default_api:read"', "in requests it is 'default_api__read'"),
        ('"Bash(git log:*)"', "name 'Bash', and write what is in the brackets as conditions"),
        ('"read, grep"', "write one name in each entry"),
        ("read grep", "write one name in each entry"),
        ('"!bash"', "to refuse a tool write {deny: bash}"),
        ('"read$"', "no API takes '$' in a name"),
        ('"read\\n"', "no API takes '\\n' in a name"),
        ("re\u0430d", "no letter such as '\u0430'"),
        ("ExitPlanMode", "a person does, by exit_plan_mode in tools or by the key exit"),
        ("functions.exit_plan_mode", "a person does"),
        ('"exit_plan*"', "a person does"),
        ("plan-exit", "a person does"),
    ],
)
def test_a_name_that_no_agent_has_is_told_of(rule: str, told: str) -> None:
    assert problems(rule) == []
    (warning,) = warnings(rule)
    assert warning.startswith("line 5, modes.plan.tools[0]: ")
    assert told in warning


@pytest.mark.parametrize(
    "rule",
    [
        '{deny: "Bash(rm *)"}',
        '{ask: "Bash(git push:*)"}',
        '{deny: "write, edit"}',
        '{deny: "!read"}',
        '{deny: "bash\\u200b "}',
    ],
)
def test_a_refusal_of_what_no_tool_can_be_called_is_a_mistake(rule: str) -> None:
    assert len(problems(rule)) == 1
    assert warnings(rule) == []


@pytest.mark.parametrize(
    "rule",
    [
        "read",
        "my_own_tool",
        "mcp__files__raed",
        '"mcp__*"',
        '"*_read"',
        "lint",
        "x",
        "c++",
        "web_search_20250305",
        "exit_worktree",
        "xVendor",
        "{deny: frobnicate}",
    ],
)
def test_a_tool_of_an_operators_own_is_no_mistake(rule: str) -> None:
    assert (problems(rule), warnings(rule)) == ([], [])


@pytest.mark.parametrize(
    ("rule", "at", "told"),
    [
        ("Read, when: {filepth: {glob: a}}", "filepth", "did you mean 'file_path'?"),
        ("Read, when: {FilePath: {glob: a}}", "FilePath", "did you mean 'file_path'?"),
        ("Read, when: {colour: {glob: a}}", "colour", "known: file_path, offset, limit"),
        ("finish, when: {path: {glob: a}}", "path", "known: summary, message"),
        ("get_goal, when: {path: {glob: a}}", "path", "known: none"),
        ("Bash, when: {command: {glob: a}, others: [timout]}", "others", "mean 'timeout'?"),
        ("Read, when: {offset: {glob: a}}", "offset", "is a whole number, and glob takes a string"),
        ("Read, when: {file_path: {equals: 3}}", "file_path", "equals takes a number"),
        ("Edit, when: {replace_all: {one_of: ['true', 1]}}", "replace_all", "is a boolean"),
        ("Read, when: {file_path: {range: {min: 1}}}", "file_path", "range takes a number"),
        ("Read, when: {offset: {path: {under: a}}}", "offset", "path takes a string"),
        ("Read, when: {offset: {not: {glob: a}}}", "offset", "not takes a string"),
        ("read_files, when: {files: {glob: a}}", "files", "write files[] for its entries"),
        ('editor, when: {"path[]": {glob: a}}', "path[]", "'path' is a string, and not a list"),
        ("editor, when: {path.a: {glob: a}}", "path.a", "'path' is a string, and not an object"),
        (
            "Bash, when: {description: {shell: read-only}, others: any}",
            "description",
            "is not a command, which shell reads; did you mean 'command'?",
        ),
        (
            "Bash, when: {timeout: {shell: read-only}, others: any}",
            "timeout",
            "is a number, and shell takes",
        ),
        ("ipython, when: {code: {calls: javascript}}", "code", "is not a program in JavaScript"),
        ("Bash, when: {description: {patch: {under: a}}}", "description", "is not a patch"),
        ("apply_patch, when: {patch: {glob: a}}", "patch", "known: input, patchText"),
    ],
)
def test_a_condition_that_no_known_tool_meets_is_told_of(rule: str, at: str, told: str) -> None:
    given = f"{{allow: {rule}}}"
    assert problems(given) == []
    (warning,) = warnings(given)
    assert warning.startswith(f"line 5, modes.plan.tools[0].when.{at}: ")
    assert told in warning


@pytest.mark.parametrize(
    "rule",
    [
        "Read, when: {filepath: {glob: a}}",  # Continue's
        "Read, when: {file_path: {glob: a}, offset: {range: {min: 1}}, others: [limit]}",
        "read, when: {offset: {equals: 1}}",
        "Bash, when: {command: {shell: read-only}, others: [description]}",
        'run_commands, when: {"commands[]": {shell: read-only}}',
        "exec, when: {input: {calls: javascript}}",
        "run_typescript, when: {code: {calls: javascript}}",
        "Bash, when: {timeout: {equals: 1.5}}",
        "Edit, when: {replace_all: {one_of: [false]}}",
        "Edit, when: {replace_all: {equals: null}}",
        "Read, when: {offset: {not: {equals: a}}}",
        "Read, when: {colour: {absent: true}, file_path: {glob: a}, others: any}".replace(
            "colour", "pages"
        ),
        'read_files, when: {"files[].path": {glob: a}, others: any}',
        "apply_patch, when: {input: {patch: {under: docs}}}",
        "apply_patch, when: {patchText: {patch: {under: docs}}}",
        "Workflow, when: {args: {equals: a}, others: any}",
        "Glob, when: {anything: {equals: a}}",
        "my_own_tool, when: {anything: {equals: a}}",
        '"R*", when: {anything: {equals: a}}',
        "mcp__fs__read, when: {path: {range: {min: 1}}}",
        "Bash, when: {command: {glob: a}, others: [something_else]}",
    ],
)
def test_a_condition_that_some_call_can_meet_is_no_mistake(rule: str) -> None:
    given = f"{{allow: {rule}}}"
    assert (problems(given), warnings(given)) == ([], [])


def test_the_rules_of_the_packs_are_without_doubt() -> None:
    rules = [(pack.name, rule) for pack in shipped_packs().all for rule in pack.rules]
    assert rules
    for name, rule in rules:
        assert doubtful_name(0, rule) is None, name
        assert list(doubtful_conditions(0, rule)) == [], name


def test_the_table_of_tools_is_read_whole() -> None:
    tools = known_tools()
    assert tools["Bash"].agents == ("Claude Code", "Continue")
    read = tools["Read"].arguments
    assert read is not None
    assert read["offset"].types == {"integer"}
    assert tools["exec_command"].arguments is not None
    assert tools["exec_command"].arguments["cmd"].holds == {"c"}
    assert tools["Glob"].arguments is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shell", "shells"),
        ("shell", "shel"),
        ("shell", "shall"),
        ("shell", "ahell"),
        ("bash", "bahs"),
        ("bash", "absh"),
        ("bash", "BASH"),
        ("bash", "ba-sh"),
    ],
)
def test_near_is_one_letter_or_the_spelling(one: str, other: str) -> None:
    assert near(one, [other, "frob"]) == [other]
    assert near("basement", [other]) == []


@pytest.mark.parametrize(
    ("one", "other"), [("bash", "bausch"), ("lint", "list"), ("ls", "sl"), ("abcde", "eabcd")]
)
def test_what_differs_more_or_is_short_is_not_near(one: str, other: str) -> None:
    assert near(one, [other]) == []
