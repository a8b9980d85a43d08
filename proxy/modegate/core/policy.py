"""The validated content of policies.yaml, and the verdict on one call.

A `Policy` is immutable and named by the hash of its meaning. `judge` reads the rules of one mode: the
first that matches wins, and where none matches the call is not released (deny by default). Names match
by code point: exact, case-sensitive, anchored at both ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from modegate.core.ids import LOCAL, ModeId, Tenant, ToolName


class Verdict(StrEnum):
    """What becomes of a call."""

    RELEASE = "release"
    ANSWER = "answer"
    ASK = "ask"


class Effect(StrEnum):
    """What a rule does with a call that it matches."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Condition:
    """What one argument must be: exactly one of the fields is set."""

    equals: Any = None
    one_of: tuple[Any, ...] | None = None
    glob: str | None = None


@dataclass(frozen=True, slots=True)
class When:
    """Conditions on the arguments; an argument without one means no match, unless `others_any`."""

    conditions: Mapping[str, Condition]
    others_any: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a mode's `tools`."""

    effect: Effect
    pattern: str
    when: When | None = None


@dataclass(frozen=True, slots=True)
class ExitOption:
    """One answer that a person may give to a plan: a label and the mode it leads to."""

    label: str
    to: ModeId


@dataclass(frozen=True, slots=True)
class Exit:
    """How a mode is left by its exit tool."""

    options: tuple[ExitOption, ...]
    native: bool = True


@dataclass(frozen=True, slots=True)
class Mode:
    """A named policy state."""

    id: ModeId
    name: str
    description: str
    section: str
    rules: tuple[Rule, ...]
    exit: Exit | None = None
    without_tools: Literal["pass", "guide", "refuse"] = "pass"


@dataclass(frozen=True, slots=True)
class Sessions:
    """`sessions`: how a request's session is found."""

    identify: tuple[str, ...] = ()
    """Empty means the default list of `modegate.core.identify`."""
    parent: tuple[str, ...] = ()
    when_missing: Literal["derive", "reject"] = "derive"
    initial_mode: ModeId = ModeId("default")
    initial_mode_by_tenant: Mapping[Tenant, ModeId] = field(default_factory=dict)

    def initial(self, tenant: Tenant = LOCAL) -> ModeId:
        """Give the mode in which a new session of this tenant begins."""
        return self.initial_mode_by_tenant.get(tenant, self.initial_mode)


@dataclass(frozen=True, slots=True)
class Limits:
    """`limits`: bytes, seconds and counts, each with the reason for its default in docs/policies.md."""

    body: int = 64 * 2**20
    frame: int = 64 * 2**20
    held: int = 16 * 2**20
    """Bytes of calls held back at one time in one answer."""
    hops: int = 4
    drain: float = 30.0


@dataclass(frozen=True, slots=True)
class Policy:
    """All of policies.yaml."""

    hash: str
    modes: Mapping[ModeId, Mode]
    sessions: Sessions = field(default_factory=Sessions)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a rule sees it."""

    name: ToolName
    arguments: Mapping[str, Any] | None
    """None: not a JSON object, or one with duplicate keys; matches no `when`."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the rule it came from."""

    verdict: Verdict
    rule: str
    """As written in docs: `tools[2] allow "read"`, or `no rule`."""
    reason: str


def judge(mode: Mode, call: ToolCall) -> Judgement:
    """Give the verdict of one mode on one call."""
    raise NotImplementedError


def may_offer(mode: Mode, name: ToolName) -> bool:
    """Tell whether a tool of this name may be shown to the model: some call of it could be allowed or asked for."""
    raise NotImplementedError
