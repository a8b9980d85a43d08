"""Where the parts of an answer's JSON stand, and the counts of tokens in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modegate.core.wire.json_spans import Edit, Member, Span, members
from modegate.core.wire.surrogates import without_lone_surrogates


def members_in(data: bytes, span: Span | None = None) -> list[Member]:
    """Return the members of an object, halves of characters or not."""
    return members(without_lone_surrogates(data), span)


def member(found: Sequence[Member], key: str) -> Span:
    """Return where the first value under a key stands that is there."""
    return next(one.value for one in found if one.key == key)


def value_of(data: bytes, key: str, span: Span | None = None) -> Span | None:
    """Return where a member's value stands; None if it is not there."""
    return next((one.value for one in members_in(data, span) if one.key == key), None)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The keys under which an API counts tokens."""

    prompt: str
    output: str

    def added(
        self, usage: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
    ) -> dict[str, int]:
        """Return the numbers that change when the output of earlier hops is counted in."""
        own = usage.get(self.output)
        if not earlier or not isinstance(own, int):
            return {}
        spent = [hop.get(self.output) for hop in earlier]
        output = own + sum(tokens for tokens in spent if isinstance(tokens, int))
        changed = {self.output: output}
        prompt = usage.get(self.prompt)
        if isinstance(prompt, int) and "total_tokens" in usage:
            changed["total_tokens"] = prompt + output
        return changed

    def edits(
        self,
        data: bytes,
        span: Span,
        usage: Mapping[str, Any],
        earlier: Sequence[Mapping[str, Any]],
    ) -> list[Edit]:
        """Return the edits that count in what earlier hops said, in the object at `span`."""
        changed = self.added(usage, earlier)
        return [
            Edit(*one.value, str(changed[one.key]).encode())
            for one in members_in(data, span)
            if one.key in changed
        ]
