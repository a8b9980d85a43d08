"""The request side of a step: what was withheld is put back, and each hop is assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modegate.core import headers, transcript
from modegate.core.assemble import assemble
from modegate.core.dialects.base import ChoiceRead, Dialect, Refused
from modegate.core.effects import Append, CallUpstream, Effect, Headers
from modegate.core.errors import BadRequest
from modegate.core.events import TurnWithheld
from modegate.core.gate import Offer
from modegate.core.identify import lane
from modegate.core.ids import StepId
from modegate.core.standing import Standing


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step begins with."""

    step: StepId
    headers: Headers
    """The client's, as they may go upstream; without Content-Length."""
    body: bytes
    """As it came."""
    decoded: bytes
    """Without the client's content-encoding."""


class Asking:
    """What one step asks its model, hop by hop."""

    def __init__(self, dialect: Dialect, step: StepRequest) -> None:
        """Take a request that was not yet looked at."""
        self._dialect = dialect
        self._step = step
        self._request: Any = None
        self._base: Any = None
        self._found: dict[int, TurnWithheld] = {}

    def read(self, standing: Standing) -> tuple[str, ...]:
        """Read the request and give the stored bodies that belong into its history.

        Raises:
            BadRequest: it cannot be read, and a mode is in force.
        """
        try:
            self._request = self._base = self._dialect.read(self._step.decoded)
            withheld = standing.state.withheld
            if withheld:
                self._found = transcript.match(self._dialect.items(self._request), withheld)
        except BadRequest:
            if standing.gated:
                raise
            # In default mode everything passes untouched, also what nobody can read.
            self._found = {}
        return transcript.refs(self._found)

    def restore(self, stored: Mapping[str, bytes]) -> None:
        """Put back what is still stored."""
        found = transcript.complete(self._found, stored)
        if found:
            self._base = self._dialect.read(self._dialect.restore(self._request, found))

    @property
    def place(self) -> tuple[str, int]:
        """Where the answer will stand in the agent's history: the key in front of it, and its index."""
        return self._dialect.last_key(self._request), len(self._request.messages)

    @property
    def call_ids(self) -> frozenset[str]:
        """Ids of calls in the history."""
        ids: frozenset[str] = self._base.call_ids
        return ids

    def untouched(self) -> list[Effect]:
        """Send the request as it came, but for what is put back."""
        lines, body = self._step.headers, self._step.body
        if self._base is not self._request:
            lines, body = headers.replace(lines, b"content-encoding", None), self._base.body
        return [CallUpstream(lines, body)]

    def extend(self, choice: ChoiceRead, refused: Sequence[Refused]) -> None:
        """Let the next hop follow what the model said, with our answers to its calls."""
        body = self._dialect.extend(self._base.body, self._base, choice, refused)
        self._base = self._dialect.read(body)

    def assembled(self, standing: Standing) -> tuple[Offer, list[Effect]]:
        """Assemble a hop under what the step stands under, and send it.

        Raises:
            ModegateError: it cannot be assembled.
        """
        name = lane(
            self._dialect.name,
            self._request.declares_tools,
            self._request.first_user_text,
            self._step.headers,
        )
        assembled, event = assemble(self._dialect, self._base, name, standing)
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        # The gate reads the answer, so it asks for one that is not compressed.
        lines = headers.replace(lines, b"accept-encoding", b"identity")
        log: list[Effect] = [Append((event,))] if event is not None else []
        offer = Offer(standing, assembled.tools, self._request.declared)
        return offer, [*log, CallUpstream(lines, assembled.body)]
