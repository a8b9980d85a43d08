"""A request that the upstream refuses for what modegate changed in it: asked once more, in a form it takes.

Only where a dialect knows such a refusal; every other is the client's to see, as it came.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from modegate.core.complaints import Complaint
from modegate.core.dialects.base import Dialect
from modegate.core.effects import CallUpstream, Effect
from modegate.core.encoding import BadEncoding, UnknownEncoding
from modegate.core.errors import TooLarge

MENDABLE = 400
MAX_MENDED = 64 * 1024
"""Bytes of a refusal that is known; a longer one is none of those."""


@runtime_checkable
class Mends(Protocol):
    """A dialect whose upstream may refuse what a mode changes."""

    def mend(self, call: CallUpstream, complaint: bytes) -> CallUpstream | None:
        """Give the request to send instead; None where this is no such refusal."""
        ...


class Mending:
    """What one step knows of such refusals."""

    def __init__(self, dialect: Dialect) -> None:
        """Begin."""
        self._dialect = dialect if isinstance(dialect, Mends) else None
        self._sent: CallUpstream | None = None
        self._known = b""
        """The refusal that was mended: later hops are asked in the other form at once."""

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

    def may_mend(self, status: int) -> bool:
        """Tell whether an error may be a refusal that can be mended."""
        return (
            status == MENDABLE
            and self._dialect is not None
            and self._sent is not None
            and not self._known
        )

    def mended(self, complaint: Complaint) -> CallUpstream | None:
        """Give what to send instead, now that an error is whole; None where it is the client's to see."""
        if self._dialect is None or self._sent is None or not self.may_mend(complaint.status):
            return None
        if len(complaint.body) > MAX_MENDED:
            return None
        try:
            text = complaint.text()
        except (BadEncoding, UnknownEncoding, TooLarge):
            return None
        call = self._dialect.mend(self._sent, text)
        self._known = text if call is not None else b""
        return call
