"""One continuous chat completions answer out of the parts of one hop or more.

Parts that leave together leave as the bytes that came. Where only some parts of a frame may go, the
rest is cut out of its JSON; in hops after the first, id, `created` and `role` are those of one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.answer.calls import ChatFrame
from modegate.core.dialects.chat.answer.sent_calls import SentCalls
from modegate.core.dialects.chat.api import API
from modegate.core.dialects.common.answer_json import member
from modegate.core.errors import ModegateError, UpstreamFailed, error_json
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.wire.json_spans import (
    Edit,
    Member,
    Span,
    apply,
    elements,
    members,
    quote,
    without,
    without_members,
)
from modegate.core.wire.sse import DONE, FrameWriter
from modegate.core.wire.surrogates import without_lone_surrogates

HEAD_KEYS = ("id", "object", "created", "model", "system_fingerprint")


class ChatStreamWriter:
    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._hop = 0
        self._spent: list[Mapping[str, Any]] = []
        self._roles: set[int] = set()
        self._texts: set[int] = set()
        self._shown: set[int] = set()
        """Choices of which the client has anything."""
        self._finished: set[int] = set()
        """Choices of which the client has the finish."""
        self._over = False
        self._break_before: set[int] = set()
        self._calls = SentCalls()
        self._out = FrameWriter()

    def seen(self, part: Part) -> None:
        # A first chunk without choices (Azure's filter results) has empty places instead of an id.
        if not self._head and part.frame.value.get("choices"):
            self._head = {k: part.frame.value[k] for k in HEAD_KEYS if k in part.frame.value}
        self._out.seen(part.frame.raw)
        for one in part.frame.parts:
            for call in one.calls:
                self._calls.seen(call)

    def write(self, parts: Sequence[Part]) -> bytes:
        out: list[bytes] = []
        for frame, group in groupby(parts, key=lambda part: part.frame):
            mine = list(group)
            out.append(self._frame(frame, mine))
            if len(mine) == len(frame.parts):
                # All of it has gone: without the way back from its parts it is freed at once.
                frame.parts = []
        return b"".join(out)

    def next_hop(self, usage: Mapping[str, Any] | None) -> None:
        self._hop += 1
        if usage is not None:
            self._spent.append(usage)
        self._break_before = set(self._texts)
        self._calls.next_hop()

    def text(self, choice: int, text: str) -> bytes:
        delta: dict[str, Any] = {} if choice in self._roles else {"role": "assistant"}
        self._roles.add(choice)
        lead = "\n\n" if choice in self._texts else ""
        self._texts.add(choice)
        return self._chunk(choice, {**delta, "content": lead + text}, None)

    def finish(self, choice: int) -> bytes:
        self._finished.add(choice)
        return self._chunk(choice, {}, "stop")

    def keepalive(self) -> bytes:
        """Return a chunk of this answer that says nothing, or a comment where none can be."""
        if self._over:
            return b""
        if not self._head or self._finished:
            return self._out.comment("waiting")
        return self._chunk(min(self._shown, default=0), {}, None)

    def done(self) -> bytes:
        self._over = True
        return self._out.own(DONE)

    def stopped(self) -> bytes:
        """Return an error: SDKs take a stream without `[DONE]` for a whole answer."""
        return self.error(UpstreamFailed("the upstream stopped before its answer was complete"))

    def error(self, error: ModegateError) -> bytes:
        self._over = True
        return self._out.own(error_json(error, API.error))

    def _chunk(self, choice: int, delta: dict[str, Any], finish: str | None) -> bytes:
        head = {"id": "chatcmpl-modegate", "object": "chat.completion.chunk", **self._head}
        choices = [{"index": choice, "delta": delta, "finish_reason": finish}]
        return self._out.own(msgspec.json.encode({**head, "choices": choices}))

    def _frame(self, frame: ChatFrame, parts: list[Part]) -> bytes:
        for part in parts:
            self._over = self._over or part.kind in (Kind.DONE, Kind.ERROR)
            if part.kind is Kind.FINISH:
                self._finished.add(part.choice)
        if not frame.data:
            return self._out.passed(frame.raw) or self._out.own(DONE)
        whole = len(parts) == len(frame.parts) and not frame.left_out
        calls = [call for part in parts for call in part.calls]
        whole = whole and all(map(self._calls.goes_as_it_came, calls))
        edits: list[Edit] = []
        changed = self._hop or any(part.kind is Kind.ERROR for part in parts) or _tells(parts)
        if changed or not whole:
            if not (frame.value.get("usage") or self._shows(parts)):
                return b""
            edits = self._edits(frame, parts)
        self._note(frame)
        if not edits:
            return self._out.passed(frame.raw)
        return self._out.own(apply(frame.data, edits))

    def _shows(self, parts: list[Part]) -> bool:
        """Return whether something is left of parts, once each call that goes in one piece has gone."""
        return any(part.kind is not Kind.CALL for part in parts) or any(
            self._calls.is_due(call) for part in parts for call in part.calls
        )

    def _note(self, frame: ChatFrame) -> None:
        for index, choice in frame.choices:
            self._shown.add(index)
            body = parsing.body_of(choice)
            if "role" in body:
                self._roles.add(index)
            if body.get("content"):
                self._texts.add(index)
                self._break_before.discard(index)

    def _edits(self, frame: ChatFrame, parts: list[Part]) -> list[Edit]:
        data = without_lone_surrogates(frame.data)
        top = members(data)
        # Clients add usage up, so it goes once: with the finish.
        later = any(part.kind is Kind.FINISH for part in frame.parts if part not in parts)
        edits = without_members(top, {"usage"}) if later else self._usage_edits(frame, data, top)
        edits += self._head_edits(frame, top)
        spans = [m.value for m in top if m.key == "choices"]
        if not spans or not frame.choices:
            return edits
        places = elements(data, spans[0])
        gone: set[int] = set()
        for position, (index, choice) in enumerate(frame.choices):
            mine = [part for part in parts if part.choice == index or part.kind is Kind.ERROR]
            if not mine:
                gone.add(position)
                continue
            if index in frame.again and not any(part.calls for part in mine):
                # SDKs read deltas alone, and mind one that is not there.
                found = members(data, places[position])
                snapshot = next(m for m in found if m.key == "message")
                edits.append(Edit(snapshot.start, snapshot.value.end, b'"delta":{}'))
                choice = {key: value for key, value in choice.items() if key != "message"}
            edits += self._choice_edits(data, places[position], choice, mine)
        return edits + without(places, gone)

    def _head_edits(self, frame: ChatFrame, top: list[Member]) -> list[Edit]:
        keys = ("id", "created") if self._hop else ()
        wanted: dict[str, Any] = {key: self._head[key] for key in keys if key in self._head}
        if frame.again:
            wanted["object"] = "chat.completion.chunk"
        return [Edit(*m.value, msgspec.json.encode(wanted[m.key])) for m in top if m.key in wanted]

    def _usage_edits(self, frame: ChatFrame, data: bytes, top: list[Member]) -> list[Edit]:
        usage = frame.value.get("usage")
        if not self._hop or not isinstance(usage, dict):
            return []
        return parsing.TOKENS.edits(data, member(top, "usage"), usage, self._spent)

    def _choice_edits(
        self, data: bytes, place: Span, choice: dict[str, Any], parts: list[Part]
    ) -> list[Edit]:
        found = members(data, place)
        kinds = {part.kind for part in parts}
        edits: list[Edit] = []
        for one in found:
            if one.key == "finish_reason" and choice.get("finish_reason"):
                if not kinds & {Kind.FINISH, Kind.ERROR}:
                    edits.append(Edit(*one.value, b"null"))
                elif (
                    any(part.stop or part.kind is Kind.ERROR for part in parts)
                    and choice["finish_reason"] in parsing.CALL_FINISHES
                ):
                    edits.append(Edit(*one.value, b'"stop"'))
            elif one.key == parsing.body_key(choice) and parsing.body_of(choice):
                edits += self._body_edits(data, one.value, parsing.body_of(choice), parts)
        return edits

    def _body_edits(
        self, data: bytes, span: Span, body: dict[str, Any], parts: list[Part]
    ) -> list[Edit]:
        found = members(data, span)
        calls = [call for part in parts if part.kind is Kind.CALL for call in part.calls]
        drop = set() if calls else set(parsing.CALL_KEYS)
        live = any(part.kind in (Kind.LIVE, Kind.ERROR) for part in parts)
        frame = parts[0].frame
        if not live and (len(parts) < len(frame.parts) or parts[0].choice in frame.again):
            # What is not a call has gone with the live part, or is empty.
            drop |= {m.key for m in found if m.key not in parsing.CALL_KEYS} - {"role"}
        choice = parts[0].choice
        if choice in self._roles and (self._hop or not live):
            drop.add("role")
        edits: list[Edit] = []
        if calls:
            edits += self._calls.edits(data, found, calls, drop)
        content = body.get("content")
        if choice in self._break_before and isinstance(content, str) and content:
            start = next(m.value.start for m in found if m.key == "content")
            edits.append(Edit(start + 1, start + 1, quote("\n\n")[1:-1]))
        return edits + without_members(found, drop)


def _tells(parts: list[Part]) -> bool:
    """Return whether a finish says that calls were made, where none goes."""
    finishes = [choice.get("finish_reason") for _, choice in parts[0].frame.choices]
    return any(part.stop for part in parts) and any(
        finish in parsing.CALL_FINISHES for finish in finishes
    )
