"""An answer of the Messages API that came as one JSON body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import member
from modegate.core.dialects.common.strict_json import reason_in
from modegate.core.dialects.messages.answer import parsing
from modegate.core.dialects.messages.answer.answer_items import TEXT, MessageRead
from modegate.core.dialects.messages.answer.calls import begin_block
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.reasons import Reason
from modegate.core.wire.json_spans import Edit, Span, apply, elements, members, without
from modegate.core.wire.surrogates import without_lone_surrogates


class MessagesWhole:
    def __init__(self, body: bytes) -> None:
        self._body = body
        value = parsing.parse_message(body)
        self._readable = without_lone_surrogates(body)
        """In which everything stands at the same place."""
        usage = value.get("usage")
        self.usage: Mapping[str, Any] | None = usage if isinstance(usage, dict) else None
        self.failed = value.get("type") == "error"
        self.choices: dict[int, MessageRead] = {}
        self._top = members(self._readable)
        self._places: list[Span] = []
        if isinstance(value.get("content"), list):
            self._read = self.choices[0] = MessageRead(finish=reason_in(value, "stop_reason"))
            self._places = elements(self._readable, member(self._top, "content"))
            for place, start in zip(self._places, parsing.blocks_of(value), strict=True):
                self._block(place, start)
            if self.failed:
                # Of what failed nothing is a call: it goes nowhere, and nobody is asked about it.
                self._read.calls.clear()

    def _block(self, place: Span, start: dict[str, Any]) -> None:
        block = begin_block(start, self._read)
        block.closed = True
        block.raw = self._body[place.start : place.end]
        self._read.blocks.append(block)
        if len(self._read.calls) > parsing.MAX_CALLS:
            raise AnswerUnreadable(f"the upstream sent over {parsing.MAX_CALLS} calls")
        if block.call is not None and "input" in start:
            _add_input(block.call, block.raw, start["input"])
        elif block.kind != TEXT:
            self._read.size += len(block.raw)

    def write(
        self,
        *,
        before: Sequence[MessageRead],
        closing: Mapping[int, str],
        stop: frozenset[int],
        usage: Sequence[Mapping[str, Any]],
    ) -> bytes:
        if not self.choices:
            return self._body
        front = [block.encoded() for read in before for block in read.shown()]
        back = [msgspec.json.encode({"type": TEXT, "text": text}) for text in closing.values()]
        edits = self._content_edits(front, back)
        if stop and self._read.finish in parsing.CALL_STOPS:
            edits.append(Edit(*member(self._top, "stop_reason"), b'"end_turn"'))
        return apply(self._body, [*edits, *self._usage_edits(usage)])

    def _content_edits(self, front: list[bytes], back: list[bytes]) -> list[Edit]:
        shown = [at for at, block in enumerate(self._read.blocks) if block.shown]
        if not shown:
            start, end = member(self._top, "content")
            behind = end - 1 if self._places else start + 1
            return [Edit(start + 1, behind, b",".join(front + back))]
        edits = without(self._places, set(range(len(self._places))) - set(shown))
        first, last = self._places[shown[0]].start, self._places[shown[-1]].end
        edits += [Edit(first, first, block + b",") for block in front]
        return edits + [Edit(last, last, b"," + block) for block in back]

    def _usage_edits(self, usage: Sequence[Mapping[str, Any]]) -> list[Edit]:
        """Count in what earlier hops wrote; the tokens read are those of this one."""
        if not usage or self.usage is None:
            return []
        total = parsing.output_tokens(self.usage) + sum(map(parsing.output_tokens, usage))
        found = members(self._readable, member(self._top, "usage"))
        return [Edit(*m.value, b"%d" % total) for m in found if m.key == "output_tokens"]


def _add_input(call: Gathered, raw: bytes, value: Any) -> None:
    if isinstance(value, dict):
        call.pieces.append(parsing.raw_input(raw))
    elif value is not None:
        call.odd = Reason.ARGUMENTS_NO_OBJECT
