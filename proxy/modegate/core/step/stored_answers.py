"""Answers that the provider keeps: which one a client means, and what is still owed to it.

A step can have several hops, and so several answers at the provider; its client knows one of them. What
goes on from there must go on from the last, and find a result for each call that was refused in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from modegate.core.ids import Lane, StepId
from modegate.core.log.events import AnswerMapped
from modegate.core.log.fold import State
from modegate.core.step.dialect import ChoiceRead, Dialect, Refused
from modegate.core.wire.request_body import RequestBody


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the provider keeps the answer to a request."""

    conversation: str = ""
    """The conversation that it is added to; empty where an answer is known by its own id."""


@runtime_checkable
class KeepsAnswers(Protocol):
    """A dialect whose provider may keep answers."""

    def kept(self, request: Any) -> Kept | None:
        """Return where the answer to a request is kept; None if it is not."""
        ...

    def unstored(self, body: RequestBody) -> bytes:
        """Return a request's body as one that asks for nothing to be kept, for who keeps nothing."""
        ...

    def goes_on_from(self, request: Any) -> str:
        """Return the id of the answer or the conversation that a request goes on from; empty for none."""
        ...

    def go_on(self, request: Any, mapped: AnswerMapped) -> bytes:
        """Let a request go on from the last hop, with the results that are owed in front."""
        ...

    def chained(self, request: Any, choice: Any, refused: Sequence[Refused]) -> bytes | None:
        """Return the next hop as our answers alone, behind the answer that the provider keeps.

        None where it keeps none, so that all that was said goes again.
        """
        ...

    def answer_id(self, choice: Any) -> str:
        """Return the id under which a hop's answer is kept; empty if it is not."""
        ...

    def owed(self, refused: Sequence[Refused], note: str) -> tuple[str, ...]:
        """Return the results of refused calls, and a note to the model, as JSON for a later request."""
        ...


def meant(dialect: Dialect, request: Any, state: State) -> AnswerMapped | None:
    """Find what a request goes on from, if the client knows it otherwise or something is owed."""
    if not state.mapped or not isinstance(dialect, KeepsAnswers):
        return None
    found = state.mapped.get(dialect.goes_on_from(request))
    return found if found is not None and changes(found) else None


@dataclass(frozen=True, slots=True)
class Chain:
    """What a request goes on from, where the provider holds the history."""

    origin: str = ""
    """Tells apart requests that hold the same items; empty where the request holds the history itself."""
    lane: Lane | None = None
    """The lane of the answer that it goes on from, as it is with tools; None if that is not known."""


def chain(dialect: Dialect, request: Any, state: State) -> Chain:
    """Find what a request goes on from, by whatever way it is chained."""
    name = dialect.goes_on_from(request) if isinstance(dialect, KeepsAnswers) else ""
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


def go_on(dialect: Dialect, request: Any, mapped: AnswerMapped) -> bytes:
    """Return the request as one that goes on from the last hop."""
    if not isinstance(dialect, KeepsAnswers):
        raise TypeError("this dialect's answers are not kept")
    return dialect.go_on(request, mapped)


def chained(
    dialect: Dialect, request: Any, choice: ChoiceRead, refused: Sequence[Refused]
) -> bytes | None:
    """Return the next hop as our answers alone, where the provider keeps the rest; else None."""
    if not isinstance(dialect, KeepsAnswers):
        return None
    return dialect.chained(request, choice, refused)


def where_kept(dialect: Dialect, request: Any) -> Kept | None:
    """Return where the answer to a request is kept."""
    return dialect.kept(request) if isinstance(dialect, KeepsAnswers) else None


def settled(kept: Kept | None, mapped: AnswerMapped | None) -> tuple[AnswerMapped, ...]:
    """Return what is to be logged once a provider took what was owed to a conversation: it has it now.

    What is owed to one answer stays so, as a client may go on from there again.
    """
    if mapped is None or kept is None or kept.conversation != mapped.client:
        return ()
    return (replace(mapped, owed=()),)


class Naming:
    """What a step's client will know its answer by."""

    def __init__(self, dialect: Dialect, step: StepId) -> None:
        """Begin a step whose answer is not kept."""
        self._dialect = dialect
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
        if self.kept is None or not isinstance(self._dialect, KeepsAnswers):
            return []
        name = self.kept.conversation
        client = name or self._dialect.answer_id(shown)
        ids = [self._dialect.answer_id(hop) for hop in hops]
        end = name or ids[-1]
        if not client or not end:
            return []
        others = tuple(dict.fromkeys(one for one in ids if one and one not in (client, end)))
        owed = self._dialect.owed(refused, note)
        return [AnswerMapped(self._step, client, end, owed, others, self.lane)]
