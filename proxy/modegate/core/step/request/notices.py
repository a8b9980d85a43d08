"""One sentence that tells the model of a mode change made by a person, at the place where it was given.

A notice is keyed by lane and `mode/set`. It stands at the end of the item that was the newest when it was
given, a user message or a tool's result, and stays there as long as the agent sends that item. It is not a
message of its own: after tool results, many chat templates take only a message of the model. Its place is
found by the keys of that item and of the one in front of it, as in `transcript`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modegate.core.ids import Lane
from modegate.core.log.events import NoticeGiven
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step import texts
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Item

Placed = Mapping[int, Sequence[str]]
"""Texts by the index of the item at the end of which they stand."""


def owed(in_force: ModesInForce, lane: Lane) -> bool:
    """Return whether a lane's last header says another mode than the one in force."""
    last = in_force.state.lanes.get(lane)
    return last is not None and last.mode != in_force.label


def due(
    in_force: ModesInForce, lane: Lane, items: Sequence[Item], origin: str = ""
) -> NoticeGiven | None:
    """Return the notice that this step owes its lane: the mode is another than its last header says.

    The first step of a lane is told by the section alone; flips that cancel out say nothing; a lane that
    left by its own approved exit was told by the answer (its header follows the exit, see `fold`).

    If the provider keeps what came before the items, `origin` says what they go on from: the same words are
    then another place each time. If the newest item can hold no sentence, a later step gives the notice.
    """
    if not owed(in_force, lane) or not items or items[-1].answer or not items[-1].open:
        return None
    last = in_force.state.lanes[lane]
    return NoticeGiven(
        lane=lane,
        mode=in_force.label,
        mode_seq=in_force.state.mode_seq,
        before=origin + (items[-2].key if len(items) > 1 else ""),
        item=items[-1].key,
        text=texts.notice(last.mode, in_force.label),
        at=len(items) - 1,
    )


def place(
    items: Sequence[Item], notices: Sequence[NoticeGiven], lane: Lane, origin: str = ""
) -> dict[int, list[str]]:
    """Find where a lane's notices stand, and none where the agent edited.

    Of several places the one where it was given, so that it stays there while the history grows; else the
    last.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for index, item in enumerate(items):
        before = origin + (items[index - 1].key if index else "")
        places.setdefault((before, item.key), []).append(index)
    placed: dict[int, list[str]] = {}
    for one in notices:
        found = places.get((one.before, one.item))
        if one.lane == lane and found:
            index = one.at if one.at in found else found[-1]
            placed.setdefault(index, []).append(one.text)
    return placed


def in_results(refused: Sequence[Refused]) -> list[Refused]:
    """Put what is said of calls in plain text into the result of a call beside them, if there is one.

    Otherwise it becomes one user message: templates that want roles to alternate take no two.
    """
    noted = [one for one in refused if one.call.text]
    if not noted or len(refused) == 1:
        return list(refused)
    *front, last = [one for one in refused if not one.call.text] or noted[:1]
    said = [last.answer, *(one.answer for one in noted if one is not last)]
    return [*front, replace(last, answer="\n\n".join(said))]


def joined(first: Placed, then: Placed) -> Placed:
    """Return the texts of both, in this order where they stand at one place."""
    return {at: [*first.get(at, ()), *then.get(at, ())] for at in (*first, *then)}
