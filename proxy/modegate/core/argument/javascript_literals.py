"""JavaScript's literals, as its engines evaluate them: strings, templates without substitutions, numbers.

https://tc39.es/ecma262/#sec-ecmascript-language-lexical-grammar
"""

from __future__ import annotations

import re

from modegate.core.argument.understanding import NotUnderstood, quoted
from modegate.core.wire.arguments import has_half, paired

_ESCAPE = re.compile(
    r"""\\(?:
        x(?P<two>[0-9a-fA-F]{2})
      | u(?P<four>[0-9a-fA-F]{4})
      | u\{0{0,8}(?P<point>[0-9a-fA-F]{1,6})\}
      | (?P<join>\r?\n)
      | (?P<one>[^xu0-9\r\n])
      )
      | (?P<bad>\\)""",
    re.VERBOSE,
)
_ONE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST = 0x10FFFF
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")


def string(source: str) -> str:
    """Return what a string or a template stands for, given with what encloses it.

    Raises `NotUnderstood` for octal escapes, which mean nothing in modules, and for half of a character.
    """
    inner = source[1:-1]
    if source.startswith("`"):
        inner = inner.replace("\r\n", "\n")
    if "\\" in inner:
        inner = paired(_ESCAPE.sub(_decoded, inner))
        if has_half(inner):
            raise NotUnderstood("a string of the program holds half of a character")
    return inner


def _decoded(escape: re.Match[str]) -> str:
    code = escape["two"] or escape["four"] or escape["point"]
    if code is not None and int(code, 16) <= _LAST:
        return chr(int(code, 16))
    if escape["join"] is not None:
        return ""
    if escape["one"] is not None:
        return _ONE.get(escape["one"], escape["one"])
    raise NotUnderstood("a string of the program has an escape that is not read")


def number(source: str) -> int | float:
    """Return a decimal number; raise `NotUnderstood` for any other spelling, and for more than 15 digits."""
    if _NUMBER.fullmatch(source) is None:
        raise NotUnderstood(f"the number {quoted(source)} of the program is not written plainly")
    value = float(source)
    return int(value) if value.is_integer() else value
