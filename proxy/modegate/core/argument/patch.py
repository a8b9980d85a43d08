"""Which files a patch names: the envelope of `apply_patch`, and unified diffs as git writes and applies them.

Programs that apply patches are lenient, each in its own way. So only the strict forms are read, and a patch
is refused if one of its lines could begin a file for some program, and begins none here.
"""

from __future__ import annotations

import re

from modegate.core.argument.understanding import NotUnderstood, quoted

MAX_PATCH = 1 << 20
"""Characters."""

MAX_FILES = 1000
"""Files of one patch, each of which is judged."""

_LINE_ENDS = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]|\r(?!\n)")
"""What ends a line for some programs, and none here."""

_FRONT = r"[\ \t\xa0\ufeff\-X]*"
_HIDDEN = re.compile(
    rf"""^[^\w*+\-\n]+\*\*\*[^\w\n]*
         (?:begin|end|add|update|delete|remove|create|move|rename|copy|environment)\b
      | ^[^\w+\n]+(?-i:Index:|diff\ --git\ )
      | ^(?>{_FRONT}?---[ \t].*\n){_FRONT}\+\+\+[ \t]
      | ^(?>{_FRONT}?\*\*\*[ \t].*\n){_FRONT}---[ \t]
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""Lines of a change that begin a file for programs that take off what stands in front, or count no lines.

GNU patch takes off blanks, `X` and `- ` in front of a whole diff, and Codex blanks in front of a header.
"""

_SIGNS = ("---", "Index:", "diff --git ")
"""What is in each such line, where no `***` is behind the beginning of one: found faster."""
_OTHER_HUNK = re.compile(
    rf"^{_FRONT}(?:@@\ -[0-9]|[0-9]+(?:,[0-9]+)?[acdi][0-9,]*[ \t]*$|\*{{9}})",
    re.MULTILINE | re.VERBOSE,
)
"""A hunk of a diff, for which GNU patch would find some name in an envelope: any line with `--- ` will do."""

_BEGIN = "*** Begin Patch\n"
_END = "*** End Patch\n"
_END_OF_FILE = "*** End of File\n"
_NAME = r"(\S(?:.*\S)?)\n"
_SECTION = re.compile(
    rf"\*\*\* (?:Add File: {_NAME}|Delete File: {_NAME}|Update File: {_NAME}(?:\*\*\* Move to: {_NAME})?)"
)
_BEHIND = {
    "A": re.compile(r"\n(?!\+)"),
    "D": re.compile(r"\n"),
    "U": re.compile(r"\n(?=[^ +\-@\n]|@(?!@[ \n])|\Z)"),
}
"""The end of a section's last line, by the first letter of what is done to the file."""

_PLAIN = r"([^\s/]\S*)"
_HEADER = re.compile(
    rf"""
    (?:diff\ --git\ a/{_PLAIN}\ b/{_PLAIN}\n
       (?:(?:new\ file|deleted\ file|old|new)\ mode\ 100(?:644|755)\n)*+
       (?:similarity\ index\ \d+%\n)?
       (?:(?:rename|copy)\ from\ {_PLAIN}\n(?:rename|copy)\ to\ {_PLAIN}\n)?
       (?:index\ [0-9a-f]+\.\.[0-9a-f]+(?:\ 100(?:644|755))?\n)?
    )?
    (?:---\ (?:/dev/null|a/{_PLAIN})(?:\t.*)?\n\+\+\+\ (?:/dev/null|b/{_PLAIN})(?:\t.*)?\n(?=@@\ ))?
    """,
    re.VERBOSE,
)
_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,7}))? \+\d{1,9}(?:,(\d{1,7}))? @@(?: .*)?\n")
_NO_END = re.compile(r"\\ .*\n")


def files_of(patch: str) -> tuple[str, ...]:
    """Return every file that a patch names: read, written, deleted, and where one moves or is copied to.

    Names are as written; a unified diff's must have `a/` and `b/` in front, which are taken off, as
    `git apply` does. Takes time in proportion to the patch's length. Raises `NotUnderstood` for whatever is
    not strictly of the two forms, for links and binary patches, and for more than `MAX_PATCH` characters.
    """
    if len(patch) > MAX_PATCH:
        raise NotUnderstood(f"the patch has more than {MAX_PATCH} characters")
    if _LINE_ENDS.search(patch):
        raise NotUnderstood("the patch has a character that some programs take for a line's end")
    text = patch.replace("\r\n", "\n").strip("\n") + "\n"
    files = _enveloped(text) if text.startswith(_BEGIN) else _unified(text)
    found = tuple(dict.fromkeys(files))
    if len(found) > MAX_FILES:
        raise NotUnderstood(f"the patch names more than {MAX_FILES} files")
    return found


def _enveloped(text: str) -> list[str]:
    """Read an envelope: https://github.com/openai/codex, `codex-rs/apply-patch/src/parser.rs`."""
    _refuse_hidden(text, 0, len(text))
    if hunk := _OTHER_HUNK.search(text):
        raise _unread(text, hunk.start())
    files: list[str] = []
    at = len(_BEGIN)
    while (section := _SECTION.match(text, at)) is not None:
        files += filter(None, section.groups())
        at = _end_of_section(text, section)
    if text[at:] != _END or not files:
        raise _unread(text, at)
    return files


def _end_of_section(text: str, section: re.Match[str]) -> int:
    kind, at = section[0][4], section.end()
    while (end := _BEHIND[kind].search(text, at - 1)) is not None:
        at = end.end()
        if kind != "U" or not text.startswith(_END_OF_FILE, at):
            return at
        at += len(_END_OF_FILE)
    return len(text)


def _unified(text: str) -> list[str]:
    """Read a unified diff, with git's extended headers or without."""
    files: list[str] = []
    at = 0
    while at < len(text):
        header = _HEADER.match(text, at)
        names = [name for name in header.groups() if name] if header is not None else []
        if header is None or not names:
            raise _unread(text, at)
        files += names
        start = at = header.end()
        while (hunk := _HUNK.match(text, at)) is not None:
            at = _behind(text, hunk)
        _refuse_hidden(text, start, at)
    return files


def _behind(text: str, hunk: re.Match[str]) -> int:
    """Return where a hunk ends: its header counts the lines of both sides."""
    old, new = (1 if count is None else int(count) for count in hunk.groups())
    at = hunk.end()
    while old > 0 or new > 0:
        kind = text[at : at + 1]
        if kind not in (" ", "+", "-", "\n") and not _NO_END.match(text, at):
            raise _unread(text, at)
        old -= kind in " -\n"
        new -= kind in " +\n"
        at = text.index("\n", at) + 1
    if old or new:
        raise NotUnderstood("a hunk of the patch has another number of lines than it says")
    no_end = _NO_END.match(text, at)
    return no_end.end() if no_end is not None else at


def _refuse_hidden(text: str, start: int, end: int) -> None:
    part = text[start:end]
    headers = part.count("***") - part.count("\n***") - part.startswith("***")
    if headers or any(sign in part for sign in _SIGNS):
        hidden = _HIDDEN.search(text, start, end)
        if hidden is not None:
            raise _unread(text, hidden.start())


def _unread(text: str, at: int) -> NotUnderstood:
    if at >= len(text):
        return NotUnderstood("the patch ends too early")
    row = text.count("\n", 0, at) + 1
    return NotUnderstood(f"line {row} of the patch, {quoted(text[at:])}, is not read")
