"""How a step's answer ends: another hop, the released calls, or a text that says what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from modegate.core.ids import StepId
from modegate.core.log.events import AnswerMapped, TurnWithheld
from modegate.core.step import texts
from modegate.core.step.answer.answer import Earlier, ReadAnswer
from modegate.core.step.answer.calls import same_calls
from modegate.core.step.answer.parts import ChoiceRead, Refused, StreamWriter
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import StoreBlobs
from modegate.core.step.request.transcript import Recording
from modegate.core.step.stored_answers import Naming, changes


@dataclass(frozen=True, slots=True)
class End:
    """The rest of an answer, and what must be durable before it goes.

    A client may go on from the answer as soon as it has it. So in a mode, the event that makes the answer
    known is waited for too.
    """

    body: bytes
    events: tuple[TurnWithheld | AnswerMapped, ...]
    store: StoreBlobs | None
    needed: bool
    """Whether the rest depends on the events in any mode; those that only make an answer known do not."""


class Closing:
    """The hops of one step so far, and the decision on what follows each."""

    def __init__(self, dialect: AnyDialect, step: StepId) -> None:
        self._dialect = dialect
        self._step = step
        self.place = ("", 0)
        """Where the answer will stand in the agent's history: the key in front of it, and its index."""
        self.model = ""
        """Whose answer it is."""
        self.naming = Naming(dialect, step)
        self._recordings: dict[int, Recording] = {}
        self._hops: list[ChoiceRead] = []
        """What the hops said that were followed by another."""
        self._last_refused: list[Refused] = []
        self._usage: list[dict[str, Any]] = []
        self.first: ReadAnswer | None = None
        self._hop: ReadAnswer | None = None
        self._last: ReadAnswer | None = None
        """The hop that was followed by another last."""
        self._counted = 0
        self._aside: tuple[int, str] | None = None
        self._told = ""
        self.hops = 0
        """Hops that are over and were followed by another."""

    def begin_hop(self, hop: ReadAnswer) -> None:
        """Take the answer that comes now."""
        self.first = self.first or hop
        self._hop = hop

    @property
    def streams(self) -> bool:
        """Whether the client gets the answer as it comes, so that its head goes first."""
        return self.first is not None and self.first.streams

    @property
    def _choices(self) -> dict[int, ChoiceRead]:
        return dict(self._hop.choices) if self._hop else {}

    def released_any(self) -> bool:
        """Return whether the client has got a call of the hop under way."""
        return any(choice.released() for choice in self._choices.values())

    def choices_changed(self) -> bool:
        """Return whether a later hop says something else than the one choice that it is to go on with."""
        return self.hops > 0 and list(self._choices) != list(self._recordings)

    def may_hop(self, refused: Sequence[Refused], limit: int) -> bool:
        """Return whether the model is asked again: all calls refused, one choice, within the limits."""
        choices = list(self._choices.values())
        if len(choices) != 1 or not refused or choices[0].released() or not choices[0].whole:
            return False
        # What a person answered is no loop, however often it comes.
        again = [r.call for r in refused if not r.person]
        repeated = same_calls([r.call for r in self._last_refused if not r.person], again)
        return (
            self._dialect.may_go_on(choices[0].finish)
            and not any(one.call.ran for one in refused)
            and not (self._hop is not None and self._hop.unended)
            and (self._counted + 1 < limit or not again)
            and not repeated
        )

    def may_say(self, index: int, text: str) -> None:
        """Let `text` be what the client hears in a silence of this choice: a person is asked about it.

        What is put back is found between hops alone. So nothing is said if a call of this hop can reach the
        client, or if something waits behind one.
        """
        waits = self._hop is not None and self._hop.holds_words
        self._aside = (index, text) if list(self._choices) == [index] and not waits else None

    def keep_to_itself(self) -> None:
        """Say no more: the person has answered."""
        self._aside = None

    def aside(self, writer: StreamWriter) -> bytes:
        """Return what was to be said, once."""
        if self._aside is None:
            return b""
        (index, self._told), self._aside = self._aside, None
        return writer.text(index, self._told)

    def end_hop(self, refused: Sequence[Refused]) -> ChoiceRead:
        """Note a hop that another follows, and give what it said."""
        ((index, choice),) = self._choices.items()
        withheld = _withheld_calls(refused)
        blob = self._dialect.turn_blob(choice, withheld) if withheld else b""
        self._record(index, choice, blob)
        self._put_aside(index)
        self._hops.append(choice)
        self._usage.append(dict(self._hop.usage or {}) if self._hop else {})
        self._last = self._hop
        self._last_refused = list(refused)
        self._counted += any(not one.person for one in refused)
        self.hops += 1
        self._hop = None
        return choice

    def _record(self, index: int, choice: ChoiceRead, blob: bytes) -> None:
        self._recordings.setdefault(index, Recording()).add(self._step, choice, blob)

    def end(self, refused: Sequence[Refused]) -> End:
        """End the answer with the hop under way."""
        closing: dict[int, str] = {}
        turns: list[TurnWithheld] = []
        for index, choice in self._choices.items():
            mine = [one for one in refused if one.call.choice == index]
            if not mine and index not in self._recordings:
                continue
            withheld = _withheld_calls(mine)
            if mine and not choice.released():
                closing[index] = texts.closing(mine)
                blob = self._dialect.turn_blob(choice, withheld) if withheld else b""
            else:
                blob = self._dialect.partial_blob(choice, withheld) if withheld else b""
            if choice.whole:
                self._record(index, choice, blob)
                self._put_aside(index)
                if index in closing:
                    self._close(index, None, closing[index])
                # The closing text says it already.
                note = "" if index in closing else texts.unshown(mine)
                turns.append(self._withheld(index, note))
        mapped: list[AnswerMapped] = []
        for choice in self._choices.values():
            mapped += self._mapped([*self._hops, choice], refused)
        body = self._hop.rest(closing, self._earlier(self.hops)) if self._hop else b""
        return self._seal(body, turns, mapped)

    def _earlier(self, hops: int) -> Earlier:
        if not hops:
            return Earlier()
        # Only an answer of one choice has hops.
        return Earlier(next(iter(self._recordings.values())).said[:hops], self._usage[:hops])

    def _put_aside(self, index: int) -> None:
        # A hop of its own, of which the client has all and the model is to find nothing.
        text, self._told = self._told, ""
        if text:
            said = self._dialect.last_said(None, text)
            self._record(index, said, self._dialect.aside_blob)

    def _close(self, index: int, out: ChoiceRead | None, closing: str) -> None:
        # The closing text is a hop of its own: what the client's message keeps.
        self._record(index, self._dialect.last_said(out, closing), b"")

    def _withheld(self, index: int, note: str = "") -> TurnWithheld:
        recording = self._recordings[index]
        key = self._dialect.answer_key(recording.said)
        turn = recording.event(self._step, self.place, key, self.model)
        return replace(turn, note=note)

    def _mapped(self, hops: list[ChoiceRead], refused: Sequence[Refused]) -> list[AnswerMapped]:
        # A stream bears the first hop's id, a body its own.
        shown = hops[0] if self.streams else hops[-1]
        # The provider keeps its own answer, without the closing text.
        return self.naming.event(shown, hops, _withheld_calls(refused), texts.unshown(refused))

    def _seal(
        self, body: bytes, turns: Sequence[TurnWithheld], mapped: Sequence[AnswerMapped]
    ) -> End:
        blobs = {ref: b for one in self._recordings.values() for ref, b in one.blobs.items()}
        # Where all that was refused stood in text, the answer says so itself and nothing is put back.
        turns = [one for one in turns if one.note or any(hop.blob for hop in one.hops)]
        store = StoreBlobs(blobs) if blobs and turns else None
        return End(body, (*turns, *mapped), store, bool(turns) or any(map(changes, mapped)))

    def give_up(self) -> End:
        """End an answer of which a later hop failed before anything of it was released."""
        if self._last is None:
            raise ValueError("no hop went before")
        refused = self._last_refused
        text = texts.closing(refused)
        index = refused[-1].call.choice
        mapped = self._mapped(self._hops, refused)
        body = self._last.closed(index, text, self._earlier(self.hops - 1))
        # What the hop had said before it failed stays with the closing text, if it is out already.
        out = self._choices.get(index) if self.streams else None
        if out is not None and not out.whole:
            return self._seal(body, [], mapped)
        self._close(index, out, text)
        return self._seal(body, [self._withheld(index)], mapped)


def _withheld_calls(refused: Sequence[Refused]) -> list[Refused]:
    """Return those that have to be put back.

    Of one in text the answer itself says that it was refused; what the provider ran gets no result of ours.
    """
    return [one for one in refused if not (one.call.text or one.call.ran)]
