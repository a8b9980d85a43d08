"""A stream of the Responses API, item behind item, whatever a server made of it.

Clients go by the index of an item, by its id, by the order of events or by the end alone, and agree only
where all of these say the same. So a call waits here for its end and then leaves whole. If nothing is
missing, it leaves as it came; else announced, in one piece, and whole, under one id. Text leaves as it comes.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from modegate.core.dialects.common.frames import framed, with_member
from modegate.core.dialects.common.straight import AMBIGUOUS, BaseStraightener, may_be_index
from modegate.core.dialects.responses.answer import loose_item, loose_item_write, parsing
from modegate.core.dialects.responses.answer.call_consistency import OWN_ARGUMENTS, call_type
from modegate.core.dialects.responses.answer.loose_item import Event, Head, LooseItem, read_head
from modegate.core.dialects.responses.answer.loose_items import LooseItems, with_snapshot
from modegate.core.dialects.responses.answer.parsing import ADDED, DONE, ENDS, ERROR, IDLE, INERT
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.reasons import Reason
from modegate.core.wire.sse import Frame

_TEXT = "response.output_text.delta"
_encode = msgspec.json.encode


class ResponsesStraightener(BaseStraightener[Event]):
    INDEX = "output_index"

    def __init__(self, limit: int, ids: Ids) -> None:
        super().__init__(limit, ids, loose_item.read_event)
        self._marked = False
        """An end of another API was seen, so that what has no end of this one is whole."""
        self._begun = b""
        """What the answer says of itself at its beginning."""
        self._items = LooseItems()
        self._queue: deque[LooseItem] = deque()
        """Items that have to wait: the first of them is a call that has not ended."""
        self._plain = True
        """All items that are under way have indices of their own."""

    def passed(self) -> None:
        self._queue.clear()
        self.waiting = 0
        for item in self._items.all:
            item.left = True
            item.frames = []

    def _flows(self, frame: Frame, data: bytes) -> bool:
        if not self._plain or self._queue or not self._items.all or self._items.all[-1].is_call:
            return False
        return data.startswith(loose_item.TEXT_BEGINNINGS) and b'"output_index"' in data

    def _foreign_end(self, frame: Frame) -> list[Frame]:
        self._marked = True
        return [frame]

    def _failure(self, words: str) -> Frame:
        return self._own.frame({"type": ERROR, "code": "server_error", "message": words})

    def _knows(self, name: str) -> bool:
        return name.startswith("response.") or name in (ERROR, *IDLE)

    def _normal(self, frame: Frame, event: Event) -> Frame:
        """Let an event say what it is in its data; the name `message` says nothing."""
        if event.type is None:
            frame = self._with_type(frame, event)
        elif frame.event == b"message":
            frame = framed(frame.data or b"", b"")
        if event.type is not None:
            numbered = event.sequence_number is not msgspec.UNSET
            self._own.note(named=bool(frame.event), numbered=numbered)
        return frame

    def _event(self, frame: Frame, event: Event) -> list[Frame]:
        kind = event.type
        if not isinstance(kind, str) or not may_be_index(event.output_index) or kind in IDLE:
            return [frame]
        if kind == ERROR:
            return self._error(frame)
        if kind in parsing.BEGINNINGS:
            self._begun = self._begun or bytes(event.response)
            return [frame]
        if kind in ENDS:
            return self._end(frame, event)
        if kind == ADDED:
            return self._added(frame, event)
        return self._done(frame, event) if kind == DONE else self._piece(frame, event)

    # Items.

    def _open(self, head: Head, index: Any) -> LooseItem:
        item = LooseItem(-1, head, loose=not head.id)
        self._items.add(item, index)
        item.place = self._new_place(index)
        self._plain = self._plain and item.place == index
        if self._queue or item.is_call:
            self._queue.append(item)
        else:
            item.left = True
        return item

    def _added(self, frame: Frame, event: Event) -> list[Frame]:
        head = read_head(event.item)
        if head is None:
            return [frame]
        old = self._items.announced(head, event.output_index)
        if old is not None and not old.ended and old.head.same_item(head):
            if old.head.name and head.name != old.head.name:
                old.doubt = AMBIGUOUS
            old.announced, old.head.name = bytes(event.item), head.name
            return []
        doubt = ""
        if old is not None and not old.ended and old.is_call and not (old.head.id and head.id):
            # Only by their index could it be told which of two a piece is of.
            old.close()
            old.over = True
            if not old.ended:
                old.doubt = doubt = AMBIGUOUS
        item = self._open(head, event.output_index)
        item.doubt, item.added, item.announced = doubt, True, bytes(event.item)
        return self._add(item, frame, event)

    def _add(self, item: LooseItem, frame: Frame, event: Event) -> list[Frame]:
        """Take an event of an item; give what may leave with it."""
        item.loose = item.loose or event.output_index != item.place
        frame = self._at(item.place, frame, event.output_index)
        if not item.is_call:
            frame = loose_item_write.with_one_id(item, frame, event)
        if item.left:
            return [frame]
        item.frames.append(frame)
        item.size += len(frame.raw)
        self._wait(frame)
        return self._leave()

    def _piece(self, frame: Frame, event: Event) -> list[Frame]:
        kind, index = str(event.type), event.output_index
        of_call = kind.startswith(OWN_ARGUMENTS)
        if index is msgspec.UNSET and not event.item_id and not kind.startswith("response."):
            return [frame]
        is_call = True if of_call else False if kind.startswith(parsing.INERT_EVENTS) else None
        item = self._items.find(event, event.item_id, is_call=is_call)
        if item is None:
            return self._unannounced(frame, event, of_call=of_call)
        if item.ended:
            return self._late(item, frame, event, of_call=of_call)
        item.loose = item.loose or (of_call and event.item_id != item.head.id)
        if of_call and kind.endswith(".delta") and isinstance(event.delta, str):
            half = "\ufffd" in event.delta
            item.deltas.append(
                loose_item_write.exactly_in(frame.data or b"")["delta"] if half else event.delta
            )
        elif of_call and kind.endswith(".done") and isinstance(event.whole_arguments, str):
            item.whole_arguments = event.whole_arguments
        return self._add(item, frame, event)

    def _unannounced(self, frame: Frame, event: Event, *, of_call: bool) -> list[Frame]:
        """Begin the item that a piece is of, as the server did not; a message is announced at once."""
        index = event.output_index
        name = event.item_id or f"msg_{0 if index is msgspec.UNSET else index}"
        if not isinstance(name, str) or not (of_call or event.type == _TEXT):
            return [frame]
        if of_call:
            self._open(Head(call_type(event.type), event.item_id), index)
            return self._piece(frame, event)
        item = self._open(Head("message", name), index)
        out = []
        for one in loose_item_write.announcement(item, self._own):
            out += self._add(item, one, loose_item.read_event(one.data or b""))
        data = with_member(frame.data or b"", b"0", "content_index")
        return [*out, *self._add(item, framed(data, frame.event), event)]

    def _late(self, item: LooseItem, frame: Frame, event: Event, *, of_call: bool) -> list[Frame]:
        """Take an event behind the end of its item."""
        if str(event.type).endswith(".done"):
            again = event.whole_arguments == item.arguments if of_call else not item.is_call
            if again:
                return []  # says again what was said
        return self._refused(item, frame)

    def _refused(self, item: LooseItem, frame: Frame) -> list[Frame]:
        """Take what does not fit an item: who reads it says what is wrong, if the item has left."""
        if item.left:
            return [frame]
        item.doubt = AMBIGUOUS
        return []

    def _done(self, frame: Frame, event: Event) -> list[Frame]:
        head = read_head(event.item)
        if head is None:
            return [frame]
        item = self._items.find(event, head.id or None, is_call=head.type not in INERT)
        if item is None or (item.ended and item.head.other_item(head)):
            # The second is of a server with one index for all.
            item = self._open(head, event.output_index)
        elif item.ended:
            return [] if item.item == bytes(event.item) else self._refused(item, frame)
        elif head.type != item.head.type:
            if item.left:
                return [frame]
            item.doubt = Reason.FORMS_DIFFER_IN_TYPE
        item.loose = item.loose or not item.added or item.head.ids != head.ids
        item.ended = True
        item.item = item.final = bytes(event.item)
        return self._add(item, frame, event)

    def _leave(self) -> list[Frame]:
        """Return what may leave: all in front of the first call that has not ended."""
        out: list[Frame] = []
        while self._queue:
            item = self._queue[0]
            if item.is_call and item.is_open:
                break
            if item.is_call:
                out += loose_item_write.call_frames(item, self._own, self._ids)
            else:
                out += item.frames
            self.waiting -= item.size
            item.frames, item.size, item.left = [], 0, True
            self._queue.popleft()
        return out

    # The end.

    def _end(self, frame: Frame, event: Event) -> list[Frame]:
        self._over = True
        response = loose_item.read_response(event.response)
        kind = str(event.type).removeprefix("response.")
        if kind == "failed":
            return [frame]
        data = frame.data or b""
        if isinstance(response.status, str) and response.status in parsing.OPEN:
            data = with_member(data, _encode(kind), "response", "status")
        output = response.output or ()
        if len(output) > parsing.MAX_ITEMS:
            raise ValueError("too many items")
        heads = list(map(read_head, output))
        listed = [
            self._listed(head, bytes(item), heads) for head, item in zip(heads, output, strict=True)
        ]
        out = self._rest(completed=kind == "completed")
        data = with_snapshot(data, listed)
        return [*out, frame if data == frame.data else framed(data, frame.event)]

    def _listed(self, head: Head | None, data: bytes, heads: list[Head | None]) -> LooseItem | None:
        """Find the item that the snapshot at the end repeats, and take from there what never came."""
        if head is None:
            return None
        item = self._items.repeated(head, heads)
        if item is None:
            if not self._items.lack(head, data):
                return None
            item = self._open(head, msgspec.UNSET)
        item.listed = head
        if not item.ended:
            item.ended = item.loose = True
            item.item = data
            if not item.is_call:
                self._hold(item, loose_item_write.missing_frames(item, self._own))
        return item

    def _hold(self, item: LooseItem, frames: list[Frame]) -> None:
        """Keep what ends an item of text for the end, as what is in front has to leave before it."""
        if item.left:
            item.left = False
            self._queue.append(item)
        item.frames += frames

    def _rest(self, *, completed: bool) -> list[Frame]:
        for item in self._queue:
            if item.is_call and not item.ended and completed:
                item.close()
        out = self._leave()
        while self._queue:
            # A call without an end: who reads it says what that means.
            out += self._queue.popleft().frames
            out += self._leave()
        return out

    def end(self) -> list[Frame]:
        """Take the end of the stream: with the mark of another API, an answer that has ended is whole."""
        items = self._items.all
        ended = bool(items) and all(item.ended for item in items)
        if self._over or not (self._marked and ended and self._begun):
            return []
        self._over = True
        output = [msgspec.Raw(item.final) for item in items if not item.dropped]
        response = with_member(self._begun, b'"completed"', "status")
        response = with_member(response, _encode(output), "output")
        value = {"type": "response.completed", "response": msgspec.Raw(response)}
        return [*self._rest(completed=True), self._own.frame(value)]
