"""The validated content of policies.yaml, and the verdict on one call.

A `Policy` is immutable and named by the hash of its meaning. `judge` reads the rules of one mode: the
first that matches wins, and where none matches the call is not released (deny by default). Names match
by code point: exact, case-sensitive, anchored at both ends.

Three things here are stricter than "first match wins" alone. A call of the exit tool is never released by
a rule, because only a person leaves a mode. A call whose arguments cannot be read does not slip past a
`deny` or `ask` with a `when` to an `allow` behind it. And a glob behind a `deny` or `ask` does not release
what is one of their names but for its spelling, which clients repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from modegate.core.ids import DEFAULT_MODE, LOCAL, ModeId, Tenant, ToolName
from modegate.core.levels import Control
from modegate.core.log.approvals import WAITS, Waits
from modegate.core.policy.globs import glob_matches
from modegate.core.policy.similar_names import is_glob, misses
from modegate.core.policy.upstreams import Route, UpstreamSpec
from modegate.core.wire.arguments import spelling

EXIT_TOOL = ToolName("exit_plan_mode")
NO_TOOL = ToolName("no_tool_in_this_mode")
"""Stands in where an API wants a tool and the mode leaves none; a call of it is judged as any."""
"""The tool that asks a person to end the mode; no rule covers it, not even `*`."""


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
    """What one argument must be: `one_of` or `glob` if set, else `equals` (where None means null)."""

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
    at: int | None = None
    """Its index in the file's `tools`, for messages; None: its place among the rules."""


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
    text_calls: Literal["pass", "refuse"] | None = None
    """What becomes of calls in plain text; None: refused for agents that are known to run them."""
    section_in: Literal["instructions", "input"] = "instructions"
    """For the Responses API: where the section goes."""
    aliases: tuple[str, ...] = ()
    """Other ids by which ACP clients name it."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """`sessions`: how a request's session is found."""

    identify: tuple[str, ...] = ()
    """Empty means the default list of `modegate.core.identify.session`."""
    parent: tuple[str, ...] = ()
    when_missing: Literal["derive", "reject"] = "derive"
    initial_mode: ModeId = ModeId("default")
    initial_mode_by_tenant: Mapping[Tenant, ModeId] = field(default_factory=dict)

    def initial(self, tenant: Tenant = LOCAL) -> ModeId:
        """Return the mode in which a new session of this tenant begins."""
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
    memory: int = 2**30
    """Bytes that all steps of a process hold at one time."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All of policies.yaml."""

    hash: str
    modes: Mapping[ModeId, Mode]
    sessions: Sessions = field(default_factory=Sessions)
    limits: Limits = field(default_factory=Limits)
    narrate: bool = True
    """Whether a notice tells the model of a mode change made by a person."""
    upstreams: Mapping[str, UpstreamSpec] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    control: Control = field(default_factory=Control)
    approvals: Waits = WAITS
    """How long a request waits for a person."""

    def mode_named(self, name: str) -> ModeId | None:
        """Return the mode with this id or alias, `default` included; None if there is none."""
        if name == DEFAULT_MODE or name in self.modes:
            return ModeId(name)
        return next((mode.id for mode in self.modes.values() if name in mode.aliases), None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a rule sees it."""

    name: ToolName
    arguments: Mapping[str, Any] | None
    """None: not a JSON object that every program reads alike; matches no `when`."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the rule it came from."""

    verdict: Verdict
    rule: str
    """As written in docs: `tools[2] allow "read"`, or `no rule`."""
    reason: str


def judge(mode: Mode, call: ToolCall) -> Judgement:
    """Return the verdict of one mode on one call.

    A glob gives a name only what no rule in front of it keeps back from a name that is near: a client may
    run that one. A rule that writes the name itself means it.
    """
    if call.name == EXIT_TOOL:
        reason = f"{EXIT_TOOL} is handled by the mode's exit: a person decides, never a rule"
        return Judgement(Verdict.ANSWER, "exit", reason)
    judgement, at = _first(mode, call)
    if at is None or not is_glob(mode.rules[at].pattern):
        return judgement
    return _missed(mode, call, at) or judgement


def _first(mode: Mode, call: ToolCall) -> tuple[Judgement, int | None]:
    """Return what the first rule says that matches, and its place if it releases or asks."""
    unmet = ""
    for index, rule in enumerate(mode.rules):
        if not glob_matches(rule.pattern, call.name):
            continue
        doubtful = rule.when is not None and _doubtful(rule.when, call.arguments)
        if rule.when is None or (not doubtful and _holds(rule.when, call.arguments)):
            through = index if rule.effect is not Effect.DENY else None
            return _apply(rule, _label(rule, index)), through
        unmet = unmet or _label(rule, index)
        if doubtful and rule.effect is not Effect.ALLOW:
            reason = f"{unmet} depends on the arguments, and they cannot be read"
            return Judgement(Verdict.ANSWER, unmet, reason), None
    if unmet:
        reason = f"{unmet} covers {call.name!r} only with other arguments"
    else:
        reason = f"no rule of mode {mode.id!r} covers {call.name!r}"
    return Judgement(Verdict.ANSWER, "no rule", reason), None


def _missed(mode: Mode, call: ToolCall, at: int) -> Judgement | None:
    """Return what a rule in front of a glob says of a name that is near, if that is stricter."""
    found: Judgement | None = None
    for index, rule in enumerate(mode.rules[:at]):
        asks = rule.effect is Effect.ASK
        if rule.effect is Effect.ALLOW or (asks and mode.rules[at].effect is Effect.ASK):
            continue
        if glob_matches(rule.pattern, call.name) or not misses(rule.pattern, call.name):
            continue
        doubtful = rule.when is not None and _doubtful(rule.when, call.arguments)
        if rule.when is None or doubtful or _holds(rule.when, call.arguments):
            label = _label(rule, index)
            reason = f"{call.name!r} differs from what {label} covers in its spelling alone"
            found = Judgement(Verdict.ASK, label, reason)
            if doubtful or not asks:
                return Judgement(Verdict.ANSWER, label, reason)
    return found


def may_offer(mode: Mode, name: ToolName) -> bool:
    """Return whether a tool of this name may be shown to the model.

    It may if some call of it could be allowed or asked for. The exit tool is offered by the mode's exit.
    """
    if name == EXIT_TOOL:
        return False
    for index, rule in enumerate(mode.rules):
        if glob_matches(rule.pattern, name):
            if rule.effect is not Effect.DENY:
                if not (is_glob(rule.pattern) and _keeps_back(mode.rules[:index], name)):
                    return True
            elif rule.when is None:
                return False
    return False


def _keeps_back(rules: Sequence[Rule], name: str) -> bool:
    """Return whether some rule refuses every call of a name that is near."""
    return any(
        rule.effect is Effect.DENY and rule.when is None and misses(rule.pattern, name)
        for rule in rules
    )


_VERDICTS = {
    Effect.ALLOW: (Verdict.RELEASE, "allowed by"),
    Effect.ASK: (Verdict.ASK, "a person decides, by"),
    Effect.DENY: (Verdict.ANSWER, "denied by"),
}


def _apply(rule: Rule, label: str) -> Judgement:
    verdict, why = _VERDICTS[rule.effect]
    return Judgement(verdict, label, f"{why} {label}")


def _label(rule: Rule, index: int) -> str:
    place = index if rule.at is None else rule.at
    return f'tools[{place}] {rule.effect} "{rule.pattern}"'


def _doubtful(when: When, arguments: Mapping[str, Any] | None) -> bool:
    """Return whether what a condition is about cannot be read, or stands under its name in another spelling.

    Some programs, such as those in Go, take `Path` for `path`.
    """
    if arguments is None:
        return True
    known = when.conditions
    return not arguments.keys() <= known.keys() and not set(map(spelling, known)).isdisjoint(
        spelling(key) for key in arguments if key not in known
    )


def _holds(when: When, arguments: Mapping[str, Any] | None) -> bool:
    if arguments is None:
        return False
    if not when.others_any and not arguments.keys() <= when.conditions.keys():
        return False
    return all(
        name in arguments and _meets(condition, arguments[name])
        for name, condition in when.conditions.items()
    )


def _meets(condition: Condition, value: Any) -> bool:
    if condition.glob is not None:
        return isinstance(value, str) and glob_matches(condition.glob, value)
    if condition.one_of is not None:
        return any(_same(wanted, value) for wanted in condition.one_of)
    return _same(condition.equals, value)


def _same(wanted: Any, value: Any) -> bool:
    """Compare as JSON does: 1 and 1.0 are one number; true is not 1, and "1" is not 1."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    if isinstance(wanted, int | float) and isinstance(value, int | float):
        return wanted == value
    return type(wanted) is type(value) and bool(wanted == value)
