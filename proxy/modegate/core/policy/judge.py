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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any

from modegate.core.argument.globs import glob_matches, is_glob
from modegate.core.argument.understanding import quoted
from modegate.core.ids import ToolName
from modegate.core.policy.findings import MET, Answer, Commands
from modegate.core.policy.model import EXIT_TOOL, NATIVE_EXITS, Effect, Mode, Rule
from modegate.core.policy.names import MAX_NAME, misspelled, similar
from modegate.core.policy.understood import Calls
from modegate.core.policy.when import Match

if TYPE_CHECKING:
    from modegate.core.argument.javascript import InnerCall
    from modegate.core.argument.shell.programs import Programs


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
    declared: frozenset[str] = field(default=frozenset(), compare=False)
    """The tools that its agent has declared: a program may call them by similar names."""
    within: ToolName | None = field(default=None, compare=False)
    """The tool whose program makes this call; None for a call of the model."""


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
class _Scope:
    """What a condition may ask of the mode in which a call is judged."""

    mode: Mode
    call: ToolCall
    commands: Commands

    @property
    def programs(self) -> Programs:
        return self.mode.shell.programs

    def why_not_released(self, call: InnerCall) -> str:
        """Judge a call that the call's program makes, under its name and each that a client could mean.

        A program may make no call of what takes a program itself, nor of an exit tool: nobody would see what
        those are asked. As its tools need not be declared, its names are judged like misspelled ones.
        """
        if self.call.within:
            return f"a program may not make the calls of {quoted(self.call.name)}"
        if len(call.name) > MAX_NAME:
            return f"no tool has a name as long as {quoted(call.name)}"
        declared = self.call.declared
        also = similar(call.name, declared) if call.name not in declared else ()
        for name in (call.name, *also):
            barred = (*NATIVE_EXITS, self.call.name, *_takers(self.mode))
            if any(glob_matches(one, name) or misspelled(one, name) for one in barred):
                return f"a program may not call {quoted(name)}"
            inner = ToolCall(ToolName(name), call.arguments, declared, within=self.call.name)
            told = judge(self.mode, inner, self.commands)
            if told.verdict is not Verdict.RELEASE:
                return f"its call of {quoted(name)} is not released: {told.reason}"
        return ""


def _takers(mode: Mode) -> Iterator[str]:
    """Return the patterns of the rules about tools that take a program."""
    for rule in mode.rules:
        if rule.when is not None and Calls() in rule.when.conditions.values():
            yield rule.pattern


def judge(mode: Mode, call: ToolCall, commands: Commands | None = None) -> Judgement:
    """Return the verdict of one mode on one call.

    A client may run a tool whose name is only similar. So a glob gives a name no more than the rules in
    front of the glob leave to similar names. A rule that writes the name itself means it. `commands` are
    what was found in this mode of the other calls of the same step.
    """
    if call.name == EXIT_TOOL:
        reason = f"{EXIT_TOOL} is handled by the mode's exit: a person decides, never a rule"
        return Judgement(Verdict.ANSWER, "exit", reason)
    scope = _Scope(mode, call, Commands() if commands is None else commands)
    judgement, at = _first(scope)
    if at is None or not is_glob(mode.rules[at].pattern):
        return judgement
    return _of_similar_name(scope, at) or judgement


class _Covers(Enum):
    """Whether a rule covers a call whose name it matches."""

    YES = auto()
    NO = auto()
    UNCLEAR = auto()
    """It denies or asks, and nobody can say that it does not cover the call."""


def _covers(rule: Rule, match: Match) -> tuple[_Covers, str]:
    """Return whether a rule with a `when` covers a call, and why or why not.

    | the conditions are | `allow` | `ask` | `deny` |
    |---|---|---|---|
    | met | covers | covers | covers |
    | met, and an argument is there that is not listed | does not | unclear | covers |
    | not met | does not | does not | does not |
    | not clear: not readable, of another type, not understood | does not | unclear | unclear |
    """
    answer, why = match.conditions.answer, match.conditions.why
    if answer is Answer.MET:
        if not match.others or rule.effect is Effect.DENY:
            return _Covers.YES, why
        why = match.others
    if answer is Answer.UNMET or _releases(rule):
        return _Covers.NO, why
    return _Covers.UNCLEAR, why


def _first(scope: _Scope) -> tuple[Judgement, int | None]:
    """Return what the first matching rule says, and its index if it releases or asks."""
    mode, call = scope.mode, scope.call
    nearest: tuple[int, int] | None = None
    told = ""
    for index, rule in enumerate(mode.rules):
        if not glob_matches(rule.pattern, call.name):
            continue
        match = NO_WHEN if rule.when is None else rule.when.match(call.arguments, scope)
        covers, why = _covers(rule, match)
        label = rule_label(rule, index)
        if covers is _Covers.YES:
            if rule.effect is Effect.DENY:
                return _apply(rule, label, why, told), None
            return _apply(rule, label), index
        if covers is _Covers.UNCLEAR:
            reason = f"{label} {_DEPENDS}: {why}"
            return Judgement(Verdict.ANSWER, label, reason), None
        near = (-match.lacking, match.met)
        if rule.effect is not Effect.DENY and (nearest is None or near >= nearest):
            nearest, told = near, f"{label} does not cover it: {why}"
    reason = told or f"no rule of mode {mode.id!r} covers {call.name!r}"
    return Judgement(Verdict.ANSWER, "no rule", reason), None


def _of_similar_name(scope: _Scope, at: int) -> Judgement | None:
    """Return what a rule in front of the glob says of a similar name, if that is stricter."""
    found: Judgement | None = None
    mode, call = scope.mode, scope.call
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


def _apply(rule: Rule, label: str, why: str = "", nearest: str = "") -> Judgement:
    """Return what a rule says, why its conditions are met, and what was wrong with the nearest before it."""
    verdict, says = _VERDICTS[rule.effect]
    reason = f"{says} {label}"
    if why:
        reason = f"{reason}: {why}"
    return Judgement(verdict, label, f"{reason}; {nearest}" if nearest else reason)


def rule_label(rule: Rule, index: int) -> str:
    """Name a rule by its place and what it says."""
    return f'{rule.place(index)} {rule.effect} "{rule.pattern}"'
