"""Compaction: a history goes in, a shorter one comes out, as one body that is never streamed.

What comes out is a history, so messages of any role may be in it; nothing of it is kept as an answer.
"""

from __future__ import annotations

from modegate.core.dialects.responses.answer.whole import ResponsesWhole
from modegate.core.dialects.responses.dialect import ResponsesDialect
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.dialect import Assembled
from modegate.core.step.stored_answers import Kept


class CompactDialect(ResponsesDialect):
    """Responses, where a history is made shorter."""

    def assemble(
        self, request: ResponsesRequest, in_force: ModesInForce, section: str
    ) -> Assembled:
        """Show the model only what the mode allows; a section would outlive its mode in what comes out."""
        return super().assemble(request, in_force, "")

    def read_whole(self, body: bytes) -> ResponsesWhole:
        """Read a history that came out."""
        return ResponsesWhole(body, history=True)

    def may_go_on(self, finish: str | None) -> bool:
        """Tell that nothing follows."""
        return False

    def kept(self, request: ResponsesRequest) -> Kept | None:
        """Tell that no answer is kept."""
        return None
