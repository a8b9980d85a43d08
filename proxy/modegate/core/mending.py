"""A request that the upstream refuses for what modegate changed in it: asked once more, in a form it takes.

Only where a dialect knows such a refusal; every other is the client's to see, as it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from modegate.core import headers
from modegate.core.dialects.base import Dialect
from modegate.core.effects import CallUpstream, Effect, Headers
from modegate.core.encoding import BadEncoding, UnknownEncoding, decoder
from modegate.core.errors import TooLarge

MENDABLE = 400
MAX_COMPLAINT = 64 * 1024
"""Bytes of a refusal that are looked at; a longer one is none of those that are known."""


@runtime_checkable
class Mends(Protocol):
    """A dialect whose upstream may refuse what a mode changes."""

    def mend(self, call: CallUpstream, complaint: bytes) -> CallUpstream | None:
        """Give the request to send instead; None where this is no such refusal."""
        ...


@dataclass(slots=True)
class Complaint:
    """A refusal on its way, kept back until it is whole."""

    status: int
    lines: Headers
    body: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes) -> bool:
        """Take a piece; tell whether it may still be one that is known."""
        self.body += data
        return len(self.body) <= MAX_COMPLAINT

    def text(self) -> bytes:
        """Give the body without its coding; empty if that cannot be taken off."""
        coding = headers.get_one(self.lines, b"content-encoding") or b""
        try:
            undo = decoder(coding, MAX_COMPLAINT * 8)
            text = undo.feed(bytes(self.body))
            undo.finish()
        except (BadEncoding, UnknownEncoding, TooLarge):
            return b""
        return text


class Mending:
    """What one step knows of such refusals."""

    def __init__(self, dialect: Dialect) -> None:
        """Begin."""
        self._dialect = dialect if isinstance(dialect, Mends) else None
        self._sent: CallUpstream | None = None
        self._known = b""
        """The refusal that was mended: later hops are asked in the other form at once."""
        self.complaint: Complaint | None = None
        """One that is on its way."""

    def sending(self, effects: list[Effect]) -> list[Effect]:
        """Note what is sent, in the form that the upstream takes as far as that is known."""
        if self._dialect is None:
            return effects
        *before, call = effects
        if not isinstance(call, CallUpstream):
            raise TypeError("a request is sent last")
        if self._known:
            return [*before, self._dialect.mend(call, self._known) or call]
        self._sent = call
        return effects

    def complains(self, status: int, lines: Headers) -> bool:
        """Tell whether an answer is kept back, since it may be a refusal that can be mended."""
        if status != MENDABLE or self._dialect is None or self._sent is None or self._known:
            return False
        self.complaint = Complaint(status, lines)
        return True

    def mended(self) -> CallUpstream | None:
        """Give what to send instead, now that the refusal is whole."""
        if self._dialect is None or self._sent is None or self.complaint is None:
            return None
        text = self.complaint.text()
        call = self._dialect.mend(self._sent, text)
        if call is not None:
            self.complaint, self._known = None, text
        return call
