"""A streamed chat completions answer: frames in, parts out, calls gathered on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.answer.answer_items import ChatRead
from modegate.core.dialects.chat.answer.calls import (
    CallDeltas,
    ChatFrame,
    add_delta,
    add_texts,
    call_deltas_of,
    is_stub,
    only_goes_on,
)
from modegate.core.dialects.chat.answer.settle import settle
from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.common.frames import one_part
from modegate.core.dialects.common.strict_json import reason_in
from modegate.core.errors import AnswerUnreadable, UpstreamFailed
from modegate.core.step.answer.calls import Gathered, share
from modegate.core.step.answer.gate import late_piece
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.step.reasons import Reason
from modegate.core.wire.sse import BLANK, DONE, Frame

MAX_PLACES = 16
"""Indices under which one call comes; servers give it one, and some change it once."""


@dataclass(slots=True)
class _Routes:
    """Which call a piece belongs to, in one choice."""

    calls: list[Gathered] = field(default_factory=list)
    by_index: dict[int, Gathered] = field(default_factory=dict)
    by_id: dict[str, Gathered] = field(default_factory=dict)
    legacy: Gathered | None = None


class ChatStreamReader:
    ordered = False

    def __init__(self, *, strictly: bool) -> None:
        self._strictly = strictly
        self._routes: dict[int, _Routes] = {}
        self._spoke: set[int] = set()
        """Choices that have said something in a delta."""
        self._calls = 0
        self._legacy: list[Gathered] = []
        self._touched: dict[Gathered, None] = {}
        """Calls, but for legacy ones, in the order in which a piece of them came last."""
        self.choices: dict[int, ChatRead] = {}
        self.usage: dict[str, Any] | None = None

    def read(self, frame: Frame) -> list[Part]:
        data = frame.data.strip(BLANK) if frame.data is not None else b""
        if not data:
            return _only(ChatFrame(frame.raw, b"", {}), Kind.LIVE)
        if data.startswith(DONE):
            # Clients stop at the prefix already; what stands behind it is not passed on.
            raw = frame.raw if data == DONE else b""
            for read in self.choices.values():
                settle(read.calls)
            return _only(ChatFrame(raw, b"", {}), Kind.DONE)
        value = parsing.parse_answer(data, strictly=self._strictly)
        chat = ChatFrame(frame.raw, data, value)
        usage = value.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        chat.choices = parsing.choices_of(value)
        if parsing.failed(value, chat.choices):
            return self._failed(chat)
        if not chat.choices:
            return _only(chat, Kind.TAIL if usage else Kind.LIVE)
        for at, (index, choice) in enumerate(chat.choices):
            self._read_choice(chat, index, choice, at)
        return chat.parts

    def _failed(self, chat: ChatFrame) -> list[Part]:
        if self._strictly:
            # What the client got so far is one answer, and the hop that failed is ours.
            raise UpstreamFailed("the upstream broke off its answer with an error")
        for _, choice in chat.choices:
            add_texts(ChatRead(), parsing.body_of(choice))
        return _only(chat, Kind.ERROR)

    def _read_choice(self, frame: ChatFrame, index: int, choice: dict[str, Any], at: int) -> None:
        read = self.choices.setdefault(index, ChatRead())
        if len(self.choices) > parsing.MAX_CALLS:
            raise AnswerUnreadable(f"the upstream sent over {parsing.MAX_CALLS} choices")
        body = parsing.body_of(choice)
        found = self._without_stub(index, call_deltas_of(body))
        finish = reason_in(choice, "finish_reason")
        again = not isinstance(choice.get("delta"), dict) and bool(body) and index in self._spoke
        if again:
            frame.again.add(index)
            frame.left_out = frame.left_out or bool(found or read.calls)
            found = [] if read.calls else found
        elif isinstance(choice.get("delta"), dict) and (found or _says_something(body)):
            self._spoke.add(index)
        as_it_is = self._without_stub(index, frame.exact(at, found)) if found else []
        calls = tuple(
            self._gather(index, read, kind, piece, one)
            for (kind, piece), (_, one) in zip(found, as_it_is, strict=True)
        )
        if not again:
            add_texts(read, body)
        size = len(frame.raw)
        # Of a call that was only announced nothing may be left, but its frame can be the one with the role.
        role = "role" in body and all(call.blank for call in calls)
        live = _says_something(body) or (bool(calls) and role)
        if (live and not again) or not (calls or finish):
            kind = Kind.TAIL if again and read.finish else Kind.LIVE
            frame.parts.append(Part(frame, kind, index, (), size))
        if calls:
            frame.parts.append(Part(frame, Kind.CALL, index, calls, size))
        if finish:
            read.finish = finish
            settle(read.calls)
            frame.parts.append(Part(frame, Kind.FINISH, index, (), size))

    def _without_stub(self, index: int, found: CallDeltas) -> CallDeltas:
        """Leave out a call of the old kind that says nothing: some gateways fill the field in each chunk."""
        routes = self._routes.get(index)
        if routes is not None and routes.legacy is not None:
            return found
        return [one for one in found if one[0] != "legacy" or not is_stub(one[1])]

    def _gather(
        self, index: int, read: ChatRead, kind: str, piece: dict[str, Any], exact: dict[str, Any]
    ) -> Gathered:
        routes = self._routes.setdefault(index, _Routes())
        given = piece.get("index")
        place = given if kind != "legacy" and is_index(given) else None
        known = routes.legacy if kind == "legacy" else _known(routes, place, piece)
        if known is not None and not known.pending:
            # What was judged is what the client may see: a piece that comes later goes nowhere.
            return late_piece(index, kind)
        call = known or self._new(read, Gathered(index, "function" if kind == "tool" else kind))
        unnamed = not call.id
        add_delta(call, kind, piece, exact)
        if kind == "legacy":
            routes.legacy = call
            if known is None:
                for other in self._legacy:
                    share(call, other)
                self._legacy.append(call)
            return call
        # Where a piece bears an id or a name, some clients begin a call of their own; one that is not of
        # the API's types is left out by some (the AI SDK), which then run the call without it.
        call.repeats = call.repeats or (known is not None and not only_goes_on(piece))
        told = known is None or place not in call.places or (unnamed and bool(call.id))
        self._route(routes, call, place, new=known is None)
        self._share(call, new=known is None, told=told)
        return call

    def _new(self, read: ChatRead, call: Gathered) -> Gathered:
        self._calls += 1
        if self._calls > parsing.MAX_CALLS:
            raise AnswerUnreadable(f"the upstream sent over {parsing.MAX_CALLS} calls")
        read.calls.append(call)
        # One that begins behind a finish is run piece by piece by some clients.
        call.restarts = read.finish is not None
        return call

    def _route(self, routes: _Routes, call: Gathered, place: int | None, *, new: bool) -> None:
        if new:
            routes.calls.append(call)
        if place is not None:
            routes.by_index[place] = call
        call.places[place] = None
        if len(call.places) > MAX_PLACES:
            call.odd = Reason.TOO_MANY_INDICES.with_(MAX_PLACES)
        if call.id:
            routes.by_id.setdefault(call.id, call)

    def _share(self, call: Gathered, *, new: bool, told: bool) -> None:
        """Note which others a client could take the call for; `told`: its id or an index of it is new.

        Clients go by index, by id or by what came last, some of them without regard to the choice. An odd
        call is never released, so that nobody could take another one for it.
        """
        others = len(self._touched) - (call in self._touched)
        if not call.odd and len(call.shared) < others:
            # Where some are refused, any of the others can be the one that came last.
            for other in takewhile(lambda one: one is not call, reversed(self._touched)):
                if not (new and call.id and other.id):
                    share(call, other)
            for other in self._touched if told else ():
                if other is not call and _meet(call, other):
                    share(call, other)
        self._touched.pop(call, None)
        self._touched[call] = None


def _meet(call: Gathered, other: Gathered) -> bool:
    """Return whether two calls bear one id, or stand in one place: without an index that can be any."""
    if call.id and call.id == other.id:
        return True
    if None in call.places or None in other.places:
        return True
    return bool(call.places.keys() & other.places.keys())


def _known(routes: _Routes, place: int | None, piece: dict[str, Any]) -> Gathered | None:
    """Find the call that a piece continues, by id, then by index, then as the last one.

    An id that is new begins a call even under an index in use (agno pull request 8880). A piece with
    neither id nor name under a new index continues the last call if that has no arguments yet.
    """
    given = piece.get("id")
    name = given if isinstance(given, str) else ""
    at_place = routes.by_index.get(place) if place is not None else None
    named = routes.by_id.get(name) if name else None
    if named is not None:
        if at_place is not None and at_place is not named:
            named.odd = at_place.odd = Reason.ID_AGAINST_INDEX
        # Two calls may bear one id; under an index of its own, with a name, the second is another.
        other = place is not None and at_place is None and _piece_name(piece)
        return None if other else named
    if at_place is not None and not (name and at_place.id):
        return at_place
    if name or not routes.calls:
        return None
    last = routes.calls[-1]
    if _piece_name(piece):
        return last if place is None and not last.names else None
    return last if place is None or not last.arguments else None


def _piece_name(piece: dict[str, Any]) -> bool:
    functions = (piece.get("function"), piece.get("custom"), piece)
    return any(isinstance(part, dict) and part.get("name") for part in functions)


def _only(frame: ChatFrame, kind: Kind) -> list[Part]:
    frame.parts = one_part(frame, kind)
    return frame.parts


def _says_something(body: dict[str, Any]) -> bool:
    """Return whether a delta holds more than a role and empty places."""
    return any(
        value not in (None, "", [])
        for key, value in body.items()
        if key != "role" and key not in parsing.CALL_KEYS
    )
