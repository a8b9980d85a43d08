"""Scripts of sed: a white list of addresses and commands, each script whole by itself.

GNU sed can run programs (`e`, `s///e`) and write files (`w`, `s///w`). Where the text of `a`, `i` and `c`
and a comment end differs from version to version. What is not in the grammar below is refused.
"""

from __future__ import annotations

import re

from modegate.core.argument.shell.entry import Read
from modegate.core.argument.shell.options import shown

_DELIMITERS = "/|,#@:!%+~_^=&"
_NUMBER = r"[0-9]{1,9}"
# In brackets some versions look for the delimiter and others do not, so it may not be there.
_BRACKETS = r"\[\^?\]?(?:\[[:.=]\w{1,9}[:.=]\]|\\[A-Za-z]|[^]\[\\DELIMITER])*+\]"
_PATTERN = rf"(?:[^\[\\DELIMITER]|\\.|{_BRACKETS})*+"
_REPLACEMENT = r"(?:[^\\DELIMITER]|\\.)*+"


def _with(delimiter: str, expression: str) -> str:
    return expression.replace("DELIMITER", re.escape(delimiter))


_ONE_ADDRESS = rf"(?:{_NUMBER}(?:~{_NUMBER})?|\$|/{_with('/', _PATTERN)}/[IM]{{0,2}})"
_ADDRESS = re.compile(
    rf"[ ;]*+(?:{_ONE_ADDRESS}(?: *, *(?:{_ONE_ADDRESS}|[+~]{_NUMBER}))?)?+ *+(?:! *+)?+"
)
_COMMAND = re.compile(
    rf"[=pPdDnNgGhHxFz]|[lqQ] *(?:{_NUMBER})?|:[A-Za-z0-9_]+|[btT] *[A-Za-z0-9_]*"
)
_SUBSTITUTE = {
    sign: re.compile(
        _with(
            sign,
            rf"sDELIMITER{_PATTERN}DELIMITER{_REPLACEMENT}DELIMITER[gpiIM0-9]{{0,9}}"
            rf"|yDELIMITER{_REPLACEMENT}DELIMITER{_REPLACEMENT}DELIMITER",
        )
    )
    for sign in _DELIMITERS
}
_END = re.compile(r" *+(?:;|\Z|(?=\}))")


def why_not_sed(found: Read) -> str:
    """Return why the scripts of a call of sed may do more than show text, or ""."""
    scripts = [value for name, value in found.options if name in ("-e", "--expression")]
    if any(name in ("-e", "--expression") for name, _ in found.options[found.first :]):
        return "`-e` behind an operand is a file to some versions of `sed`; write it first"
    if not scripts:
        if not found.operands:
            known = {"--help", "--version"} & {name for name, _ in found.options}
            return "" if known else "`sed` needs a script"
        script = found.operands[0]
        if script.varies:
            return "a script of `sed` must be quoted"
        scripts = [script.text]
    return next((why for script in scripts if (why := _why_not_script(script))), "")


def _why_not_script(script: str) -> str:
    if not script.isprintable():
        return f"`sed` with `{shown(script)}` is not known to only show text"
    at, depth = 0, 0
    while at < len(script):
        address = _ADDRESS.match(script, at)
        at = address.end() if address else at
        rest = script[at : at + 2]
        if not rest:
            break
        if rest[0] == "{":
            depth, at = depth + 1, at + 1
            continue
        if rest[0] == "}" and depth:
            depth -= 1
            end = _END.match(script, at + 1)
        else:
            known = _SUBSTITUTE.get(rest[1:]) if rest[0] in "sy" else _COMMAND
            command = known.match(script, at) if known else None
            end = _END.match(script, command.end()) if command else None
        if end is None:
            return f"`sed` with `{shown(script[at:])}` is not known to only show text"
        at = end.end()
    return "a `{` in the script of `sed` is not closed" if depth else ""
