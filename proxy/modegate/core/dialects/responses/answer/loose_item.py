"""One item of a loose stream on its way, and the form in which it leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.common.strict_json import exactly
from modegate.core.dialects.responses.answer.call_consistency import PIECES, Forms
from modegate.core.dialects.responses.answer.items import CALLS, call_of, same_arguments
from modegate.core.dialects.responses.answer.parsing import (
    ADDED,
    CLIENT_RUNS,
    DONE,
    INERT,
    parse_event,
)
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.straightener import Ids, Straight, framed, with_member
from modegate.core.wire.arguments import paired, parse_arguments
from modegate.core.wire.json_spans import without_lone_surrogates
from modegate.core.wire.sse import Frame

_encode = msgspec.json.encode
_read_any = msgspec.json.Decoder().decode


class Head(msgspec.Struct):
    """What tells one item from others."""

    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    status: Any = None


_read_head = msgspec.json.Decoder(Head).decode


def read_head(item: bytes | msgspec.Raw) -> Head | None:
    """Read an item's head; None where it is none that could be known again."""
    head = _read_head(without_lone_surrogates(bytes(item))) if bytes(item) else Head()
    return head if isinstance(head.type, str) and isinstance(head.id, str | None) else None


def ids_of(head: Head | None) -> tuple[Any, ...]:
    """Return the ids under which an item goes."""
    return (head.id, head.call_id) if head is not None else ()


def same(one: Head, other: Head) -> bool:
    """Return whether two heads are of one item."""
    return one.type == other.type and (one.id == other.id if one.id else one == other)


class Written:
    """Frames of our own, which look as those of the stream do."""

    def __init__(self) -> None:
        """Begin a stream."""
        self._named: bool | None = None
        self._numbered = False

    def note(self, *, named: bool, numbered: bool) -> None:
        """Take how an event of the stream looks."""
        self._named = named if self._named is None else self._named
        self._numbered = self._numbered or numbered

    def frame(self, value: dict[str, Any], doubt: str = "") -> Straight:
        """Return an event; whoever writes it gives it its number."""
        kind = value["type"]
        number = {"sequence_number": 0} if self._numbered else {}
        data = _encode({"type": kind, **number, **value})
        return framed(data, b"" if self._named is False else str(kind).encode(), doubt)


@dataclass(eq=False, slots=True)
class Run:
    """One item."""

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
    pieces: list[str] = field(default_factory=list)
    said: str | None = None
    """Its arguments, where they came whole."""
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
    def call(self) -> bool:
        """Whether it waits for its end: all but text does."""
        return self.head.type not in INERT

    @property
    def changed(self) -> bool:
        """Whether the end of the answer must say something else of it than it came with."""
        if self.dropped or self.final != self.item:
            return True
        told = read_head(self.final) if self.listed and self.final else None
        return bool(told and self.listed) and ids_of(told) != ids_of(self.listed)

    @property
    def call_ids(self) -> list[Any]:
        """Every id under which it is answered, as far as its forms say."""
        ended = read_head(self.item) if self.item else None
        return [self.head.call_id, *([ended.call_id] if ended else ())]

    @property
    def arguments(self) -> str:
        """The arguments, as far as they have come."""
        if self.item:
            if self._read[0] is not self.item:
                value = _read_any(without_lone_surrogates(self.item))
                self._read = self.item, str(value.get(self._key) or "")
            return self._read[1]
        return self.said if self.said is not None else paired("".join(self.pieces))

    @property
    def whole(self) -> bool:
        """Whether its arguments are all there."""
        return parse_arguments(self.arguments) is not None

    @property
    def _key(self) -> str:
        return PIECES.get(self.head.type, ("", "arguments"))[1]

    def repeats(self, head: Head, item: bytes) -> bool:
        """Return whether an item of the end could be this call under other ids."""
        if (head.type, head.name) != (self.head.type, self.head.name):
            return False
        call = call_of(_read_any(without_lone_surrogates(item)))
        return call is not None and same_arguments(call, call.arguments, self.arguments)

    def close(self) -> None:
        """End a call of which all has come but the end."""
        if self.head.type in CALLS and self.announced and (self.said is not None or self.whole):
            item = with_member(self.announced, _encode(self.arguments), self._key)
            self.item = with_member(item, b'"completed"', "status")
            self.ended = self.loose = True

    def written(self, written: Written, ids: Ids) -> list[Frame]:
        """Return a call that has ended: as it came, or in the one form that every client reads alike."""
        self.final = self.item
        if not self.item:
            return self.frames
        head = read_head(self.item) or Head()
        if head.type in CALLS and not head.name and not self.arguments and not self.doubt:
            # A placeholder, as some servers send before they know whether there will be a call.
            self.dropped = True
            return []
        if head.type not in CLIENT_RUNS and not self.doubt:
            return self.frames
        given, own = self._call_id(head), None
        if head.type in CALLS:
            own = ids.own(given, "call_") or (given if given != head.call_id else None)
        some = head.type in PIECES and bool(self.arguments)
        bare_ = some and (not self.pieces or self.said is None)
        if not (own or bare_ or self.loose or self.doubt):
            return self.frames
        doubt = self.doubt or self._odd()
        if doubt or head.type not in PIECES:
            return self._doubted(written, doubt) if doubt else self._two(written)
        self._name(head, own)
        return self._pieces(written)

    def _call_id(self, head: Head) -> Any:
        """Return the id under which it is answered; some servers tell of it at one of its ends alone."""
        begun = read_head(self.announced) if self.announced else None
        return head.call_id if head.call_id or begun is None else begun.call_id

    def _odd(self) -> str:
        """Say why the forms in which it came are not one call; empty if they are."""
        try:
            return self._disagree()
        except AnswerUnreadable as error:
            return str(error)

    def _disagree(self) -> str:
        first = exactly_in(self.announced or self.item)
        last = exactly_in(self.item)
        if first.get("call_id") in (None, "", first.get("id")) or not last.get("call_id"):
            first["call_id"] = last["call_id"] = self._call_id(self.head) or "none"
        call = call_of(first)
        if call is None:
            return ""
        begun = first.get("status") == "in_progress" and call.type not in CALLS
        begun = begun or not self.announced
        forms = Forms(call, "" if begun else call.arguments)
        for frame in self.frames:
            # What is written anew must not hide what would be refused as it came.
            value = parse_event(frame.data or b"")
            if value["type"] not in (ADDED, DONE):
                forms.add(value["type"], exactly(frame.data or b"", value))
        forms.end(last, last)
        return call.odd

    def _name(self, head: Head, own: Any) -> None:
        """Give it an id where it has none, and a call_id that is its own."""
        if not head.id:
            name = self.head.id or f"fc_{own or head.call_id}"
            self.final = with_member(self.final, _encode(name), "id")
        if own is not None:
            self.final = with_member(self.final, _encode(own), "call_id")
        if head.status == "in_progress":
            self.final = with_member(self.final, b'"completed"', "status")

    def _doubted(self, written: Written, doubt: str) -> list[Frame]:
        value = {"type": DONE, "output_index": self.place, "item": msgspec.Raw(self.item)}
        return [written.frame(value, doubt)]

    def _two(self, written: Written) -> list[Frame]:
        """Return an item that is announced and ends."""
        at = {"output_index": self.place, "item": msgspec.Raw(self.item)}
        return [written.frame({"type": kind, **at}) for kind in (ADDED, DONE)]

    def _pieces(self, written: Written) -> list[Frame]:
        """Return a call with its arguments in one piece."""
        begins, key = PIECES[self.head.type]
        value = exactly_in(self.final)
        text = str(value.get(key) or "")
        begun = with_member(self.final, b'""', key)
        begun = with_member(begun, b'"in_progress"', "status") if value.get("status") else begun
        raw = msgspec.Raw(_quoted(text))
        at = {"item_id": value.get("id"), "output_index": self.place}
        item = {"output_index": self.place, "item": msgspec.Raw(self.final)}
        piece = [{"type": f"{begins}.delta", **at, "delta": raw}] if text else []
        return [
            written.frame(one)
            for one in (
                {"type": ADDED, "output_index": self.place, "item": msgspec.Raw(begun)},
                *piece,
                {"type": f"{begins}.done", **at, key: raw},
                {"type": DONE, **item},
            )
        ]

    def announcement(self, written: Written) -> list[Straight]:
        """Return what a message begins with, for one of which only the text came."""
        self.added = True
        part = {"type": "output_text", "text": "", "annotations": []}
        item = {"type": "message", "id": self.head.id, "role": "assistant", "status": "in_progress"}
        at = {"item_id": self.head.id, "output_index": self.place, "content_index": 0}
        return [
            written.frame(
                {"type": ADDED, "output_index": self.place, "item": {**item, "content": []}}
            ),
            written.frame({"type": "response.content_part.added", **at, "part": part}),
        ]

    def told(self, written: Written) -> list[Frame]:
        """Return what is missing of an item of text that only the end of the answer has whole."""
        self.final = self.item
        end = {"type": DONE, "output_index": self.place, "item": msgspec.Raw(self.item)}
        if self.added:
            return [written.frame(end)]
        item = _read_any(without_lone_surrogates(self.item))
        key = "content" if self.head.type == "message" else "summary"
        begun = with_member(self.item, b"[]", key) if item.get(key) else self.item
        out = [{"type": ADDED, "output_index": self.place, "item": msgspec.Raw(begun)}]
        if self.head.type == "message":
            for number, part in enumerate(item.get("content") or ()):
                out += self._part(number, part)
        return [written.frame(one) for one in (*out, end)]

    def _part(self, number: int, part: Any) -> list[dict[str, Any]]:
        key = "refusal" if isinstance(part, dict) and part.get("type") == "refusal" else "text"
        if not isinstance(part, dict) or not isinstance(part.get(key), str):
            return []
        at = {"item_id": self.head.id or "", "output_index": self.place, "content_index": number}
        name = "response.refusal" if key == "refusal" else "response.output_text"
        logs: dict[str, Any] = {"logprobs": []} if key == "text" else {}
        return [
            {"type": "response.content_part.added", **at, "part": {**part, key: ""}},
            {"type": f"{name}.delta", **at, "delta": part[key], **logs},
            {"type": f"{name}.done", **at, key: part[key], **logs},
            {"type": "response.content_part.done", **at, "part": part},
        ]


def exactly_in(data: bytes) -> dict[str, Any]:
    """Return an object with halves of characters as they are."""
    return exactly(data, _read_any(without_lone_surrogates(data)))


def _quoted(text: str) -> bytes:
    """Return a JSON string; one that holds halves of characters with them as escapes."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()
