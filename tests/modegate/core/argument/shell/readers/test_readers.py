"""The little languages of sed, awk, find, tar, test and printf: what passes, and what tries to get by."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.programs import STANDARD, why_not
from modegate.core.argument.shell.words import Word

PASS = {
    "sed": [
        ["-n", "1,80p", "f"],
        ["-n", "1p;3p;$p", "f"],
        ["-ne", "/a/,/b/{p;q}", "f"],
        ["-n", "/a/{n;p}", "f"],
        ["-n", "/[[:space:]]a[/b]*/p".replace("/b", "b"), "f"],
        ["-E", "s#^(a|b)/c#\\1#g; s/x//2", "f"],
        ["s/[ \\t]*$//", "f"],
        ["s/[^/]*$//".replace("/]", ",]"), "f"],
        [":a;N;$!ba;s/\\n/ /g", "f"],
        ["y/abc/ABC/", "f"],
        ["0~5p", "f"],
        ["1!G;h;$!d", "f"],
        ["--expression=p", "-e", "2q", "f"],
        ["--version"],
    ],
    "awk": [
        ["{print $NF}", "f"],
        ["-F", ":", "$3 > 100 {print $1}", "f"],
        ["-F\t", '{ if ($2 > 5) print $1 "," $2 }', "f"],
        ["{ n = a > b ? a : b; print n }", "f"],
        ["/foo|bar/ && !/x>y/", "f"],
        ["{ s += $1 } END { print s / NR }", "f"],
        ["{ print ($1 > 2) }", "f"],
        ['{ print "a > b | c" }', "f"],
        ['{ gsub(/[^a-z"]/, ""); print length }', "f"],
        ["$1 ~ /^a\\/b/ { c[$1]++ } END { for (k in c) print k, c[k] }", "f"],
        ["{ x /= 2; print x }", "f"],
        ['NR==1, NR==3 { printf "%d %s\\n", NR, $0 }', "-"],
        ["length > 80", "f"],
        ["{ print /a/ ? 1 : 2 }", "f"],
        ["{ print (a + b) / 2 }", "f"],
        ["{ print a[1] / 2, .5 / 3 }", "f"],
        ['BEGIN { OFS = "|" } { print $1, $2 }', "f"],
        ["-v", "n=3", "NR <= n", "f"],
        ["NR>=10 && NR<=20", "f"],
    ],
    "find": [
        [],
        [".", "-name", "*.py", "-o", "-name", "-delete2"],
        ["-L", ".", "-type", "f", "-newermt", "2 days ago"],
        [".", "(", "-path", "./a", "-prune", ")", "-o", "-print0"],
        [".", "-size", "+1k", "-mtime", "-3", "-printf", "%p\\n"],
        ["--", ".", "-maxdepth", "1"],
    ],
    "tar": [
        ["tf", "a.tar"],
        ["-tvzf", "a.tar.gz"],
        ["-t", "-f", "a.tar", "a/b"],
        ["--list", "--verbose", "--file=a.tar"],
        ["-tf", "-"],
        ["-C", "src", "-tf", "a.tar"],
    ],
    "test": [
        ["-f", "a[1].txt"],
        ["a=b", "=", "a[0]"],
        ["1", "-lt", "20"],
        ["!", "-d", "src", "-a", "-n", "x"],
        ["-t", "1"],
        [],
    ],
    "[": [["-e", "f", "]"], ["3", "-eq", "4", "]"]],
    "printf": [
        ["%s\\n", "a[$(x)]", "b"],
        ["%d %5.2f\\n", "3", "4.5"],
        ["100%%\\n"],
        ["%-10s|%c", "a", "b"],
        ["--", "%s", "a"],
    ],
    "date": [[], ["+%Y"], ["-u", "-d", "yesterday", "+%F"], ["-Iseconds"], ["-v-1d", "+%F"]],
}

REFUSED = {
    "sed": [
        ["s/a/b/w x"], ["s/a/b/gw x"], ["s/[/]/b/w x"], ["s/a[/]b/w/;p"], ["s/a/b/e"], ["1e x"], ["w x"],
        ["/[/]/w x"], ["/a/,/[]/]/w x"], ["s,a,b,w x"], ["sxaxbxw y"], ["s\\a\\b\\w x"], ["s a b w x"],
        ["s/a\\/b/w x/w y"], ["y/a/b/w x"], ["p;w x"], ["{p;w x}"], ["{p"], ["p}"], ["}"], ["r x"], ["R x"],
        ["a x"], ["i\\x"], ["c x"], ["#n"], ["p\nw x"], ["p\rw x"], ["\\,a,w x"], ["1,w x"], [":a b;w x"],
        ["ba;w x"], ["b a w x"], ["v"], ["M"], ["-n", "f", "-e", "p"], ["p", "f", "-e", "p"], ["-e"] * 3, [],
        ["-s", "--", "w x"], ["--", "w x"], ["-e", "p", "-e", "w x"], ["-ep", "-ew x"], ["-new x"],
        ["s/\\(a/b/\n/w x"], ["s/[a/b/w x"], ["s/[[:a/]/w x"], ["s/[\\]/]/w x/"], ["q5x"], ["l;w x"],
    ],
    "awk": [
        ['{print > "x"}'], ['{print>"x"}'], ['{print $1, $2 >> "x"}'], ['{print | "x"}'], ['{print |& "x"}'],
        ['{ print (1)(2) > "x" }'], ['{ print (a > b) > "x" }'], ['{ if (a) print > "x" }'],
        ['{ for (print > "x"; 0;) a }'], ['BEGIN{system("x")}'], ['BEGIN { system  ("x") }'],
        ['BEGIN{"x" | getline}'], ["{getline < $1}"], ['@include "x"'], ['@load "x"'],
        ['{f="system";@f("x")}'], ['{ case /1; print > "x"; y/2 }'],
        ['{ if (0) exit /"/; print > "x"; b = /"/ }'], ['{ length /"/; print > "x"; b = /"/ }'],
        ['{ "" /"/; print > "x"; b = /"/ }'], ['{ /a/ /"/; print > "x"; b = /"/ }'],
        ['{ if (a) /"/; print > "x"; b = /"/ }'], ['{ $/"/; print > "x"; b = /"/ }'],
        ["{print > $1}"], ['{print a/b > "x" /c/}'], ['{ if (a) /"/; print > "x" ; /"/ }'],
        ['{ if (a) /b"/ ; print "> " > "x" }'], ['{ x++ /"/ 1; print > "x" }'],
        ['/[/]"/ {print > "x"} /"/'], ["{print \"a\\\\\" > \"x\"}"], ["# \"\n{print > \"x\"} # \""],
        ["{print \\\n> \"x\"}"], ["{print > \"x\"}#"], ["BEGIN{ARGV[1]=\"/inet/tcp/0/a/80\"}"],
        ["BEGIN{SYMTAB[\"a\"]=1}"], ["BEGIN{PROCINFO[\"a\"]}"], ["1", "/inet/tcp/0/a/80"], ["1", "/inet6/x"],
        [], ["-f", "x"], ["-vf=1", "-f", "x"], ["-F:", "-f", "x", "1"], ["--", '{print > "x"}'],
        ["1", "f", "-f", "x"], ["{print $(a) > \"x\"}"], ["{printf(\"a\") > \"x\"}"],
    ],
    "find": [
        ["-delete"], [".", "-exec", "x", ";"], [".", "-name", "-exec", "x", ";"],
        [".", "-name", "x", "-fprint", "x"],
        [".", "-okdir", "x", ";"], [".", "(", "-delete", ")"], [".", "-exec"], [".", "-fls", "x"],
        [".", "-nosuch"], [".", "-newerXY", "x"], [".", "-name"], ["-f", "x"], [".", "-files0-from", "-"],
        ["--", "-delete"],
    ],
    "tar": [
        [], ["xf", "a.tar"], ["tfx", "a.tar"], ["ft", "a.tar"], ["-tx", "-f", "a"], ["cf", "a.tar", "b"],
        ["tf", "host:a"], ["-t", "-fhost:a"], ["--list", "--file=u@h:/a"], ["tf", "a", "--to-command=x"],
        ["tf", "a", "-Ix"], ["-I", "x", "-tf", "a"], ["tf", "a", "--checkpoint-action=exec=x"],
        ["f", "a.tar"],
        ["-f", "a.tar"], ["-t"], ["tf", "a", "-x"], ["--lis", "-f", "a"], ["tf", "a", "--use-comp", "x"],
        ["tIf", "x", "a"], ["-tvfx", "--to-command=x"],
    ],
    "test": [
        ["-v", "a"], ["!", "-v", "a[$(x)]"], ["a[$(x)]", "-eq", "1"], ["1", "-ge", "a[$(x)]"],
        ["-t", "a[$(x)]"],
        ["x", "-a", "a[$(x)]", "-ne", "2"], ["-R", "a"], ["PATH=1", "-eq", "1"], ["a", "-lt", "b"],
    ],
    "[": [["a[$(x)]", "-eq", "1", "]"], ["-v", "a", "]"], ["1", "-eq", "a++", "]"]],
    "printf": [
        ["-v", "a", "b"], ["-va", "b"], ["%d", "a[$(x)]"], ["%s %d", "a", "b=1"], ["%*d", "1", "2"],
        ["%n", "a"],
        ["%.*s", "1", "a"], ["%(%Y)T", "1"], ["%x", "`x`"], ["%f", "a"], ["%"], ["%5"], ["%ld", "1"], [],
    ],
    "date": [
        ["0102030420"], ["-u", "0102030420"], ["--", "0102030420"], ["-s", "x"], ["+%Y", "0102"],
        ["-f", "%s", "1"],
        ["+%Y", "-s", "x"], ["--se=x"], ["-us", "x"], ["-jf", "%s", "1"],
    ],
    "bat": [
        ["cache", "--build"], ["--pager", "x", "f"], ["--paging=always", "f"], ["--paging", "always", "f"],
    ],
    "ack": [["x", "+pager=y"], ["--pager=y", "x"]],
    "gunzip": [["x"]],
    "arch": [["-x86_64", "x"], ["x"]],
    "getconf": [["-v", "../x", "PATH"]],
    "base64": [["-i", "a", "-o", "b"], ["-o", "b", "a"], ["-Do", "b"]],
    "zgrep": [["-f", "x", "y"], ["--color=$(x)", "a"], ["-e$(x)", "a"]],
    "python": [["-v"], ["-"], ["-V", "-c", "x"], ["-Vc", "x"]],
    "bash": [["-v"], ["--version", "x"], []],
    "ninja": [["-v"], ["--version", "-C", "x"]],
    "xxd": [["f", "x"], ["-p", "f", "x"], ["-l5", "f", "x"], ["f", "-p"], ["-r", "f"]],
    "tree": [["-Lo", "2", "x"], ["-oL", "x", "2"], ["-aIo", "p", "x"], ["--sort", "--", "-o", "x"]],
    "unzip": [["-l-", "a"], ["-lo", "a"], ["--", "-l", "a"], ["-l", "a", "-d", "x"], ["a", "-l-"]],
    "sort": [["--sort", "--", "-o", "x"], ["-k", "--", "-o", "x"], ["-t", "-o", "-ox"]],
    "hostname": [["x"], ["-f"], ["-s", "x"], ["-F", "x"]],
}  # fmt: skip


def rows(table: dict[str, list[list[str]]]) -> list[tuple[str, ...]]:
    return [(name, *words) for name, commands in table.items() for words in commands]


@pytest.mark.parametrize("command", rows(PASS), ids=repr)
def test_what_only_looks_passes(command: tuple[str, ...]) -> None:
    assert why_not([*map(Word, command)], STANDARD) == ""


@pytest.mark.parametrize("command", rows(REFUSED), ids=repr)
def test_what_does_more_or_is_unsure_is_refused(command: tuple[str, ...]) -> None:
    assert why_not([*map(Word, command)], STANDARD) != ""


@pytest.mark.parametrize("name", ["sed", "awk", "printf"])
@pytest.mark.parametrize("word", [Word("$HOME/x", expands=True), Word("p*", glob=True)])
def test_a_script_is_not_made_up_by_the_shell(name: str, word: Word) -> None:
    assert why_not([Word(name), word, Word("f")], STANDARD) != ""
    assert why_not([Word("sed"), Word("-e"), word, Word("f")], STANDARD) != ""


@pytest.mark.parametrize("name", ["sed", "awk"])
@pytest.mark.parametrize(
    "unit", ["s/a", "/[", "a(", "{", "(", "[[:", "1,", "\\", '"', "s/[[:a:]", " ", "!"]
)
def test_no_script_is_slow(name: str, unit: str) -> None:
    why_not([Word(name), Word(unit * 20_000), Word("f")], STANDARD)
