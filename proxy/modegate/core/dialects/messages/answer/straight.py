"""A stream of the Messages API, block behind block, whatever a server made of it.

Clients differ where a server is loose: some count blocks, some go by their index, some run a call at its
end and some at the answer's, and most forget what a call's beginning said of its arguments. So a call
waits here for its end and then leaves whole; text leaves as it comes, if no other block is under way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.messages.answer.blocks import CALL, SHOWN, TEXT, THINKING
from modegate.core.dialects.messages.answer.parsing import MAX_CALLS, raw_input
from modegate.core.step.answer.calls import canonical
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.straightener import (
    Ids,
    Straight,
    bare,
    framed,
    made,
    unreadable,
    with_member,
)
from modegate.core.wire.json_spans import members, without_lone_surrogates
from modegate.core.wire.sse import BLANK, DONE, Frame

_PIECE = "input_json_delta"
_OF = {
    "text_delta": TEXT,
    "citations_delta": TEXT,
    "thinking_delta": THINKING,
    "signature_delta": THINKING,
    _PIECE: CALL,
}
"""For a kind of piece: the kind of block that has it."""
_CONTINUED = {"text_delta": TEXT, "thinking_delta": THINKING}
_NAMED = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)
"""Events that are known by their name, where their data has no type."""
_TWO = "its pieces could be those of another call"
_MAX_RUNS = 2 * MAX_CALLS
"""Blocks that are under way at one time: each of them may be looked at for each piece that comes."""


class _Event(msgspec.Struct):
    type: Any = None
    index: Any = msgspec.UNSET
    content_block: msgspec.Raw = msgspec.Raw(b"")
    delta: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Kind(msgspec.Struct):
    type: Any = None
    stop_reason: Any = None
    partial_json: Any = None


class _Block(msgspec.Struct):
    id: Any = None
    name: Any = None
    toolset_name: Any = None
    text: Any = None
    thinking: Any = None
    input: msgspec.Raw = msgspec.Raw(b"")


_NOTHING = (b"", b"{}", b"null", b'""', b"[]", b"{ }")
"""Arguments in a call's beginning that are none."""

_read = msgspec.json.Decoder(_Event).decode
_read_block = msgspec.json.Decoder(_Block).decode
_read_kind = msgspec.json.Decoder(_Kind).decode
_read_any = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


@dataclass(eq=False, slots=True)
class _Run:
    """One block on its way."""

    place: int
    """The index that it leaves with."""
    kind: str
    frames: list[Frame] = field(default_factory=list)
    """What has not left."""
    closed: bool = False
    doubt: str = ""
    size: int = 0
    said: list[str] = field(default_factory=list)
    """The arguments of a call, as far as they came in pieces."""

    @property
    def shown(self) -> bool:
        """Whether it leaves as it comes."""
        return self.kind in SHOWN


class MessagesStraightener:
    """Straightens one hop's stream."""

    def __init__(self, limit: int, ids: Ids) -> None:
        """Begin; at most `limit` bytes may wait."""
        self._limit = limit
        self._ids = ids
        self.waiting = 0
        self._named: bool | None = None
        self._begun = False
        self._over = False
        self._runs: deque[_Run] = deque()
        """Blocks that have not left whole, in order."""
        self._settling: _Run | None = None
        """A call that ended without arguments: some servers send them now."""
        self._by_index: dict[int, _Run] = {}
        """The block that an index says, which is the last that began with it."""
        self._last = -1
        self._finish: list[Frame] = []
        """Why the answer ended, until it has."""
        self._live: tuple[bytes, ...] = ()
        """How pieces of the text begin that is under way."""

    def take(self, frame: Frame) -> list[Frame]:
        """Take a frame, and give those that may be read now."""
        data = frame.data
        if data is None and frame.event == b"ping":
            return [self._made({"type": "ping"})]  # it said no more than its name
        if data is None or frame.odd or self._over:
            return [frame]
        name = b"content_block_delta" if self._named else b""
        if self._live and frame.event == name and data.startswith(self._live):
            return [frame]  # as almost always
        data = data.strip(BLANK)
        if data.startswith(DONE):
            # Of another API; who goes by it has no end of this one.
            return []
        if frame.event == b"error" and not data.startswith(b"{"):
            words = data.decode("utf-8", "replace")[:300]
            return self._error(self._made(_failure(words)))
        try:
            event = _read(bare(frame))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return [frame]  # who reads it says what is wrong
        try:
            frame = self._with_name(self._with_type(frame, event), event)
            found = self._event(frame, event)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return [unreadable(frame)]
        front = self._runs[0] if self._runs else None
        self._live = _beginnings(front) if front and front.shown and not front.closed else ()
        return found

    def passed(self) -> None:
        """Take that the client has all that came so far, as it came."""
        self._runs = deque(run for run in self._runs if not run.closed)
        for run in self._runs:
            run.frames, run.size = [], 0
        self.waiting, self._finish = 0, []

    def _with_type(self, frame: Frame, event: _Event) -> Frame:
        """Return an event that says what it is by its name alone the type that it lacks."""
        if event.type is not None:
            return frame
        name = frame.event.decode("ascii", "replace")
        if event.error and name in ("", "message", "error"):
            name = "error"
        if name not in _NAMED:
            return frame
        event.type = name
        return framed(with_member(frame.data or b"", _encode(name), "type"), frame.event)

    def _with_name(self, frame: Frame, event: _Event) -> Frame:
        """Let all events have names, or none; `message` says nothing."""
        if not isinstance(event.type, str) or not frame.data:
            return frame
        name = event.type.encode()
        if self._named is None:
            self._named = bool(frame.event)
        wanted = name if self._named else b""
        if frame.event == wanted or frame.event not in (b"", b"message", name):
            return frame
        return framed(frame.data, wanted)

    def _made(self, value: dict[str, Any], doubt: str = "") -> Straight:
        return made(value, named=self._named is not False, doubt=doubt)

    def _event(self, frame: Frame, event: _Event) -> list[Frame]:
        kind = event.type
        if kind == "error":
            return self._error(frame)
        if kind == "message_start":
            self._begun = True
            return [frame]
        if not self._begun or kind not in _NAMED or kind == "ping":
            return [frame]
        if kind != "content_block_delta":
            self._settling = None
        match kind:
            case "content_block_start":
                return self._start(frame, event)
            case "content_block_delta":
                return self._delta(frame, event)
            case "content_block_stop":
                return self._stop(frame, event)
            case "message_delta":
                return self._reason(frame, event)
            case _:
                return self._end(frame)

    def _error(self, frame: Frame) -> list[Frame]:
        self._over = True
        self._runs.clear()
        self._finish.clear()
        self.waiting = 0
        return [frame]

    # Blocks.

    def _start(self, frame: Frame, event: _Event) -> list[Frame]:
        index = event.index
        kind = _read_kind(event.content_block).type
        if not (index is msgspec.UNSET or is_index(index)):
            return [frame]
        run = self._open(kind if isinstance(kind, str) else "", index)
        self._add(run, self._at(frame, event, run))
        if run.shown:
            self._split_start(run)
        return self._leave()

    def _open(self, kind: str, index: Any) -> _Run:
        if len(self._runs) >= _MAX_RUNS:
            raise ValueError("too many blocks are under way")
        given = index is not msgspec.UNSET
        fits = given and index > self._last
        self._last = place = index if fits else self._last + 1
        run = _Run(place, kind)
        old = self._by_index.get(index) if given else None
        if old is not None and not old.closed:
            # All blocks of this server have one index.
            if not old.shown and not _whole(old):
                old.doubt = _TWO
                run.doubt = "" if run.shown else _TWO
            self._close(old)
        front = self._runs[0] if self._runs else None
        if run.shown and front is not None and front.shown and not front.closed:
            # Text that is never ended must not keep back the text behind it.
            self._close(front)
        self._by_index[index if given else place] = run
        self._runs.append(run)
        return run

    def _at(self, frame: Frame, event: _Event, run: _Run) -> Frame:
        if event.index == run.place:
            return frame
        return framed(with_member(frame.data or b"", b"%d" % run.place, "index"), frame.event)

    def _add(self, run: _Run, frame: Frame) -> None:
        run.frames.append(frame)
        run.size += len(frame.raw)
        self._grow(frame)

    def _grow(self, frame: Frame) -> None:
        self.waiting += len(frame.raw)
        if self.waiting > self._limit:
            raise over(self._limit)

    def _split_start(self, run: _Run) -> None:
        """Let a text begin empty: some clients forget what its beginning says."""
        (frame,) = run.frames
        block = _read_block(_read(bare(frame)).content_block)
        said = block.text if run.kind == TEXT else block.thinking
        if run.kind not in (TEXT, THINKING) or not isinstance(said, str) or not said:
            return
        empty = with_member(frame.data or b"", b'""', "content_block", run.kind)
        run.frames = [framed(empty, frame.event)]
        top = members(without_lone_surrogates(frame.data or b""))
        inside = next(one.value for one in top if one.key == "content_block")
        text = members(without_lone_surrogates(frame.data or b""), inside)
        start, stop = next(one.value for one in text if one.key == run.kind)
        value = {
            "type": f"{run.kind}_delta",
            run.kind: msgspec.Raw((frame.data or b"")[start:stop]),
        }
        self._add(run, self._made(_piece(run.place, value)))

    def _delta(self, frame: Frame, event: _Event) -> list[Frame]:
        delta, index = _read_kind(event.delta), event.index
        kind = delta.type
        if not isinstance(kind, str) or not (index is msgspec.UNSET or is_index(index)):
            return [frame]
        if index is msgspec.UNSET:
            open_ = [one for one in self._runs if not one.closed and _takes(one, kind)]
            run = open_[-1] if open_ and (len(open_) == 1 or kind != _PIECE) else None
        else:
            run = self._by_index.get(index)
        if run is None or run.closed or not _takes(run, kind):
            return self._stray(frame, event, kind, run)
        if isinstance(delta.partial_json, str):
            run.said.append(delta.partial_json)
        self._add(run, self._at(frame, event, run))
        return self._leave()

    def _stray(self, frame: Frame, event: _Event, kind: str, run: _Run | None) -> list[Frame]:
        """Take a piece that belongs to no block that is open."""
        if kind == _PIECE:
            late = run if run in self._runs and run is not None and run.kind == CALL else None
            doubtful = [late] if late else [r for r in self._runs if not (r.closed or r.shown)]
            for one in doubtful:
                one.doubt = _TWO
            return [] if doubtful else [frame]
        if run is not None and not run.closed:
            return [frame]
        if kind not in _CONTINUED:
            return [] if run is not None and run.shown else [frame]
        # Text without a beginning, or behind its end.
        open_ = [one for one in self._runs if one.kind == _CONTINUED[kind] and not one.closed]
        if not open_:
            more = self._open(_CONTINUED[kind], event.index)
            block = {"type": more.kind, more.kind: ""}
            start = {"type": "content_block_start", "index": more.place, "content_block": block}
            self._add(more, self._made(start))
        else:
            more = open_[-1]
        self._add(more, self._at(frame, event, more))
        return self._leave()

    def _stop(self, frame: Frame, event: _Event) -> list[Frame]:
        index = event.index
        if index is msgspec.UNSET:
            open_ = [one for one in self._runs if not one.closed]
            run = open_[0] if len(open_) == 1 else None
        elif is_index(index):
            run = self._by_index.get(index)
        else:
            return [frame]
        if run is not None and not run.closed:
            self._close(run, self._at(frame, event, run))
            self._settling = run if run.kind == CALL and not any(run.said) else None
        return self._leave()

    def _close(self, run: _Run, frame: Frame | None = None) -> None:
        run.closed = True
        end = frame or self._made({"type": "content_block_stop", "index": run.place})
        self._add(run, end)

    def _leave(self) -> list[Frame]:
        """Return what may leave: of the first block that has not ended what is text, and all in front."""
        out: list[Frame] = []
        while self._runs:
            run = self._runs[0]
            whole = run.closed and run is not self._settling
            if run.shown:
                out += run.frames
            elif whole:
                out += self._call(run) if run.kind == CALL else run.frames
            if run.shown or whole:
                self.waiting -= run.size
                run.frames, run.size = [], 0
            if not whole:
                break
            self._runs.popleft()
        return out

    def _call(self, run: _Run) -> list[Frame]:
        """Return a call that has ended: with an id, and with its arguments in pieces alone."""
        first, *rest = run.frames
        if run.doubt:
            return [framed(first.data or b"", first.event, run.doubt), *rest]
        block = _read_block(_read(bare(first)).content_block)
        name, given = block.name, bytes(block.input) not in _NOTHING
        said = "".join(run.said)
        if name in (None, "") and not block.toolset_name and not (given or said):
            # A placeholder, as some servers send before they know whether there will be a call.
            return []
        data = first.data or b""
        own = self._ids.own(block.id, "toolu_")
        if own is not None:
            data = with_member(data, _encode(own), "content_block", "id")
        if given and bytes(block.input).startswith(b"{"):
            text = _given(data)
            if said and canonical(said) != canonical(text):
                return run.frames
            data = with_member(data, b"{}", "content_block", "input")
            if not said:
                piece = {"type": _PIECE, "partial_json": text}
                rest.insert(0, self._made(_piece(run.place, piece)))
        if data is not first.data:
            first = framed(data, first.event)
        return [first, *rest]

    # The end.

    def _reason(self, frame: Frame, event: _Event) -> list[Frame]:
        reason = _read_kind(event.delta).stop_reason
        if not isinstance(reason, str | None):
            return [frame]
        if not reason and not self._finish:
            return [frame]
        self._finish.append(frame)
        self._grow(frame)
        return self._close_all() if reason else []

    def _close_all(self) -> list[Frame]:
        for run in self._runs:
            if not run.closed:
                self._close(run)
        self._settling = None
        return self._leave()

    def _end(self, frame: Frame) -> list[Frame]:
        self._over = True
        finish, self._finish = self._finish, []
        self.waiting -= sum(len(one.raw) for one in finish)
        return [*self._close_all(), *_one_finish(finish), frame]

    def end(self) -> list[Frame]:
        """Take the end of the stream: an answer that said why it ended is whole."""
        if self._over or not self._finish:
            return []
        return self._end(self._made({"type": "message_stop"}))


def _takes(run: _Run, kind: str) -> bool:
    """Return whether a block can have such a piece; those that are not known could be anything's."""
    if kind == _PIECE:
        return not run.shown
    return _OF.get(kind, run.kind) == run.kind


def _whole(run: _Run) -> bool:
    """Return whether a call that has no end has all of its arguments."""
    try:
        return isinstance(_read_any("".join(run.said)), dict)
    except (msgspec.MsgspecError, ValueError):
        return False


def _given(data: bytes) -> str:
    """Return the arguments that stand in a call's beginning, as they are written."""
    found = members(without_lone_surrogates(data))
    start, stop = next(one.value for one in found if one.key == "content_block")
    return raw_input(data[start:stop])


def _one_finish(frames: list[Frame]) -> list[Frame]:
    """Make one of all that was said of the end: of two reasons clients take the last, and so with counts."""
    if len(frames) < 2:
        return frames
    values = [_read_any(bare(frame)) for frame in frames]
    at = max(at for at, value in enumerate(values) if value["delta"].get("stop_reason"))
    said = [one["usage"] for one in values if isinstance(one.get("usage"), dict)]
    usage = {key: count for one in said for key, count in one.items()}
    data = frames[at].data or b""
    return [framed(with_member(data, _encode(usage), "usage") if said else data, frames[at].event)]


def _piece(place: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": place, "delta": delta}


def _failure(words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "api_error", "message": words}}


def _beginnings(run: _Run) -> tuple[bytes, ...]:
    if run.kind not in (TEXT, THINKING):
        return ()
    compact = '{"type":"content_block_delta","index":%d,"delta":{"type":"%s_delta",'
    spaced = compact.replace(":", ": ").replace(",", ", ").rstrip()
    return tuple((form % (run.place, run.kind)).encode() for form in (compact, spaced))
