"""A streamed answer of the Messages API: frames in, parts out, blocks gathered on the way.

A client counts blocks by their place, so the gate keeps their order: what follows a held call waits for
it. A call is complete at its `content_block_stop`, unless its arguments stop in the middle: then how the
answer ends decides whether that can be, so it is judged there.
"""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.call_members import ambiguity, is_index
from modegate.core.dialects.common.frames import note_doubt, one_part
from modegate.core.dialects.common.strict_json import exactly, reason_in
from modegate.core.dialects.messages.answer import parsing
from modegate.core.dialects.messages.answer.answer_items import (
    CALL,
    DELTAS,
    Block,
    MessageRead,
    MessagesFrame,
)
from modegate.core.dialects.messages.answer.calls import add_input, begin_block, begin_input
from modegate.core.errors import AnswerUnreadable, UpstreamFailed
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.step.answer.straightener import Straight
from modegate.core.step.reasons import Reason
from modegate.core.wire.sse import BLANK, Frame

_CALL_DELTA = "input_json_delta"
_PIECE = frozenset({"type", "partial_json"})
_KNOWN = frozenset().union(*DELTAS.values(), {_CALL_DELTA})


class MessagesStreamReader:
    ordered = True

    def __init__(self, *, strictly: bool) -> None:
        self._later = strictly
        self._named: bool | None = None
        """Whether frames say what they are in `event:` too: some clients read nothing without it."""
        self._read: MessageRead | None = None
        self._open: Block | None = None
        self._index = -1
        """Of the block that came last."""
        self.usage: dict[str, Any] | None = None

    @property
    def choices(self) -> dict[int, MessageRead]:
        return {} if self._read is None else {0: self._read}

    def read(self, frame: Frame) -> list[Part]:
        data = frame.data.strip(BLANK) if frame.data is not None else b""
        if not data:
            return one_part(MessagesFrame(frame.raw), Kind.TAIL)
        plain = parsing.plain_delta(data)
        if plain is not None:
            return self._plain(frame, data, *plain)
        value = parsing.parse_event(data)
        kind = value.get("type")
        if not isinstance(kind, str):
            raise AnswerUnreadable("the upstream sent an event without a type")
        self._check_name(frame, kind)
        own = isinstance(frame, Straight)
        ours = MessagesFrame(frame.raw, data, frame.event, kind, own)
        parts = self._event(ours, value)
        note_doubt(frame, parts)
        return parts

    def _check_name(self, frame: Frame, kind: str) -> None:
        """Hold the name of a frame against its type: clients go by one or by the other."""
        named = bool(frame.event)
        if self._named is None:
            self._named = named
        if named is not self._named or (named and frame.event != kind.encode()):
            raise AnswerUnreadable(
                f"the upstream sent an event of type {kind[:80]!r} under another name"
            )

    def _event(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        match frame.kind:
            case "message_start":
                return self._start(frame, value)
            case "content_block_start":
                return self._block(frame, value)
            case "content_block_delta":
                return self._delta(frame, value)
            case "content_block_stop":
                return self._stop(frame, value)
            case "message_delta":
                return self._finish(frame, value)
            case "message_stop":
                self._begun()
                return one_part(frame, Kind.DONE)
            case "error":
                return self._error(frame, value)
            case _:
                # A ping, or an event that is not known: nothing in it is a call, and no client counts it.
                return one_part(frame, Kind.TAIL)

    def _begun(self) -> MessageRead:
        if self._read is None:
            raise AnswerUnreadable("the upstream's answer does not begin with 'message_start'")
        return self._read

    def _start(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        if self._read is not None:
            raise AnswerUnreadable("the upstream began its answer twice")
        message = value.get("message")
        if not isinstance(message, dict):
            raise AnswerUnreadable("the upstream's 'message' is not an object")
        if parsing.blocks_of(message):
            # Clients that count blocks would take these for others than those that count events do.
            raise AnswerUnreadable("the upstream's 'message_start' has content already")
        self._read = MessageRead()
        self._spend(message.get("usage"))
        return one_part(frame, Kind.LIVE)

    def _spend(self, usage: Any) -> dict[str, Any]:
        if isinstance(usage, dict):
            # Not whatever is told under ever new keys, which a stream without an end could fill memory with.
            counts = {key: usage[key] for key in parsing.TOKENS if type(usage.get(key)) is int}
            self.usage = {**(self.usage or {}), **counts}
        return dict(self.usage or {})

    def _block(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        read = self._begun()
        start = value.get("content_block")
        if not isinstance(start, dict):
            raise AnswerUnreadable("the upstream's 'content_block' is not an object")
        index = value.get("index")
        if read.finish is not None or self._open is not None:
            raise AnswerUnreadable("the upstream began a block while another was open, or too late")
        if not is_index(index) or index <= self._index:
            raise AnswerUnreadable("the upstream sent blocks out of order")
        frame.index = self._index = index
        self._open = block = begin_block(start, read)
        read.blocks.append(block)
        if len(read.calls) > parsing.MAX_CALLS or len(read.blocks) > parsing.MAX_BLOCKS:
            raise AnswerUnreadable("the upstream sent too many blocks")
        begin_input(block, frame.data)
        if block.kind != CALL:
            read.size += len(frame.raw)
            if not read.whole:
                block.start = {}
        return self._blocks_part(frame, block)

    def _opened(self, frame: MessagesFrame, index: Any) -> Block:
        if self._open is None or not is_index(index) or index != self._index:
            raise AnswerUnreadable("the upstream sent a piece of a block that is not open")
        frame.index = index
        return self._open

    def _plain(self, frame: Frame, data: bytes, index: int, kind: str, text: str) -> list[Part]:
        self._check_name(frame, "content_block_delta")
        own = isinstance(frame, Straight)
        ours = MessagesFrame(frame.raw, data, frame.event, "content_block_delta", own)
        block = self._opened(ours, index)
        if block.kind != kind:
            raise AnswerUnreadable(f"the upstream sent {kind} in a block of type {block.kind!r}")
        self._say(block, text, data)
        return one_part(ours, Kind.LIVE)

    def _say(self, block: Block, text: str, data: bytes) -> None:
        self._begun().add_text(block, text)
        if "\ufffd" in text and b"\\ud" in data.lower():
            # Half of a pair of surrogates, which a client joins with the other half in the next piece.
            block.strange = True

    def _delta(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        block = self._opened(frame, value.get("index"))
        delta = value.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or not isinstance(kind, str):
            raise AnswerUnreadable("the upstream's 'delta' is not an object with a type")
        if block.call is None:
            self._shown_delta(block, kind, delta, frame.data)
        elif block.call.ran and kind != _CALL_DELTA:
            pass  # of what the provider ran; it goes with it, or not at all
        elif kind == _CALL_DELTA and isinstance(delta.get("partial_json"), str):
            block.call.odd = block.call.odd or ambiguity(delta, _PIECE)
            add_input(block, exactly(frame.data, value)["delta"]["partial_json"])
        else:
            block.call.odd = Reason.PIECE_OF_TYPE.with_(repr(kind[:80]))
        return self._blocks_part(frame, block)

    def _shown_delta(self, block: Block, kind: str, delta: dict[str, Any], data: bytes) -> None:
        if kind not in DELTAS.get(block.kind, ()) and kind not in _KNOWN:
            # Of a kind that is not known yet: no client runs what stands in such a block.
            block.strange = True
            return
        if kind not in DELTAS.get(block.kind, ()):
            raise AnswerUnreadable(
                f"the upstream sent a piece of type {kind[:80]!r} in a block of type {block.kind!r}"
            )
        if kind == "signature_delta":
            block.sign(_string(delta, "signature"))
        elif kind == "citations_delta":
            self._begun().add_citation(block, delta.get("citation"))
        elif kind == "compaction_delta":
            block.strange = block.strange or set(delta) - {"type", "content"} != set()
            content = delta.get("content")
            self._say(block, content if isinstance(content, str) else "", data)
        else:
            self._say(block, _string(delta, block.kind), data)

    def _stop(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        block = self._opened(frame, value.get("index"))
        self._open = None
        block.closed = True
        (part,) = self._blocks_part(frame, block)
        call = block.call
        if call is not None and call.pending and not call.broken:
            part.ends = (call,)
        return [part]

    def _finish(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        read = self._begun()
        delta = value.get("delta")
        if not isinstance(delta, dict):
            raise AnswerUnreadable("the upstream's 'delta' is not an object")
        frame.usage = self._spend(value.get("usage"))
        frame.reason = reason_in(delta, "stop_reason")
        if frame.reason is None:
            return one_part(frame, Kind.TAIL)
        if read.finish not in (None, frame.reason):
            raise AnswerUnreadable("the upstream gave two reasons for the end of one answer")
        read.finish = frame.reason
        self._open = None
        return one_part(frame, Kind.FINISH)

    def _error(self, frame: MessagesFrame, value: dict[str, Any]) -> list[Part]:
        if self._later:
            # What the client got so far is one answer, and the hop that failed is ours.
            error = value.get("error")
            why = error.get("message") if isinstance(error, dict) else None
            raise UpstreamFailed(f"the upstream broke off its answer: {str(why)[:300]}")
        return one_part(frame, Kind.ERROR)

    def _blocks_part(self, frame: MessagesFrame, block: Block) -> list[Part]:
        if block.call is None:
            return one_part(frame, Kind.LIVE)
        return one_part(frame, Kind.CALL, block.call)


def _string(delta: dict[str, Any], key: str) -> str:
    value = delta.get(key)
    if not isinstance(value, str):
        raise AnswerUnreadable(f"the upstream's {key!r} is not a string")
    return value
