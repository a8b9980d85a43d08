"""Rules that never decide about a call, because a rule in front of them does.

The first rule that matches wins. A rule behind one that matches the same calls does nothing, and what it says
more strictly than that one is not so: such a file is not used. The rest are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from modegate.core.argument.globs import glob_matches, is_glob
from modegate.core.policy.judge import rule_label
from modegate.core.policy.model import Effect, Rule

MAX_COMPARED = 100_000
"""Pairs of rules of one mode that are compared; far more than any real mode has."""
MAX_GLOB = 64
"""Characters of a glob that is compared with another; longer ones cover nothing but themselves."""
MAX_EXAMPLES = 500
"""Pairs of globs of one mode for which a name is looked for that both match; each takes some milliseconds."""
MAX_SHOWN = 80
"""Characters of a name in a message."""

_WILD = re.compile("[*?]")
_ANY = "\0"
"""Stands for a character that no glob spells out."""
_STRICTNESS = (Effect.ALLOW, Effect.ASK, Effect.DENY)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one rule of a mode."""

    at: int
    """Its index among the rules."""
    message: str
    grave: bool = False
    """The rule says what is not so, and would open something: the file is not used."""
    under: str = ""
    """The key of its `when` that is to blame, if one is."""


def dead_rules(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find the rules of a mode that never decide, or not about all that they name."""
    earlier = _Earlier()
    for index, rule in enumerate(rules):
        try:
            before = earlier.decides(rule)
            crossing = None if before is not None else earlier.crosses(rule)
        except _TooManyError:
            yield Finding(
                index, "too many rules: from here on it is not checked which are never reached"
            )
            return
        if before is not None:
            yield _never_reached(rules, index, before)
        elif crossing is not None:
            yield _holds_in_part(rules, index, *crossing)
        earlier.add(index, rule)


class _TooManyError(Exception):
    pass


@dataclass(slots=True)
class _Earlier:
    """The rules in front of one."""

    names: dict[str, int] = field(default_factory=dict)
    """Names that are decided without a look at the arguments."""
    globs: dict[str, tuple[int, Rule]] = field(default_factory=dict)
    """Globs that are, by the glob."""
    limited: dict[str, list[tuple[int, Rule]]] = field(default_factory=dict)
    """Rules with conditions, by name or glob."""
    compared: int = 0
    examples: int = 0

    def add(self, index: int, rule: Rule) -> None:
        if rule.when is not None:
            self.limited.setdefault(rule.pattern, []).append((index, rule))
        elif is_glob(rule.pattern):
            self.globs.setdefault(rule.pattern, (index, rule))
        else:
            self.names.setdefault(rule.pattern, index)

    def decides(self, rule: Rule) -> int | None:
        """Return the index of a rule that decides about every call that this one matches."""
        found = [self.names[rule.pattern]] if rule.pattern in self.names else []
        found += [at for glob, (at, _) in self._globs() if covers(glob, rule.pattern)]
        for at, other in self.limited.get(rule.pattern, ()):
            self._count()
            if other.when == rule.when:
                found.append(at)
        return min(found, default=None)

    def crosses(self, rule: Rule) -> tuple[int, str] | None:
        """Return a looser glob in front that takes some of a stricter one's names, and such a name."""
        if not is_glob(rule.pattern) or rule.effect is Effect.ALLOW:
            return None
        for glob, (at, other) in self._globs():
            looser = _STRICTNESS.index(other.effect) < _STRICTNESS.index(rule.effect)
            if not looser or _apart(glob, rule.pattern) or covers(rule.pattern, glob):
                continue
            self.examples += 1
            if self.examples > MAX_EXAMPLES:
                raise _TooManyError
            if name := common(glob, rule.pattern):
                return at, name
        return None

    def _globs(self) -> Iterator[tuple[str, tuple[int, Rule]]]:
        for entry in self.globs.items():
            self._count()
            yield entry

    def _count(self) -> None:
        self.compared += 1
        if self.compared > MAX_COMPARED:
            raise _TooManyError


def _never_reached(rules: Sequence[Rule], index: int, before: int) -> Finding:
    rule, other = rules[index], rules[before]
    front = f"{rule_label(other, before)} in front of it"
    if _STRICTNESS.index(other.effect) < _STRICTNESS.index(rule.effect):
        says = "allows" if other.effect is Effect.ALLOW else "only asks about"
        why = f"{front} {says} every call that it matches; put it in front of that"
        return Finding(index, f"{named(rule)} holds for no call: {why}", grave=True)
    if other.effect is Effect.ALLOW and rule.when is not None and other.when is None:
        why = f"{front} allows every call, whatever its arguments; take one of the two out"
        return Finding(
            index, f"the conditions of {named(rule)} hold for no call: {why}", grave=True
        )
    why = f"{front} decides about the same calls; take one of the two out"
    return Finding(index, f"{named(rule)} is never reached: {why}")


def _holds_in_part(rules: Sequence[Rule], index: int, before: int, name: str) -> Finding:
    why = f"{rule_label(rules[before], before)} in front of it does; put it in front of that"
    return Finding(index, f"{named(rules[index])} does not decide about {name!r}: {why}")


def named(rule: Rule) -> str:
    """Say what a rule says, in one word and its name."""
    name = rule.pattern
    return f'{rule.effect} "{name if len(name) <= MAX_SHOWN else name[: MAX_SHOWN - 1] + "…"}"'


def covers(general: str, special: str) -> bool:
    """Return whether a name or glob matches all that another does; a doubt is a no."""
    if general == special or not is_glob(general) or len(general) > MAX_GLOB:
        return general == special
    if not is_glob(special):
        return glob_matches(general, special)
    if len(special) > MAX_GLOB:
        return False
    # A character that `general` does not spell out, so often that only a `*` of it takes them all, and
    # never: between them there is nothing that `*` and `?` could tell apart.
    one = special.replace("?", _ANY)
    texts = (one.replace("*", _ANY * number) for number in (len(general) + 1, 1, 0))
    return all(glob_matches(general, text) for text in texts)


def _apart(first: str, second: str) -> bool:
    """Return whether two globs begin, or end, with other letters, so that no name fits both."""
    for one, other in ((first, second), (first[::-1], second[::-1])):
        heads = (_WILD.split(one, maxsplit=1)[0], _WILD.split(other, maxsplit=1)[0])
        if not heads[0].startswith(heads[1]) and not heads[1].startswith(heads[0]):
            return True
    return False


def common(first: str, second: str) -> str:
    """Return a short name that two globs match; empty if there is none, or if they are long."""
    if max(len(first), len(second)) > MAX_GLOB:
        return ""
    # The shortest names for every pair of ends, from the back; None where there is none.
    found: dict[tuple[int, int], str | None] = {}
    for i in range(len(first), -1, -1):
        for j in range(len(second), -1, -1):
            found[i, j] = _shortest(first[i:], second[j:], found, (i, j))
    if found[0, 0] == "" and first and second:
        return "x"  # both are nothing but `*`
    return found[0, 0] or ""


def _shortest(
    first: str, second: str, found: dict[tuple[int, int], str | None], at: tuple[int, int]
) -> str | None:
    i, j = at
    if not first and not second:
        return ""
    ways: list[str | None] = []
    if first[:1] == "*":
        ways.append(found[i + 1, j])
        if second and second[0] != "*":
            ways.append(_joined(second[0], found[i, j + 1]))
    if second[:1] == "*":
        ways.append(found[i, j + 1])
        if first and first[0] != "*":
            ways.append(_joined(first[0], found[i + 1, j]))
    if first and second and "*" not in (first[0], second[0]):
        one, other = first[0], second[0]
        if one == other or "?" in (one, other):
            ways.append(_joined(other if one == "?" else one, found[i + 1, j + 1]))
    return min((way for way in ways if way is not None), key=len, default=None)


def _joined(char: str, rest: str | None) -> str | None:
    return None if rest is None else ("x" if char == "?" else char) + rest
