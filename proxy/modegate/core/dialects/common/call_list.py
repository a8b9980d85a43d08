"""The calls of a whole answer, each with an id that every client can go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from modegate.core.dialects.common.frames import with_member
from modegate.core.step.answer.straightener import Ids
from modegate.core.wire.json_spans import Edit, apply, elements, members, without
from modegate.core.wire.surrogates import without_lone_surrogates
from modegate.core.wire.weight import ANSWER_VALUES, is_dense


class _Call(msgspec.Struct):
    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    toolset_name: Any = None
    input: Any = None
    arguments: Any = None


_read_call = msgspec.json.Decoder(_Call).decode


@dataclass(frozen=True, slots=True)
class CallList:
    """Where a whole answer has its calls."""

    key: str
    """The member that lists them, among other things."""
    kinds: frozenset[str]
    id: str
    """The member of a call that is its id."""
    prefix: str

    def straight(self, body: bytes, ids: Ids) -> bytes:
        """Return an answer in which each call has an id of its own, and none is a placeholder."""
        if is_dense(body, ANSWER_VALUES):
            return body  # who reads it says what is wrong, and makes nothing of it either
        try:
            text = without_lone_surrogates(body)
            (span,) = [one.value for one in members(text) if one.key == self.key]
            places = elements(text, span)
            found = [_read_call(text[start:stop]) for start, stop in places]
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return body  # who reads it says what is wrong
        drop: set[int] = set()
        edits: list[Edit] = []
        for at, call in enumerate(found):
            if not isinstance(call.type, str) or call.type not in self.kinds:
                continue
            if not (call.name or call.toolset_name or call.input or call.arguments):
                drop.add(at)
            elif (own := ids.own(getattr(call, self.id), self.prefix)) is not None:
                start, stop = places[at]
                whole = with_member(body[start:stop], msgspec.json.encode(own), self.id)
                edits.append(Edit(start, stop, whole))
        return apply(body, [*edits, *without(places, drop)]) if edits or drop else body
