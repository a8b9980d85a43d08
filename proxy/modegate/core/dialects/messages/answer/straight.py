"""A stream of the Messages API, block behind block, whatever a server made of it.

Clients differ where a server is loose: some count blocks, some go by their index, some run a call at its
end and some at the answer's, and most forget what a call's beginning says of its arguments. So a call
waits here for its end and then leaves whole. Text leaves as it comes, if no other block is under way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.common.frames import framed, readable_data, with_member
from modegate.core.dialects.common.straight import AMBIGUOUS, BaseStraightener, may_be_index
from modegate.core.dialects.messages.answer import loose_item
from modegate.core.dialects.messages.answer.answer_items import CALL, TEXT_DELTAS
from modegate.core.dialects.messages.answer.loose_item import CALL_DELTA, Event, LooseBlock
from modegate.core.dialects.messages.answer.parsing import MAX_CALLS
from modegate.core.step.answer.straightener import Ids
from modegate.core.wire.arguments import words
from modegate.core.wire.sse import Frame

_EVENTS = words("""
    message_start content_block_start content_block_delta content_block_stop message_delta
    message_stop ping error
""")
"""Events that are known by their name, where their data has no type."""
_MAX_OPEN = 2 * MAX_CALLS
"""Blocks that are under way at one time: each of them may be looked at for each delta that comes."""


class MessagesStraightener(BaseStraightener[Event]):
    INDEX = "index"

    def __init__(self, limit: int, ids: Ids) -> None:
        super().__init__(limit, ids, loose_item.read_event)
        self._begun = False
        self._blocks: deque[LooseBlock] = deque()
        """Blocks that have not left whole, in order."""
        self._settling: LooseBlock | None = None
        """A call that ended without arguments: some servers send them now."""
        self._by_index: dict[int, LooseBlock] = {}
        """For an index, the block that began with it last."""
        self._finish: list[Frame] = []
        """Why the answer ended, until it has."""
        self._live: tuple[bytes, ...] = ()
        """How deltas of the text begin that is under way."""

    def take(self, frame: Frame) -> list[Frame]:
        if frame.data is None and frame.event == b"ping":
            return [self._own.frame({"type": "ping"})]  # it said no more than its name
        return super().take(frame)

    def passed(self) -> None:
        self._blocks = deque(block for block in self._blocks if not block.closed)
        for block in self._blocks:
            block.frames, block.size = [], 0
        self.waiting, self._finish = 0, []

    def _flows(self, frame: Frame, data: bytes) -> bool:
        name = b"content_block_delta" if self._own.named else b""
        return bool(self._live) and frame.event == name and data.startswith(self._live)

    def _foreign_end(self, frame: Frame) -> list[Frame]:
        return []  # who goes by it has no end of this API

    def _failure(self, words: str) -> Frame:
        error = {"type": "api_error", "message": words}
        return self._own.frame({"type": "error", "error": error})

    def _knows(self, name: str) -> bool:
        return name in _EVENTS

    def _normal(self, frame: Frame, event: Event) -> Frame:
        """Let all events have names, or none; `message` says nothing."""
        frame = self._with_type(frame, event)
        if not isinstance(event.type, str) or not frame.data:
            return frame
        self._own.note(named=bool(frame.event))
        name = event.type.encode()
        wanted = name if self._own.named else b""
        if frame.event == wanted or frame.event not in (b"", b"message", name):
            return frame
        return framed(frame.data, wanted)

    def _event(self, frame: Frame, event: Event) -> list[Frame]:
        out = self._dispatch(frame, event)
        self._live = self._blocks[0].beginnings() if self._blocks else ()
        return out

    def _dispatch(self, frame: Frame, event: Event) -> list[Frame]:
        kind = event.type
        if kind == "error":
            return self._error(frame)
        if kind == "message_start":
            self._begun = True
            return [frame]
        if not self._begun or kind not in _EVENTS or kind == "ping":
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
        self._blocks.clear()
        self._finish.clear()
        self.waiting = 0
        return super()._error(frame)

    # Blocks.

    def _start(self, frame: Frame, event: Event) -> list[Frame]:
        kind = loose_item.read_delta(event.content_block).type
        if not may_be_index(event.index):
            return [frame]
        block = self._open(kind if isinstance(kind, str) else "", event.index)
        self._add(block, frame, event.index)
        if block.shown:
            first, *more = block.split_start(block.frames[0], self._own)
            block.frames[0] = first
            for one in more:
                self._add(block, one, block.place)
        return self._leave()

    def _open(self, kind: str, index: Any) -> LooseBlock:
        if len(self._blocks) >= _MAX_OPEN:
            raise ValueError("too many blocks are under way")
        given = index is not msgspec.UNSET
        block = LooseBlock(self._new_place(index), kind)
        old = self._by_index.get(index) if given else None
        if old is not None and not old.closed:
            # All blocks of this server have one index.
            if not old.shown and not old.whole:
                old.doubt = AMBIGUOUS
                block.doubt = "" if block.shown else AMBIGUOUS
            self._close(old)
        front = self._blocks[0] if self._blocks else None
        if block.shown and front is not None and front.shown and not front.closed:
            # Text that is never ended must not keep back the text behind it.
            self._close(front)
        self._by_index[index if given else block.place] = block
        self._blocks.append(block)
        return block

    def _add(self, block: LooseBlock, frame: Frame, index: Any) -> None:
        frame = self._at(block.place, frame, index)
        block.frames.append(frame)
        block.size += len(frame.raw)
        self._wait(frame)

    def _delta(self, frame: Frame, event: Event) -> list[Frame]:
        delta, index = loose_item.read_delta(event.delta), event.index
        kind = delta.type
        if not isinstance(kind, str) or not may_be_index(index):
            return [frame]
        if index is msgspec.UNSET:
            able = [one for one in self._blocks if not one.closed and one.takes(kind)]
            block = able[-1] if able and (len(able) == 1 or kind != CALL_DELTA) else None
        else:
            block = self._by_index.get(index)
        if block is None or block.closed or not block.takes(kind):
            return self._stray(frame, event, kind, block)
        if isinstance(delta.partial_json, str):
            block.deltas.append(delta.partial_json)
        self._add(block, frame, index)
        return self._leave()

    def _stray(
        self, frame: Frame, event: Event, kind: str, block: LooseBlock | None
    ) -> list[Frame]:
        """Take a delta that belongs to no block that is open."""
        if kind == CALL_DELTA:
            late = [one for one in self._blocks if one is block and one.kind == CALL]
            doubtful = late or [one for one in self._blocks if not (one.closed or one.shown)]
            for one in doubtful:
                one.doubt = AMBIGUOUS
            return [] if doubtful else [frame]
        if block is not None and not block.closed:
            return [frame]
        if kind not in TEXT_DELTAS:
            return [] if block is not None and block.shown else [frame]
        return self._continue(frame, event, TEXT_DELTAS[kind])

    def _continue(self, frame: Frame, event: Event, kind: str) -> list[Frame]:
        """Take text without a beginning, or behind its end."""
        able = [one for one in self._blocks if one.kind == kind and not one.closed]
        if able:
            block = able[-1]
        else:
            block = self._open(kind, event.index)
            empty = {"type": kind, kind: ""}
            start = {"type": "content_block_start", "index": block.place, "content_block": empty}
            self._add(block, self._own.frame(start), block.place)
        self._add(block, frame, event.index)
        return self._leave()

    def _stop(self, frame: Frame, event: Event) -> list[Frame]:
        index = event.index
        if index is msgspec.UNSET:
            able = [one for one in self._blocks if not one.closed]
            block = able[0] if len(able) == 1 else None
        elif is_index(index):
            block = self._by_index.get(index)
        else:
            return [frame]
        if block is not None and not block.closed:
            block.closed = True
            self._add(block, frame, index)
            self._settling = block if block.kind == CALL and not any(block.deltas) else None
        return self._leave()

    def _close(self, block: LooseBlock) -> None:
        block.closed = True
        end = {"type": "content_block_stop", "index": block.place}
        self._add(block, self._own.frame(end), block.place)

    def _leave(self) -> list[Frame]:
        """Return what may leave: of the first block that has not ended what is text, and all in front."""
        out: list[Frame] = []
        while self._blocks:
            block = self._blocks[0]
            whole = block.closed and block is not self._settling
            if block.shown or whole:
                is_call = block.kind == CALL
                out += block.call_frames(self._ids, self._own) if is_call else block.frames
                self.waiting -= block.size
                block.frames, block.size = [], 0
            if not whole:
                break
            self._blocks.popleft()
        return out

    # The end.

    def _reason(self, frame: Frame, event: Event) -> list[Frame]:
        reason = loose_item.read_delta(event.delta).stop_reason
        if not isinstance(reason, str | None):
            return [frame]
        if not reason and not self._finish:
            return [frame]
        self._finish.append(frame)
        self._wait(frame)
        return self._close_all() if reason else []

    def _close_all(self) -> list[Frame]:
        for block in self._blocks:
            if not block.closed:
                self._close(block)
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
        return self._end(self._own.frame({"type": "message_stop"}))


def _one_finish(frames: list[Frame]) -> list[Frame]:
    """Make one of all that was said of the end: of two reasons clients take the last, and so with counts."""
    if len(frames) < 2:
        return frames
    values = [loose_item.decode(readable_data(frame)) for frame in frames]
    at = max(at for at, value in enumerate(values) if value["delta"].get("stop_reason"))
    usages = [one["usage"] for one in values if isinstance(one.get("usage"), dict)]
    usage = msgspec.json.encode({key: count for one in usages for key, count in one.items()})
    data = frames[at].data or b""
    return [framed(with_member(data, usage, "usage") if usages else data, frames[at].event)]
