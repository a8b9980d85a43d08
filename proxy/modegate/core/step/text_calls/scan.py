"""Finds calls in a text that comes in pieces: what is decided goes on, what could be a call waits.

A text waits from the first character that could begin a call until it is none, or until the call's end.
How the text is cut into pieces changes nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from modegate.core.step.answer.calls import Gathered
from modegate.core.step.text_calls.open_call import OpenCall
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.shapes import MAX_HEAD, SHAPES, Shape

_TRIGGER = re.compile(r"[{<`@*\-A]")
_BY_FIRST = {
    first: tuple(shape for shape in SHAPES if shape.first == first)
    for first in dict.fromkeys(shape.first for shape in SHAPES)
}
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""As Python splits lines."""
_BLANKS = " \t"


class Decided(NamedTuple):
    """So many characters of the text, in order, are plain or belong to a call."""

    length: int
    call: Gathered | None = None


class Scanner:
    """The text of one choice."""

    def __init__(self, rules: TextCalls, choice: int, before: str = "") -> None:
        """Begin; `before` is the end of what the client has already, which a call may have begun in."""
        self._rules = rules
        self._choice = choice
        self._text = before
        self._gone = len(before)
        """Characters at the head of what is undecided that are with the client."""
        self._heads = {0, len(before)}
        """Places that are heads of lines though no line ends in front of them."""
        self._plain = 0
        """Characters at the head of what is undecided that hold no JSON call."""
        self._open: OpenCall | None = None
        self._last = "\n"
        self.unended = False
        """It ended within a brace that could have become a call if more had followed."""
        self.tail = ""
        """At the end: the last characters, in which a call could begin that another hop completes."""

    @property
    def waiting(self) -> bool:
        return self._open is not None or len(self._text) > self._gone

    def begin_passage(self) -> None:
        """Note that another passage begins; clients join passages in their own ways."""
        if self._open is None:
            self._heads.add(len(self._text))
        else:
            self._open.heads.add(self._open.size)

    def feed(self, text: str) -> list[Decided]:
        """Take a piece of text, and give what is decided by it."""
        out: list[Decided] = []
        self.tail = ""
        self._read(out, text, last=False)
        return out

    def _read(self, out: list[Decided], text: str, *, last: bool) -> None:
        while text:
            if self._open is None:
                self._text += text
                text = self._look(out, last=last)
                continue
            end = self._open.take(text)
            if end < 0:
                self._open.add(text)
                break
            self._open.add(text[:end])
            text = self._close(out) + text[end:]

    def end(self) -> list[Decided]:
        """Take the end of the text; what could only have become a call is text."""
        out: list[Decided] = []
        if self._open is None:
            self.tail = self._text[-MAX_HEAD:] or self.tail
            # Behind what has not become a call there can be one.
            text, self._text = self._text, ""
            self._read(out, text, last=True)
        while self._open is not None:
            self._end_open(out, self._open)
        return out

    def _end_open(self, out: list[Decided], one: OpenCall) -> None:
        self._open = None
        text = one.text
        if one.shape is None or one.head is None:
            call: Gathered | None = self._rules.code(self._choice, text)
        else:
            call = self._rules.unended(self._choice, one.shape, one.head, text)
        if call is not None:
            self._emit(out, len(text), call)
            return
        self._plain, self._heads = len(text), one.heads
        self.unended = True
        self._read(out, text, last=True)

    def _close(self, out: list[Decided]) -> str:
        """End the call under way; return its text if it was none, to be searched for other shapes."""
        one, self._open = self._open, None
        if one is None or one.shape is None or one.head is None:
            raise AssertionError("no call is under way")
        text = one.text
        call = self._rules.call(self._choice, one.shape, one.head, text)
        if call is None:
            self._plain, self._heads = len(text), one.heads
            return text
        self._emit(out, len(text), call)
        # What was read once for JSON is not read again, or each brace would be read to the end.
        self._plain = max(0, one.plain - len(text))
        self._last = "\n"
        return ""

    def _look(self, out: list[Decided], *, last: bool) -> str:
        """Decide on what has come; gives what follows the head of a call, once there is one.

        With `last`, nothing more will come.
        """
        text = self._text
        if self._rules.everything:
            self._give(out, self._gone)
            self._open, rest, self._text = OpenCall(None, None), self._text, ""
            return rest
        at = 0
        for match in _TRIGGER.finditer(text):
            at = match.start()
            undecided = False
            for shape in _BY_FIRST[match.group()]:
                if not self._may_begin(shape, at):
                    continue
                head = shape.head.match(text, at)
                if head is not None and self._rules.counts(shape, head):
                    return self._begin(out, shape, head)
                undecided = undecided or (not last and bool(shape.maybe.match(text, at)))
            if undecided:
                self._give(out, at)
                return ""
        self._give(out, len(text))
        return ""

    def _may_begin(self, shape: Shape, at: int) -> bool:
        if shape.kind == "json" and at < self._plain:
            return False
        if not shape.line or at in self._heads:
            return True
        while at and self._text[at - 1] in _BLANKS:
            at -= 1
        return (self._text[at - 1] if at else self._last) in _LINE_ENDS

    def _begin(self, out: list[Decided], shape: Shape, head: re.Match[str]) -> str:
        text = self._text
        at = head.start()
        self._give(out, at)
        name = re.escape(head.groupdict().get("name") or "")
        close = re.compile(shape.close.replace("NAME", name)) if shape.close else None
        rest = text[at:]
        again = shape.head.match(rest)
        self._open = OpenCall(shape, again, close=close, plain=self._plain)
        self._text, self._heads, self._plain = "", set(), 0
        if close is not None and again is not None:
            # What its head holds cannot end it.
            self._open.add(rest[: again.end()])
            return rest[again.end() :]
        return rest

    def _give(self, out: list[Decided], count: int) -> None:
        """Let the first characters of what is undecided go, as plain text."""
        if count:
            self._emit(out, count, None)
            self._last = self._text[:count].rstrip(_BLANKS)[-1:] or self._last
            self._text = self._text[count:]
            self._heads = {at - count for at in self._heads if at >= count}
            self._plain = max(0, self._plain - count)

    def _emit(self, out: list[Decided], count: int, call: Gathered | None) -> None:
        gone = min(count, self._gone)
        self._gone -= gone
        if count > gone:
            out.append(Decided(count - gone, call))
