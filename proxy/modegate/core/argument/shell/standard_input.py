"""Programs that read what they are given as input where they are given no file.

Some agents hand each command to a shell that goes on living, through a pipe or a terminal. What stands behind
a command is such a program's input then: `head -c 5` takes `echo ` off the next line `echo rm a`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from modegate.core.argument.shell.options import MOST_IN_A_WORD
from modegate.core.argument.shell.words import Word
from modegate.core.wire.arguments import words

_VALUES = {
    "head": "-n -c --lines --bytes",
    "tail": "-n -c -b -s --lines --bytes --pid --sleep-interval --max-unchanged-times",
    "cut": "-b -c -f -d --bytes --characters --fields --delimiter --output-delimiter",
    "nl": "-b -d -f -h -i -l -n -s -v -w",
    "fold": "-w --width",
    "fmt": "-w -g -p -t --width --goal --prefix",
    "expand": "-t --tabs",
    "unexpand": "-t --tabs",
    "od": "-A -j -N -S -t -w --address-radix --skip-bytes --read-bytes --strings --format --endian",
    "hexdump": "-e -f -n -s --format --format-file --length --skip",
    "hd": "-e -f -n -s --format --format-file --length --skip",
    "xxd": "-c -g -l -n -o -s -cols -groupsize -len -name -seek -skip",
    "strings": "-n -t -e -T -s --bytes --radix --encoding --target --output-separator",
    "column": "-c -s -o -N -l -R -T -W -E -H -O -n -p -r -i --separator",
    "tac": "-s --separator",
    "paste": "-d --delimiters",
    "shasum": "-a --algorithm",
    "cksum": "-a --algorithm -l --length",
    "b2sum": "-l --length",
    "base64": "-w -b --wrap --break",
    "base32": "-w -b --wrap --break",
    "sort": "-k -t -S -T -o --key --field-separator --buffer-size --parallel --batch-size --sort"
    " --random-source",
    "shuf": "-n --head-count -i --input-range --random-source -o",
    "uniq": "-f -s -w --skip-fields --skip-chars --check-chars",
    "grep": "-e -f -A -B -C -m -D -d --regexp --file --context --after-context --before-context"
    " --max-count --include --exclude --exclude-dir --exclude-from --include-dir --label --color --colour"
    " --binary-files --devices --directories --group-separator",
    "sed": "-e -l --expression --line-length",
    "awk": "-F -v -f -e --field-separator --assign",
    "jq": "--indent -L --library-path",
    "yq": "--indent --input-format --output-format -I -o -p",
    "bat": "-H -l -m -r --language --line-range --highlight-line --map-syntax --style --theme --tabs --wrap"
    " --color --decorations --paging --terminal-width --file-name --diff-context --italic-text",
    "iconv": "-f -t --from-code --to-code",
    "cmp": "-n -i --bytes --ignore-initial",
    "pr": "-l -o -w -W -h -D",
}
"""Options whose value is the next word, which therefore is no file."""

_ALIKE = {
    "egrep": "grep",
    "fgrep": "grep",
    "zgrep": "grep",
    "zegrep": "grep",
    "zfgrep": "grep",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "batcat": "bat",
}
_FILES = {
    "cmp": 2,
    "comm": 2,
    "join": 2,
    "diff": 2,
    "grep": 2,
    "sed": 2,
    "awk": 2,
    "jq": 2,
    "yq": 2,
}
"""How many operands there must be where one is not enough: a pattern and a file, or two files."""
_GIVEN = {
    "grep": re.compile(r"-(?:(?![ABCDdm])[A-Za-z])*[ef]|--(?:regexp|file)\b"),
    "sed": re.compile(r"-(?:(?!l)[A-Za-z])*e|--expression\b"),
}
"""Options that take the pattern's place among the operands."""
_OF_A_FILE = (
    *("f", "file", "--exclude-from", "--random-source"),
    *("--include-dir", "--devices", "--directories", "--group-separator", "-skip"),
)
"""What options end in whose value is a file that is read, or could be one to another version."""
_NO_INPUT = {
    "grep": re.compile(r"-(?:(?![ABCDdefm])[A-Za-z])*[rR]|--(?:dereference-)?recursive\Z"),
    "shuf": re.compile(r"-[ei]|--(?:echo|input-range)\b"),
    "jq": re.compile(r"-(?:(?!L)[A-Za-z])*n|--null-input\Z"),
}
"""Options with which a program has something else to read."""
_ANY = re.compile(r"--(?:help|version)\Z")
_READERS = words(
    "cat tac nl head tail wc sort uniq cut paste fold fmt expand unexpand rev od hexdump hd xxd base32 base64"
    " md5sum sha1sum sha224sum sha256sum sha384sum sha512sum shasum b2sum cksum sum strings column cmp"
    " comm join diff pr tsort shuf tr zcat bzcat xzcat gzcat zstdcat gzip bat grep sed awk jq yq iconv factor"
    " numfmt"
)
_NAMING_FILES = _READERS | words("tar gtar bsdtar file xxd rg ag ack")
_TWO_WORDS = words("--arg --argjson --argfile --slurpfile --rawfile")
_NO_FILES = words("--args --jsonargs")
"""Options of jq: of its operands two are a variable's, or none behind it is a file."""
_BEGIN = re.compile(r"\s*BEGIN\s*\{[^{}]*\}\s*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_INPUT = re.compile(r"-|.*\bdev/+(?:\./+)*(?:stdin|tty|fd/|pts/|console).*|.*/fd/+0|stdin|tty")


def why_reads_input(run: Sequence[Word]) -> str:
    """Return why a simple command that nothing feeds would read what comes next; empty if it would not.

    The words are of a command that was found to only read; the first is its plain name.
    """
    name = _ALIKE.get(run[0].text, run[0].text)
    if name not in _NAMING_FILES:
        return ""
    values = frozenset(_VALUES.get(name, "").split())
    files, options = _parted(run[1:], values)
    if any(_matched(_NO_INPUT.get(name, _ANY), one) or _ANY.match(one) for one in options):
        return ""
    if any(map(names_input, files)) or _file_from_input(name, run):
        return _told(run[0].text)
    if name not in _READERS or (name == "awk" and files and _BEGIN.match(files[0])):
        return ""
    least = 1 if any(_matched(_GIVEN.get(name), one) for one in options) else _FILES.get(name, 1)
    if name == "awk":
        files = files[:1] + [one for one in files[1:] if not _VARIABLE.match(one)]
    if name == "jq":
        least += 2 * sum(one in _TWO_WORDS for one in options)
    if name == "tr" or len(files) < least or not _NO_FILES.isdisjoint(options):
        return _told(run[0].text)
    return ""


def names_input(file: str) -> bool:
    """Return whether a file's name is one of a program's own input, or of a terminal."""
    return _INPUT.fullmatch(file) is not None


def _told(program: str) -> str:
    return f"`{program}` would wait for input here; give it a file, or a pipe in front"


def _file_from_input(name: str, run: Sequence[Word]) -> bool:
    """Return whether an option could take a file from the input: `grep -f -`."""
    texts = [word.text for word in run]
    return name in ("grep", "sort", "xxd") and any(
        (names_input(behind) and one.startswith("-") and one.endswith(_OF_A_FILE))
        or one.endswith(("f-", "--file=-", "--exclude-from=-"))
        for one, behind in pairwise([*texts, ""])
    )


def _matched(pattern: re.Pattern[str] | None, option: str) -> bool:
    return pattern is not None and pattern.match(option) is not None


def _parted(rest: Sequence[Word], values: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return operands and options; a word that could be an option's value is no operand."""
    operands: list[str] = []
    options: list[str] = []
    at = 0
    while at < len(rest):
        text = rest[at].text
        at += 1
        if text == "--":
            operands += [word.text for word in rest[at:]]
            break
        if text == "-" or not text.startswith("-"):
            operands.append(text)
            continue
        options.append(text)
        if text in values or (not text.startswith("--") and _takes_next(text, values)):
            at += 1
    return operands, options


def _takes_next(text: str, values: frozenset[str]) -> bool:
    """Return whether the last letter of several takes a value, and none in front of it does."""
    if len(text) > MOST_IN_A_WORD:
        return True
    return f"-{text[-1]}" in values and not any(f"-{one}" in values for one in text[1:-1])
