"""One item of a loose stream on its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.common.frames import with_member
from modegate.core.dialects.common.straight import LooseEvent
from modegate.core.dialects.responses.answer.call_consistency import ARGUMENT_EVENTS
from modegate.core.dialects.responses.answer.calls import CALLS, call_of, same_arguments
from modegate.core.dialects.responses.answer.parsing import INERT
from modegate.core.wire.arguments import paired, parse_arguments
from modegate.core.wire.sse import Frame
from modegate.core.wire.surrogates import without_lone_surrogates

TEXT_BEGINNINGS = tuple(
    b'{"type":%b"response.%b.delta",' % (blank, kind)
    for blank in (b"", b" ")
    for kind in (b"output_text", b"reasoning_summary_text", b"reasoning_text")
)
"""How the deltas of text begin, in the two spellings that servers use."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode


class Event(LooseEvent):
    """An event, as far as it says which item it is of."""

    output_index: Any = msgspec.UNSET
    item_id: Any = None
    sequence_number: Any = msgspec.UNSET
    item: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")
    delta: Any = None
    arguments: Any = None
    input: Any = None

    @property
    def whole_arguments(self) -> Any:
        """The arguments that it says whole."""
        return self.arguments if self.arguments is not None else self.input


class Head(msgspec.Struct):
    """What tells one item from others."""

    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    status: Any = None

    @property
    def ids(self) -> tuple[Any, Any]:
        return self.id, self.call_id

    def same_item(self, other: Head) -> bool:
        """Return whether two heads are of one item."""
        if self.type != other.type:
            return False
        return bool(self.id == other.id) if self.id else self == other

    def other_item(self, other: Head) -> bool:
        """Return whether two heads are surely of two items."""
        return bool(self.id and other.id and self.id != other.id and self.call_id != other.call_id)


class _Response(msgspec.Struct):
    status: Any = None
    output: list[msgspec.Raw] | None = None


read_response = msgspec.json.Decoder(_Response).decode
read_event = msgspec.json.Decoder(Event).decode
_read_head = msgspec.json.Decoder(Head).decode


def read_head(item: bytes | msgspec.Raw) -> Head | None:
    """Read an item's head; None where it is none that could be known again."""
    head = _read_head(without_lone_surrogates(bytes(item))) if bytes(item) else Head()
    return head if isinstance(head.type, str) and isinstance(head.id, str | None) else None


def decoded(item: bytes) -> Any:
    return _decode(without_lone_surrogates(item))


@dataclass(eq=False, slots=True)
class LooseItem:
    place: int
    """The index that it leaves with."""
    head: Head
    frames: list[Frame] = field(default_factory=list)
    """What has not left."""
    announced: bytes = b""
    """As it was announced."""
    item: bytes = b""
    """As it came at its end."""
    final: bytes = b""
    """As it left."""
    deltas: list[str] = field(default_factory=list)
    """The arguments of a call, as far as they came in pieces."""
    whole_arguments: str | None = None
    """They, where they came whole."""
    added: bool = False
    ended: bool = False
    over: bool = False
    """It has no end, but another item has come in its place."""
    left: bool = False
    """What comes of it leaves at once."""
    loose: bool = False
    """It lacks something that some client goes by."""
    dropped: bool = False
    listed: Head | None = None
    """As the end of the answer repeats it."""
    doubt: str = ""
    size: int = 0
    _read: tuple[bytes, str] = (b"", "")
    """The item as it was read last, and its arguments."""

    @property
    def is_call(self) -> bool:
        """Whether it waits for its end: all but text does."""
        return self.head.type not in INERT

    @property
    def is_open(self) -> bool:
        """Whether something of it may still come."""
        return not (self.ended or self.over)

    @property
    def changed(self) -> bool:
        """Whether the end of the answer must say something else of it than it came with."""
        if self.dropped or self.final != self.item:
            return True
        told = read_head(self.final) if self.final else None
        return told is not None and self.listed is not None and told.ids != self.listed.ids

    @property
    def call_ids(self) -> list[Any]:
        """Every id under which it is answered, as far as it was said."""
        ended = read_head(self.item) if self.item else None
        return [self.head.call_id, *([ended.call_id] if ended else ())]

    @property
    def arguments(self) -> str:
        """The arguments, as far as they have come."""
        if self.item:
            if self._read[0] is not self.item:
                self._read = self.item, str(decoded(self.item).get(self._key) or "")
            return self._read[1]
        whole = self.whole_arguments
        return whole if whole is not None else paired("".join(self.deltas))

    @property
    def _key(self) -> str:
        return ARGUMENT_EVENTS.get(self.head.type, ("", "arguments"))[1]

    def repeats(self, head: Head, item: bytes) -> bool:
        """Return whether an item of the end could be this call under other ids."""
        if (head.type, head.name) != (self.head.type, self.head.name):
            return False
        call = call_of(decoded(item))
        return call is not None and same_arguments(call, call.arguments, self.arguments)

    def close(self) -> None:
        """End a call of which all has come but the end."""
        if self.head.type not in CALLS or not self.announced:
            return
        if self.whole_arguments is not None or parse_arguments(self.arguments) is not None:
            item = with_member(self.announced, _encode(self.arguments), self._key)
            self.item = with_member(item, b'"completed"', "status")
            self.ended = self.loose = True
