"""A chat completions answer that came as one JSON body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.answer.answer_items import ChatRead
from modegate.core.dialects.chat.answer.calls import add_delta, add_texts, call_deltas_of
from modegate.core.dialects.chat.answer.settle import drop_blanks
from modegate.core.dialects.common.answer_json import member
from modegate.core.dialects.common.strict_json import exactly, reason_in
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.calls import Gathered
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
from modegate.core.wire.surrogates import without_lone_surrogates

_QUOTE = 0x22


class ChatWhole:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._value = parsing.parse_answer(body, strictly=True)
        self._readable = without_lone_surrogates(body)
        """In which everything stands at the same place."""
        usage = self._value.get("usage")
        self.usage: Mapping[str, Any] | None = usage if isinstance(usage, dict) else None
        self.choices: dict[int, ChatRead] = {}
        self._pieces: list[tuple[int, str, list[Gathered]]] = []
        choices = parsing.choices_of(self._value)
        if len(choices) > parsing.MAX_CALLS:
            raise AnswerUnreadable(f"the upstream sent over {parsing.MAX_CALLS} choices")
        exact = parsing.choices_of(exactly(body, self._value))
        self.failed = parsing.failed(self._value, choices)
        for (index, choice), (_, as_it_is) in zip(choices, exact, strict=True):
            self._read(index, choice, as_it_is)

    def _read(self, index: int, choice: dict[str, Any], exact: dict[str, Any]) -> None:
        has = isinstance(choice.get(parsing.body_key(choice)), dict)
        if not has and not self.failed:
            raise AnswerUnreadable("the upstream sent a choice without a message")
        read = self.choices.setdefault(index, ChatRead())
        body = parsing.body_of(choice)
        calls: list[Gathered] = []
        as_it_is = call_deltas_of(parsing.body_of(exact))
        for (kind, piece), (_, one) in zip(call_deltas_of(body), as_it_is, strict=True):
            if len(calls) >= parsing.MAX_CALLS:
                raise AnswerUnreadable(f"the upstream sent over {parsing.MAX_CALLS} calls")
            call = Gathered(index, "legacy" if kind == "legacy" else "function")
            add_delta(call, kind, piece, one)
            calls.append(call)
        # Of what failed nothing is a call: it goes nowhere, and nobody is asked about it.
        if not self.failed:
            read.calls += calls
            drop_blanks(read.calls)
        add_texts(read, body)
        read.finish = reason_in(choice, "finish_reason")
        self._pieces.append((index, parsing.body_key(choice) if has else "", calls))

    def write(
        self,
        *,
        before: Sequence[ChatRead],
        closing: Mapping[int, str],
        stop: frozenset[int],
        usage: Sequence[Mapping[str, Any]],
    ) -> bytes:
        if not (before or closing or usage) and self._stays(stop):
            return self._body
        texts = _texts(before)
        top = members(self._readable)
        edits: list[Edit] = []
        for one in top:
            if one.key == "choices" and self._pieces:
                places = elements(self._readable, one.value)
                for place, (index, key, calls) in zip(places, self._pieces, strict=True):
                    if key:
                        found = members(self._readable, place)
                        span = member(found, key)
                        edits += self._body_edits(span, calls, texts, closing.get(index, ""))
                    if index in stop:
                        edits += self._finish_edits(place)
            elif one.key == "usage" and self.usage is not None:
                edits += parsing.TOKENS.edits(self._body, one.value, self.usage, usage)
        return apply(self._body, edits) if edits else self._body

    def _stays(self, stop: frozenset[int]) -> bool:
        """Return whether every call goes out and every finish is true, as in most answers."""
        return all(call.released for _, _, calls in self._pieces for call in calls) and not any(
            index in stop and read.finish in parsing.CALL_FINISHES
            for index, read in self.choices.items()
        )

    def _finish_edits(self, place: Span) -> list[Edit]:
        return [
            Edit(*m.value, b'"stop"')
            for m in members(self._readable, place)
            if m.key == "finish_reason"
            and parsing.content_string(self._readable[m.value.start : m.value.end])
            in parsing.CALL_FINISHES
        ]

    def _body_edits(
        self, span: Span, calls: list[Gathered], before: Mapping[str, str], closing: str
    ) -> list[Edit]:
        found = members(self._readable, span)
        drop: set[str] = set()
        edits: list[Edit] = []
        listed = [call for call in calls if call.kind != "legacy"]
        refused = {at for at, call in enumerate(listed) if not call.released}
        if refused and len(refused) == len(listed):
            drop.add("tool_calls")
        elif refused:
            listing = member(found, "tool_calls")
            edits += without(elements(self._readable, listing), refused)
        if any(call.kind == "legacy" and not call.released for call in calls):
            drop.add("function_call")
        edits += without_members(found, drop)
        stay = [one for one in found if one.key not in drop]
        return edits + self._text_edits(span, stay, before, closing)

    def _text_edits(
        self, span: Span, found: list[Member], before: Mapping[str, str], closing: str
    ) -> list[Edit]:
        own = {m.key: m.value for m in found}
        edits: list[Edit] = []
        fresh: list[bytes] = []
        for key, text in before.items():
            if key == "text" or not text:
                continue
            value = own.get(key)
            if value is None:
                fresh.append(quote(key) + b":" + quote(text))
            elif self._body[value.start] == _QUOTE:
                edits.append(Edit(value.start + 1, value.start + 1, quote(text)[1:-1]))
            elif self._body[value.start : value.end] == b"null":
                edits.append(Edit(*value, quote(text)))
        earlier = before.get("text", "")
        if "content" in own:
            edits += self._content_edits(own["content"], earlier, closing)
        elif earlier or closing:
            fresh.append(b'"content":' + quote(join_texts(earlier, closing)))
        if fresh:
            comma = b"," if found else b""
            edits.append(Edit(span.start + 1, span.start + 1, b",".join(fresh) + comma))
        return edits

    def _content_edits(self, content: Span, before: str, closing: str) -> list[Edit]:
        if not before and not closing:
            return []
        start, end = content
        if self._body[start : start + 1] == b"[":
            return self._part_edits(content, before, closing)
        own = parsing.content_string(self._readable[start:end])
        return [Edit(start, end, quote(join_texts(before, own, closing)))]

    def _part_edits(self, span: Span, before: str, closing: str) -> list[Edit]:
        own = self._body[span.start + 1 : span.end - 1].strip()
        first, last = (
            msgspec.json.encode({"type": "text", "text": text}) if text else b""
            for text in (before, closing)
        )
        parts = b",".join(part for part in (first, own, last) if part)
        return [Edit(*span, b"[" + parts + b"]")]


def _texts(before: Sequence[ChatRead]) -> dict[str, str]:
    """Return what earlier hops said by kind of text: reasoning runs on, texts are joined."""
    kinds = dict.fromkeys(kind for choice in before for kind in choice.texts if kind != "text")
    found = {kind: "".join(choice.text(kind) for choice in before) for kind in kinds}
    return found | {"text": join_texts(*(choice.text() for choice in before))}


def join_texts(*texts: str) -> str:
    """Join texts of hops as the streamed form does: a blank line between two that say something."""
    return "\n\n".join(text for text in texts if text)
