"""`test`, `[` and `printf` of a shell: zsh and ksh compute where they take numbers.

What is computed can hold a subscript, and a subscript can run commands: `[ 'a[$(rm x)]' -eq 1 ]`.
"""

from __future__ import annotations

import re

from modegate.core.argument.shell.entry import Read
from modegate.core.argument.shell.options import shown

_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NAMES = frozenset({"-v", "-R"})
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|0x[0-9A-Fa-f]{1,16})?", re.ASCII)
_CONVERSION = re.compile(
    r"%(?:%|(?P<flags>[-#0 +]*[0-9]{0,4}(?:\.[0-9]{0,4})?)(?P<kind>[sbqdiouxXeEfFgGc])|)"
)


def why_not_test(found: Read) -> str:
    """Return why the words behind `test` or `[` may do more than look, or ""."""
    # `$?` is a number, whatever it is.
    texts = ["0" if word.text == "$?" and word.expands else word.text for word in found.words]
    if any(word.glob for word in found.words):
        return "a glob behind `test` can become several words; quote it"
    if named := _NAMES.intersection(texts):
        return f"`test {min(named)}` can run a command in a subscript"
    for at, text in enumerate(texts):
        beside = texts[max(at - 1, 0) : at] if text in _COMPARES else []
        beside += texts[at + 1 : at + 2] if text in _COMPARES or text == "-t" else []
        for number in beside:
            if not _NUMBER.fullmatch(number) and number != "]":
                return f"`{shown(number)}` beside `{text}` can be computed; write the number"
    return ""


def why_not_printf(found: Read) -> str:
    """Return why the words behind `printf` may do more than print, or ""."""
    operands = list(found.operands)
    if not operands:
        return "`printf` needs a format"
    form = operands[0]
    if form.varies:
        return "the format of `printf` must be quoted"
    computes = False
    at = form.text.find("%")
    while at >= 0:
        conversion = _CONVERSION.match(form.text, at)
        if conversion is None or conversion[0] == "%":
            return f"`{shown(form.text[at : at + 8])}` in a format of `printf` is not read"
        computes = computes or conversion["kind"] not in (None, "s", "b", "q", "c")
        at = form.text.find("%", conversion.end())
    if computes:
        for word in operands[1:]:
            if word.glob or not _NUMBER.fullmatch(word.text):
                return f"`{shown(word.text)}` can be computed by `printf`; write the number, or use `%s`"
    return ""
