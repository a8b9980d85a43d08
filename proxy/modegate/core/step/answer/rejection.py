"""Errors of an upstream on their way to the client, and whether one is an answer in disguise.

Not every client looks at the status before it looks for calls. So in a mode, an error goes on only once all
of it is there, and only if no reader could find an answer in it. It goes as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from modegate.core.errors import AnswerUnreadable, TooLarge
from modegate.core.step.effects import Headers
from modegate.core.wire import headers
from modegate.core.wire.arguments import spelling
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding, decoder

MAX_REJECTION = 2**20
"""Bytes of an error, as it came and without its coding; those of providers have some kilobytes at most."""

MAX_BROKEN = 64 * 1024
"""Bytes of one that is not what its coding says."""

_CHARSETS = frozenset({b"", b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1", b"latin1"})
"""Those in which JSON is what it is in UTF-8; UTF-16 and UTF-32 are known by their bytes."""
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([^\s;\"']*)", re.IGNORECASE)

_ANSWERS = frozenset(
    map(
        spelling,
        ("choices", "output", "item", "content", "content_block", "tool_calls", "function_call"),
    )
)
"""Keys under which answers, and events of them, hold what a client may run."""
_INSIDE = frozenset(map(spelling, ("response", "message")))
"""Keys that hold the answer as a whole."""

_FIELD = re.compile(r"\s*(?:data:)?\s?", re.IGNORECASE)
_FRONT = re.compile(r"[^\"\[{]*(?=[\[{])")
_DATA_AHEAD = re.compile(r"data:\s{0,8}(?=[\[{])", re.IGNORECASE)
MAX_EVENTS = 1000
"""Places at which data could begin; a body with more is no error."""

_JSON = json.JSONDecoder(object_pairs_hook=lambda pairs: _Object(pairs), strict=False)
"""As lenient as any: duplicate keys are all seen, and what is no JSON but known to Python passes."""


class _Object(list[tuple[str, Any]]):
    """A JSON object with every key that it has, however often."""


@dataclass(slots=True)
class Rejection:
    """An error, as far as it is there."""

    status: int
    lines: Headers
    body: bytearray = field(default_factory=bytearray)

    def text(self) -> bytes:
        """Return the body without its coding; of one that stops too early what there is.

        Raises:
            BadEncoding, UnknownEncoding, TooLarge: that cannot be taken off.
        """
        coding = headers.get_one(self.lines, b"content-encoding") or b""
        return decoder(coding, MAX_REJECTION).feed(bytes(self.body))

    def check(self) -> None:
        """See that no client could find an answer in it.

        Raises:
            AnswerUnreadable: it is one, or nobody knows.
        """
        if reason := self._doubt():
            raise AnswerUnreadable(f"the upstream answers {self.status}, {reason}")

    def _doubt(self) -> str:
        if len(self.body) > MAX_REJECTION:
            return f"with over {MAX_REJECTION} bytes"
        kind = headers.get_one(self.lines, b"content-type") or b""
        charset = _CHARSET.search(kind)
        if charset and charset[1].lower() not in _CHARSETS:
            return "in a character set that is not known"
        try:
            text = self.text()
        except BadEncoding:
            text = self._begun()
            if len(self.body) > MAX_BROKEN or holds_answer(bytes(self.body)):
                return "in a coding that cannot be read"
        except (UnknownEncoding, TooLarge):
            return "in a coding that cannot be read"
        return "but its body is an answer, which it must not be" if holds_answer(text) else ""

    def _begun(self) -> bytes:
        """Return what of a broken body a client could have read before it came to the break."""
        undo = decoder(headers.get_one(self.lines, b"content-encoding") or b"", MAX_REJECTION)
        text = bytearray()
        with suppress(BadEncoding, TooLarge):
            for at in range(min(len(self.body), MAX_BROKEN)):
                text += undo.feed(bytes(self.body[at : at + 1]))
        return bytes(text)


def holds_answer(body: bytes) -> bool:
    """Return whether some client could read an answer, or an event of one, out of an error's body."""
    text = body.decode(json.detect_encoding(body), "replace").removeprefix("\ufeff")
    found = list(islice(_DATA_AHEAD.finditer(text), MAX_EVENTS + 1))
    if len(found) > MAX_EVENTS or any(_reads_as_answer(text, one.end()) for one in found):
        return True
    if _reads_as_answer(text, _begin(text)):
        return True
    return not _is_json(text) and any(_reads_as_answer(one, _begin(one)) for one in _lines(text))


def _lines(text: str) -> Iterator[str]:
    """Yield what a client that goes line by line could take for JSON: a line, or the data of an event."""
    event: list[str] = []
    for line in (*text.splitlines(), ""):
        yield line
        if line.strip():
            event.append(_FIELD.sub("", line, count=1))
        elif event:
            yield "\n".join(event)
            event = []


def _begin(text: str) -> int:
    """Return where JSON begins that nothing else stands in front of but a field's name; -1 for nowhere."""
    found = _FRONT.match(text)
    return found.end() if found else -1


def _is_json(text: str) -> bool:
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _reads_as_answer(text: str, at: int) -> bool:
    if at < 0:
        return False
    try:
        value, _end = _JSON.raw_decode(text, at)
    except RecursionError:
        return True
    except ValueError:
        return False
    return any(_is_answer(one) for one in (value if type(value) is list else [value]))


def _is_answer(value: Any, *, inside: bool = False) -> bool:
    if not isinstance(value, _Object):
        return False
    for name, one in value:
        key = spelling(name)
        if key in _ANSWERS and isinstance(one, list) and one:
            return True
        if key in _INSIDE and not inside and _is_answer(one, inside=True):
            return True
    return False
