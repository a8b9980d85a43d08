"""The syntax tree of a JavaScript program, if the kept grammar and every engine see the same tokens in it.

The grammar is imported where the first program is read, since most policies need none.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from modegate.core.argument.parsing import language_of, tree_of
from modegate.core.argument.understanding import NotUnderstood, quoted

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_PROGRAM = 1 << 16
"""Bytes in UTF-8."""
MAX_TOKENS = 2000
"""Tokens: some 64 calls with what is shown of each. The grammar can take a tenth of a second for them."""
MAX_COMMENTS = 100
"""Comments among them, each of which the grammar carries along with all that a text could mean."""
MAX_DEPTH = 60
"""Levels of the tree: those who walk it do so recursively."""
ALLOWED = "a program may only call tools with literal arguments and show what they return"

_ODD = re.compile("[\x00-\x08\v\f\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]|\r(?!\n)")
"""What engines and the grammar could differ in: ends of lines and of texts, and halves of characters."""
_BLANK = re.compile(rb"[ \t\r\n]*+")
_TOKEN = re.compile(
    rb"""
    //[^\n]*+ | /\*(?s:.*?)\*/
  | "(?:[^"\\\n]|\\(?:\r\n|(?s:.)))*+" | '(?:[^'\\\n]|\\(?:\r\n|(?s:.)))*+'
  | `(?:[^`\\$]|\\(?s:.)|\$\{[^`"'{}/\\]*+\}|\$(?!\{))*+`
  | [A-Za-z_$][A-Za-z0-9_$]*+ | [0-9][A-Za-z0-9_.]*+
  | \?\?(?!=) | \?\.(?![0-9]) | \|\|(?!=) | \.{3} | [(){}\[\],;:.=+\-]
    """,
    re.VERBOSE,
)
"""Every token that a program may have. `/` is only in comments, so nothing is a regular expression."""
_KEYWORDS = frozenset(
    b"break case catch class continue debugger default delete do else enum export extends finally for"
    b" function if import in instanceof new return super switch this throw try typeof var void while with"
    b" yield".split()
)
"""What no program may say but as a member's name: the grammar searches long for what many of them mean."""
_NAMED_BEHIND = (b".", b"?.", b"{", b",")
_WHOLE = frozenset({"comment", "string", "template_string"})
"""What is one token here, and more than one in the tree."""
_NAME_BEGINS = re.compile(rb"[A-Za-z_$]")
_PRAGMA = re.compile(r"//[ \t]*@exec:(.*)")
_PRAGMA_KEYS = frozenset({"yield_time_ms", "max_output_tokens", "timeout_ms"})
"""How long Codex waits for a program, and how much of its output it shows."""


def parsed(source: str) -> list[Node]:
    """Return the statements of a program; raise `NotUnderstood` unless each token is where it seems to be."""
    if _ODD.search(source):
        raise NotUnderstood("the program has a character that is not read; escape it in a string")
    data = source.encode()
    if len(data) > MAX_PROGRAM:
        raise NotUnderstood(f"the program has more than {MAX_PROGRAM} bytes")
    tokens = _tokens(data)
    root = tree_of(language_of("tree_sitter_javascript"), data)
    if root is None or _leaves(root) != tokens:
        raise NotUnderstood("the program is no JavaScript that can be read")
    statements = parts(root)
    for one, after in pairwise(statements):
        _check_end(one, after, data)
    return statements


def parts(node: Node) -> list[Node]:
    """Return what a node is made of, tokens included, but for comments."""
    return [child for child in node.children if child.type != "comment"]


def listed(node: Node) -> list[Node]:
    """Return what is between brackets and commas; refuse holes, as in `[1,,2]`."""
    inner = parts(node)[1:-1]
    if any((one.type == ",") != (at % 2 == 1) for at, one in enumerate(inner)):
        raise unread(node)
    return inner[::2]


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode()


def unread(node: Node) -> NotUnderstood:
    """Return the refusal of a node that is none of those that are read."""
    return _unread(text_of(node), node.start_point.row)


def _unread(text: str, row: int) -> NotUnderstood:
    return NotUnderstood(f"line {row + 1} of the program, {quoted(text)}, is not read: {ALLOWED}")


def _tokens(data: bytes) -> list[tuple[int, int]]:
    """Return where each token begins and ends, comments included."""
    found: list[tuple[int, int]] = []
    before, comments = b"", 0
    at = _end_of_blanks(data, 0)
    while at < len(data):
        token = _TOKEN.match(data, at)
        if token is None or (token[0] in _KEYWORDS and before not in _NAMED_BEHIND):
            start = data.rfind(b"\n", 0, at) + 1
            raise _unread(data[start:].decode(errors="replace"), data.count(b"\n", 0, at))
        found.append(token.span())
        before = token[0]
        comments += before.startswith((b"//", b"/*"))
        if len(found) > MAX_TOKENS or comments > MAX_COMMENTS:
            raise NotUnderstood(
                f"the program has more than {MAX_TOKENS} tokens or {MAX_COMMENTS} comments"
            )
        at = _end_of_blanks(data, token.end())
    return found


def _end_of_blanks(data: bytes, at: int) -> int:
    blank = _BLANK.match(data, at)
    return at if blank is None else blank.end()


def _leaves(root: Node) -> list[tuple[int, int]]:
    """Return where each token of the tree begins and ends; refuse a tree that is too deep."""
    found: list[tuple[int, int]] = []
    end = 0
    cursor = root.walk()
    while (node := cursor.node) is not None:
        if cursor.depth > MAX_DEPTH:
            raise NotUnderstood("the program is nested too deeply")
        if node.start_byte >= end and (node.type in _WHOLE or not node.child_count):
            found.append(node.byte_range)
            end = node.end_byte
        if node.type == "comment":
            _check_comment(node)
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found
    return found


def _check_comment(node: Node) -> None:
    """Refuse settings for Codex that are not known."""
    text = text_of(node)
    if "@exec" not in text:
        return
    pragma = _PRAGMA.fullmatch(text)
    try:
        settings = json.loads(pragma[1]) if pragma is not None else None
    except (ValueError, RecursionError):
        settings = None
    if (
        not isinstance(settings, dict)
        or not settings.keys() <= _PRAGMA_KEYS
        or not all(type(value) is int for value in settings.values())
    ):
        raise NotUnderstood("the program's `// @exec:` line has settings that are not known")


def _check_end(one: Node, after: Node, data: bytes) -> None:
    """Refuse a statement that some could end elsewhere: behind it is `;`, or a line's end and a name.

    https://tc39.es/ecma262/#sec-automatic-semicolon-insertion
    """
    if one.children and one.children[-1].type == ";":
        return
    between = data[one.end_byte : after.start_byte]
    if b"\n" not in between or not _NAME_BEGINS.match(data, after.start_byte):
        raise NotUnderstood(f"line {one.end_point.row + 1} of the program lacks its `;`")
