"""`tar` where it lists: its letters may stand without a dash in the first word."""

from __future__ import annotations

import re
from dataclasses import replace

from modegate.core.argument.shell.entry import Read, entry
from modegate.core.argument.shell.options import read, shown
from modegate.core.argument.understanding import NotUnderstood

_LETTERS = re.compile(r"[A-Za-z]+")
_RUNS = "runs a program"
_LISTING = entry(
    """
    -t -v -z -j -J -Z -a --list --verbose --gzip --gunzip --ungzip --bzip2 --xz --lzma --zstd
    --auto-compress --full-time --utc --numeric-owner --wildcards --no-wildcards --no-recursion
    --force-local --help --version
    """,
    "-f -C --file --directory --exclude --strip-components",
    joined=False,
    refused={
        "-x --extract --get -c --create -r --append -u --update -A --catenate --concatenate": "writes",
        "--delete -g --listed-incremental --index-file --volno-file": "writes",
        "-I --use-compress-program --to-command --checkpoint-action": _RUNS,
        "-F --info-script --new-volume-script --rsh-command --rmt-command": _RUNS,
    },
)


def why_not_tar(found: Read) -> str:
    """Return why a call of tar may do more than list, or ""."""
    words = list(found.words)
    if not words:
        return "`tar` only reads with `-t`"
    if _LETTERS.fullmatch(words[0].text):
        # Old letters take their values in turn; with `f` last this is what "-tf" means.
        if "f" in words[0].text[:-1]:
            return "`tar` is read with `f` as the last letter"
        words[0] = replace(words[0], text=f"-{words[0].text}")
    try:
        listing = read("tar", _LISTING, words)
    except NotUnderstood as error:
        return str(error)
    given = dict(listing.options)
    if not {"-t", "--list", "--help", "--version"} & given.keys():
        return "`tar` only reads with `-t`"
    for name, value in listing.options:
        if name in ("-f", "--file") and ":" in value:
            return f"`{shown(value)}` can be a file of another computer to `tar`"
    return "" if {"-f", "--file", "--help", "--version"} & given.keys() else "`tar` needs `-f`"
