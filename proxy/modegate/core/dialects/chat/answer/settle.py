"""What the calls of a choice are once no piece of them is to come: some announced nothing, some are one call.

Servers announce a call before they know it, fill a field that they do not use, or give each piece of a call
an id of its own. Clients that go by index read those pieces as one call; others would run a call without its
arguments. Such a call is written anew, in one piece, so that all clients run what was judged.
"""

from __future__ import annotations

from modegate.core.step.answer.calls import Gathered, share
from modegate.core.step.answer.gate import release_all, withhold_all
from modegate.core.wire.arguments import parse_arguments


def settle(calls: list[Gathered]) -> None:
    """Take out of a choice's calls those that are nothing, and those that go on with another."""
    drop_blanks(calls)
    for call in [one for one in calls if one.pending]:
        front = _in_front(calls, call)
        if front is not None and _goes_on(front, call):
            _join(front, call)
            calls.remove(call)


def drop_blanks(calls: list[Gathered]) -> None:
    """Take out of a choice's calls those that are nothing: nobody judges or counts them."""
    for call in [one for one in calls if one.pending and one.blank]:
        # The old field stays as it came, as no client runs it; a nameless entry of the list is run by some.
        (release_all if call.kind == "legacy" else withhold_all)((call,))
        calls.remove(call)


def _in_front(calls: list[Gathered], call: Gathered) -> Gathered | None:
    """Return the call in whose place a piece came, for clients that go by index."""
    before = reversed(calls[: calls.index(call)])
    return next((one for one in before if call.places.keys() & one.places.keys()), None)


def _goes_on(call: Gathered, piece: Gathered) -> bool:
    """Return whether what bears an id of its own goes on with a call that is none without it.

    Nobody runs what has no name, nor half of an object. A call that takes one piece takes all that follow.
    """
    if "legacy" in (call.kind, piece.kind) or call.odd or piece.odd or not piece.arguments:
        return False
    if not call.pending or not call.one_name or set(piece.names) - set(call.names):
        return False
    return (call.joined or _half(call)) and (not piece.names or _half(piece))


def _half(call: Gathered) -> bool:
    return call.kind != "custom" and parse_arguments(call.arguments) is None


def _join(call: Gathered, piece: Gathered) -> None:
    call.pieces += piece.pieces
    call.extra = {**piece.extra, **call.extra}
    call.kinds |= piece.kinds
    call.split = call.split or piece.split
    call.restarts = call.restarts or piece.restarts
    call.repeats = call.joined = True
    for other in piece.shared:
        if other is not call:
            share(call, other)
    withhold_all((piece,))
