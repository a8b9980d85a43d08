"""Tool calls as the gate reads them: gathered from pieces, with every reading a client could have.

Clients differ in how they put a streamed call together: by index or by id, names overwritten, kept or
joined. A call is released only if each of those readings is allowed, so the gate keeps them all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.ids import ToolName
from modegate.core.policy import ToolCall


def digest(text: str | bytes) -> str:
    """Give the first 16 hex digits of the SHA-256: enough to tell, too little to reveal."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


class _DuplicateKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKeyError
    return found


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Read a call's arguments; None unless they are a JSON object without duplicate keys."""
    try:
        # The strict decoder first: the standard library's takes NaN.
        msgspec.json.decode(text.encode())
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError, UnicodeEncodeError):
        return None
    return value if isinstance(value, dict) else None


def canonical(arguments: str) -> str:
    """Give arguments in one spelling, since agents send them back in their own."""
    value = parse_arguments(arguments)
    if value is None:
        return arguments.strip()
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def arguments_hash(arguments: str) -> str:
    """Give the hash under which a call's arguments are logged and recognised."""
    return digest(canonical(arguments))


@dataclass(eq=False, slots=True)
class Gathered:
    """One call of an answer, as far as it has come."""

    choice: int
    kind: str
    """`function`, `custom` (free text) or `legacy` (the old single function call)."""
    id: str = ""
    names: list[str] = field(default_factory=list)
    """Every non-empty name that was sent, in order."""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    """Members of the call that the gate does not know, such as signatures."""
    shared: tuple[Gathered, ...] = ()
    """Earlier calls that came under the same index: a client may take them for one."""
    odd: str = ""
    """Why the call cannot be read, if so."""
    released: bool | None = None
    """The verdict, once there is one."""

    @property
    def arguments(self) -> str:
        """The arguments' text, or the free text of a custom call."""
        return "".join(self.pieces)

    @property
    def name(self) -> ToolName:
        """The name under which the call is logged."""
        return ToolName(self.names[0] if self.names else "")

    def readings(self, declared: frozenset[str]) -> list[ToolCall]:
        """Give each call that a client could make of this one; empty if it cannot be read.

        A name that is repeated whole is one name, unless the agent has a tool of the joined name.
        """
        own = dict.fromkeys(self.names)
        joined = "".join(self.names)
        if len(own) > 1 or joined in declared:
            own[joined] = None
        if not own or self.odd:
            return []
        arguments = self._parsed()
        if self.shared:
            # Glued to another call its arguments would be something else: no condition can hold.
            arguments = None
            own |= dict.fromkeys(name for call in self.shared for name in call.names)
        return [ToolCall(ToolName(name), arguments) for name in own]

    def _parsed(self) -> dict[str, Any] | None:
        if self.kind == "custom":
            return {"input": self.arguments}
        # Some servers send no text at all for a call without arguments.
        return parse_arguments(self.arguments or "{}")


def same_calls(first: Iterable[Gathered], second: Iterable[Gathered]) -> bool:
    """Tell whether a call of one answer is repeated with the same arguments in the next."""
    before = {(call.name, arguments_hash(call.arguments)) for call in first}
    return any((call.name, arguments_hash(call.arguments)) in before for call in second)
