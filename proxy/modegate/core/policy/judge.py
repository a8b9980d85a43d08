"""The verdict of a mode on one call.

The first rule that matches wins. If none matches, the call is not released (deny by default). Names match by
code point: exact, case-sensitive, anchored at both ends.

Four things here are stricter than "first match wins" alone. A call of the exit tool is never released by
a rule, because only a person leaves a mode. A call whose arguments cannot be read, or not be understood,
does not slip past a `deny` or `ask` with a `when` to an `allow` behind it. Nor does one that meets the
conditions of an `ask` and has arguments that the rule does not list. And a glob behind a `deny` or `ask`
does not release what is one of their names but for its spelling, which clients repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

from modegate.core.ids import ToolName
from modegate.core.policy.findings import MET, Answer
from modegate.core.policy.model import EXIT_TOOL, Effect, Mode, Rule
from modegate.core.policy.names import glob_matches, is_glob, misspelled
from modegate.core.policy.when import Match


class Verdict(StrEnum):
    """What becomes of a call."""

    RELEASE = "release"
    ANSWER = "answer"
    ASK = "ask"


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
    """As written in docs: `tools[2] allow "read"`, `use[0] read-only/pi allow "read"`, or `no rule`."""
    reason: str


NO_WHEN = Match(MET)
_DEPENDS = "depends on the arguments, and nobody can say that it does not cover them"


@dataclass(frozen=True, slots=True)
class Inner:
    """What a condition may ask of the mode in which a call is judged."""

    mode: Mode
    call: ToolCall


def judge(mode: Mode, call: ToolCall) -> Judgement:
    """Return the verdict of one mode on one call.

    A client may run a tool whose name is only similar. So a glob gives a name no more than the rules in
    front of the glob leave to similar names. A rule that writes the name itself means it.
    """
    if call.name == EXIT_TOOL:
        reason = f"{EXIT_TOOL} is handled by the mode's exit: a person decides, never a rule"
        return Judgement(Verdict.ANSWER, "exit", reason)
    judgement, at = _first(mode, call)
    if at is None or not is_glob(mode.rules[at].pattern):
        return judgement
    return _of_similar_name(mode, call, at) or judgement


class _Covers(Enum):
    """Whether a rule covers a call whose name it matches."""

    YES = auto()
    NO = auto()
    UNCLEAR = auto()
    """It denies or asks, and nobody can say that it does not cover the call."""


def _covers(rule: Rule, match: Match) -> tuple[_Covers, str]:
    """Return whether a rule with a `when` covers a call, and why not.

    | the conditions are | `allow` | `ask` | `deny` |
    |---|---|---|---|
    | met | covers | covers | covers |
    | met, and an argument is there that is not listed | does not | unclear | covers |
    | not met | does not | does not | does not |
    | not clear: not readable, of another type, not understood | does not | unclear | unclear |
    """
    answer, why = match.conditions.answer, match.conditions.why or match.others
    if answer is Answer.MET and (not match.others or rule.effect is Effect.DENY):
        return _Covers.YES, ""
    if answer is Answer.UNMET or _releases(rule):
        return _Covers.NO, why
    return _Covers.UNCLEAR, why


def _first(mode: Mode, call: ToolCall) -> tuple[Judgement, int | None]:
    """Return what the first matching rule says, and its index if it releases or asks."""
    scope = Inner(mode, call)
    nearest, told = -1, f"no rule of mode {mode.id!r} covers {call.name!r}"
    for index, rule in enumerate(mode.rules):
        if not glob_matches(rule.pattern, call.name):
            continue
        match = NO_WHEN if rule.when is None else rule.when.match(call.arguments, scope)
        covers, why = _covers(rule, match)
        label = rule_label(rule, index)
        if covers is _Covers.YES:
            return _apply(rule, label), index if rule.effect is not Effect.DENY else None
        if covers is _Covers.UNCLEAR:
            reason = f"{label} {_DEPENDS}: {why}"
            return Judgement(Verdict.ANSWER, label, reason), None
        if rule.effect is not Effect.DENY and match.met >= nearest:
            nearest, told = match.met, f"{label} does not cover it: {why}"
    return Judgement(Verdict.ANSWER, "no rule", told), None


def _of_similar_name(mode: Mode, call: ToolCall, at: int) -> Judgement | None:
    """Return what a rule in front of the glob says of a similar name, if that is stricter."""
    found: Judgement | None = None
    scope = Inner(mode, call)
    for index, rule in enumerate(mode.rules[:at]):
        asks = rule.effect is Effect.ASK
        if _releases(rule) or (asks and mode.rules[at].effect is Effect.ASK):
            continue
        if glob_matches(rule.pattern, call.name) or not misspelled(rule.pattern, call.name):
            continue
        match = NO_WHEN if rule.when is None else rule.when.match(call.arguments, scope)
        covers, _ = _covers(rule, match)
        if covers is not _Covers.NO:
            label = rule_label(rule, index)
            reason = f"{call.name!r} differs from what {label} covers in its spelling alone"
            found = Judgement(Verdict.ASK, label, reason)
            if covers is _Covers.UNCLEAR or not asks:
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
                if not (is_glob(rule.pattern) and _denies_similar(mode.rules[:index], name)):
                    return True
            elif rule.when is None:
                return False
    return False


def _denies_similar(rules: Sequence[Rule], name: str) -> bool:
    return any(
        rule.effect is Effect.DENY and rule.when is None and misspelled(rule.pattern, name)
        for rule in rules
    )


_VERDICTS = {
    Effect.ALLOW: (Verdict.RELEASE, "allowed by"),
    Effect.ASK: (Verdict.ASK, "a person decides, by"),
    Effect.DENY: (Verdict.ANSWER, "denied by"),
}


def _releases(rule: Rule) -> bool:
    return _VERDICTS[rule.effect][0] is Verdict.RELEASE


def _apply(rule: Rule, label: str) -> Judgement:
    verdict, why = _VERDICTS[rule.effect]
    return Judgement(verdict, label, f"{why} {label}")


def rule_label(rule: Rule, index: int) -> str:
    """Name a rule by its place and what it says."""
    return f'{rule.place(index)} {rule.effect} "{rule.pattern}"'
