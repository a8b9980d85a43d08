"""A request's body as spans: what every dialect's request is read from.

Whatever a client and a server could read in two ways is refused here: a key that decides about tools and
stands there twice, or in another spelling.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ClassVar, TypeVar

import msgspec

from modegate.core.dialects.common.tools import Declared, read_declared, spelling
from modegate.core.errors import BadRequest
from modegate.core.wire.json_spans import Edit, Member, Span, elements, members, quote
from modegate.core.wire.request_body import RequestBody
from modegate.core.wire.weight import TOO_DENSE

MAX_TOOLS = 4_096
"""Tools that one request declares, in all its lists; agents with many MCP servers have some hundreds."""

MAX_ITEMS = 100_000
"""Messages, items or definitions in one list; long sessions have some thousands."""

_SLICE = 2**20

T = TypeVar("T")


class Body:
    """One request's JSON object; offsets are into `body`."""

    GATED: ClassVar[frozenset[str]]
    """Top-level keys that the gate reads. Some servers match keys without regard to case or underscores,
    so a look-alike is refused instead of forwarded."""

    TOOLS: ClassVar[frozenset[str]]
    """Those of them that decide what the model may call."""

    messages: list[Span]
    """The items of the history that it holds."""

    def __init__(self, body: RequestBody) -> None:
        """Find the parts; raises `BadRequest` if it is no object, or holds a gated key twice or misspelt."""
        self.body = body.decoded
        self._tools = 0
        self._roles: dict[int, str] = {}
        """By where a message begins; finding one means to pass over all of the message."""
        if body.dense:
            raise BadRequest(TOO_DENSE)
        try:
            self.readable = body.readable
            """What decoders get: `body`, with everything at the same place."""
            # A lenient decoder could see a quote in a byte sequence that is not UTF-8.
            _check_utf8(self.body)
            self.members = body.members
            self.top = self._top()
            self.read()
        except ValueError as error:
            raise BadRequest(f"the request body is not a JSON object: {error}") from error

    def read(self) -> None:
        """Read what the dialect needs; raises `BadRequest` for a wrong type, `ValueError` for no JSON."""

    def _top(self) -> dict[str, Span]:
        spellings = _spellings(self.GATED)
        top: dict[str, Span] = {}
        for member in self.members:
            exact = member.key in self.GATED
            if not exact and (meant := spellings.get(spelling(member.key))) is not None:
                raise BadRequest(
                    f"the key {member.key!r} is not one of this API's; did you mean {meant!r}?"
                )
            if exact and member.key in top:
                raise BadRequest(f"the key {member.key!r} stands twice in the request")
            top[member.key] = member.value
        return top

    def objects(self, key: str, *, required: bool = False) -> list[Span]:
        """Return a top-level list of objects, empty if absent or null; raises `BadRequest` if it is else."""
        span = self.top.get(key)
        if span is None or self.text(span) == b"null":
            if required:
                raise BadRequest(f"{key!r} is missing")
            return []
        return self.objects_in(span, key)

    def objects_in(self, span: Span, key: str) -> list[Span]:
        """Return a list of objects under this key; raises `BadRequest` if it is else, or over `MAX_ITEMS`."""
        try:
            found = elements(self.readable, span)
        except ValueError as error:
            raise BadRequest(f"{key!r} is not a list") from error
        if len(found) > MAX_ITEMS:
            raise BadRequest(f"{key!r} holds over {MAX_ITEMS} items")
        if any(self.body[item.start : item.start + 1] != b"{" for item in found):
            raise BadRequest(f"{key!r} holds something that is not an object")
        return found

    def declarations(self, spans: Iterable[Span]) -> list[Declared]:
        """Read definitions; raises `BadRequest` for over `MAX_TOOLS`, `ValueError` if one is no object."""
        return [read_declared(self.readable, span) for span in self.counted(spans)]

    def counted(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield definitions; raises `BadRequest` once those of all lists are over `MAX_TOOLS`."""
        for span in spans:
            self._tools += 1
            if self._tools > MAX_TOOLS:
                raise BadRequest(f"the request declares over {MAX_TOOLS} tools")
            yield span

    def text(self, span: Span) -> bytes:
        return self.body[span.start : span.end]

    def decode(self, span: Span) -> Any:
        """Decode a value; raises `BadRequest` if it is not valid JSON, as broken UTF-8 is not."""
        try:
            return _decode(self.readable[span.start : span.end])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadRequest(f"the request body is not valid JSON: {error}") from error

    def value(self, key: str) -> Any:
        """Decode one top-level value; None if it is absent."""
        span = self.top.get(key)
        return None if span is None else self.decode(span)

    def set_member(self, key: str, value: bytes) -> Edit:
        """Return the edit that gives a top-level member a value, be it there or not."""
        if (span := self.top.get(key)) is not None:
            return Edit(*span, value)
        at = self.members[0].start if self.members else self.body.index(b"{") + 1
        return Edit(at, at, quote(key) + b":" + value + (b"," if self.members else b""))

    def members_of(self, span: Span) -> list[Member]:
        """Return the members of an object; raises `BadRequest` where it is none."""
        return _scanned(members, self.readable, span)

    def elements_of(self, span: Span) -> list[Span]:
        """Return the elements of a list; raises `BadRequest` where it is none."""
        return _scanned(elements, self.readable, span)

    def member_of(self, span: Span, key: str) -> Span | None:
        """Return the one member of this key. Raises `BadRequest` if it stands there twice."""
        found = [member.value for member in self.members_of(span) if member.key == key]
        if len(found) > 1:
            raise BadRequest(f"the key {key!r} stands twice in one object")
        return found[0] if found else None

    def role(self, span: Span) -> str:
        """Return a message's role; empty if it has none."""
        known = self._roles.get(span.start)
        if known is None:
            try:
                known = _decode_role(self.readable[span.start : span.end]).role
            except msgspec.MsgspecError:
                known = ""
            self._roles[span.start] = known
        return known


def _scanned(scan: Callable[[bytes, Span], list[T]], text: bytes, span: Span) -> list[T]:
    try:
        return scan(text, span)
    except ValueError as error:
        raise BadRequest(f"the request holds something unreadable: {error}") from error


@cache
def _spellings(keys: frozenset[str]) -> dict[str, str]:
    return {spelling(key): key for key in keys}


def _check_utf8(body: bytes) -> None:
    """Read the text once, slice by slice. Raises `ValueError` if it is not UTF-8."""
    decode = getincrementaldecoder("utf-8")().decode
    for at in range(0, len(body), _SLICE):
        decode(body[at : at + _SLICE])
    decode(b"", final=True)


class _Role(msgspec.Struct):
    role: str = ""


_decode_role = msgspec.json.Decoder(_Role).decode
_decode = msgspec.json.Decoder().decode
