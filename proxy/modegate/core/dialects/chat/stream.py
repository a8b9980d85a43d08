"""A streamed chat completions answer: frames in, parts out, calls gathered on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from modegate.core.calls import Gathered
from modegate.core.dialects.base import ChoiceRead, Kind, Part
from modegate.core.dialects.chat import answer
from modegate.core.errors import AnswerUnreadable
from modegate.core.sse import Frame


@dataclass(eq=False, slots=True)
class ChatFrame:
    """One frame and its parts."""

    raw: bytes
    data: bytes
    value: dict[str, Any]
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class _Routes:
    """Which call a piece belongs to, in one choice."""

    by_index: dict[int, Gathered] = field(default_factory=dict)
    by_id: dict[str, Gathered] = field(default_factory=dict)
    legacy: Gathered | None = None


class ChatStreamReader:
    """Reads one hop's stream."""

    def __init__(self) -> None:
        """Begin a hop."""
        self._routes: dict[int, _Routes] = {}
        self.choices: dict[int, ChoiceRead] = {}
        self.usage: dict[str, Any] | None = None

    def read(self, frame: Frame) -> list[Part]:
        """Read one frame and give its parts."""
        if frame.odd:
            raise AnswerUnreadable(
                "the upstream sent a frame that clients could read in different ways"
            )
        data = frame.data.strip() if frame.data is not None else b""
        if not data:
            return _sole(ChatFrame(frame.raw, b"", {}), Kind.LIVE)
        if data.startswith(b"[DONE]"):
            # Clients stop at the prefix already.
            return _sole(ChatFrame(frame.raw, b"", {}), Kind.DONE)
        value = answer.parse_answer(data)
        chat = ChatFrame(frame.raw, data, value)
        usage = value.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        choices = answer.choices_of(value)
        if not choices:
            return _sole(chat, Kind.TAIL if usage else Kind.LIVE)
        for position, choice in enumerate(choices):
            self._read_choice(chat, choice, position)
        return chat.parts

    def _read_choice(self, frame: ChatFrame, choice: dict[str, Any], position: int) -> None:
        index = answer.choice_index(choice, position)
        read = self.choices.setdefault(index, ChoiceRead())
        body = answer.body_of(choice)
        pieces = answer.pieces_of(body)
        finish = choice.get("finish_reason")
        calls = tuple(self._gather(index, read, kind, piece) for kind, piece in pieces)
        answer.add_texts(read, body)
        if _says_something(body) or not (calls or finish):
            frame.parts.append(Part(frame, Kind.LIVE, index))
        if calls:
            frame.parts.append(Part(frame, Kind.CALL, index, calls, len(frame.raw)))
        if finish:
            read.finish = str(finish)
            frame.parts.append(Part(frame, Kind.FINISH, index))

    def _gather(self, index: int, read: ChoiceRead, kind: str, piece: dict[str, Any]) -> Gathered:
        routes = self._routes.setdefault(index, _Routes())
        call = self._route(routes, read, index, kind, piece)
        if call.released is not None:
            # What was judged is what the client may see: a piece that comes later goes nowhere.
            return Gathered(index, kind, released=False)
        answer.add_piece(call, kind, piece)
        if call.id:
            routes.by_id.setdefault(call.id, call)
        return call

    def _route(
        self, routes: _Routes, read: ChoiceRead, choice: int, kind: str, piece: dict[str, Any]
    ) -> Gathered:
        if kind == "legacy":
            if routes.legacy is None:
                routes.legacy = _new(read, Gathered(choice, "legacy"))
            return routes.legacy
        place = answer.slot(piece.get("index"))
        name = piece.get("id")
        known = _known(routes, read, place, name if isinstance(name, str) else "", piece)
        call = known or _new(read, Gathered(choice, "function"))
        if place is not None and routes.by_index.get(place) is not call:
            _share(call, routes.by_index.get(place))
            routes.by_index[place] = call
        if known is None:
            _share(call, routes.by_id.get(str(name)))
        return call


def _known(
    routes: _Routes, read: ChoiceRead, place: int | None, name: str, piece: dict[str, Any]
) -> Gathered | None:
    """Find the call that a piece continues, by id, then by index, then as the last one.

    An id that is new begins a call even under an index in use (agno pull request 8880). A piece with
    neither id nor name under a new index continues the last call if that has no arguments yet.
    """
    at_place = routes.by_index.get(place) if place is not None else None
    named = routes.by_id.get(name) if name else None
    if named is not None:
        if at_place is not None and at_place is not named:
            named.odd = at_place.odd = (
                "a piece of it bears the id of one call and the index of another"
            )
        # Two calls may bear one id; under an index of its own, with a name, the second is another.
        other = place is not None and at_place is None and _piece_name(piece)
        return None if other else named
    if at_place is not None and not (name and at_place.id):
        return at_place
    if name or not read.calls:
        return None
    last = read.calls[-1]
    if _piece_name(piece):
        return last if place is None and not last.names else None
    return last if place is None or not last.arguments else None


def _share(call: Gathered, earlier: Gathered | None) -> None:
    """Note that a client which goes by index alone, or by id alone, takes two calls for one."""
    if earlier is not None:
        call.shared = (*call.shared, *earlier.shared, earlier)


def _piece_name(piece: dict[str, Any]) -> bool:
    functions = (piece.get("function"), piece.get("custom"), piece)
    return any(isinstance(part, dict) and part.get("name") for part in functions)


def _new(read: ChoiceRead, call: Gathered) -> Gathered:
    read.calls.append(call)
    return call


def _sole(frame: ChatFrame, kind: Kind) -> list[Part]:
    frame.parts = [Part(frame, kind)]
    return frame.parts


def _says_something(body: dict[str, Any]) -> bool:
    """Tell whether a delta holds more than a role and empty places."""
    return any(
        value not in (None, "", [])
        for key, value in body.items()
        if key != "role" and key not in answer.CALL_KEYS
    )
