"""The request side of a step: what was withheld is put back, and each hop is assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from modegate.core.errors import BadRequest
from modegate.core.identify.session import lane
from modegate.core.ids import Lane, Seq, StepId, ToolName
from modegate.core.log.events import AnswerMapped, HistoryRefused, NoticeGiven, TurnWithheld
from modegate.core.log.open_questions import away, moved_on, returned
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step import stored_answers
from modegate.core.step.answer.gate import Offer
from modegate.core.step.answer.parts import ChoiceRead, Refused
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.dialect import AnyDialect, Kept
from modegate.core.step.effects import Abandon, Append, CallUpstream, Effect, Headers, KeepOpen
from modegate.core.step.request import notices, transcript
from modegate.core.step.request.assemble import assemble
from modegate.core.step.request.request_form import MAX_MODEL, Form, Manner
from modegate.core.step.request.waiting_lines import without_asides
from modegate.core.step.text_calls.shapes import Habit, TextCalls, habit_of
from modegate.core.wire import headers
from modegate.core.wire.request_body import RequestBody

IDENTITY = (b"accept-encoding", b"identity")
"""The gate reads the answer, so it asks for one that is not compressed."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step begins with."""

    step: StepId
    headers: Headers
    """The client's, as they may go upstream; without Content-Length."""
    body: RequestBody
    counts: bool = False
    """It asks only how long the request would be: nothing comes of it but a number."""
    learned: Mapping[str, Manner] = field(default_factory=dict)
    """By model, how its upstream takes what modegate puts in, where that was found out."""


class HopRequests:
    """What one step asks its model, hop by hop."""

    def __init__(self, dialect: AnyDialect, step: StepRequest) -> None:
        """Take a request that was not yet looked at."""
        self._dialect = dialect
        self._step = step
        self._request: Any = None
        self._base: Any = None
        self._found: dict[int, TurnWithheld] = {}
        self._placed: notices.Placed = {}
        self._noted: notices.Placed = {}
        """What is noted of withheld turns, by the item in which it stands."""
        self._owed: list[NoticeGiven] = []
        self._notices: tuple[Seq, ...] = ()
        self._mapped: AnswerMapped | None = None
        self._owes = True
        """The results that are owed are not with the provider yet."""
        self._chain = stored_answers.Chain()
        self.form = Form()
        """In which form the next request goes out."""
        self._stored: Mapping[str, bytes] = {}
        self._turns: list[tuple[ChoiceRead, Sequence[Refused]]] = []
        self._gone: Set[int] = frozenset()
        """Of what was found, that which the provider takes no more."""
        self._restored = False
        self._waited = False
        """A plan of its session may have waited for a person."""
        self.chains = False
        """The hop under way only goes on from an answer that the provider keeps, if it does as it says."""

    def read(self, in_force: ModesInForce) -> tuple[str, ...]:
        """Read the request and give the stored bodies that belong into its history.

        Raises:
            BadRequest: it cannot be read, and a mode is in force.
        """
        self._waited = in_force.state.ever_gated
        try:
            self._request = self._base = self._dialect.read(self._step.body)
            self._chain = stored_answers.chain(self._dialect, self._request, in_force.state)
            self._look_back(in_force)
        except BadRequest:
            if in_force.gated:
                raise
            # In default mode everything passes untouched, also what nobody can read.
            self._found, self._placed, self._noted, self._owed = {}, {}, {}, []
            self._mapped = None
        return transcript.refs(self._wanted)

    def _look_back(self, in_force: ModesInForce) -> None:
        """Find what belongs into the history: withheld exchanges, and notices old and new."""
        state = in_force.state
        self._mapped = stored_answers.meant(self._dialect, self._request, state)
        told = in_force.policy.narrate and self._request.declares_tools
        tells = told and (state.notices or notices.owed(in_force, self.lane))
        if not (state.withheld or tells):
            return
        items = self._dialect.items(self._request)
        self._found = transcript.match(items, state.withheld)
        refused = set(state.refused)
        self._gone = {at for at, turn in self._found.items() if turn.step in refused}
        self._noted = transcript.notes(items, self._wanted)
        if not tells:
            return
        origin = self._chain.origin
        given = notices.due(in_force, self.lane, items, origin)
        self._owed = [given] if given else []
        told_of = [one for one in (*state.notices, *self._owed) if one.lane == self.lane]
        self._placed = notices.place(items, told_of, self.lane, origin)
        self._notices = tuple(one.mode_seq for one in told_of) if self._placed else ()

    @property
    def _wanted(self) -> dict[int, TurnWithheld]:
        return {at: turn for at, turn in self._found.items() if at not in self._gone}

    def restore(self, stored: Mapping[str, bytes]) -> None:
        """Put back what is still stored, and the notices."""
        self._stored = stored
        if self._step.learned and self._request is not None:
            self.form = Form(self._step.learned.get(self.model, Manner()))
        self._build()

    def reform(self, form: Form) -> None:
        """Put back what goes in another form of the request, and what its model has said since."""
        self.form = form
        self._build()

    def _build(self) -> None:
        form, self._base = self.form, self._request
        wanted = self._wanted if form.withheld else {}
        noted = self._noted if form.withheld else {}
        placed = notices.joined(noted, self._placed if form.notices else {})
        # What nobody can read passes in the default mode: then there is no request, and nothing was found.
        taken = self._request.call_ids if wanted else frozenset()
        found = transcript.complete(wanted, self._stored, taken)
        lost = transcript.lost(self._found, found)
        if form.manner.thoughts is not True and found:
            found = transcript.unbound(self._dialect, found, wanted, self.model)
        self._restored = bool(found or noted)
        if lost and self._dialect.forget is not None:
            body = self._dialect.forget(self._request, found, placed, lost)
            self._base = self._reread(body)
        elif found or placed:
            body = self._dialect.restore(self._request, found, placed, form.manner)
            self._base = self._reread(body)
        if self._waited and self._base is not None:
            clean = without_asides(self._base)
            self._base = self._base if clean is None else self._reread(clean)
        if self._mapped is not None:
            self._base = self._reread(stored_answers.go_on(self._dialect, self._base, self._mapped))
        for choice, refused in self._turns:
            self._extend(choice, refused)

    def _reread(self, body: bytes) -> Any:
        return self._dialect.read(RequestBody(body))

    @property
    def later(self) -> bool:
        """Whether the model has said something in this step that is not all of its answer."""
        return bool(self._turns)

    @property
    def tells(self) -> bool:
        """Whether notices stand in the request."""
        return self.form.notices and bool(self._placed)

    @property
    def restores(self) -> bool:
        """Whether something that was withheld stands in the request."""
        return self._restored

    @property
    def puts_in(self) -> bool:
        """Whether something stands in the request's history that its client never sent."""
        return self.later or self.tells or self.restores

    @property
    def model(self) -> str:
        """The model that is asked; empty where none is named."""
        name = self._request.value("model")
        return name if isinstance(name, str) and len(name) <= MAX_MODEL else ""

    @property
    def streams(self) -> bool:
        """Whether a streamed answer is asked for."""
        return self._request is not None and self._request.value("stream") is True

    def left_out(self) -> HistoryRefused:
        """Say what of the history the provider took the request without."""
        form = self.form
        turns = () if form.withheld else tuple(turn.step for turn in self._wanted.values())
        notices = () if form.notices else self._notices
        return HistoryRefused(self._step.step, turns, self.lane, notices)

    def taken(self) -> list[Effect]:
        """Log that the provider has taken the request, where something was owed that it keeps now."""
        owed, self._owes = self._mapped if self._owes else None, False
        events = stored_answers.settled(self.kept, owed)
        return [Append(events)] if events else []

    @property
    def kept(self) -> Kept | None:
        """Where the provider keeps the answer."""
        return stored_answers.where_kept(self._dialect, self._request)

    def _told(self) -> list[Effect]:
        owed, self._owed = tuple(self._owed), []
        return [Append(owed)] if owed else []

    @property
    def place(self) -> tuple[str, int]:
        """Where the answer will stand in the agent's history: the key in front of it, and its index."""
        return self._dialect.last_key(self._request), len(self._request.messages)

    @property
    def call_ids(self) -> frozenset[str]:
        """Ids of calls in the history."""
        ids: frozenset[str] = self._base.call_ids
        return ids

    def ids(self, hop: int) -> Ids:
        """Return ids of our own for calls of a hop's answer; a provider that keeps it goes by its own."""
        return Ids(f"{self._step.step}/{hop}", self.call_ids, renames=self.kept is None)

    def untouched(self, in_force: ModesInForce) -> list[Effect]:
        """Send the request as it came, but for what is put back."""
        return [*self.moved_on(in_force), *self._told(), self._untouched()]

    @property
    def declared(self) -> frozenset[str]:
        """Every name under which the agent declares a tool."""
        names: frozenset[str] = frozenset() if self._request is None else self._request.declared
        return names

    @property
    def declares_tools(self) -> bool:
        """Whether the agent offers its model any tool."""
        return bool(self._request.declares_tools)

    @property
    def readable(self) -> bool:
        """Whether the request could be read: what cannot passes in the default mode alone."""
        return self._request is not None

    def unfiltered(self, before: ModesInForce, now: ModesInForce) -> Offer:
        """Return what the model was shown of a request that went out as it came, and may use of it now."""
        declared: frozenset[str] = self._request.declared
        tools = (ToolName(name) for name in sorted(declared))
        kept = tuple(name for name in tools if now.may_offer(name))
        return Offer(before, kept, declared, texts=self._texts(now))

    def may_call_stale_exit(self, in_force: ModesInForce) -> bool:
        """Return whether the model could still call an exit tool, in the default mode: it once had one."""
        return (
            in_force.state.ever_gated
            and self._request is not None
            and self._request.declares_tools
            and EXIT_TOOL not in self._request.declared
        )

    def as_it_came(self, in_force: ModesInForce) -> tuple[Offer, list[Effect]]:
        """Send a hop as it came, but for what is put back, and read the answer."""
        call = self._untouched()
        call = replace(call, headers=headers.replace(call.headers, *IDENTITY))
        return Offer(in_force, (), self._request.declared), [*self._told(), call]

    def _untouched(self) -> CallUpstream:
        lines, body = self._step.headers, self._step.body.raw
        if self._base is not self._request:
            lines, body = headers.replace(lines, b"content-encoding", None), self._base.body
        return CallUpstream(lines, body)

    def extend(self, choice: ChoiceRead, refused: Sequence[Refused]) -> None:
        """Let the next hop follow what the model said, with our answers to its calls."""
        refused = notices.in_results(refused)
        self._turns.append((choice, refused))
        self._extend(choice, refused)

    def _extend(self, choice: ChoiceRead, refused: Sequence[Refused]) -> None:
        form, base, kept = self.form, self._base, self.kept
        chained = (
            stored_answers.chained(self._dialect, base, choice, refused) if form.chained else None
        )
        self.chains = chained is not None and kept is not None and not kept.conversation
        body = chained or self._dialect.extend(base, choice, refused, form.manner)
        self._base = self._reread(body)

    @cached_property
    def lane(self) -> Lane:
        """The stream of like requests that this one belongs to."""
        return self._lane(has_tools=self._request.declares_tools)

    @property
    def lane_with_tools(self) -> Lane:
        """The lane of requests that go on from here and declare tools."""
        return self._lane(has_tools=True)

    def _lane(self, *, has_tools: bool) -> Lane:
        first = self._request.first_user_text
        return lane(self._dialect.name, has_tools, first, self._step.headers, self._chain.lane)

    @property
    def end(self) -> str:
        """Where the agent's history ends: what it goes on from, number of items and key of the last."""
        key, size = self.place
        return f"{self._chain.origin}{size}:{key}"

    def moved_on(self, in_force: ModesInForce) -> list[Effect]:
        """Close the lane's detached questions where its user goes on with a new message."""
        if self._request is None or not self._dialect.newest_is_user(self._request):
            return []
        asked = in_force.state.approvals
        if not asked:
            return []
        # What was compacted away hides of which lane it was, and a stale plan must not stay open.
        lane = None if _begins_compacted(self._request) else self.lane
        ids = moved_on(asked, lane, self.end)
        return [Abandon(ids)] if ids else []

    def came_back(self, in_force: ModesInForce) -> list[Effect]:
        """Keep the questions that the same request asked before its client went away."""
        asked = in_force.state.approvals
        if not any(away(one) for one in asked.values()):
            return []
        ids = returned(asked, self.lane, self.end)
        return [KeepOpen(ids)] if ids else []

    def counted(self, in_force: ModesInForce) -> list[Effect]:
        """Send what the model would be shown, so that it is counted; nothing is logged of it.

        Raises:
            ModegateError: it cannot be assembled.
        """
        if not in_force.gated:
            return [self._untouched()]
        assembled, _event = assemble(self._dialect, self._base, self.lane, in_force)
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        return [CallUpstream(lines, assembled.body)]

    def _texts(self, in_force: ModesInForce) -> TextCalls | None:
        """Return what counts as a call in plain text: where a mode says so, or the agent runs it."""
        said = {force.mode.text_calls for force in in_force.modes}
        wanted = "refuse" in said or (self._habit is not None and None in said)
        return TextCalls(self._request.declared, self._habit) if wanted else None

    def holds_texts(self, in_force: ModesInForce) -> bool:
        """Return whether calls in plain text are held back under what a session stands."""
        return self._texts(in_force) is not None

    def may_hold_texts(self, in_force: ModesInForce) -> bool:
        """Return whether that could be so in some other mode of its policy."""
        said = (mode.text_calls for mode in in_force.policy.modes.values())
        return self._habit is not None or "refuse" in said

    @cached_property
    def _habit(self) -> Habit | None:
        return habit_of(self._dialect.system_text(self._request))

    def _text(self, held: TextCalls | None) -> Literal["held", "pass"] | None:
        if self._habit is None:
            return None
        return "pass" if held is None else "held"

    def assembled(self, in_force: ModesInForce) -> tuple[Offer, list[Effect]]:
        """Assemble a hop under what the step stands under, and send it.

        Raises:
            ModegateError: it cannot be assembled.
        """
        texts = self._texts(in_force)
        assembled, event = assemble(
            self._dialect, self._base, self.lane, in_force, text=self._text(texts)
        )
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        lines = headers.replace(lines, *IDENTITY)
        log = self._told()
        log += [Append((event,))] if event is not None else []
        declared = self._request.declared
        offer = Offer(in_force, assembled.tools, declared, assembled.native, texts)
        return offer, [*log, CallUpstream(lines, assembled.body)]


def _begins_compacted(request: Any) -> bool:
    """Return whether something that the provider has compacted stands in front of the first user message."""
    for span in request.messages:
        item = request.decode(span)
        if not isinstance(item, dict):
            return False
        content = item.get("content")
        parts = [item, *(content if isinstance(content, list) else ())]
        kinds = (part.get("type") for part in parts if isinstance(part, dict))
        if any(isinstance(kind, str) and "compaction" in kind for kind in kinds):
            return True
        if item.get("role") == "user":
            return False
    return False
