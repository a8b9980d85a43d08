"""One trial: an answer goes through the gate, and every client that there is reads what comes out.

No client may find a call that the mode forbids, nor one with other arguments than a person was shown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.judge import ToolCall, Verdict
from modegate.core.policy.model import Policy
from modegate.core.wire.arguments import parse_arguments
from support.differential.answers import TOOLS, mutated
from support.differential.clients import Call, raw_calls
from support.differential.sdks import NodeSdks, PythonSdks, Told
from support.differential.trees import readings
from support.playbook import Cut, Got, Reply, Session, bytewise, cut_at, whole
from support.policies import parse
from support.speech import Speech

RULES = """
version: 1
modes:
  plan:
    section: PLAN-SECTION
    tools:
      - read
      - grep
      - deny: "mcp__docs__delete_*"
      - "mcp__docs__*"
      - allow: edit
        when: {command: {equals: view}, others: any}
      - ask: fetch
limits: {hops: 2}
"""


RUNNABLE = {*TOOLS, "shell", "local_shell", "computer", "apply_patch"}
"""The agent's tools, and what some agents run without having declared it."""


def rules() -> Policy:
    """Return the policy."""
    return parse(RULES)


@dataclass
class Trial:
    """One answer and what came of it."""

    speech: Speech
    replies: list[Reply]
    cut: Cut
    got: Got
    in_force: ModesInForce
    approved: list[str] = field(default_factory=list)
    """The arguments of each question that a person said yes to."""

    @property
    def body(self) -> bytes:
        """What the client got."""
        return self.got.body

    @property
    def answered(self) -> bool:
        """Whether it is an answer that clients read."""
        return self.got.head is not None and self.got.head.status < 400


def asked(speech: Speech) -> bytes:
    """Return a request that declares every tool."""
    history = [speech.api.user("go on")]
    return json.dumps(speech.api.request(history, TOOLS, streamed=speech.streamed)).encode()


def live(
    speech: Speech, policy: Policy, replies: list[Reply], cut: Cut, *, waits: bool = False
) -> Trial:
    """Live through one step, with a person who says yes to whatever is asked.

    With `waits`, so slowly that the client is kept alive at each silence.
    """
    session = Session("plan", policy, speech.api.dialect())
    session.waits = waits
    session.person = lambda question: session.settle(question, "allow_once")
    got = session.step(asked(speech), replies, cut=cut)
    shown = [question.text for question in got.asked if question.purpose == "ask"]
    return Trial(speech, replies, cut, got, session.in_force(), shown)


def cuts(body: bytes, rng: Random) -> Cut:
    """Choose how the bytes arrive."""
    places = [rng.randrange(1, max(2, len(body))) for _ in range(rng.choice([1, 2, 8]))]
    return rng.choice([whole, bytewise, cut_at(*places)])


LOOSE = 1_000_000
"""Numbers from here on stand for answers of servers that announce calls loosely."""


def attempt(speech: Speech, policy: Policy, seed: int) -> Trial:
    """Try the answer that a number stands for; raises AssertionError if it depends on how it was cut."""
    rng = Random(seed)
    request = asked(speech)
    loose = seed >= LOOSE
    replies = [mutated(speech, request, rng, loose=loose) for _ in range(rng.choice([1, 1, 2]))]
    cut = cuts(replies[0].body, rng)
    trial = live(speech, policy, replies, cut)
    if cut is not whole:
        one = live(speech, policy, replies, whole)
        assert one.body == trial.body, f"depends on the cut: {one.body!r} or {trial.body!r}"
    return trial


def forbidden(trial: Trial, call: Call) -> str:
    """Say what is wrong with a call that a client would run; empty if nothing is."""
    name, given = call
    if name not in RUNNABLE:
        return ""  # no agent has a tool of that name
    for arguments in _arguments(given):
        verdict = trial.in_force.judge(ToolCall(ToolName(name), arguments))[0].verdict
        if verdict is Verdict.RELEASE:
            continue
        if verdict is Verdict.ASK and arguments is not None and arguments in _shown(trial):
            continue
        return f"{name} with {arguments!r}: {verdict}"
    return ""


def _shown(trial: Trial) -> list[Any]:
    texts = trial.approved
    return [
        *(parse_arguments(text or "{}") for text in texts),
        *({"input": text} for text in texts),
    ]


def _arguments(given: Any) -> Iterator[dict[str, Any] | None]:
    """Yield each reading of the arguments; None where they cannot be read."""
    if isinstance(given, dict):
        value = given.get("value")
        value = {} if value is None else value
        yield value if isinstance(value, dict) else None
        return
    if not isinstance(given, str):
        yield None if given else {}
        return
    found = readings(given or "{}")
    for value in found or [None]:
        yield value if isinstance(value, dict) else None


def readable(trial: Trial) -> list[Call]:
    """Return every call that some client without an SDK could find."""
    return list(raw_calls(trial.speech.name, trial.body, streamed=trial.speech.streamed))


def told_by_all(trials: Sequence[Trial], python: PythonSdks, node: NodeSdks) -> list[Told]:
    """Let every SDK read what came out of each trial."""
    asked_ = [
        (trial.speech.name, trial.body, trial.speech.streamed, number % 3 * 7)
        for number, trial in enumerate(trials)
    ]
    return [
        python.calls(api, body, streamed=streamed) | told
        for (api, body, streamed, _), told in zip(asked_, node.calls(asked_), strict=True)
    ]


def seen(calls: Iterable[Call]) -> set[tuple[str, str]]:
    """Return calls as `answers.expected` does."""
    return {
        (name, json.dumps(arguments, sort_keys=True))
        for name, given in calls
        for arguments in _arguments(given)
    }


@dataclass
class Tally:
    """What was counted."""

    cases: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def note(self, trial: Trial) -> bool:
        """Count what became of a trial; tell whether clients got something to read."""
        self.cases[str(trial.speech)] += 1
        for event in trial.got.events:
            verdict = getattr(event, "verdict", None)
            if verdict is not None:
                self.verdicts[str(verdict)] += 1
        self.outcomes[trial.got.finish.outcome if trial.got.finish else "none"] += 1
        return trial.answered

    def judge(self, trial: Trial, told: Told) -> list[str]:
        """Look at what clients would run; give what is wrong with it."""
        raw = readable(trial)
        wrong: list[str] = []
        for client, calls in {"raw": raw, **told}.items():
            self.calls[client] += len(calls)
            wrong += [f"{client}: {why}" for call in calls if (why := forbidden(trial, call))]
        return list(dict.fromkeys(wrong))
