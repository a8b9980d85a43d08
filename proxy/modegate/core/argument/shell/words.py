"""One word of a command: how it is written, and what the program then gets.

A word means the same to bash, dash and zsh, also to one that a person could type into, or it is not
understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from modegate.core.argument.understanding import NotUnderstood


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a simple command.

    `text` is what the program gets where `glob` and `expands` are false. Where `glob` is true, the word can
    stand for any number of words, or none. `$HOME`, `$PWD` and `~` at the head stay in `text` as written.
    """

    text: str
    glob: bool = False
    """Unquoted `*`, `?` or `[` is in it, or a variable outside quotes, which the shell splits at blanks."""
    glob_at_head: bool = False
    """`glob`, and it could become a word that begins with "-"."""
    quoted: bool = False
    """A part of it was quoted or escaped."""
    expands: bool = False
    """`$HOME`, `$PWD` or `~` is its head, or `$?`, which is a number, is in it."""

    @property
    def varies(self) -> bool:
        """Whether the program may get something else than `text`."""
        return self.glob or self.expands


ENDS = " \n;|&<>()"
"""What ends a word where it is not quoted."""

_PIECE = re.compile(
    r"""(?P<plain>[A-Za-z0-9_%+,./:@\]=^~\#-]+)
      | (?P<glob>[*?\[])
      | '(?P<single>[^']*+)'(?!')
      | "(?P<double>(?:[^"\\]|\\.)*+)"
      | \\(?P<escaped>[ !-/:-@\[-`{-~])
      | (?P<status>\$\?(?=[ \n;|)]|\Z))
      | (?P<bang>!(?==?(?:[ \n]|\Z)))""",
    re.VERBOSE | re.DOTALL,
)
_HEAD = re.compile(r'(?:~|\$(?:HOME|PWD)|"\$(?:HOME|PWD)")(?=[/ \n;|)]|\Z)')
_HEAD_IN_DOUBLE = re.compile(r"\$(?:HOME|PWD)(?=/)")
_STATUS_IN_DOUBLE = re.compile(r"\$\?(?=[ ,;.)]|\Z)")
_ESCAPE_IN_DOUBLE = re.compile(r'\\([$`"\\])')
_ESCAPED = re.compile(r"\\.")
_OTHER_BANG = re.compile(r"!(?![ =])|\\!")
_ZSH_GLOB = re.compile(r"[\^#]")
_VARIABLE = re.compile(r"\$[A-Za-z0-9_]{1,32}")
_UNREAD = {
    "`": "`` `…` `` runs another command",
    "$(": "`$(…)` runs another command",
    "${": "`${…}` is not read; write what it stands for",
    "$'": "`$'…'` is not read; use plain single quotes",
    '$"': '`$"…"` is not read; use plain quotes',
    "$": "`$` is read only in single quotes, or behind a `\\`",
    "{": "`{` is read only in quotes, or as a group's own word; write the words out",
    "}": "`}` is read only in quotes, or as a group's own word; write the words out",
    "'": "a `'` is not closed",
    '"': 'a `"` is not closed',
    "!": "`!` inside a word is read only in single quotes",
    "\\": "`\\` in front of a letter, or at a line's end inside a word, is not read; use quotes",
}


@dataclass(slots=True)
class _Parts:
    """What is known of a word while it is read."""

    text: str = ""
    glob: bool = False
    glob_at_head: bool = False
    quoted: bool = False
    expands: bool = False

    def add_glob(self, text: str) -> None:
        self.glob_at_head = self.glob_at_head or self.text[:1] in ("", "-")
        self.glob = True
        self.text += text

    def add_quoted(self, text: str) -> None:
        self.quoted = True
        self.text += text


def read_word(source: str, start: int) -> tuple[Word, int]:
    """Read the word that begins at `start`; return it with where it ends.

    `source` holds only printable characters and line ends.

    Raises:
        NotUnderstood: shells could read it differently, or it is no plain word.
    """
    parts = _Parts()
    at = _read_head(source, start, parts)
    while at < len(source) and source[at] not in ENDS:
        piece = _PIECE.match(source, at)
        if piece is None:
            raise NotUnderstood(_why_unread(source, at))
        _add(piece, parts)
        at = piece.end()
    if source[at : at + 1] in ("<", ">", "("):
        raise NotUnderstood(
            f"`{source[at]}` right behind a word is not read; quote it, or put a blank in front"
        )
    if source[start:at] == "[":
        return Word("["), at
    if source[start] == "=" and at > start + 1:
        raise NotUnderstood("`=` at the head of a word is not read; quote the word")
    return Word(parts.text, parts.glob, parts.glob_at_head, parts.quoted, parts.expands), at


def literal(text: str) -> Word:
    """Return a word that no shell reads.

    Raises:
        NotUnderstood: it has a control character, a line end or an invisible character in it.
    """
    return Word(_checked(text))


def _read_head(source: str, start: int, parts: _Parts) -> int:
    head = _HEAD.match(source, start)
    if head is None:
        return start
    written = head[0]
    parts.text = written.strip('"')
    parts.expands = True
    parts.quoted = written[0] == '"'
    if written[0] == "$":  # a folder's name may hold blanks, and $PWD is wherever `cd` went
        parts.glob = True
        parts.glob_at_head = written == "$PWD"
    return head.end()


def _add(piece: re.Match[str], parts: _Parts) -> None:
    match piece.lastgroup, piece[piece.lastgroup or 0]:
        case "plain", text:
            _add_plain(text, parts)
        case "glob", text:
            parts.add_glob(text)
        case "single", text:
            if text.endswith("\\"):
                raise NotUnderstood("`\\` in front of a closing `'` is not read; use double quotes")
            parts.add_quoted(_checked(text))
        case "double", text:
            _add_double(_checked(text), parts)
        case "escaped", text:
            parts.add_quoted(text)
        case "status", text:
            parts.expands = True
            parts.text += text
        case _, text:
            parts.text += text


def _add_plain(text: str, parts: _Parts) -> None:
    """Add letters; `^` and `#` are globs where zsh is told so (`EXTENDED_GLOB`)."""
    if "~" in text and ("=~" in text or ":~" in text or (text[0] == "~" and not parts.text)):
        raise NotUnderstood("`~` is read only as the head of a path; quote the word")
    if text[0] == "=" and parts.quoted and not parts.text:
        raise NotUnderstood("`=` behind empty quotes is not read; quote the word")
    before = parts.text
    slash = text.find("/")
    for sign in _ZSH_GLOB.finditer(text):
        at = sign.start()
        if sign[0] == "^":
            at_head = (before or text[: min(at, 1)])[:1] in ("", "-")
        else:  # a file's name may be without what stands in front
            at_head = "/" not in before and not 0 <= slash < at
        parts.glob_at_head = parts.glob_at_head or at_head
        parts.glob = True
        if at_head:
            break
    parts.text += text


def _add_double(text: str, parts: _Parts) -> None:
    head = None if parts.text or parts.quoted else _HEAD_IN_DOUBLE.match(text)
    parts.expands = parts.expands or head is not None
    rest = text[head.end() :] if head else text
    unescaped, statuses = _STATUS_IN_DOUBLE.subn("", _ESCAPED.sub("", rest))
    parts.expands = parts.expands or statuses > 0
    for sign in "`$":
        if sign in unescaped:
            raise NotUnderstood(_why_unread(unescaped, unescaped.index(sign)))
    if _OTHER_BANG.search(rest):
        raise NotUnderstood(_UNREAD["!"])
    parts.add_quoted((head[0] if head else "") + _ESCAPE_IN_DOUBLE.sub(r"\1", rest))


def _checked(text: str) -> str:
    """Return what was quoted.

    Raises:
        NotUnderstood: a character in it is a line end, a control character or one that nobody sees.
    """
    if text.isprintable():
        return text
    odd = next(character for character in text if not character.isprintable())
    name = {"\n": "a line end", "\t": "a tab"}.get(odd, f"the character U+{ord(odd):04X}")
    raise NotUnderstood(f"{name} inside a word is not read")


def _why_unread(source: str, at: int) -> str:
    """Return why no word can go on with what stands at `at`, and what to write instead."""
    variable = _VARIABLE.match(source, at)
    if variable is not None:
        return f"`{variable[0]}` is not read; write what it stands for"
    if (
        source[at] == "'" and "'" in source[at + 1 :]
    ):  # zsh can be told to read `''` in quotes as a quote
        return "`''` inside a word is not read; quote the word once"
    for head, why in _UNREAD.items():
        if source.startswith(head, at):
            return why
    odd = source[at]
    if odd.isprintable():
        return f"`{odd}` is read only in quotes"
    return f"the character U+{ord(odd):04X} is not read"
