"""What a request gets back that its client never had: withheld exchanges, notices, results that are owed."""

from __future__ import annotations

from collections.abc import Mapping, Set

from modegate.core.ids import Seq, StepId
from modegate.core.log.events import AnswerMapped, NoticeGiven, TurnWithheld
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step import stored_answers
from modegate.core.step.dialect import AnyDialect, Kept, Request
from modegate.core.step.effects import Append, Effect
from modegate.core.step.request import notices, transcript
from modegate.core.step.request.conversation import Conversation
from modegate.core.step.request.request_form import Form, model_of
from modegate.core.wire.request_body import RequestBody


class PutBack:
    """What belongs into the history of one request."""

    def __init__(self, dialect: AnyDialect, in_force: ModesInForce) -> None:
        self._dialect = dialect
        self._in_force = in_force
        self._found: dict[int, TurnWithheld] = {}
        self._gone: Set[int] = frozenset()
        """Of what was found, that which the provider takes no more."""
        self._noted: notices.Placed = {}
        """What is noted of withheld turns, by the item in which it stands."""
        self.notices: notices.Placed = {}
        self.notices_of: tuple[Seq, ...] = ()
        """The mode changes of which they tell."""
        self._due: tuple[NoticeGiven, ...] = ()
        self._mapped: AnswerMapped | None = None
        self._owes = True
        """The results that are owed are not with the provider yet."""
        self.stored: Mapping[str, bytes] = {}
        self.restores = False
        """Something that was withheld stands in the request."""

    def look_back(self, request: Request, conversation: Conversation) -> None:
        """Find what belongs into the history: withheld exchanges, and notices old and new."""
        in_force, state = self._in_force, self._in_force.state
        self._mapped = stored_answers.meant(self._dialect, request, state)
        told = in_force.policy.narrate and request.declares_tools
        tells = told and (state.notices or notices.owed(in_force, conversation.lane))
        if not (state.withheld or tells):
            return
        items = self._dialect.items(request)
        self._found = transcript.match(items, state.withheld)
        refused = set(state.refused)
        self._gone = {at for at, turn in self._found.items() if turn.step in refused}
        self._noted = transcript.notes(items, self._wanted)
        if not tells:
            return
        origin, lane = conversation.chain.origin, conversation.lane
        given = notices.due(in_force, lane, items, origin)
        self._due = (given,) if given else ()
        told_of = [one for one in (*state.notices, *self._due) if one.lane == lane]
        self.notices = notices.place(items, told_of, lane, origin)
        self.notices_of = tuple(one.mode_seq for one in told_of) if self.notices else ()

    @property
    def _wanted(self) -> dict[int, TurnWithheld]:
        return {at: turn for at, turn in self._found.items() if at not in self._gone}

    @property
    def refs(self) -> tuple[str, ...]:
        """The stored bodies that are needed."""
        return transcript.refs(self._wanted)

    @property
    def turns(self) -> tuple[StepId, ...]:
        """The steps of which something is put back."""
        return tuple(turn.step for turn in self._wanted.values())

    def into(self, request: Request, form: Form) -> Request:
        """Return a request with what goes in this form of it."""
        wanted = self._wanted if form.withheld else {}
        noted = self._noted if form.withheld else {}
        placed = notices.joined(noted, self.notices if form.notices else {})
        taken = request.call_ids if wanted else frozenset()
        found = transcript.complete(wanted, self.stored, taken, self._dialect.blob_ids)
        lost = transcript.lost(self._found, found)
        if form.manner.thoughts is not True and found:
            found = transcript.unbound(self._dialect, found, wanted, model_of(request))
        self.restores = bool(found or noted)
        base = request
        if lost and self._dialect.forget is not None:
            base = self._read(self._dialect.forget(request, found, placed, lost))
        elif found or placed:
            base = self._read(self._dialect.restore(request, found, placed, form.manner))
        if self._in_force.state.ever_gated:
            # A plan of its session may have waited for a person.
            clean = self._dialect.without_asides(base)
            base = base if clean is None else self._read(clean)
        if self._mapped is not None and (stored := self._dialect.stored) is not None:
            base = self._read(stored.go_on(base, self._mapped))
        return base

    def _read(self, body: bytes) -> Request:
        return self._dialect.read(RequestBody(body))

    def told(self) -> list[Effect]:
        """Log the notice that was due, once."""
        due, self._due = self._due, ()
        return [Append(due)] if due else []

    def taken(self, kept: Kept | None) -> list[Effect]:
        """Log that the provider has taken the request, where something was owed that it keeps now."""
        owed, self._owes = self._mapped if self._owes else None, False
        events = stored_answers.settled(kept, owed)
        return [Append(events)] if events else []
