"""An answer of the Responses API that came as one JSON body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import members_in, value_of
from modegate.core.dialects.common.strict_json import exactly
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.answer_items import OutputItem, ResponsesRead
from modegate.core.dialects.responses.answer.calls import call_of, is_gone, type_of
from modegate.core.dialects.responses.answer.output import message_item, output_edits, own_id
from modegate.core.dialects.responses.answer.parsing import check_keys
from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.json_spans import Edit, apply, elements
from modegate.core.wire.surrogates import without_lone_surrogates


class ResponsesWhole:
    def __init__(self, body: bytes, *, history: bool = False) -> None:
        """Read it; with `history`, messages of any role may be in it."""
        self._body = body
        self._history = history
        self._value = parsing.parse_event(body)
        usage = self._value.get("usage")
        self.usage: Mapping[str, Any] | None = usage if isinstance(usage, dict) else None
        self._read = ResponsesRead(id=parsing.text_in(self._value, "id"))
        self.choices: dict[int, ResponsesRead] = {0: self._read}
        self._read.head(self._value)
        if "item" in self._value or "response" in self._value:
            raise AnswerUnreadable("the upstream sent an event in the place of an answer")
        self.failed = self._value.get("status") == "failed"
        items = parsing.items_of(self._value)
        span = value_of(body, "output")
        self._span = span if items else None
        places = elements(without_lone_surrogates(body), span) if items and span else []
        exact = parsing.items_of(exactly(body, self._value))
        for place, item, as_it_is in zip(places, items, exact, strict=True):
            self._take(item, as_it_is, body[place.start : place.end])
        status = parsing.text_in(self._value, "status") or None
        self._says = status in parsing.OPEN and bool(items)
        """It says that it goes on, as that of some servers does at its end."""
        self._read.finish = "completed" if self._says else status
        for call in self._read.calls:
            call.truncated = status == "incomplete" and call.broken
        if self.failed:
            # Of what failed nothing is a call: it goes nowhere, and nobody is asked about it.
            self._read.calls.clear()

    def _take(self, item: dict[str, Any], exact: dict[str, Any], raw: bytes) -> None:
        if self._history and item.get("type") == "message":
            check_keys(item)
            call, kind = None, "message"
        else:
            call, kind = call_of(item, exact), type_of(item)
        name = parsing.text_in(item, "id")
        out = OutputItem(len(self._read.items), len(self._read.items), kind, name, call)
        self._read.end(self._read.add(out), item, raw)

    def write(
        self,
        *,
        before: Sequence[ResponsesRead],
        closing: Mapping[int, str],
        stop: frozenset[int],
        usage: Sequence[Mapping[str, Any]],
    ) -> bytes:
        calls = [out.call for out in self._read.items]
        drop = {at for at, call in enumerate(calls) if is_gone(call)}
        spans = {member.key: member.value for member in members_in(self._body)}
        front = [out.raw for hop in before for out in hop.items if out.shown and out.raw]
        back = [self._closing(text) for text in closing.values()]
        edits: list[Edit] = []
        if self._says:
            edits.append(Edit(*spans["status"], b'"completed"'))
        if before and "previous_response_id" in spans:
            # A later hop may go on from one that the client was not told of.
            previous = msgspec.json.encode(before[0].previous)
            edits.append(Edit(*spans["previous_response_id"], previous))
        if "output" in spans and (front or back or drop):
            edits += output_edits(self._body, spans["output"], drop=drop, before=front, behind=back)
        if self.usage is not None and usage:
            edits += parsing.TOKENS.edits(self._body, spans["usage"], self.usage, usage)
        return apply(self._body, edits) if edits else self._body

    def _closing(self, text: str) -> bytes:
        return msgspec.json.encode(message_item(own_id(self._read.id, len(self._read.items)), text))
