"""Where a request stands in its conversation, and what that says of questions that are still open."""

from __future__ import annotations

from functools import cached_property

from modegate.core.identify.session import lane
from modegate.core.ids import Lane
from modegate.core.log.open_questions import away, moved_on, returned
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.dialect import AnyDialect, Request
from modegate.core.step.effects import Abandon, Effect, Headers, KeepOpen
from modegate.core.step.stored_answers import Chain


class Conversation:
    """The place of one request."""

    def __init__(self, dialect: AnyDialect, request: Request, lines: Headers) -> None:
        self._dialect = dialect
        self._request = request
        self._lines = lines
        self.chain = Chain()
        """What it goes on from, where the provider holds the history."""

    @cached_property
    def lane(self) -> Lane:
        """The stream of like requests that this one belongs to."""
        return self.lane_of(has_tools=self._request.declares_tools)

    def lane_of(self, *, has_tools: bool) -> Lane:
        """Return the lane of requests that go on from here and declare tools, or none."""
        first = self._request.first_user_text
        return lane(self._dialect.name, has_tools, first, self._lines, self.chain.lane)

    @property
    def place(self) -> tuple[str, int]:
        """Where the answer will stand in the agent's history: the key in front of it, and its index."""
        return self._dialect.last_key(self._request), len(self._request.messages)

    @property
    def end(self) -> str:
        """Where the agent's history ends: what it goes on from, number of items and key of the last."""
        key, size = self.place
        return f"{self.chain.origin}{size}:{key}"

    def moved_on(self, in_force: ModesInForce) -> list[Effect]:
        """Close the lane's detached questions where its user goes on with a new message."""
        asked = in_force.state.approvals
        if not asked or not self._dialect.newest_is_user(self._request):
            return []
        # What was compacted away hides of which lane it was, and a stale plan must not stay open.
        lane = None if self._dialect.begins_compacted(self._request) else self.lane
        ids = moved_on(asked, lane, self.end)
        return [Abandon(ids)] if ids else []

    def came_back(self, in_force: ModesInForce) -> list[Effect]:
        """Keep the questions that the same request asked before its client went away."""
        asked = in_force.state.approvals
        if not any(away(one) for one in asked.values()):
            return []
        ids = returned(asked, self.lane, self.end)
        return [KeepOpen(ids)] if ids else []
