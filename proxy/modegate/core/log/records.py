"""An event as a store keeps it: in an envelope `{v, type, at, by, data}`, to and from JSON.

The store gives each a `seq`. `at` is milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from modegate.core.ids import Seq
from modegate.core.log.events import TYPES, Event, Unknown

VERSION = 1
"""Raised when an old reader could misread a new event; readers refuse what is newer."""

NAMES: dict[type[Any], str] = {cls: name for name, cls in TYPES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event ready to be appended: when, by whom, what."""

    at: int
    by: str
    """`agent`, `policy`, `gate`, or `person:` and the way it came (`person:cli`, `person:control`)."""
    event: Event


@dataclass(frozen=True, slots=True)
class Record:
    """An event as the log holds it."""

    seq: Seq
    at: int
    by: str
    event: Event


class _Envelope(msgspec.Struct):
    v: int
    type: str
    at: int
    by: str
    data: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def encode(entry: Entry) -> bytes:
    name = NAMES[type(entry.event)]
    return msgspec.json.encode(
        {"v": VERSION, "type": name, "at": entry.at, "by": entry.by, "data": entry.event}
    )


def decode(seq: Seq, envelope: bytes) -> Record:
    """Read a stored envelope; what cannot be understood becomes `Unknown`."""
    try:
        head = _decode_envelope(envelope)
    except msgspec.MsgspecError:
        return Record(seq, 0, "", Unknown("", VERSION + 1))
    event: Event = Unknown(head.type, head.v)
    cls = TYPES.get(head.type)
    if cls is not None and head.v <= VERSION:
        try:
            event = msgspec.json.decode(head.data, type=cls)
        except msgspec.MsgspecError:
            event = Unknown(head.type, VERSION + 1)
    return Record(seq, head.at, head.by, event)


def to_json(record: Record) -> dict[str, Any]:
    """Return the form that people and the control API see: `{seq, type, at, by, data}`."""
    event = record.event
    if isinstance(event, Unknown):
        name, data = event.type, {}
    else:
        name, data = NAMES[type(event)], msgspec.to_builtins(event)
    return {"seq": record.seq, "type": name, "at": record.at, "by": record.by, "data": data}
