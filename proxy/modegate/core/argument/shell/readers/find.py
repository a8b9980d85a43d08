"""The expression of `find`: a white list of tests and actions, each with how many words follow it.

GNU, BSD and busybox know an action anywhere in the words. A test's argument is the next word, whatever it
looks like, in all of them.
"""

from __future__ import annotations

import re

from modegate.core.argument.shell.entry import Read, names
from modegate.core.argument.shell.options import shown

_ALONE = names(
    """
    -H -L -P -E -X -s -x -d -O0 -O1 -O2 -O3 -a -and -o -or -not -true -false -daystart -depth -follow
    -xdev -mount -warn -nowarn -noleaf -ignore_readdir_race -noignore_readdir_race -empty -executable
    -readable -writable -nouser -nogroup -print -print0 -ls -prune -quit --help -help --version -version
    """
)
_WITH_ONE = names(
    """
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size
    -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile -fstype -regextype -newer
    -anewer -cnewer -amin -cmin -mmin -Bmin -atime -ctime -mtime -Btime -used -context -printf -flags
    """
)
_NEWER = re.compile(r"-newer[aBcm][aBcmt]")
_REFUSED = {
    "-delete": "deletes",
    "-exec": "runs a program",
    "-execdir": "runs a program",
    "-ok": "runs a program",
    "-okdir": "runs a program",
    "-fprint": "writes",
    "-fprint0": "writes",
    "-fprintf": "writes",
    "-fls": "writes",
}


def why_not_find(found: Read) -> str:
    """Return why the words behind `find` may do more than look, or ""."""
    words = iter(found.words)
    for word in words:
        if word.glob_at_head:
            return f"`{shown(word.text)}` can become an action of `find`; quote it, or write `./` in front"
        if not word.text.startswith("-") or word.text in ("-", "--"):
            continue
        if word.glob:
            return f"`{shown(word.text)}` can become an action of `find`; quote it"
        if word.text in _WITH_ONE or _NEWER.fullmatch(word.text):
            value = next(words, None)
            if value is None:
                return f"`find {word.text}` needs a value"
            if value.glob:
                return (
                    f"`{shown(value.text)}` behind `{word.text}` can become several words; quote it"
                )
            if value.text in _REFUSED:
                return f"`{value.text}` behind `{word.text}` may be read as an action of `find`"
        elif word.text not in _ALONE:
            why = _REFUSED.get(word.text)
            name = shown(word.text)
            return f"`find {name}` {why}" if why else f"`find {name}` is not known to only read"
    return ""
