"""How a step's answer ends: another hop, the released calls, or a text that says what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from modegate.core.ids import StepId
from modegate.core.log.events import AnswerMapped, TurnWithheld
from modegate.core.step import texts
from modegate.core.step.answer.calls import same_calls
from modegate.core.step.answer.hop import HopAnswer, StreamedHop
from modegate.core.step.answer.hop_whole import WholeHop
from modegate.core.step.answer.parts import ChoiceRead, Kind, Part, Refused, StreamWriter
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import StoreBlobs
from modegate.core.step.request.transcript import Recording
from modegate.core.step.stored_answers import Naming, changes


@dataclass(frozen=True, slots=True)
class End:
    """The rest of an answer, and what must be durable before it goes.

    A client may go on from the answer as soon as it has it, so that in a mode also the event that only makes
    it known is waited for.
    """

    body: bytes
    events: tuple[TurnWithheld | AnswerMapped, ...]
    store: StoreBlobs | None
    needed: bool
    """Whether the rest depends on the events in any mode; those that only make an answer known do not."""


class Closing:
    """The hops of one step so far, and the decision on what follows each."""

    def __init__(self, dialect: AnyDialect, step: StepId) -> None:
        """Begin a step."""
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
        self._said: dict[int, list[ChoiceRead]] = {}
        self._last_refused: list[Refused] = []
        self._usage: list[dict[str, Any]] = []
        self.first: HopAnswer | None = None
        self._hop: HopAnswer | None = None
        self._last_whole: WholeHop | None = None
        self._counted = 0
        self._aside: tuple[int, str] | None = None
        self._told = ""
        self.hops = 0
        """Hops that are over and were followed by another."""

    def begin_hop(self, hop: HopAnswer) -> None:
        """Take the answer that comes now."""
        self.first = self.first or hop
        self._hop = hop

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
        """Let `text` be said in this choice if the client is to hear something: a person is asked about it.

        Only where all that follows is text of a later hop, which is so if none of its calls can reach the
        client and nothing waits behind them: what is put back is found between hops alone.
        """
        waits = isinstance(self._hop, StreamedHop) and self._hop.holds_words
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
        if isinstance(self._hop, WholeHop):
            self._last_whole = self._hop
        self._last_refused = list(refused)
        self._counted += any(not one.person for one in refused)
        self.hops += 1
        self._hop = None
        return choice

    def _record(self, index: int, choice: ChoiceRead, blob: bytes) -> None:
        recording = self._recordings.setdefault(index, Recording())
        recording.add(self._step, choice, blob)
        self._said.setdefault(index, []).append(choice)

    def end(self, refused: Sequence[Refused], writer: StreamWriter) -> End:
        """End the answer with the hop under way."""
        closing: dict[int, str] = {}
        events: list[TurnWithheld | AnswerMapped] = []
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
                events.append(self._withheld(index, note))
        for choice in self._choices.values():
            events += self._mapped([*self._hops, choice], refused)
        if isinstance(self._hop, WholeHop):
            return self._seal(self._whole(self._hop, closing, self.hops), events)
        return self._seal(self._streamed(writer, closing), events)

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
        key = self._dialect.answer_key(self._said[index])
        turn = self._recordings[index].event(self._step, self.place, key, self.model)
        return replace(turn, note=note)

    def _mapped(self, hops: list[ChoiceRead], refused: Sequence[Refused]) -> list[AnswerMapped]:
        # A stream bears the first hop's id, a body its own.
        shown = hops[0] if isinstance(self.first, StreamedHop) else hops[-1]
        # The provider keeps its own answer, without the closing text.
        return self.naming.event(shown, hops, _withheld_calls(refused), texts.unshown(refused))

    def _seal(self, body: bytes, events: Sequence[TurnWithheld | AnswerMapped]) -> End:
        blobs = {ref: b for one in self._recordings.values() for ref, b in one.blobs.items()}
        # Where all that was refused stood in text, the answer says so itself and nothing is put back.
        events = [event for event in events if not _idle(event)]
        withheld = [event for event in events if isinstance(event, TurnWithheld)]
        store = StoreBlobs(blobs) if blobs and withheld else None
        needed = any(isinstance(event, TurnWithheld) or changes(event) for event in events)
        return End(body, tuple(events), store, needed)

    def _whole(self, hop: WholeHop, closing: dict[int, str], earlier: int) -> bytes:
        """Write a body of which `earlier` hops went before."""
        if hop.answer is None:
            raise AssertionError("the answer was not read")
        # Only an answer of one choice has hops.
        before = next(iter(self._said.values()))[:earlier] if earlier else []
        stop = frozenset(i for i, choice in hop.choices.items() if not choice.released())
        return hop.answer.write(
            before=before, closing=closing, stop=stop, usage=self._usage[:earlier]
        )

    def _streamed(self, writer: StreamWriter, closing: dict[int, str]) -> bytes:
        hop = self._hop
        if not isinstance(hop, StreamedHop):
            raise TypeError("the answer is not a stream")
        out: list[bytes] = []
        finishes = {part.choice for part in hop.hold.deferred if part.kind is Kind.FINISH}
        for index in closing.keys() - finishes:
            out += (writer.text(index, closing[index]), writer.finish(index))
        told = set(closing) - finishes
        for part in hop.hold.deferred:
            if part.kind is Kind.FINISH and part.choice in closing and part.choice not in told:
                out.append(writer.text(part.choice, closing[part.choice]))
                told.add(part.choice)
            out.append(writer.write([part]))
        out.append(self._done(writer, hop.hold.done))
        return b"".join(out)

    def _done(self, writer: StreamWriter, done: Part | None) -> bytes:
        if done is not None:
            return writer.write([done])
        # A stream that finished its choices but has no end gets none, unless it is ours by now.
        return writer.done() if self.hops else b""

    def give_up(self, writer: StreamWriter) -> End:
        """End an answer of which a later hop failed before anything of it was released."""
        refused = self._last_refused
        text = texts.closing(refused)
        index = refused[-1].call.choice
        mapped = self._mapped(self._hops, refused)
        if self._last_whole is not None:
            body = self._whole(self._last_whole, {index: text}, self.hops - 1)
            self._close(index, None, text)
            return self._seal(body, [self._withheld(index), *mapped])
        body = writer.text(index, text) + writer.finish(index) + writer.done()
        # What the hop had said before it failed is out already and stays with the closing text.
        out = self._choices.get(index)
        if out is not None and not out.whole:
            return self._seal(body, mapped)
        self._close(index, out, text)
        return self._seal(body, [self._withheld(index), *mapped])


def _withheld_calls(refused: Sequence[Refused]) -> list[Refused]:
    """Return those that have to be put back.

    Of one in text the answer itself says that it was refused; what the provider ran gets no result of ours.
    """
    return [one for one in refused if not (one.call.text or one.call.ran)]


def _idle(event: TurnWithheld | AnswerMapped) -> bool:
    if not isinstance(event, TurnWithheld):
        return False
    return not event.note and not any(hop.blob for hop in event.hops)
