"""Frames of our own in the place of those of a loose server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.step.answer.straightener import Straight
from modegate.core.wire.json_spans import Edit, apply, members
from modegate.core.wire.sse import Frame, write_event
from modegate.core.wire.surrogates import without_lone_surrogates
from modegate.core.wire.weight import ANSWER_VALUES, is_dense


def framed(data: bytes, event: bytes, doubt: str = "") -> Straight:
    return Straight(write_event(data, event), data, event, doubt=doubt)


class OwnFrames:
    """Frames of our own, which look as those of the stream do."""

    def __init__(self) -> None:
        self.named: bool | None = None
        """Whether its frames have names; None as long as none has come."""
        self._numbered = False

    def note(self, *, named: bool, numbered: bool = False) -> None:
        self.named = named if self.named is None else self.named
        self._numbered = self._numbered or numbered

    def frame(self, value: dict[str, Any], doubt: str = "") -> Straight:
        """Return an event; whoever writes it gives it its number."""
        number = {"sequence_number": 0} if self._numbered else {}
        data = msgspec.json.encode({"type": value["type"], **number, **value})
        return framed(data, b"" if self.named is False else str(value["type"]).encode(), doubt)


def one_part(frame: Any, kind: Kind, *calls: Gathered) -> list[Part]:
    return [Part(frame, kind, calls=calls, size=len(frame.raw))]


def note_doubt(frame: Frame, parts: Sequence[Part]) -> None:
    """Make the calls of a frame odd whose straightener could not tell what they are."""
    if isinstance(frame, Straight) and frame.doubt:
        for call in parts[0].calls:
            call.odd = call.odd or frame.doubt


def with_member(data: bytes, value: bytes, *keys: str) -> bytes:
    """Return an object in which the member under a path of keys has this value, be it there or not."""
    text = without_lone_surrogates(data)
    found, span = members(text), None
    for key in keys[:-1]:
        span = next(member.value for member in found if member.key == key)
        found = members(text, span)
    spans = [member.value for member in found if member.key == keys[-1]]
    if spans:
        return apply(data, [Edit(*one, value) for one in spans])
    at = (span.start if span else data.index(b"{")) + 1
    comma = b"," if found else b""
    return apply(data, [Edit(at, at, b'"%b":%b%b' % (keys[-1].encode(), value, comma))])


def readable_data(frame: Frame) -> bytes:
    """Return a frame's data without halves of characters; raises `ValueError` if it has too many values."""
    data = frame.data or b""
    if is_dense(data, ANSWER_VALUES):
        raise ValueError("too many values")
    return without_lone_surrogates(data)
