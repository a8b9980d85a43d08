"""The request side of a step: what was withheld is put back, and each hop is assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from modegate.core.errors import BadRequest
from modegate.core.ids import StepId, ToolName
from modegate.core.log.events import HistoryRefused
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step.answer.parts import ChoiceRead, Refused
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.dialect import AnyDialect, Kept, Request
from modegate.core.step.effects import Append, CallUpstream, Effect, Headers
from modegate.core.step.request import notices
from modegate.core.step.request.assemble import assemble
from modegate.core.step.request.conversation import Conversation
from modegate.core.step.request.put_back import PutBack
from modegate.core.step.request.request_form import Form, Manner, model_of
from modegate.core.step.stored_answers import chain
from modegate.core.step.text_calls.agents import Habit, habit_of
from modegate.core.step.text_calls.rules import TextCalls
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

    conversation: Conversation
    """Where the request stands; not there if nobody can read it."""
    put_back: PutBack

    def __init__(self, dialect: AnyDialect, step: StepRequest) -> None:
        self._dialect = dialect
        self._step = step
        self._request: Request | None = None
        self._base: Request | None = None
        self.form = Form()
        """In which form the next request goes out."""
        self._turns: list[tuple[ChoiceRead, Sequence[Refused]]] = []
        self.chains = False
        """The hop under way only goes on from an answer that the provider keeps, if it does as it says."""

    def read(self, in_force: ModesInForce) -> tuple[str, ...]:
        """Read the request and give the stored bodies that belong into its history.

        Raises:
            BadRequest: it cannot be read, and a mode is in force.
        """
        dialect = self._dialect
        self.put_back = PutBack(dialect, in_force)
        try:
            self._request = self._base = dialect.read(self._step.body)
            self.conversation = Conversation(dialect, self._request, self._step.headers)
            self.conversation.chain = chain(dialect, self._request, in_force.state)
            self.put_back.look_back(self._request, self.conversation)
        except BadRequest:
            if in_force.gated:
                raise
            # In default mode everything passes untouched, also what nobody can read.
            self.put_back = PutBack(dialect, in_force)
        return self.put_back.refs

    def restore(self, stored: Mapping[str, bytes]) -> None:
        """Put back what is still stored, and the notices."""
        self.put_back.stored = stored
        if self._step.learned and self._request is not None:
            self.form = Form(self._step.learned.get(self.model, Manner()))
        self._build()

    def reform(self, form: Form) -> None:
        """Put back what goes in another form of the request, and what its model has said since."""
        self.form = form
        self._build()

    def _build(self) -> None:
        if self._request is None:
            return
        self._base = self.put_back.into(self._request, self.form)
        for choice, refused in self._turns:
            self._extend(choice, refused)

    @property
    def _asked(self) -> Request:
        return _read(self._request)

    @property
    def _next(self) -> Request:
        """What the next hop shows of, or goes on from."""
        return _read(self._base)

    @property
    def later(self) -> bool:
        """Whether the model has said something in this step that is not all of its answer."""
        return bool(self._turns)

    @property
    def tells(self) -> bool:
        """Whether notices stand in the request."""
        return self.form.notices and bool(self.put_back.notices)

    @property
    def puts_in(self) -> bool:
        """Whether something stands in the request's history that its client never sent."""
        return self.later or self.tells or self.put_back.restores

    @property
    def model(self) -> str:
        """The model that is asked; empty where none is named."""
        return model_of(self._asked)

    @property
    def streams(self) -> bool:
        return self._request is not None and self._request.value("stream") is True

    def left_out(self) -> HistoryRefused:
        """Say what of the history the provider took the request without."""
        form, back = self.form, self.put_back
        turns = () if form.withheld else back.turns
        told_of = () if form.notices else back.notices_of
        return HistoryRefused(self._step.step, turns, self.conversation.lane, told_of)

    def taken(self) -> list[Effect]:
        return self.put_back.taken(self.kept)

    @property
    def kept(self) -> Kept | None:
        """Where the provider keeps the answer."""
        request, stored = self._request, self._dialect.stored
        return stored.kept(request) if request is not None and stored is not None else None

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset() if self._base is None else self._base.call_ids

    def ids(self, hop: int) -> Ids:
        """Return ids of our own for calls of a hop's answer; a provider that keeps it goes by its own."""
        return Ids(f"{self._step.step}/{hop}", self.call_ids, renames=self.kept is None)

    def untouched(self, in_force: ModesInForce) -> list[Effect]:
        """Send the request as it came, but for what is put back."""
        moved_on = self.conversation.moved_on(in_force) if self.readable else []
        return [*moved_on, *self.put_back.told(), self._untouched()]

    @property
    def declared(self) -> frozenset[str]:
        """Every name under which the agent declares a tool."""
        return frozenset() if self._request is None else self._request.declared

    @property
    def declares_tools(self) -> bool:
        """Whether the agent offers its model any tool."""
        return self._asked.declares_tools

    @property
    def readable(self) -> bool:
        """Whether the request could be read: what cannot passes in the default mode alone."""
        return self._request is not None

    def unfiltered(self, before: ModesInForce, now: ModesInForce) -> Offer:
        """Return what the model was shown of a request that went out as it came, and may use of it now."""
        declared = self._asked.declared
        tools = (ToolName(name) for name in sorted(declared))
        kept = tuple(name for name in tools if now.may_offer(name))
        return Offer(before, kept, declared, texts=self.texts(now))

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
        return Offer(in_force, (), self._asked.declared), [*self.put_back.told(), call]

    def _untouched(self) -> CallUpstream:
        lines, body = self._step.headers, self._step.body.raw
        if self._base is not self._request:
            lines, body = headers.replace(lines, b"content-encoding", None), self._next.body
        return CallUpstream(lines, body)

    def extend(self, choice: ChoiceRead, refused: Sequence[Refused]) -> None:
        """Let the next hop follow what the model said, with our answers to its calls."""
        refused = notices.in_results(refused)
        self._turns.append((choice, refused))
        self._extend(choice, refused)

    def _extend(self, choice: ChoiceRead, refused: Sequence[Refused]) -> None:
        form, base, kept, stored = self.form, self._next, self.kept, self._dialect.stored
        chained = stored.chained(base, choice, refused) if stored and form.chained else None
        self.chains = chained is not None and kept is not None and not kept.conversation
        body = chained or self._dialect.extend(base, choice, refused, form.manner)
        self._base = self._dialect.read(RequestBody(body))

    def counted(self, in_force: ModesInForce) -> list[Effect]:
        """Send what the model would be shown, so that it is counted; nothing is logged of it.

        Raises:
            ModegateError: it cannot be assembled.
        """
        if not in_force.gated:
            return [self._untouched()]
        assembled, _event = assemble(self._dialect, self._next, self.conversation.lane, in_force)
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        return [CallUpstream(lines, assembled.body)]

    def texts(self, in_force: ModesInForce) -> TextCalls | None:
        """Return what counts as a call in plain text: where a mode says so, or the agent runs it."""
        said = {force.mode.text_calls for force in in_force.modes}
        wanted = "refuse" in said or (self._habit is not None and None in said)
        return TextCalls(self._asked.declared, self._habit) if wanted else None

    def may_hold_texts(self, in_force: ModesInForce) -> bool:
        """Return whether that could be so in some other mode of its policy."""
        said = (mode.text_calls for mode in in_force.policy.modes.values())
        return self._habit is not None or "refuse" in said

    @cached_property
    def _habit(self) -> Habit | None:
        return habit_of(self._dialect.system_text(self._asked))

    def assembled(self, in_force: ModesInForce) -> tuple[Offer, list[Effect]]:
        """Assemble a hop under what the step stands under, and send it.

        Raises:
            ModegateError: it cannot be assembled.
        """
        texts = self.texts(in_force)
        known: Literal["held", "pass"] = "pass" if texts is None else "held"
        text, lane = known if self._habit else None, self.conversation.lane
        assembled, event = assemble(self._dialect, self._next, lane, in_force, text=text)
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        lines = headers.replace(lines, *IDENTITY)
        log = self.put_back.told()
        log += [Append((event,))] if event is not None else []
        declared = self._asked.declared
        offer = Offer(in_force, assembled.tools, declared, assembled.native, texts)
        return offer, [*log, CallUpstream(lines, assembled.body)]


def _read(request: Request | None) -> Request:
    if request is None:
        raise TypeError("what could not be read goes as it came, and nothing is asked of it")
    return request
