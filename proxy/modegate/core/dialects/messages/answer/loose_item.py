"""One block of a loose stream on its way, and the form in which it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import member, members_in
from modegate.core.dialects.common.frames import OwnFrames, framed, readable_data, with_member
from modegate.core.dialects.common.straight import LooseEvent
from modegate.core.dialects.messages.answer.answer_items import CALL, DELTAS, SHOWN, TEXT, THINKING
from modegate.core.dialects.messages.answer.parsing import block_data, raw_input
from modegate.core.step.answer.calls import canonical
from modegate.core.step.answer.straightener import Ids
from modegate.core.wire.sse import Frame

CALL_DELTA = "input_json_delta"
_BLOCK_OF = {delta: kind for kind in (TEXT, THINKING) for delta in DELTAS[kind]}
_BLOCK_OF[CALL_DELTA] = CALL
"""For a kind of delta: the kind of block that has it."""

_NOTHING = (b"", b"{}", b"null", b'""', b"[]", b"{ }")
"""Arguments in a call's beginning that are none."""


class Event(LooseEvent):
    """An event, as far as it says which block it is of."""

    index: Any = msgspec.UNSET
    content_block: msgspec.Raw = msgspec.Raw(b"")
    delta: msgspec.Raw = msgspec.Raw(b"")


class _Delta(msgspec.Struct):
    type: Any = None
    stop_reason: Any = None
    partial_json: Any = None


class _Start(msgspec.Struct):
    id: Any = None
    name: Any = None
    toolset_name: Any = None
    text: Any = None
    thinking: Any = None
    input: msgspec.Raw = msgspec.Raw(b"")


read_event = msgspec.json.Decoder(Event).decode
read_delta = msgspec.json.Decoder(_Delta).decode
_read_start = msgspec.json.Decoder(_Start).decode
decode = msgspec.json.Decoder().decode


@dataclass(eq=False, slots=True)
class LooseBlock:
    place: int
    """The index that it leaves with."""
    kind: str
    frames: list[Frame] = field(default_factory=list)
    """What has not left."""
    closed: bool = False
    doubt: str = ""
    size: int = 0
    deltas: list[str] = field(default_factory=list)
    """The arguments of a call, as far as they came in pieces."""

    @property
    def shown(self) -> bool:
        """Whether it leaves as it comes."""
        return self.kind in SHOWN

    @property
    def whole(self) -> bool:
        """Whether a call that has no end has all of its arguments."""
        try:
            return isinstance(decode("".join(self.deltas)), dict)
        except (msgspec.MsgspecError, ValueError):
            return False

    def takes(self, delta: str) -> bool:
        """Return whether it can have such a delta; one of an unknown kind could be any block's."""
        if delta == CALL_DELTA:
            return not self.shown
        return _BLOCK_OF.get(delta, self.kind) == self.kind

    def beginnings(self) -> tuple[bytes, ...]:
        """Return how the deltas of a text begin, in the two spellings that servers use."""
        if self.closed or self.kind not in (TEXT, THINKING):
            return ()
        compact = '{"type":"content_block_delta","index":%d,"delta":{"type":"%s_delta",'
        spaced = compact.replace(":", ": ").replace(",", ", ").rstrip()
        return tuple((form % (self.place, self.kind)).encode() for form in (compact, spaced))

    def _start(self, frame: Frame) -> _Start:
        return _read_start(read_event(readable_data(frame)).content_block)

    def _delta(self, delta: dict[str, Any], own: OwnFrames) -> Frame:
        value = {"type": "content_block_delta", "index": self.place, "delta": delta}
        return own.frame(value)

    def split_start(self, frame: Frame, own: OwnFrames) -> tuple[Frame, ...]:
        """Return the beginning of a text as an empty one and a delta: some clients forget what it says."""
        start = self._start(frame)
        text = start.text if self.kind == TEXT else start.thinking
        if self.kind not in (TEXT, THINKING) or not isinstance(text, str) or not text:
            return (frame,)
        data = frame.data or b""
        block = block_data(data)
        begin, end = member(members_in(block), self.kind)
        delta = {"type": f"{self.kind}_delta", self.kind: msgspec.Raw(block[begin:end])}
        empty = with_member(data, b'""', "content_block", self.kind)
        return framed(empty, frame.event), self._delta(delta, own)

    def call_frames(self, ids: Ids, own: OwnFrames) -> list[Frame]:
        """Return a call that has ended: with an id, and with its arguments in deltas alone."""
        first, *rest = self.frames
        data = first.data or b""
        if self.doubt:
            return [framed(data, first.event, self.doubt), *rest]
        start = self._start(first)
        given, streamed = bytes(start.input) not in _NOTHING, "".join(self.deltas)
        if start.name in (None, "") and not start.toolset_name and not (given or streamed):
            # A placeholder, as some servers send before they know whether there will be a call.
            return []
        name = ids.own(start.id, "toolu_")
        if name is not None:
            data = with_member(data, msgspec.json.encode(name), "content_block", "id")
        if given and bytes(start.input).startswith(b"{"):
            text = raw_input(block_data(data))
            if streamed and canonical(streamed) != canonical(text):
                return self.frames
            data = with_member(data, b"{}", "content_block", "input")
            if not streamed:
                rest.insert(0, self._delta({"type": CALL_DELTA, "partial_json": text}, own))
        if data is not first.data:
            first = framed(data, first.event)
        return [first, *rest]
