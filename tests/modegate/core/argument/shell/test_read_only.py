"""The entry for conditions: a text or a list of words, judged command by command."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.programs import STANDARD
from modegate.core.argument.shell.read_only import why_not_read_only

RELEASED: dict[str, object] = {
    "text": "ls -la",
    "each command": "ls && git status; (cd a && pwd) | wc -l",
    "list for a shell": ["bash", "-lc", "cd a && ls | wc"],
    "list for sh": ["/bin/sh", "-c", "ls *"],
    "list for zsh": ["/usr/bin/zsh", "-lc", "ls"],
    "list of words": ["grep", "-n", "$a * ~ !x", "README.md"],
    "wrapped": "timeout 5 git log",
    "wrapped list": ["timeout", "5", "ls"],
    "assignments": "LC_ALL=C LANG=en_US.UTF-8 TERM=xterm-256color NO_COLOR=1 COLUMNS=80 ls",
    "comment": "# look\nls # at it",
    "cd": 'cd && cd a && cd ~/b && cd "$PWD" && cd "c d" && cd ..',
    "input": "wc -l < README.md",
    "input of a group": "ls | { head -c 5; wc -l; }; ls |\ncat",
    "files": "cat a; head -n 5 a; grep -n -e x a; sed -n 1,5p a; awk '{print}' a; tail -5 a; jq .a b",
    "flags and files": "cmp -s a b; sed -s p a; sed -ne p a",
    "options and files": "cut -d - -f 1 a; column -t a; jq --arg a b .x c",
    "only a BEGIN": "awk 'BEGIN { print 1 }'",
    "no input": "grep -rn x; cat --help; diff a b; ls\ngit log",
}


@pytest.mark.parametrize("command", RELEASED.values(), ids=RELEASED)
def test_released(command: object) -> None:
    assert why_not_read_only(command, STANDARD) == ""


REFUSED: dict[str, tuple[object, str]] = {
    "another program": ("ls; rm a", "`rm` is not among"),
    "behind a wrapper": ("timeout 5 rm a", "`rm` is not among"),
    "in a list": (["rm", "a"], "`rm` is not among"),
    "in a list's script": (["bash", "-lc", "ls; rm a"], "`rm` is not among"),
    "grammar": ("ls $(id)", "`$(…)` runs another command"),
    "shell in a text": ("bash -c ls", "`bash"),
    "shell with more words": (["bash", "-c", "ls", "a"], "`bash"),
    "shell with a file": (["bash", "a"], "`bash"),
    "shell with other options": (["bash", "-ic", "ls"], "`bash"),
    "shell of another folder": (["/tmp/bash", "-c", "ls"], "no plain name"),
    "shell behind a wrapper": (["timeout", "5", "bash", "-c", "ls"], "`bash"),
    "script is no text": (["bash", "-c", ["ls"]], "a command's words are texts"),
    "whole command as one word": (["ls; rm a"], "no plain name"),
    "word is no text": (["ls", 1], "a command's words are texts"),
    "command in a word": (["echo", ";rm a"], "a list of words is read without ;"),
    "substitution in a word": (
        ["grep", "-n", "$(rm a)", "README.md"],
        "a list of words is read without",
    ),
    "output in a word": (["echo", "a>b"], "a list of words is read without"),
    "hidden character in a list": (["ls", "a\u200b"], "U+200B"),
    "line end in a list": (["ls", "a\nb"], "a line end"),
    "reads the text behind it": ("head -c 5\necho rm a", "`head` would wait for input"),
    "reads it by a quote": ("ls; head -c 6 && echo '; rm a'", "`head` would wait for input"),
    "reads it in a group": ("(ls | wc; head -n 1)\nls", "`head` would wait for input"),
    "reads it in front of a pipe": ("cat | head -c 5", "`cat` would wait for input"),
    "reads it behind a wrapper": ("timeout 5 sed -u 1q", "`sed` would wait for input"),
    "reads it by name": ("head -c 5 /dev/stdin", "`head` would wait for input"),
    "reads it as one of its files": ("cat a -", "`cat` would wait for input"),
    "reads it behind joined options": ("grep -nm 1 x", "`grep` would wait for input"),
    "reads what the shell reads": ("head -c 5 < /proc/self/fd/0", "the shell itself may read"),
    "the same in its folder": ("cd /dev && head -c 5 < stdin", "the shell itself may read"),
    "reads patterns": ("grep -f - a", "`grep` would wait for input"),
    "a value that looks like an option": ("grep -er", "`grep` would wait for input"),
    "variables are no files": ("awk '{print}' a=1", "`awk` would wait for input"),
    "a number is no file": ("xxd -l 5 -skip 0", "`xxd` would wait for input"),
    "files to leave out are no files": ("grep --exclude-from a x", "`grep` would wait for input"),
    "reads what to leave out": ("grep --exclude-from - x a", "`grep` would wait for input"),
    "a sign is no file": ("grep --group-separator a x", "`grep` would wait for input"),
    "an old option of jq": ("jq --argfile a a.json halt", "`jq` would wait for input"),
    "a folder of jq is no file": ("jq --library-path . halt", "`jq` would wait for input"),
    "jq's variables are no files": ("jq --arg a b .", "`jq` would wait for input"),
    "reads an archive": ("tar -tf /dev/stdin", "`tar` would wait for input"),
    "nothing": ("", "there is no command"),
    "no words": ([], "a command is a text"),
    "null": (None, "a command is a text"),
    "number": (1, "a command is a text"),
    "object": ({"cmd": "ls"}, "a command is a text"),
    "assignment of a path": ("PATH=. ls", "`PATH=` in front"),
    "assignment of an odd value": ("LC_ALL=../a ls", "`LC_ALL=` in front"),
    "quoted assignment": ("LANG='C' ls", "`LANG=` in front"),
    "glob in an assignment": ("TERM=a* ls", "`TERM=` in front"),
    "zsh computes COLUMNS": ("COLUMNS=a[1] ls", "`COLUMNS=` in front"),
    "appended assignment": ("LANG+=C ls", "`LANG+=` in front"),
    "assignment in front of a group's command": ("(IFS=a ls)", "`IFS=` in front"),
    "cd to two": ("cd a b", "`cd` takes one folder"),
    "cd back": ("cd -", "`cd` takes a folder"),
    "cd with an option": ("cd -P a", "`cd` takes one folder"),
    "zsh: cd by number": ("cd +1", "`cd` takes a folder"),
    "cd to a glob": ("cd *", "`cd` takes a folder"),
    "comment that is words to some zsh": ("uniq a # b", "`uniq`"),
    "the same with an option": ("sort a # -o b", "`sort -o`"),
    "long text": ("ls " + "a" * 65_536, "more than 65536 characters"),
    "long list": (["ls", *["a"] * 1_024], "more than 1024 words"),
    "list of few long words": (["ls", "a" * 65_536], "more than 65536 characters"),
}


@pytest.mark.parametrize(("command", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(command: object, why: str) -> None:
    """The reason names what is refused, so that the model can ask for something else."""
    assert why in why_not_read_only(command, STANDARD)
