"""What a policy would make of requests that were recorded: nothing is sent anywhere, and nothing is run.

The tools of a request are read and filtered, and the calls in its history judged, by what does so for
requests that come in. So what stands in namespaces or in Codex's `additional_tools` counts here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import AnswerUnreadable, ModegateError
from modegate.core.ids import Seq, SessionId, ToolName
from modegate.core.log.fold import State
from modegate.core.policy.in_force import ModeInForce, ModesInForce
from modegate.core.policy.judge import ToolCall, Verdict, judge, may_offer
from modegate.core.policy.model import NATIVE_EXITS, Mode, Policy
from modegate.core.step.answer.calls import Gathered, canonical
from modegate.core.step.answer.rulings import Offer, rule_on
from modegate.core.step.dialect import AnyDialect, Request
from modegate.core.step.request.assemble import section_for
from modegate.core.wire.request_body import RequestBody

SESSION = SessionId("rehearsal")
MAX_CALLS = 100_000
"""Different calls of one agent that are told apart; further ones are not judged."""


def standing(mode: Mode, name: ToolName) -> str:
    """Say how far a tool can be used: `kept`, `asked`, `partly` (by its arguments) or `lost`."""
    if not may_offer(mode, name):
        return "lost"
    verdict = judge(mode, ToolCall(name, None)).verdict
    return {Verdict.RELEASE: "kept", Verdict.ASK: "asked", Verdict.ANSWER: "partly"}[verdict]


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call that was made, and what would become of it."""

    tool: str
    arguments: str
    verdict: str
    """`release`, `ask` or `answer`."""
    reason: str


@dataclass(slots=True)
class Rehearsal:
    """What one mode would make of one agent's requests."""

    mode: Mode
    agent: str
    policy: Policy
    requests: int = 0
    without_tools: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Requests that would be refused whole, by the reason."""
    tools: dict[str, str] = field(default_factory=dict)
    """How each tool that was declared stands, by its name."""
    calls: dict[JudgedCall, int] = field(default_factory=dict)
    """How often each call was made."""
    unreadable: int = 0
    """Messages of which the calls cannot be read."""
    _known: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, dialect: AnyDialect, body: bytes) -> None:
        """Take one more request.

        Raises:
            ModegateError: it cannot be read at all.
        """
        request = dialect.read(RequestBody(body))
        self.requests += 1
        self.without_tools += not request.declares_tools
        in_force = ModesInForce(
            State(), (ModeInForce(self.mode, SESSION, Seq(1)),), self.policy, (SESSION,)
        )
        try:
            assembled = dialect.assemble(request, in_force, section_for(request, in_force))
        except ModegateError as error:
            self.refused[str(error)] = self.refused.get(str(error), 0) + 1
            return
        for name in map(ToolName, sorted(request.declared - NATIVE_EXITS - {*assembled.beside})):
            shown = name in assembled.sent
            self.tools[name] = standing(self.mode, name) if shown else "lost"
        offer = Offer(in_force, assembled.tools, request.declared, assembled.native)
        for call in self._calls(dialect, request):
            self._judge(call, offer)

    def _calls(self, dialect: AnyDialect, request: Request) -> Iterable[Gathered]:
        """Yield the calls in a history that were not seen in an earlier request."""
        for answer in dialect.told_calls(request):
            try:
                read = dialect.read_whole(json.dumps(answer).encode())
            except AnswerUnreadable:
                self.unreadable += 1
                continue
            for call in (call for choice in read.choices.values() for call in choice.calls):
                mark = (call.id, call.name, call.arguments)
                if mark not in self._known and len(self._known) < MAX_CALLS:
                    self._known.add(mark)
                    yield call

    def _judge(self, call: Gathered, offer: Offer) -> None:
        # A plan is for a person, whatever the rules say.
        if NATIVE_EXITS.isdisjoint(call.names):
            step = replace(
                offer, in_force=replace(offer.in_force)
            )  # of its own: what one reads is bounded
            ruled = rule_on(call, step, step.in_force, ended=False).judgement
            one = JudgedCall(call.name, canonical(call.arguments), ruled.verdict, ruled.reason)
            self.calls[one] = self.calls.get(one, 0) + 1


def dialect_of(body: Mapping[str, Any], path: str = "") -> AnyDialect | None:
    """Return what a request is read with, by its path, else by its keys; None: by nothing."""
    if path:
        return DIALECTS.of(DIALECTS.apis.classify("POST", path.encode("utf-8", "replace")))
    # The first dialect is meant where a body says little, so it is asked last.
    return next((one for one in reversed([*DIALECTS]) if one.claims(body)), None)
