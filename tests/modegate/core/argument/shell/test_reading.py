"""From text to simple commands."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.reading import DEEPEST, MOST_COMMANDS, simple_commands
from modegate.core.argument.shell.tokens import MOST_CHARACTERS, MOST_PIECES, MOST_TOKENS
from modegate.core.argument.understanding import NotUnderstood

READ = {
    "one command": ("ls -la src", [["ls", "-la", "src"]]),
    "quotes": ("""grep -n 'a "b"' "it's"'$x'""", [["grep", "-n", 'a "b"', "it's$x"]]),
    "a ' in single quotes": (r"grep 'It'\''s' a", [["grep", "It's", "a"]]),
    "escapes": (r"find . \( -name \*.py \)", [["find", ".", "(", "-name", "*.py", ")"]]),
    "letters of any language": ("cat 'Übersicht' b", [["cat", "Übersicht", "b"]]),
    "and, or, line ends": ("ls && pwd || id;\nwc\n", [["ls"], ["pwd"], ["id"], ["wc"]]),
    "without blanks": ("ls&&pwd||id;wc|cat", [["ls"], ["pwd"], ["id"], ["wc"], ["cat"]]),
    "line ends before": ("\n\nls", [["ls"]]),
    "pipeline": ("! ls 2>&1 |\n wc -l > /dev/null", [["ls"], ["wc", "-l"]]),
    "both outputs into a pipe": ("ls |& wc", [["ls"], ["wc"]]),
    "negated later": ("ls && ! pwd", [["ls"], ["pwd"]]),
    "groups": ("(cd a && ls); { pwd; (id); }", [["cd", "a"], ["ls"], ["pwd"], ["id"]]),
    "group with a redirection": ("(ls) 2>/dev/null | wc", [["ls"], ["wc"]]),
    "group over lines": ("{\nls\n}", [["ls"]]),
    "words behind a redirection": ("rg a 2>/dev/null b", [["rg", "a", "b"]]),
    "all redirections": (
        "cat a <b 2>&1 1>&2 >&2 > /dev/null 2>/dev/null &>/dev/null",
        [["cat", "a"]],
    ),
    "input": ("wc -l < 'a b'", [["wc", "-l"]]),
    "line goes on": ("ls \\\n  -la \\\n | wc", [["ls", "-la"], ["wc"]]),
    "comments": ("# a\nls # b -c\n# d", [["ls"]]),
    "tests": (
        "[ -f a ] && [ a != b ] && test a = b",
        [["[", "-f", "a", "]"], ["[", "a", "!=", "b", "]"], ["test", "a", "=", "b"]],
    ),
    "assignment in front": ("LC_ALL=C sort a=b", [["sort", "a=b"]]),
    "reserved words as operands": (
        "echo if do done then",
        [["echo", "if", "do", "done", "then"]],
    ),
    "deepest": ("( " * DEEPEST + "ls" + " )" * DEEPEST, [["ls"]]),
}


@pytest.mark.parametrize(("source", "expected"), READ.values(), ids=READ)
def test_simple_commands(source: str, expected: list[list[str]]) -> None:
    """Every command that a shell would run is found, with the words that it would get."""
    assert [
        [word.text for word in command.words] for command in simple_commands(source)
    ] == expected


def test_a_comment_stays_with_its_command() -> None:
    """A zsh that a person types into takes it for words."""
    ls, pwd = simple_commands("ls # -a b\npwd\n# c")
    assert [word.text for word in ls.comment] == ["#", "-a", "b"]
    assert pwd.comment == ()


def test_assignments_stand_apart() -> None:
    (command,) = simple_commands("A=1 B=c ls D=2")
    assert [word.text for word in command.assignments] == ["A=1", "B=c"]
    assert [word.text for word in command.words] == ["ls", "D=2"]


REFUSED = {
    "nothing": ["", " ", "\n", "# a", "\n# a\n"],
    "background": ["ls &", "ls & pwd", "ls&", "(ls) &", "ls & # a"],
    "not finished": ["ls |", "ls &&", "ls ||", "!", "(", "(ls", "{ ls;", "ls |\n", "ls && # a"],
    "signs without a command": [
        "; ls",
        "ls;;",
        "ls; ;",
        "| ls",
        "&& ls",
        "ls | | wc",
        "ls && ; pwd",
        "()",
        "( )",
    ],
    "groups": [
        "ls)",
        "}",
        "(ls; }",
        "{ ls; )",
        "{ ls }",
        "{ls; }",
        "{ls;}",
        "((ls))",
        "( (ls))x",
        "(ls) a",
        "a (b)",
    ],
    "more groups": [
        "ls() { rm x; }",
        "ls () { rm x; }",
        "() { rm x; }",
        "a{ ls; }",
        "{ ls; }a",
        "echo {",
        "echo }",
        "echo if } then",
    ],
    "negation": ["! ! ls", "ls | ! wc", "!ls", "!\nls", "! # a\nls", "!(ls)"],
    "writing": [
        "ls > a",
        "ls >a",
        "ls >> a",
        "ls >| a",
        "ls &> a",
        "ls &>> a",
        "ls >& a",
        "ls <> a",
        "> a",
        "ls 2> a",
    ],
    "/dev/null only": [
        "ls > /dev/null/a",
        "ls > /dev/nullx",
        "ls > '/dev/null'",
        "ls >/dev/null/../a",
        "ls >/dev//null",
    ],
    "descriptors": [
        "ls 3>&1",
        "ls 2>&3",
        "ls 2>&-",
        "ls 2>&1a",
        "ls 12>&1",
        "ls 0<a",
        "ls 3<a",
        "ls <&0",
        "ls >&1-",
    ],
    "more descriptors": [
        "ls {a}>/dev/null",
        "ls 3>/dev/null",
        "ls >&12",
        "ls 2&>/dev/null",
        "ls a2>/dev/null",
    ],
    "redirection in front": [
        "2>/dev/null ls",
        "> /dev/null ls",
        "< a cat",
        "<a",
        "> /dev/null",
    ],
    "dash: & ends a command": [
        "ls &>/dev/null rm x",
        "ls &>/dev/null -a",
        "ls &> /dev/null && ls &>/dev/null a",
    ],
    "input": [
        "cat < *",
        "cat < $HOME/a",
        "cat < ~/a",
        "cat < /dev/tcp/h/1",
        "cat < /dev/udp/h/1",
        "cat </dev/sda",
        "cat <",
    ],
    "here": ["cat << E\na\nE", "cat <<E", "cat <<-E\nE", "cat <<< a", "cat <<<'a'", "cat 0<<E"],
    "substitution": [
        "ls $(id)",
        "ls `id`",
        'ls "$(id)"',
        "ls <(id)",
        "ls >(id)",
        "ls =(id)",
        "$(id)",
        "ls $((1))",
        "ls $[1]",
    ],
    "zsh: numbers": ["ls <1-9>", "ls <->", "ls < 1-9> /dev/null", "cat <1-5>/dev/null"],
    "loops": [
        "for a in b; do ls; done",
        "while true; do ls; done",
        "until false; do ls; done",
        "select a in b; do ls; done",
    ],
    "zsh: loops": ["for a (b) ls", "repeat 2 ls", "foreach a (b) ls; end", "for a in b { ls }"],
    "conditionals": [
        "if true; then ls; fi",
        "case a in a) ls;; esac",
        "[[ -f a ]]",
        "[[ a == b ]] && ls",
    ],
    "functions": ["function a { ls; }", "function a() { ls; }"],
    "keywords": [
        "coproc ls",
        "eval ls",
        "exec ls",
        "source a",
        "noglob ls",
        "nocorrect ls",
        "builtin ls",
        "typeset -x a",
    ],
    "only variables": ["A=1", "LC_ALL=C", "A=1; ls", "A=1 B=2 && ls", "LC_ALL=C\nls"],
    "arrays": ["A=(a b)", "A=(a) ls", "A[1]=b ls", "A['$(id)']=1 ls"],
    "tabs": ["ls\t-la", "\tls", "ls;\tpwd", "ls # a\tb"],
    "line goes on inside": ["l\\\ns", "ls -l\\\na", "ls;\\\npwd", "\\\nls", "ls \\\r\n -a"],
    "carriage return": ["ls\r", "ls\r\npwd", "ls\rrm x"],
    "odd characters": [
        "ls\x00",
        "ls \x1b",
        "ls\u00a0-a",
        "ls \u2028rm x",
        "ls '\u202e'",
        "ls 'a\u200bb'",
        "ls '\ud800'",
        "ls à",
    ],
    "other blanks": ["ls\vrm", "ls\frm", "ls\u3000rm", "ls\x85rm"],
    "comments": [
        "# it's\nls",
        "ls # $(id)",
        "ls # a; rm x",
        "ls # `id`",
        "ls # a\\\nrm x",
        "ls # !!",
        "ls;#a'",
        '# "\nls',
    ],
    "history": ["!!", "ls !!", "ls !$", "!ls", 'ls "!!"', "ls a!b"],
    "too deep": ["( " * (DEEPEST + 1) + "ls" + " )" * (DEEPEST + 1), "{ " * (DEEPEST + 1)],
    "too many": [
        ";".join(["ls"] * (MOST_CHARACTERS // 3)),
        ";".join(["ls"] * (MOST_COMMANDS + 1)),
        "ls" + " a" * MOST_TOKENS,
        "ls " + "*" * (MOST_PIECES + 1),
        "ls " + "a" * MOST_CHARACTERS,
    ],
}


@pytest.mark.parametrize("sources", REFUSED.values(), ids=REFUSED)
def test_refused(sources: list[str]) -> None:
    """What is not understood completely is refused, with a reason in one line."""
    for source in sources:
        with pytest.raises(NotUnderstood) as refusal:
            pytest.fail(f"{source!r} is {simple_commands(source)}")
        assert str(refusal.value).isprintable()
        assert len(str(refusal.value)) < 160


REASONS = {
    "ls &": "`&` runs a command in the background; leave it out",
    "ls > a": "only `2>&1`, `1>&2`, `> /dev/null` and `< FILE` are read, with a blank in front",
    "ls $(id)": "`$(…)` runs another command",
    "cat <<E\nE": "`<<` is not read; name a file",
    "if true; then ls; fi": "`if` is not read; use plain commands",
    "2>/dev/null ls": "`2>/dev/null` must stand behind a command",
    "ls\t-la": "a tab is not read; use blanks",
    "ls # it's": "a comment is read only of plain letters; leave it out",
    "(ls) a": "`a` stands where no word can stand; put it in front",
    "ls &&": "the command is not finished",
    "": "there is no command in it",
    "A=1": "a variable is set only in front of a command",
    "cat < /dev/tcp/h/1": "`< /dev/tcp/h/1` can open a connection or a device",
}


@pytest.mark.parametrize(("source", "why"), REASONS.items(), ids=map(repr, REASONS))
def test_reason(source: str, why: str) -> None:
    """The model can tell from it what to write instead."""
    with pytest.raises(NotUnderstood) as refusal:
        simple_commands(source)
    assert str(refusal.value) == why
