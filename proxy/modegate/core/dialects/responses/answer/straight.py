"""A stream of the Responses API, item behind item, whatever a server made of it.

Clients go by the index of an item, by its id, by the order of events or by the end alone, and agree only
where all of these say the same. So a call waits here for its end and then leaves whole: as it came, where
nothing is missing, and else announced, in one piece, and whole, under one id. Text leaves as it comes.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.call_consistency import PIECES
from modegate.core.dialects.responses.answer.items import CALLS
from modegate.core.dialects.responses.answer.loose_item import (
    Head,
    Run,
    Written,
    exactly_in,
    ids_of,
    read_head,
    same,
)
from modegate.core.dialects.responses.answer.parsing import ADDED, DONE, ENDS, ERROR, IDLE, INERT
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.straightener import Ids, bare, framed, unreadable, with_member
from modegate.core.wire.json_spans import (
    Edit,
    apply,
    elements,
    members,
    without,
    without_lone_surrogates,
)
from modegate.core.wire.sse import BLANK, Frame
from modegate.core.wire.sse import DONE as MARK

_TWO = "its pieces could be those of another call"
_MAX_OPEN = 64
"""Items that are under way at one time, of which an event that has no index could be."""
_SAID = "response.output_text.delta"
_ARGUMENTS = tuple(f"{begins}." for kind, (begins, _) in PIECES.items() if kind in CALLS)
_LIVE = tuple(
    b'{"type":%b"response.%b.delta",' % (blank, kind)
    for blank in (b"", b" ")
    for kind in (b"output_text", b"reasoning_summary_text", b"reasoning_text")
)


class _Event(msgspec.Struct):
    type: Any = None
    output_index: Any = msgspec.UNSET
    item_id: Any = None
    sequence_number: Any = msgspec.UNSET
    item: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    delta: Any = None
    arguments: Any = None
    input: Any = None


class _Response(msgspec.Struct):
    status: Any = None
    output: list[msgspec.Raw] | None = None


_read = msgspec.json.Decoder(_Event).decode
_read_response = msgspec.json.Decoder(_Response).decode
_encode = msgspec.json.encode


class ResponsesStraightener:
    """Straightens one hop's stream."""

    def __init__(self, limit: int, ids: Ids) -> None:
        """Begin; at most `limit` bytes may wait."""
        self._limit = limit
        self._ids = ids
        self.waiting = 0
        self._over = False
        self._marked = False
        """An end of another API was seen, so that what has no end of this one is whole."""
        self._written = Written()
        self._begun = b""
        """What the answer says of itself at its beginning."""
        self._runs: list[Run] = []
        self._open_now: list[Run] = []
        """Those that have not ended, and some that have."""
        self._queue: deque[Run] = deque()
        """Items that have to wait: the first of them is a call that has not ended."""
        self._by_index: dict[int, Run] = {}
        self._shared: set[int] = set()
        """Indices that several items have."""
        self._by_id: dict[str, Run] = {}
        self._plain = True
        """All items that are under way have indices of their own."""
        self._last = -1

    @property
    def _flows(self) -> bool:
        """Whether a text is under way, nothing waits, and each item has an index of its own."""
        return self._plain and not self._queue and bool(self._runs) and not self._runs[-1].call

    def take(self, frame: Frame) -> list[Frame]:
        """Take a frame, and give those that may be read now."""
        data = frame.data
        if data is None or frame.odd or self._over:
            return [frame]
        if self._flows and data.startswith(_LIVE) and b'"output_index"' in data:
            return [frame]  # as almost always
        data = data.strip(BLANK)
        if data.startswith(MARK):
            self._marked = True
            return [frame]
        if frame.event == b"error" and not data.startswith(b"{"):
            words = data.decode("utf-8", "replace")[:300]
            self._over = True
            return [self._written.frame({"type": ERROR, "code": "server_error", "message": words})]
        try:
            event = _read(bare(frame))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return [frame]  # who reads it says what is wrong
        try:
            return self._event(self._named(frame, event), event)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return [unreadable(frame)]

    def passed(self) -> None:
        """Take that the client has all that came so far, as it came."""
        self._queue.clear()
        self.waiting = 0
        for run in self._runs:
            run.left = True
            run.frames = []

    def _named(self, frame: Frame, event: _Event) -> Frame:
        """Let an event say what it is in its data; the name `message` says nothing."""
        data, name = frame.data or b"", frame.event.decode("ascii", "replace")
        if event.type is None:
            if event.error and name in ("", "message", "error"):
                name = ERROR
            if not name.startswith("response.") and name not in (ERROR, *IDLE):
                return frame
            event.type = name
            frame = framed(with_member(data, _encode(name), "type"), frame.event)
        elif name == "message":
            frame = framed(data, b"")
        self._written.note(
            named=bool(frame.event), numbered=event.sequence_number is not msgspec.UNSET
        )
        return frame

    def _event(self, frame: Frame, event: _Event) -> list[Frame]:
        kind = event.type
        index = event.output_index
        if not isinstance(kind, str) or not (index is msgspec.UNSET or is_index(index)):
            return [frame]
        if kind == ERROR:
            self._over = True
            return [frame]
        if kind in parsing.BEGINNINGS:
            self._begun = self._begun or bytes(event.response)
            return [frame]
        if kind in IDLE:
            return [frame]
        if kind in ENDS:
            return self._end(frame, event)
        if kind == ADDED:
            return self._added(frame, event)
        if kind == DONE:
            return self._done(frame, event)
        return self._piece(frame, event)

    # Items.

    def _open(self, head: Head, index: Any) -> Run:
        if len(self._runs) >= parsing.MAX_ITEMS:
            raise ValueError("too many items")
        given = index is not msgspec.UNSET
        fits = given and index > self._last
        self._last = place = index if fits else self._last + 1
        self._plain = self._plain and given and place == index
        run = Run(place, head, loose=not head.id)
        self._runs.append(run)
        self._open_now.append(run)
        if given:
            if index in self._by_index:
                self._shared.add(index)
            self._by_index[index] = run
        if head.id:
            self._by_id[head.id] = run
        if self._queue or run.call:
            self._queue.append(run)
        else:
            run.left = True
        return run

    def _added(self, frame: Frame, event: _Event) -> list[Frame]:
        head = read_head(event.item)
        if head is None:
            return [frame]
        old = self._by_id.get(head.id) or self._by_index.get(event.output_index)
        if old is not None and not old.ended and same(old.head, head):
            if old.head.name and head.name != old.head.name:
                old.doubt = _TWO
            old.announced, old.head.name = bytes(event.item), head.name
            return []
        doubt = ""
        if old is not None and not old.ended and old.call and not (old.head.id and head.id):
            # Only by their index could it be told which of two a piece is of.
            old.close()
            old.over = True
            if not old.ended:
                old.doubt = doubt = _TWO
        run = self._open(head, event.output_index)
        run.doubt = doubt
        return self._announce(run, frame, event)

    def _announce(self, run: Run, frame: Frame, event: _Event) -> list[Frame]:
        run.added = True
        run.announced = bytes(event.item)
        return self._add(run, frame, event)

    def _add(self, run: Run, frame: Frame, event: _Event) -> list[Frame]:
        """Take an event of an item; give what may leave with it."""
        if event.output_index is msgspec.UNSET or event.output_index != run.place:
            run.loose = True
            data = with_member(frame.data or b"", b"%d" % run.place, "output_index")
            frame = framed(data, frame.event)
        if not run.call:
            frame = self._one_id(run, frame, event)
        if run.left:
            return [frame]
        run.frames.append(frame)
        run.size += len(frame.raw)
        self.waiting += len(frame.raw)
        if self.waiting > self._limit:
            raise over(self._limit)
        return self._leave()

    def _one_id(self, run: Run, frame: Frame, event: _Event) -> Frame:
        """Let all events of a text say the id with which it was announced, as the SDKs want it."""
        data, name = frame.data or b"", _encode(run.head.id)
        if not run.head.id:
            return frame
        if event.item_id not in (None, run.head.id):
            return framed(with_member(data, name, "item_id"), frame.event)
        head = read_head(event.item)
        if event.type == DONE and head is not None and head.id != run.head.id:
            run.final = with_member(run.item, name, "id")
            return framed(with_member(data, name, "item", "id"), frame.event)
        return frame

    def _find(self, event: _Event, name: Any, *, call: bool | None) -> Run | None:
        """Find the item that an event is of; where that could be two, both are in doubt."""
        by_id = self._by_id.get(name) if isinstance(name, str) else None
        by_index = self._by_index.get(event.output_index)
        if by_id and by_index and by_id is not by_index:
            if event.output_index in self._shared:
                return by_id
            for run in (by_id, by_index):
                run.doubt = run.doubt or _TWO
            return by_index
        found = by_index or by_id
        if found is not None or event.output_index is not msgspec.UNSET:
            return found
        self._open_now = [run for run in self._open_now if not (run.ended or run.over)]
        if len(self._open_now) > _MAX_OPEN:
            raise ValueError("too many items are under way")
        open_ = [run for run in self._open_now if call in (None, run.call)]
        if name and not open_:
            return None
        if len(open_) > 1:
            for run in open_:
                run.doubt = run.doubt or _TWO
        return open_[0] if open_ else None

    def _piece(self, frame: Frame, event: _Event) -> list[Frame]:
        kind = str(event.type)
        of_call = kind.startswith(_ARGUMENTS)
        if (
            event.output_index is msgspec.UNSET
            and not event.item_id
            and not kind.startswith("response.")
        ):
            return [frame]
        call = True if of_call else False if kind.startswith(parsing.INERT_EVENTS) else None
        run = self._find(event, event.item_id, call=call)
        if run is None:
            return self._unannounced(frame, event, of_call=of_call)
        if run.ended:
            return self._late(run, frame, event, of_call=of_call)
        run.loose = run.loose or (of_call and event.item_id != run.head.id)
        if of_call and kind.endswith(".delta") and isinstance(event.delta, str):
            half = "\ufffd" in event.delta
            run.pieces.append(exactly_in(frame.data or b"")["delta"] if half else event.delta)
        elif of_call and kind.endswith(".done"):
            said = event.arguments if event.arguments is not None else event.input
            run.said = said if isinstance(said, str) else run.said
        return self._add(run, frame, event)

    def _unannounced(self, frame: Frame, event: _Event, *, of_call: bool) -> list[Frame]:
        """Begin the item that a piece is of, as the server did not; a message is announced at once."""
        index = event.output_index
        name = event.item_id or f"msg_{0 if index is msgspec.UNSET else index}"
        if not isinstance(name, str) or not (of_call or event.type == _SAID):
            return [frame]
        if of_call:
            begins = str(event.type).rpartition(".")[0]
            kind = next(kind for kind, (of, _) in PIECES.items() if of == begins)
            self._open(Head(kind, event.item_id), index)
            return self._piece(frame, event)
        run = self._open(Head("message", name), index)
        out = []
        for one in run.announcement(self._written):
            out += self._add(run, one, _read(one.data or b""))
        data = with_member(frame.data or b"", b"0", "content_index")
        return [*out, *self._add(run, framed(data, frame.event), event)]

    def _late(self, run: Run, frame: Frame, event: _Event, *, of_call: bool) -> list[Frame]:
        """Take an event behind the end of its item."""
        kind = str(event.type)
        if kind.endswith(".done") and not of_call and not run.call:
            return []  # says again what was said
        said = event.arguments if event.arguments is not None else event.input
        if kind.endswith(".done") and of_call and said == run.arguments:
            return []
        if not run.left:
            run.doubt = _TWO
            return []
        return [frame]

    def _done(self, frame: Frame, event: _Event) -> list[Frame]:
        head = read_head(event.item)
        if head is None:
            return [frame]
        run = self._find(event, head.id or None, call=head.type not in INERT)
        if run is not None and run.ended and _other(run.head, head):
            run = None  # of a server with one index for all
        if run is None:
            run = self._open(head, event.output_index)
        elif run.ended:
            if run.item == bytes(event.item):
                return []
            if run.left:
                return [frame]
            run.doubt = _TWO
            return []
        elif head.type != run.head.type:
            if run.left:
                return [frame]
            run.doubt = "its forms are of different types"
        run.loose = run.loose or not run.added or ids_of(run.head) != ids_of(head)
        run.ended = True
        run.item = run.final = bytes(event.item)
        return self._add(run, frame, event)

    def _leave(self) -> list[Frame]:
        """Return what may leave: all in front of the first call that has not ended."""
        out: list[Frame] = []
        while self._queue:
            run = self._queue[0]
            if run.call and not (run.ended or run.over):
                break
            if run.call:
                out += run.written(self._written, self._ids)
            else:
                out += run.frames
            self.waiting -= run.size
            run.frames, run.size, run.left = [], 0, True
            self._queue.popleft()
        return out

    # The end.

    def _end(self, frame: Frame, event: _Event) -> list[Frame]:
        self._over = True
        response = _read_response(event.response)
        kind = str(event.type).removeprefix("response.")
        if kind == "failed":
            return [frame]
        data = frame.data or b""
        if isinstance(response.status, str) and response.status in parsing.OPEN:
            data = with_member(data, _encode(kind), "response", "status")
        if len(response.output or ()) > parsing.MAX_ITEMS:
            raise ValueError("too many items")
        heads = [read_head(item) for item in response.output or ()]
        listed = [
            self._listed(head, bytes(item), heads)
            for head, item in zip(heads, response.output or (), strict=True)
        ]
        out = self._rest(completed=kind == "completed")
        data = _snapshot(data, listed) if any(run and run.changed for run in listed) else data
        return [*out, frame if data == frame.data else framed(data, frame.event)]

    def _listed(self, head: Head | None, item: bytes, heads: list[Head | None]) -> Run | None:
        """Find the item that the snapshot at the end repeats, and take from there what never came."""
        if head is None:
            return None
        mine = [run for run in self._runs if run.head.type == head.type]
        run = next((run for run in mine if head.id and run.head.id == head.id), None)
        if run is None and head.call_id:
            run = next((run for run in mine if head.call_id in run.call_ids), None)
        if run is None and mine and head.type in INERT:
            # Some servers make a new id each time.
            alike = [one for one in heads if one is not None and one.type == head.type]
            at = next(at for at, one in enumerate(alike) if one is head)
            run = mine[at] if len(alike) == len(mine) else None
        if run is None:
            told = head.type in CALLS and not any(one.repeats(head, item) for one in mine)
            if not told and (mine or head.type not in INERT):
                return None
            run = self._open(head, msgspec.UNSET)
        run.listed = head
        if not run.ended:
            run.ended = run.loose = True
            run.item = item
            if not run.call:
                for frame in run.told(self._written):
                    self._hold(run, frame)
        return run

    def _hold(self, run: Run, frame: Frame) -> None:
        """Keep what ends an item of text for the end, as what is in front has to leave before it."""
        if run.left:
            run.left = False
            self._queue.append(run)
        run.frames.append(frame)

    def _rest(self, *, completed: bool) -> list[Frame]:
        out: list[Frame] = []
        for run in self._queue:
            if run.call and not run.ended and completed:
                run.close()
        out += self._leave()
        while self._queue:
            # A call without an end: who reads it says what that means.
            run = self._queue.popleft()
            out += run.frames
            out += self._leave()
        return out

    def end(self) -> list[Frame]:
        """Take the end of the stream: with the mark of another API, an answer that has ended is whole."""
        done = [run for run in self._runs if run.ended]
        if (
            self._over
            or not self._marked
            or not done
            or len(done) < len(self._runs)
            or not self._begun
        ):
            return []
        self._over = True
        items = [msgspec.Raw(run.final) for run in done if not run.dropped]
        response = with_member(self._begun, b'"completed"', "status")
        response = with_member(response, _encode(items), "output")
        value = {"type": "response.completed", "response": msgspec.Raw(response)}
        return [*self._rest(completed=True), self._written.frame(value)]


def _other(one: Head, other: Head) -> bool:
    """Return whether two heads are surely of two items."""
    return bool(one.id and other.id and one.id != other.id and one.call_id != other.call_id)


def _snapshot(data: bytes, listed: list[Run | None]) -> bytes:
    """Let the end repeat each item as it was given."""
    text = without_lone_surrogates(data)
    response = next(one.value for one in members(text) if one.key == "response")
    output = next(one.value for one in members(text, response) if one.key == "output")
    places = elements(text, output)
    drop = {at for at, run in enumerate(listed) if run is not None and run.dropped}
    edits = [
        Edit(*places[at], run.final)
        for at, run in enumerate(listed)
        if run is not None and run.changed and not run.dropped
    ]
    return apply(data, [*edits, *without(places, drop)])
