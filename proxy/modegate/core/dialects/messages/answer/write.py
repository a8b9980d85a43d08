"""One continuous streamed message out of the parts of one hop or more.

Blocks have the places in which the client counts them: from the first that was left out, or that belongs
to a later hop, they are numbered anew. Until then each frame leaves as the bytes that came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import member
from modegate.core.dialects.messages.answer.answer_items import MessagesFrame
from modegate.core.dialects.messages.answer.parsing import CALL_STOPS, INPUT_TOKENS, output_tokens
from modegate.core.dialects.messages.api import API
from modegate.core.errors import ModegateError, UpstreamFailed, error_json
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.wire.json_spans import Edit, Span, apply, members
from modegate.core.wire.sse import FrameWriter
from modegate.core.wire.surrogates import without_lone_surrogates

_encode = msgspec.json.encode

PING = {"type": "ping"}


class MessagesStreamWriter:
    def __init__(self) -> None:
        self._later = False
        self._spent = 0
        self._next = 0
        """The place of the block that comes next."""
        self._open = False
        """The client has the beginning of the block before that, and not its end."""
        self._over = False
        self._out = FrameWriter()

    def seen(self, part: Part) -> None:
        self._out.seen(part.frame.raw)

    def write(self, parts: Sequence[Part]) -> bytes:
        return b"".join(self._frame(part.frame, part) for part in parts)

    def _frame(self, frame: MessagesFrame, part: Part) -> bytes:
        self._over = self._over or part.kind in (Kind.DONE, Kind.ERROR)
        match frame.kind:
            case "message_start" if self._later:
                return b""
            case "content_block_start":
                closing = self._close()
                self._next, self._open = self._next + 1, True
                return closing + self._numbered(frame)
            case "content_block_delta":
                return self._numbered(frame)
            case "content_block_stop":
                self._open = False
                return self._numbered(frame)
            case "message_delta":
                edits = self._finish_edits(frame, stop=part.kind is Kind.FINISH and part.stop)
                return self._edited(frame, edits)
            case _:
                return self._edited(frame, [])

    def _numbered(self, frame: MessagesFrame) -> bytes:
        place = self._next - 1
        if frame.index == place:
            return self._edited(frame, [])
        top = members(without_lone_surrogates(frame.data))
        return self._edited(frame, [Edit(*member(top, "index"), b"%d" % place)])

    def _finish_edits(self, frame: MessagesFrame, *, stop: bool) -> list[Edit]:
        if not (stop or self._later):
            return []
        data = without_lone_surrogates(frame.data)
        top = members(data)
        edits: list[Edit] = []
        if stop and frame.reason in CALL_STOPS:
            delta = members(data, member(top, "delta"))
            edits.append(Edit(*member(delta, "stop_reason"), b'"end_turn"'))
        if self._later and any(one.key == "usage" for one in top):
            edits += self._usage_edits(frame, data, member(top, "usage"))
        return edits

    def _usage_edits(self, frame: MessagesFrame, data: bytes, span: Span) -> list[Edit]:
        """Count in what earlier hops wrote; what this hop read is told here, as the answer has begun."""
        if data[span.start : span.start + 1] != b"{":
            return []
        found = members(data, span)
        told = {one.key for one in found}
        edits = [
            Edit(*one.value, b"%d" % (self._spent + output_tokens(frame.usage)))
            for one in found
            if one.key == "output_tokens"
        ]
        for key in INPUT_TOKENS:
            count = frame.usage.get(key)
            if key not in told and type(count) is int and found:
                new = b'"%b":%d,' % (key.encode(), count)
                edits.append(Edit(span.start + 1, span.start + 1, new))
        return edits

    def next_hop(self, usage: Mapping[str, Any] | None) -> None:
        self._later = True
        self._spent += output_tokens(usage or {})

    def text(self, choice: int, text: str) -> bytes:
        closing, place = self._close(), self._next
        self._next += 1
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        events = (
            {"type": "content_block_start", "index": place, "content_block": begun},
            {"type": "content_block_delta", "index": place, "delta": delta},
            {"type": "content_block_stop", "index": place},
        )
        return closing + b"".join(map(self._event, events))

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open = False
        return self._event({"type": "content_block_stop", "index": self._next - 1})

    def finish(self, choice: int) -> bytes:
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        usage = {"output_tokens": self._spent}
        closing = self._close()
        return closing + self._event({"type": "message_delta", "delta": delta, "usage": usage})

    def keepalive(self) -> bytes:
        """Return a ping, which may stand anywhere: SDKs leave it out before they look at events."""
        return b"" if self._over else self._event(PING)

    def done(self) -> bytes:
        closing = self._close()
        self._over = True
        return closing + self._event({"type": "message_stop"})

    def stopped(self) -> bytes:
        """Return an error: clients would wait for the end of the message."""
        return self.error(UpstreamFailed("the upstream stopped before its answer was complete"))

    def error(self, error: ModegateError) -> bytes:
        self._over = True
        return self._out.own(error_json(error, API.error), b"error")

    def _event(self, value: dict[str, Any]) -> bytes:
        return self._out.own(_encode(value), str(value["type"]).encode())

    def _edited(self, frame: MessagesFrame, edits: list[Edit]) -> bytes:
        if not edits and not frame.own:
            return self._out.passed(frame.raw)
        return self._out.own(apply(frame.data, edits), frame.event)
