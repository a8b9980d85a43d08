"""The hard layer: a verdict for each call of an answer, and what is said to the model about it.

A call is released only if every reading of it is released by what its hop was assembled under and by
what the session stands under at the moment of release (L8). Anything else is answered by modegate (L4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modegate.core import words
from modegate.core.calls import Gathered, arguments_hash, digest
from modegate.core.dialects.base import Refused
from modegate.core.events import CallJudged
from modegate.core.ids import CallId, StepId, ToolName
from modegate.core.policy import Judgement, ToolCall, Verdict
from modegate.core.standing import Force, Standing

SHORT_ID = 9
"""Ids shorter than this (`call_0`) are likely to be used again in the same history."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one hop's model was shown, and what its agent declared."""

    standing: Standing
    tools: tuple[ToolName, ...]
    declared: frozenset[str]


class Gate:
    """Judges the calls of one step."""

    def __init__(self, step: StepId, taken_ids: frozenset[str]) -> None:
        """Begin a step whose history already uses some call ids."""
        self._step = step
        self._taken = set(taken_ids)
        self._made = 0

    def judge(
        self, calls: Sequence[Gathered], offer: Offer, now: Standing
    ) -> tuple[list[CallJudged], list[Refused]]:
        """Settle each call: its `released`, its event and, where refused, the answer to it."""
        events: list[CallJudged] = []
        refused: list[Refused] = []
        # Withheld ids must differ from those that the client sees in the same answer.
        ids = Counter(call.id for call in calls)
        for call in calls:
            judgement, force = self._verdict(call, offer, now)
            judgement = replace(judgement, reason=judgement.reason[: words.MAX_REASON])
            call.released = judgement.verdict is Verdict.RELEASE
            events.append(self._event(call, judgement, force, now))
            if call.released:
                self._taken.add(call.id)
            else:
                answer = words.refusal(call.name, force, judgement.reason, offer.tools)
                refused.append(Refused(call, self._id(call, ids), answer, force))
        return events, refused

    def _verdict(self, call: Gathered, offer: Offer, now: Standing) -> tuple[Judgement, Force]:
        readings = call.readings(offer.declared)
        if not readings:
            reason = call.odd or "it has no name"
            return Judgement(Verdict.ANSWER, "unreadable", reason), offer.standing.forces[0]
        verdicts = [self._strictest(reading, offer, now) for reading in readings]
        for judgement, force in verdicts:
            if judgement.verdict is not Verdict.RELEASE:
                return judgement, force
        return verdicts[0]

    def _strictest(self, reading: ToolCall, offer: Offer, now: Standing) -> tuple[Judgement, Force]:
        first: tuple[Judgement, Force] | None = None
        for standing in (offer.standing, now):
            judgement, force = standing.judge(reading)
            if force is None:
                continue
            if judgement.verdict is Verdict.ASK:
                # Nobody can be asked yet, and silence is not approval (L9).
                reason = "a person would have to allow it, and nobody can be asked here"
                judgement = Judgement(Verdict.ANSWER, judgement.rule, reason)
            if judgement.verdict is not Verdict.RELEASE:
                return judgement, force
            first = first or (judgement, force)
        if first is None:
            raise AssertionError("a gated hop stands under at least one mode")
        return first

    def _event(
        self, call: Gathered, judgement: Judgement, force: Force, now: Standing
    ) -> CallJudged:
        return CallJudged(
            step=self._step,
            call=CallId(call.id[:128]),
            tool=ToolName(call.name[:256]),
            arguments=arguments_hash(call.arguments),
            verdict=judgement.verdict.value,
            rule=judgement.rule,
            mode=force.mode.id,
            mode_seq=force.seq,
            policy=now.policy.hash,
            reason=judgement.reason,
        )

    def _id(self, call: Gathered, ids: Mapping[str, int]) -> str:
        made = call.id
        if len(made) < SHORT_ID or made in self._taken or ids[made] > 1:
            self._made += 1
            mark = digest(f"{self._step}/{self._made}")
            # Mistral takes ids of nine letters and digits alone; others take at most forty characters.
            alike = len(made) == SHORT_ID and made.isalnum()
            made = mark[:SHORT_ID] if alike else f"{made[:20] or 'call'}_{mark[:12]}"
        self._taken.add(made)
        return made
