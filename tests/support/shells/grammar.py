"""Commands as Hypothesis makes them up: of the golden table's own words, put together anew and damaged."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from hypothesis import strategies as st

from support.shells.golden import table

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
# What would take too long, or show what is not the same in every run.
_FAR = re.compile(r"(?:^|[='\"])(?:/|/usr|/tmp|/etc)\b|^/$|\d{5}|^\.\.$")
_STRINGS = [golden for golden in table() if isinstance(golden.command, str)]
RELEASED = [golden.command for golden in _STRINGS if golden.released]
_WORDS: dict[str, set[str]] = defaultdict(set)
for _golden in _STRINGS:
    for _part in re.split(r" (?:\||\|\||&&|;) ", _golden.command):
        _name, *_rest = _WORD.findall(_part) or [""]
        if re.fullmatch(r"[a-z][a-z0-9]*|\[", _name):
            _WORDS[_name] |= {word for word in _rest if not _FAR.search(word)}
_KNOWN = sorted({_WORD.findall(command)[0] for command in RELEASED} & {*_WORDS})
_NAMES = [
    *_KNOWN,
    *("rm", "touch", "tee", "sh", "xargs", "python3", "mv", "./x", "x", "\\ls", "'rm'", "$X"),
]
_OPERANDS = [
    *("README.md", "src", "src/main.py", "'a file.txt'", "./*.md", "*", "-- *", ".", '"$PWD"', "~"),
    *(
        "-delete",
        "-o",
        "--output=x",
        "$(touch x)",
        "`touch x`",
        "{a,b}",
        "$HOME",
        "''",
        "\\-o",
        "x",
    ),
    *(
        "-",
        "--",
        "--help",
        "--version",
        "'a\\'",
        '"!x"',
        "<README.md",
        "$'a'",
        "#",
        "é",
        "=ls",
        "!",
    ),
]
_BEHIND = [
    *(
        "",
        "",
        "",
        "",
        "",
        "",
        " 2>/dev/null",
        " > /dev/null",
        " 2>&1",
        " &> /dev/null",
        " < README.md",
    ),
    *(" > x", " >> x", " <<< x", " &", " 2>x", " >|x", " <> x", " # a", " # ; touch x", "\\"),
]
_BETWEEN = [
    " | ",
    " && ",
    "; ",
    "\n",
    " || ",
    " & ",
    "|",
    "&&",
    " |& ",
    "\r\n",
    "\\\n",
    ";;",
    "\u00a0",
]
_BEFORE = [
    "",
    "",
    "",
    "",
    "",
    "! ",
    "timeout 5 ",
    "LC_ALL=C ",
    "PATH=. ",
    "time ",
    "env ",
    "nice -n 5 ",
    "A=1 ",
]
_JUNK = " \t\n'\"\\$`;|&<>(){}[]*?!#~=-^%@,:x/.o\r\0\u00a0é"


@st.composite
def simple(draw: st.DrawFn) -> str:
    """One command with its redirections, of words that the table has for its program."""
    name = draw(st.sampled_from(_NAMES))
    own = sorted(_WORDS.get(name, ())) or _OPERANDS
    words = draw(st.lists(st.one_of(st.sampled_from(own), st.sampled_from(_OPERANDS)), max_size=5))
    before, behind = draw(st.sampled_from(_BEFORE)), draw(st.sampled_from(_BEHIND))
    return before + " ".join([name, *words]) + behind


@st.composite
def joined(draw: st.DrawFn, parts: st.SearchStrategy[str]) -> str:
    """Commands in a list, a pipeline or a group."""
    text = draw(parts)
    for part in draw(st.lists(parts, max_size=2)):
        text += draw(st.sampled_from(_BETWEEN)) + part
    shape = draw(st.sampled_from(["{}"] * 8 + ["({})", "{{ {}; }}", "{}\n", "if {}; then ls; fi"]))
    return shape.format(text)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> str:
    """A command in which a few characters are others, gone, or new."""
    text = draw(whole)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at] + draw(st.sampled_from(["", *_JUNK])) + text[at + draw(st.integers(0, 1)) :]
        )
    return text


def commands() -> st.SearchStrategy[str]:
    """Commands of which some only read, and most look as if they did."""
    near = st.sampled_from([command for command in RELEASED if not far(command)])
    return st.one_of(damaged(near), joined(simple()), damaged(joined(st.one_of(near, simple()))))


def far(command: str) -> bool:
    """Tell whether a command looks at what is outside of the folder."""
    return any(_FAR.search(word) for word in _WORD.findall(command))


def tried(accepted: Sequence[str]) -> list[str]:
    """Return the commands that can be run in a test: quick, and about the folder alone."""
    return [command for command in dict.fromkeys(accepted) if not far(command)]
