"""Programs of awk: read token by token, refused where one can run, write, or open more than its files.

A `/` is a division or begins a regular expression, by what stands before it. Where versions could differ, the
program is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from modegate.core.argument.shell.entry import Read, names
from modegate.core.argument.shell.options import shown

_TOKEN = re.compile(
    r"""(?P<space>[ ]+)
      | (?P<string>"(?:[^"\\]|\\.)*+")
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
      | (?P<sign>\|\||&&|>=|<=|==|!=|!~|\+\+|--|[-+*%^]=|[-+*%^!~<=?:,$]|>)
      | (?P<group>[][(){};])""",
    re.VERBOSE | re.ASCII,
)
_EXPRESSION = re.compile(
    r"/(?:[^/\\\[]|\\.|\[\^?\]?(?:\[:\w{1,9}:\]|\\.|[^]\[/\\])*+\])*+/", re.ASCII
)
_EXPECTS = re.compile(r"[-+*%^]=|[-+*%^!~<=?:,>({};/]?|&&|\|\||>=|<=|==|!=|!~")
_OPERAND = re.compile(r"\w+|\.[0-9]+|[0-9]+\.[0-9]*|\]", re.ASCII)
_REFUSED = {
    "system": "runs a program",
    "getline": "reads from a program or another file",
    "ARGV": "can name more files",
    "SYMTAB": "can reach everything",
    "FUNCTAB": "can reach everything",
    "PROCINFO": "can reach more than text",
}
# Behind these and signs, all versions read an expression; behind the others some of them do, and some divide.
_EXPRESSION_FOLLOWS = names("print printf return else do in exit")
_KEYWORDS = names(
    """
    BEGIN END BEGINFILE ENDFILE break case continue default delete for func function if length next nextfile
    switch while rand srand fflush
    """
)


def why_not_awk(found: Read) -> str:
    """Return why a call of awk may do more than show text, or ""."""
    # The awk of BSD and macOS does not know `--help`, and runs the program all the same.
    if not found.operands:
        known = {"--help", "--version"} & {name for name, _ in found.options}
        return "" if known else "`awk` needs a program"
    program = found.operands[0]
    if program.varies:
        return "a program of `awk` must be quoted"
    if any(word.text.startswith("/inet") for word in found.operands[1:]):
        return "`/inet…` is a connection to `gawk`"
    return _Program(program.text).why_not()


@dataclass(slots=True)
class _Program:
    text: str
    at: int = 0
    before: str = ""
    """The last token but blanks; "" at the beginning."""
    parentheses: int = 0
    prints: bool = False
    """A `print` stands in this statement."""

    def why_not(self) -> str:
        while self.at < len(self.text):
            token = _TOKEN.match(self.text, self.at)
            if token is None and self.text[self.at] == "/":
                why = self._slash()
            elif token is None:
                return f"`{self.text[self.at]}` in a program of `awk` is not read"
            else:
                self.at = token.end()
                why = self._token(token.lastgroup or "", token[0])
            if why:
                return why
        return ""

    def _token(self, kind: str, text: str) -> str:
        if kind == "space":
            return ""
        self.before = text
        if kind == "name":
            return self._name(text)
        if kind == "group":
            self._group(text)
        if text == ">" and self.prints and not self.parentheses:
            return (
                "`>` behind `print` in a program of `awk` writes; put a comparison in parentheses"
            )
        return ""

    def _name(self, name: str) -> str:
        if name in _REFUSED:
            return f"`{name}` in a program of `awk` {_REFUSED[name]}"
        if name in ("print", "printf"):
            if self.parentheses:
                return "`print` in parentheses is not read in a program of `awk`"
            self.prints = True
        return ""

    def _group(self, sign: str) -> None:
        if sign in "()":
            self.parentheses = max(0, self.parentheses + (1 if sign == "(" else -1))
        elif sign in "{};":
            self.prints = False

    def _slash(self) -> str:
        """Read a division, or a regular expression."""
        before = self.before
        last = self.text.find("/", self.at + 1) < 0
        if before in _EXPRESSION_FOLLOWS or _EXPECTS.fullmatch(before):
            expression = _EXPRESSION.match(self.text, self.at)
            if expression is None:
                return "a regular expression in a program of `awk` is not read"
            self.at = expression.end()
            self.before = expression[0]  # no operand: some versions divide it, others do not
            return ""
        if (_OPERAND.fullmatch(before) and before not in _KEYWORDS) or last:
            self.at += 1
        else:
            return f"`/` behind `{shown(before)}` in a program of `awk` can be read in two ways"
        self.before = "/"
        return ""
