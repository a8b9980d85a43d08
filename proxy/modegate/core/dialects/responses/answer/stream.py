"""A streamed answer of the Responses API: events in, parts out, items gathered on the way."""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.common.frames import note_doubt, one_part
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.answer_items import OutputItem, ResponsesRead
from modegate.core.dialects.responses.answer.call_consistency import ConsistencyCheck
from modegate.core.dialects.responses.answer.calls import (
    CALLS,
    ItemCall,
    agree,
    call_of,
    check_part,
    type_of,
)
from modegate.core.dialects.responses.answer.output import listed_places
from modegate.core.dialects.responses.answer.stream_items import EventFrame, StreamItems
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.gate import withhold_all
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.step.answer.straightener import Straight
from modegate.core.step.reasons import Reason
from modegate.core.wire.json_spans import Span
from modegate.core.wire.sse import BLANK, Frame

_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})


class ResponsesStreamReader:
    ordered = True

    def __init__(self, *, strictly: bool) -> None:
        self._later = strictly
        self._choice = ResponsesRead()
        self._items = StreamItems()
        self._checks: dict[int, ConsistencyCheck] = {}
        self._count = 0
        self._last: OutputItem | None = None
        """The item that the last event of an item was about."""
        self.choices: dict[int, ResponsesRead] = {0: self._choice}
        self.usage: dict[str, Any] | None = None

    def read(self, frame: Frame) -> list[Part]:
        data = frame.data.strip(BLANK) if frame.data is not None else b""
        if not data:
            return one_part(EventFrame(frame.raw, b""), Kind.LIVE)
        if data.startswith(b"[DONE]"):
            # Ends a stream in another API: clients that know it would stop in front of our own end.
            return one_part(EventFrame(frame.raw, b""), Kind.DROPPED)
        value = parsing.parse_event(data)
        kind = parsing.text_in(value, "type")
        own = isinstance(frame, Straight)
        event = EventFrame(frame.raw, data, value, kind, frame.event, own, self._count)
        self._count += 1
        self._check(frame, event)
        parts = self._read(event)
        note_doubt(frame, parts)
        return parts

    def _check(self, frame: Frame, event: EventFrame) -> None:
        kind = event.type
        if not kind or frame.event not in (b"", kind.encode()):
            raise AnswerUnreadable("the upstream sent an event whose name and type differ")
        number = event.value.get("sequence_number")
        if number is not None and not is_index(number):
            raise AnswerUnreadable("the upstream sent a sequence number that is none")
        lifecycle = kind in parsing.BEGINNINGS or kind in parsing.ENDS
        ends = kind in (parsing.ADDED, parsing.DONE)
        places = {"item": ends, "response": lifecycle, "output": False}
        for key, has in places.items():
            found = event.value.get(key)
            if isinstance(found, dict) is not has or isinstance(found, list):
                raise AnswerUnreadable(
                    f"the upstream sent an event {kind[:80]!r} with or without {key!r}"
                )

    def _read(self, event: EventFrame) -> list[Part]:
        kind = event.type
        if kind in parsing.BEGINNINGS:
            return self._begin(event)
        if kind in parsing.ENDS:
            return self._end(event)
        if kind == parsing.ERROR:
            return self._failed(event)
        if kind in parsing.IDLE:
            return one_part(event, Kind.LIVE)
        if kind == parsing.ADDED:
            return self._added(event)
        out = self._items.find(event)
        if kind == parsing.DONE:
            return self._done(event, out)
        if out is None:
            # Of no item, and not known: it goes nowhere.
            return one_part(event, Kind.DROPPED)
        if out.ended:
            raise AnswerUnreadable("the upstream goes on with an item that has ended")
        event.out = out
        before, self._last = self._last, out
        if out.call is not None:
            # LangChain takes pieces that come behind those of another item for a call of their own.
            elsewhere = before is not out and kind.endswith(".delta")
            out.call.restarts = out.call.restarts or elsewhere
            self._checks[out.index].add(kind, event.exact)
            return one_part(event, Kind.CALL, out.call)
        return self._live(event, out)

    def _begin(self, event: EventFrame) -> list[Part]:
        response = event.value["response"]
        self._identify(response)
        for item in parsing.items_of(response):
            if call_of(item) is not None:
                raise AnswerUnreadable("the upstream sent a call in front of its answer")
        return one_part(event, Kind.LIVE)

    def _identify(self, response: dict[str, Any]) -> None:
        name = parsing.text_in(response, "id")
        if self._choice.id and name and name != self._choice.id:
            raise AnswerUnreadable("the upstream's answer changed its id")
        self._choice.id = self._choice.id or name
        self._choice.head(response)

    def _added(self, event: EventFrame) -> list[Part]:
        event.out = out = self._open(event)
        return (
            one_part(event, Kind.LIVE) if out.call is None else one_part(event, Kind.CALL, out.call)
        )

    def _open(self, event: EventFrame) -> OutputItem:
        index = self._items.new_index(event)
        item = event.value["item"]
        call = call_of(item, event.exact["item"])
        name = parsing.text_in(item, "id")
        self._items.name(name, index)
        out = OutputItem(index, len(self._choice.items), type_of(item), name, call)
        self._last = self._choice.add(out)
        self._items.add(out)
        if call is not None:
            begun = item.get("status") == "in_progress" and call.type not in CALLS
            self._checks[index] = ConsistencyCheck(call, "" if begun else call.arguments)
        return out

    def _done(self, event: EventFrame, out: OutputItem | None) -> list[Part]:
        item = event.value["item"]
        if out is None:
            out = self._open(event)
        elif out.ended or type_of(item) != out.type:
            raise AnswerUnreadable("the upstream ended an item twice, or as another one")
        index = out.index
        self._items.name(parsing.text_in(item, "id"), index)
        event.out = self._last = out
        start, stop = event.places["item"]
        self._choice.end(out, item, event.data[start:stop])
        if out.call is None:
            call_of(item)
            return one_part(event, Kind.LIVE)
        self._checks.pop(index).end(item, event.exact["item"])
        if item.get("status") == "incomplete":
            # Cut off at a limit: what stops in the middle there, no client can run.
            self._choice.finish = "incomplete"
        parts = one_part(event, Kind.CALL, out.call)
        if not out.call.broken:
            # Else how the answer ends says whether it was cut off.
            parts[0].ends = (out.call,)
        return parts

    def _live(self, event: EventFrame, out: OutputItem) -> list[Part]:
        if not event.type.startswith(parsing.INERT_EVENTS):
            return one_part(event, Kind.DROPPED)
        part = event.value.get("part")
        if part is not None:
            check_part(part)
        if event.type in _TEXTS:
            self._choice.piece(out, parsing.text_in(event.value, "delta"))
        return one_part(event, Kind.LIVE)

    def _failed(self, event: EventFrame) -> list[Part]:
        if self._later:
            raise AnswerUnreadable("the upstream's answer failed")
        return self._finish(event, "failed")

    def _end(self, event: EventFrame) -> list[Part]:
        response = event.value["response"]
        self._identify(response)
        status = event.type.removeprefix("response.")
        if status == "failed" and self._later:
            raise AnswerUnreadable("the upstream's answer failed")
        if response.get("status") not in (None, status):
            raise AnswerUnreadable("the upstream sent an end whose type and status differ")
        usage = response.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        exact = parsing.items_of(event.exact["response"])
        event.listed = self._listed(event.data, parsing.items_of(response), exact)
        return self._finish(event, status)

    def _listed(
        self, data: bytes, items: list[dict[str, Any]], exact: list[dict[str, Any]]
    ) -> list[ItemCall | None]:
        """Find the call that each item of the snapshot is; one that was not streamed is judged as well."""
        found: list[ItemCall | None] = []
        places: list[Span] = []
        for at, item in enumerate(items):
            call = call_of(item, exact[at])
            known = call and self._known(call, parsing.text_in(item, "id"))
            if known is not None and not known.withheld and known in found:
                raise AnswerUnreadable("the upstream's answer ends with one call twice")
            if call is not None and known is None:
                # Found once, as to find them is to pass over all of the event.
                places = places or listed_places(data)
                out = OutputItem(-1, len(self._choice.items), call.type, call.id, call)
                self._choice.end(self._choice.add(out), item, data[slice(*places[at])])
            found.append(known or call)
        return found

    def _known(self, call: ItemCall, name: str) -> ItemCall | None:
        """Find the streamed call that an item of the snapshot repeats.

        What was refused stays refused, whatever it says now.
        """
        for out in self._choice.items:
            known = out.call
            if known is not None and (
                (name and name == out.id) or (call.id and call.id == known.id)
            ):
                if out.ended and not known.withheld and not agree(call, known):
                    raise AnswerUnreadable(
                        "the upstream's answer ends with another call than it sent"
                    )
                return known
        return None

    def _finish(self, event: EventFrame, status: str) -> list[Part]:
        choice = self._choice
        for out in choice.items:
            call = out.call
            if call is None or not call.pending:
                continue
            call.truncated = status == "incomplete" and call.broken
            if out.ended and status != "failed":
                continue
            if status == "completed":
                call.odd = Reason.NO_END
            else:
                withhold_all((call,))
                choice.calls.remove(call)
        choice.finish = status
        end = EventFrame(b"", b"")
        return [*one_part(event, Kind.FINISH), *one_part(end, Kind.DONE)]
