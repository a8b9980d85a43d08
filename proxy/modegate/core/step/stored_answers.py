"""Answers that the provider keeps: which one a client means, and what is still owed to it.

A step can have several hops, and so several answers at the provider; its client knows one of them. What
goes on from there must go on from the last, and find a result for each call that was refused in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from modegate.core.ids import Lane, StepId
from modegate.core.log.events import AnswerMapped
from modegate.core.log.fold import State
from modegate.core.step.answer.parts import ChoiceRead, Refused
from modegate.core.step.dialect import AnyDialect, Kept, Request


def meant(dialect: AnyDialect, request: Request, state: State) -> AnswerMapped | None:
    """Find what a request goes on from, if the client knows it otherwise or something is owed."""
    if not state.mapped or dialect.stored is None:
        return None
    found = state.mapped.get(dialect.stored.goes_on_from(request))
    return found if found is not None and changes(found) else None


@dataclass(frozen=True, slots=True)
class Chain:
    """What a request goes on from, where the provider holds the history."""

    origin: str = ""
    """Tells apart requests that hold the same items; empty where the request holds the history itself."""
    lane: Lane | None = None
    """The lane of the answer that it goes on from, as it is with tools; None if that is not known."""


def chain(dialect: AnyDialect, request: Request, state: State) -> Chain:
    """Find what a request goes on from, by whatever way it is chained."""
    name = dialect.stored.goes_on_from(request) if dialect.stored else ""
    if not name:
        return Chain()
    found = known(name, state)
    if found is None:
        return Chain(f"{name}/")
    # A conversation keeps its name while it grows; an answer's own id stands for one place.
    return Chain(f"{name}@{found.step}/", found.lane or None)


def known(name: str, state: State) -> AnswerMapped | None:
    """Find an answer by whatever id it has at the provider; None if it was not given to this session."""
    if name in state.mapped:
        return state.mapped[name]
    # A hop that the client was not told of, as another answer may name it.
    return next((m for m in state.mapped.values() if name == m.last or name in m.hops), None)


def changes(mapped: AnswerMapped) -> bool:
    """Return whether what goes on from an answer must be rewritten."""
    return mapped.client != mapped.last or bool(mapped.owed)


def settled(kept: Kept | None, mapped: AnswerMapped | None) -> tuple[AnswerMapped, ...]:
    """Return what is to be logged once a provider took what was owed to a conversation: it has it now.

    What is owed to one answer stays so, as a client may go on from there again.
    """
    if mapped is None or kept is None or kept.conversation != mapped.client:
        return ()
    return (replace(mapped, owed=()),)


class Naming:
    """What a step's client will know its answer by."""

    def __init__(self, dialect: AnyDialect, step: StepId) -> None:
        self._stored = dialect.stored
        self._step = step
        self.kept: Kept | None = None
        self.lane = Lane("")
        """The lane of what goes on from it and declares tools."""

    def event(
        self, shown: ChoiceRead, hops: Sequence[ChoiceRead], refused: Sequence[Refused], note: str
    ) -> list[AnswerMapped]:
        """Return what is to be logged of an answer that is kept.

        `shown` is the hop whose id the client saw, `hops` are those that came to an end, `refused` is what
        was refused in the last of them, and `note` what else the model is to be told of that.
        """
        if self.kept is None or self._stored is None:
            return []
        name = self.kept.conversation
        client = name or self._stored.answer_id(shown)
        ids = [self._stored.answer_id(hop) for hop in hops]
        end = name or ids[-1]
        if not client or not end:
            return []
        others = tuple(dict.fromkeys(one for one in ids if one and one not in (client, end)))
        owed = self._stored.owed(refused, note)
        return [AnswerMapped(self._step, client, end, owed, others, self.lane)]
