"""Whether a path is in one of a policy's folders, as far as its text tells.

Nothing is looked up, so symbolic links cannot be seen: `docs/link/x` is in `docs/`, wherever the link leads.
A path that programs could take for different files (a home folder, a variable, a glob, a URL, a drive, a form
of Windows) is not understood, and in no folder.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from modegate.core.argument.understanding import NotUnderstood, quoted

MAX_PATH = 4096
"""Characters: what Linux takes at most."""
FOLDERS_CACHED = 1024

_HEADS = ("~", "$", "@", "%", "'", '"', "`")
"""What some agents expand, or take off, at the head of a path."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_STRUCTURE = "./\\:~"
# A variable that is empty takes a folder away, so that `..` behind it leads further up.
_UNCLEAR = (
    (re.compile(r"\\"), "has a backslash, which separates folders on Windows"),
    (re.compile(r"\A//"), "begins with `//`"),
    (re.compile(r"%"), "has a `%`, which some programs decode"),
    (re.compile(r"`|\$[{(]|\A[^$]*+\$.*/\.\.(?:/|\Z)"), "has a variable or a command"),
    (re.compile(r"[*?{}]|(?:\A|/)\.[^/]*\["), "is a glob"),
)


def why_not_under(path: str, folders: Sequence[str]) -> str:
    """Return why a path is in none of the folders, as a phrase for the model; empty if it is in one.

    `docs/` is what is in the folder, `docs` the folder itself as well, `./` what is in the working folder.
    `.` and `..` are resolved first, and may not leave. Names are compared with case. A relative path is only
    in a relative folder, an absolute path only in an absolute one. Folders are as `problem` wants them.
    """
    try:
        parts = normal(path)
    except NotUnderstood as error:
        return str(error)
    if any(_within(parts, folder) for folder in folders):
        return ""
    return f"{quoted(path)} is not in {' or '.join(f'`{folder}`' for folder in folders)}"


def problem(folder: str) -> str:
    """Return why a policy cannot name this folder; empty if it can."""
    try:
        normal(folder)
    except NotUnderstood as error:
        return str(error)
    return ""


def normal(path: str) -> tuple[str, ...]:
    """Return a path's names, `.` and `..` resolved, those of an absolute path behind a first "/".

    Raises `NotUnderstood` for what leaves its root, and what programs could read in more than one way.
    """
    reason = _unclear(path)
    if reason:
        raise NotUnderstood(f"the path {reason}")
    root = ("/",) if path.startswith("/") else ()
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not names:
                raise NotUnderstood(f"{quoted(path)} leaves its folder by `..`")
            names.pop()
        elif name.endswith((".", " ")) and name != ".":
            raise NotUnderstood(f"{quoted(name)} ends in a dot or a blank, which Windows takes off")
        elif name not in ("", "."):
            names.append(name)
    for head in (path, *names[:1]):
        if head.startswith(_HEADS) or ":" in head.partition("/")[0]:
            raise NotUnderstood(f"{quoted(path)} does not begin with a plain name")
    return (*root, *names)


def _within(parts: tuple[str, ...], folder: str) -> bool:
    root = _folder(folder)
    itself = not folder.endswith("/")
    absolute = parts[:1] == ("/",)
    return (
        absolute == (root[:1] == ("/",))
        and parts[: len(root)] == root
        and (itself or len(parts) > len(root))
    )


@lru_cache(maxsize=FOLDERS_CACHED)
def _folder(folder: str) -> tuple[str, ...]:
    return normal(folder)


def _unclear(path: str) -> str:
    """Return what of a path programs could read in different ways."""
    if not path.strip():
        return "is empty"
    if len(path) > MAX_PATH:
        return f"has more than {MAX_PATH} characters"
    if path != path.strip():
        return "has blanks around it"
    if not path.isprintable() and any(unicodedata.category(one) in _UNSEEN for one in path):
        return "has a character that cannot be seen"
    if not path.isascii():
        plain = unicodedata.normalize("NFKC", path)
        if any(plain.count(one) != path.count(one) for one in _STRUCTURE):
            return "has a character that some systems take for a separator or a dot"
    return next((reason for pattern, reason in _UNCLEAR if pattern.search(path)), "")
