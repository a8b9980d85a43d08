"""The verdict of a mode on one call.

The first rule that matches wins. If none matches, the call is not released (deny by default). Names match by
code point: exact, case-sensitive, anchored at both ends.

Three things here are stricter than "first match wins" alone. A call of the exit tool is never released by
a rule, because only a person leaves a mode. A call whose arguments cannot be read does not slip past a
`deny` or `ask` with a `when` to an `allow` behind it. And a glob behind a `deny` or `ask` does not release
what is one of their names but for its spelling, which clients repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from modegate.core.ids import ToolName
from modegate.core.policy.model import EXIT_TOOL, Effect, Mode, Rule
from modegate.core.policy.names import glob_matches, is_glob, misspelled


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


def _first(mode: Mode, call: ToolCall) -> tuple[Judgement, int | None]:
    """Return what the first matching rule says, and its index if it releases or asks."""
    unmet = ""
    for index, rule in enumerate(mode.rules):
        if not glob_matches(rule.pattern, call.name):
            continue
        doubtful = rule.when is not None and rule.when.doubtful_for(call.arguments)
        if rule.when is None or (not doubtful and rule.when.met_by(call.arguments)):
            through = index if rule.effect is not Effect.DENY else None
            return _apply(rule, rule_label(rule, index)), through
        unmet = unmet or rule_label(rule, index)
        if doubtful and not _releases(rule):
            reason = f"{unmet} depends on the arguments, and they cannot be read"
            return Judgement(Verdict.ANSWER, unmet, reason), None
    if unmet:
        reason = f"{unmet} covers {call.name!r} only with other arguments"
    else:
        reason = f"no rule of mode {mode.id!r} covers {call.name!r}"
    return Judgement(Verdict.ANSWER, "no rule", reason), None


def _of_similar_name(mode: Mode, call: ToolCall, at: int) -> Judgement | None:
    """Return what a rule in front of the glob says of a similar name, if that is stricter."""
    found: Judgement | None = None
    for index, rule in enumerate(mode.rules[:at]):
        asks = rule.effect is Effect.ASK
        if _releases(rule) or (asks and mode.rules[at].effect is Effect.ASK):
            continue
        if glob_matches(rule.pattern, call.name) or not misspelled(rule.pattern, call.name):
            continue
        doubtful = rule.when is not None and rule.when.doubtful_for(call.arguments)
        if rule.when is None or doubtful or rule.when.met_by(call.arguments):
            label = rule_label(rule, index)
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
