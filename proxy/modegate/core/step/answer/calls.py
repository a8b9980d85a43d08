"""Tool calls as the gate reads them: gathered from pieces, with every reading a client could have.

Clients differ in how they put a streamed call together: by index or by id, names overwritten, kept or
joined. A call is released only if each of those readings is allowed, so the gate keeps them all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from modegate.core.ids import ToolName
from modegate.core.policy.judge import ToolCall
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import (
    ArgumentFault,
    has_half,
    paired,
    parse_arguments,
    tangled,
    trouble,
)


def digest(text: str | bytes) -> str:
    """Return the first 16 hex digits of the SHA-256: enough to tell, too little to reveal."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


def canonical(arguments: str) -> str:
    """Return arguments in one spelling, since agents send them back in their own."""
    value = parse_arguments(arguments)
    if value is None:
        return arguments.strip()
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def arguments_hash(arguments: str) -> str:
    """Return the hash under which a call's arguments are logged and recognised."""
    return digest(canonical(arguments))


MAX_NAMES = 8
"""Names of one call; one with more is not read."""

MAX_GLUED = 64
"""Names of a call, with those of calls that a client could take for it: each is compared with every tool."""

MAX_JOINED = 100_000
"""Steps in looking for tools whose name is spelled by several names of a call; they take some 10 ms."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")
"""Where some programs end a name, or a line."""

MAX_NAME = 1024
MAX_ID = 64 * 1024
"""Characters; both are logged and stay in memory with the session. Providers take names of 128, but put a
model's signature into an id (Gemini, by way of litellm), which has some kilobytes."""


SHORT_ID = 9
"""Ids shorter than this (`call_0`) are likely to be used again in the same history."""

SIGNATURE = "__thought__"
"""What litellm puts between a call's id and the signature of the thought that led to it."""


def other_id(name: str, mark: str) -> str:
    """Return another id in the place of one, told apart by a hash; a signature in it stays whole.

    Mistral takes ids of nine letters and digits alone; others take at most forty characters.
    """
    head, sign, signature = name.partition(SIGNATURE)
    alike = len(head) == SHORT_ID and head.isalnum()
    made = mark[:SHORT_ID] if alike else f"{head[:20] or 'call'}_{mark[:12]}"
    return made + sign + signature


class CallState(Enum):
    """What becomes of a call. If a person is to be asked, it stays pending until there is an answer."""

    PENDING = auto()
    RELEASED = auto()
    WITHHELD = auto()


@dataclass(eq=False, slots=True)
class Gathered:
    """One call of an answer, as far as it has come."""

    # What a dialect writes, or who finds a call in plain text.
    choice: int
    kind: str
    """`function`, `custom` (free text) or `legacy` (the old single function call)."""
    id: str = ""
    names: list[str] = field(default_factory=list)
    """Every non-empty name that was sent, in order."""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    """Members of the call that the gate does not know, such as signatures."""
    kinds: set[str] = field(default_factory=set)
    """`function` or `custom`, as its type and its members say. A call that is both cannot be read."""
    places: dict[int | None, None] = field(default_factory=dict)
    """The indices of its pieces, in order; None for a piece without one."""
    shared: dict[Gathered, None] = field(default_factory=dict)
    """Other calls that some client could take for the same one."""
    split: bool = False
    """Some client could see only a part of its arguments."""
    restarts: bool = False
    """Some client could take a later piece of it for the beginning of another call."""
    repeats: bool = False
    """Its pieces repeat its id or name, or change them: sent as they came, they could be several calls."""
    joined: bool = False
    """Its pieces came under several ids."""
    sent: int = 0
    """In how many pieces it came."""
    odd: str = ""
    """Why the call cannot be read, if so."""
    ran: bool = False
    """The provider runs it by itself, or may. If it is refused, it is not shown, and no hop follows."""
    has_run: bool = False
    """Its result is in the answer, so the provider has run it."""
    family: str = ""
    """A name for this and other tools that the provider runs: a rule that allows it allows them all."""
    text: bool = False
    """It stands in the answer's plain text, which some agents run."""
    truncated: bool = False
    """Its answer was cut off within it, and some client would run it as it is. It goes nowhere."""

    # What the gate alone writes (`step.answer.gate`, `step.answer.rulings`).
    by_arguments: bool = False
    """It was released for its arguments. A client that reads only one of its pieces would have others."""
    awaits_end: bool = False
    """A person is to be asked about it, but only once the end of the answer is known."""
    state: CallState = CallState.PENDING

    @property
    def pending(self) -> bool:
        """Whether nobody has decided yet what becomes of it."""
        return self.state is CallState.PENDING

    @property
    def released(self) -> bool:
        """Whether the client gets it."""
        return self.state is CallState.RELEASED

    @property
    def withheld(self) -> bool:
        """Whether the client does not get it."""
        return self.state is CallState.WITHHELD

    @property
    def arguments(self) -> str:
        """The arguments' text, or the free text of a custom call."""
        return paired("".join(self.pieces))

    @property
    def name(self) -> ToolName:
        """The name under which the call is logged."""
        return ToolName(self.names[0] if self.names else "")

    @property
    def doubt(self) -> str:
        """Why the call cannot be read; empty if it can."""
        if self.odd:
            return self.odd
        if len(self.kinds) > 1:
            return Reason.TWO_KINDS
        if len(set(self.names)) > MAX_NAMES:
            return Reason.TOO_MANY_NAMES.with_(MAX_NAMES)
        if len(self.id) > MAX_ID or any(len(name) > MAX_NAME for name in self.names):
            return Reason.NAME_TOO_LONG
        if any(map(_CONTROL.search, self.names)):
            return Reason.NAME_WITH_CONTROLS
        return "" if self.names else Reason.NO_NAME

    def readings(self, declared: frozenset[str]) -> list[ToolCall]:
        """Return each call that a client could make of this one; empty if it cannot be read.

        Calls that share a place are settled one after the other: one that was refused is taken out of
        the answer, so only those that were released can still be taken for this one.
        """
        if self.doubt:
            return []
        glued = self._glued()
        names = dict.fromkeys(self.names)
        # Where some client has other arguments in front of it, no condition can hold.
        arguments = [None] if self.ambiguous else self._parsed()
        names |= dict.fromkeys(name for call in glued for name in call.names)
        if len(names) > MAX_GLUED:
            self.odd = Reason.TOO_MANY_READINGS.with_(MAX_GLUED)
            return []
        readings = dict(names)
        if len(dict.fromkeys(self.names)) > 1:
            readings["".join(self.names)] = None
        if glued or len(self.names) > 1:
            # A name that is repeated whole is one name, unless the agent has a tool of the joined one.
            parts = tuple(names)
            able = [one for one in declared if one.startswith(parts) and one.endswith(parts)]
            if sum(map(len, able)) * len(parts) > MAX_JOINED:
                self.odd = Reason.TOO_MANY_SPELLINGS
                return []
            readings |= dict.fromkeys(tool for tool in sorted(able) if _made_of(tool, parts))
        return [ToolCall(ToolName(name), one, declared) for name in readings for one in arguments]

    def _glued(self) -> list[Gathered]:
        return [call for call in self.shared if call.released]

    @property
    def mixed(self) -> bool:
        """Whether its arguments are not surely those that stand here."""
        return bool(self._glued()) or self.split or len(self.places) > 1

    @property
    def ambiguous(self) -> bool:
        """Whether some client sees other arguments than those that stand here."""
        return self.mixed or self.restarts or (self.repeats and not self.rewritten)

    @property
    def one_name(self) -> bool:
        """Whether it was given one name alone, however often."""
        return len(set(self.names)) == 1

    @property
    def rewritten(self) -> bool:
        """Whether it goes to the client in one piece that says all of it, not in those in which it came."""
        pieces = self.repeats or (self.by_arguments and self.sent > 1)
        return pieces and self.one_name and not self.split and self.kind != "legacy"

    @property
    def blank(self) -> bool:
        """Whether it says nothing at all: it was announced and never came, or fills a field of its API."""
        return not (self.names or self.arguments or self.odd or self.extra)

    @property
    def broken(self) -> bool:
        """Whether its arguments cannot be read, so that clients could read them as they like."""
        return bool(self.trouble)

    @property
    def trouble(self) -> str:
        """Why its arguments cannot be read; empty if they can."""
        if self.kind == "custom":
            return ArgumentFault.HALF if has_half(self.arguments) else ""
        # Some servers send no text at all for a call without arguments.
        return trouble(self.arguments or "{}")

    @property
    def tangled(self) -> bool:
        """Whether programs could read different arguments in the text that stands here."""
        return tangled(parse_arguments(self.arguments or "{}"))

    def _parsed(self) -> Sequence[dict[str, Any] | None]:
        parsed = parse_arguments(self.arguments or "{}")
        read = None if tangled(parsed) else parsed
        if self.kind != "custom":
            return [read]
        # Free text; but a client may hand it to a tool that takes an object.
        return [{"input": self.arguments}, *([read] if parsed else ())]


def share(one: Gathered, other: Gathered) -> None:
    """Note that a client could take two calls for one."""
    one.shared[other] = other.shared[one] = None


def _made_of(tool: str, names: Sequence[str]) -> bool:
    """Return whether some of these names, one after the other, spell a tool's name."""
    reached = {0}
    for at in range(len(tool)):
        if at in reached:
            reached |= {at + len(name) for name in names if tool.startswith(name, at)}
    return len(tool) in reached


def same_calls(first: Iterable[Gathered], second: Iterable[Gathered]) -> bool:
    """Return whether a call of one answer is repeated with the same arguments in the next."""
    before = {(call.name, arguments_hash(call.arguments)) for call in first}
    return any((call.name, arguments_hash(call.arguments)) in before for call in second)
