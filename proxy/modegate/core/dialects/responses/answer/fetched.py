"""A response that was stored, fetched whole: shown under the client's id, without what was not released."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import value_of
from modegate.core.dialects.common.strict_json import check_objects, decode_object
from modegate.core.dialects.responses.answer.calls import CALLS, call_of
from modegate.core.dialects.responses.answer.whole import ResponsesWhole
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.calls import Gathered
from modegate.core.wire.json_spans import Edit, apply, elements, without
from modegate.core.wire.surrogates import without_lone_surrogates

PREVIOUS = "previous_response_id"
SHOWN = frozenset({"message", "reasoning", "item_reference", "compaction"})
"""Items that are neither calls nor results."""


class FetchedItems:
    def __init__(self, body: bytes) -> None:
        self._body = body
        value = decode_object(body)
        check_objects(body)
        data = value.get("data")
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise AnswerUnreadable("the upstream's list of items holds no items")
        self._items: list[dict[str, Any]] = data
        self._calls = {at: call for at, item in enumerate(data) if (call := _call(item))}

    @property
    def calls(self) -> list[Gathered]:
        return list(self._calls.values())

    def write(self, name: str, refused: frozenset[str], own: frozenset[str]) -> bytes:
        del name, own  # items bear ids of their own
        hidden = refused | {call.id for call in self._calls.values() if not call.released}
        drop = {at for at, item in enumerate(self._items) if not self._stays(at, item, hidden)}
        span = value_of(self._body, "data")
        if span is None or not drop:
            return self._body
        places = elements(without_lone_surrogates(self._body), span)
        return apply(self._body, without(places, drop))

    def _stays(self, at: int, item: dict[str, Any], hidden: frozenset[str]) -> bool:
        if at in self._calls:
            return self._calls[at].released
        kind = item.get("type", "message")
        if isinstance(kind, str) and kind.endswith("_output"):
            return item.get("call_id") not in hidden
        # What could be a call and is not read as one is not shown (L4).
        return kind in SHOWN


def _call(item: dict[str, Any]) -> Gathered | None:
    kind = item.get("type")
    return call_of(item) if isinstance(kind, str) and kind in CALLS else None


class FetchedResponse:
    def __init__(self, body: bytes) -> None:
        self._whole = ResponsesWhole(body)

    @property
    def calls(self) -> list[Gathered]:
        return self._whole.choices[0].calls

    def write(self, name: str, refused: frozenset[str], own: frozenset[str]) -> bytes:
        del refused  # an answer holds calls and no results of them
        body = self._whole.write(before=(), closing={}, stop=frozenset(), usage=())
        edits = [Edit(*span, msgspec.json.encode(name))] if (span := value_of(body, "id")) else []
        previous = str(self._whole.choices[0].previous)
        if previous in own and (span := value_of(body, PREVIOUS)):
            # Else a client that goes back from answer to answer would come to this one again for ever.
            edits.append(Edit(*span, b"null"))
        return apply(body, edits)
