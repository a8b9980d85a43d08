"""The Responses API behind the dialects' protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modegate.core.dialects.responses.answer import visible_text
from modegate.core.dialects.responses.answer.answer_items import ResponsesRead
from modegate.core.dialects.responses.answer.items import CALLS
from modegate.core.dialects.responses.answer.straight import ResponsesStraightener
from modegate.core.dialects.responses.answer.stream import ResponsesStreamReader
from modegate.core.dialects.responses.answer.whole import ResponsesWhole
from modegate.core.dialects.responses.answer.write import ResponsesStreamWriter
from modegate.core.dialects.responses.request import edit, history, restore, stored
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.errors import DialectName
from modegate.core.log.events import AnswerMapped
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.straightener import Ids, Listed
from modegate.core.step.dialect import (
    Assembled,
    Found,
    Item,
    Refused,
    Spoken,
)
from modegate.core.step.request.request_form import Manner
from modegate.core.step.request.transcript import Lost
from modegate.core.step.stored_answers import Kept
from modegate.core.wire.request_body import RequestBody

_LISTED = Listed("output", CALLS, "call_id", "call_")


class ResponsesDialect:
    """OpenAI Responses."""

    name: DialectName = "responses"

    def read(self, body: RequestBody) -> ResponsesRequest:
        """Read a request."""
        return ResponsesRequest(body)

    def assemble(
        self, request: ResponsesRequest, in_force: ModesInForce, section: str
    ) -> Assembled:
        """Show the model only what the mode allows, and the section."""
        return edit.assemble(request, in_force, section)

    def extend(
        self,
        request: ResponsesRequest,
        choice: ResponsesRead,
        refused: Sequence[Refused],
        manner: Manner,
    ) -> bytes:
        """Return the next hop's request: this one, the model's turn, our answers to its calls."""
        return history.extend(request, choice, refused, manner.thoughts)

    def turn_blob(self, choice: ResponsesRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which every call was refused."""
        return history.blob(choice, refused, turn=True)

    def partial_blob(self, choice: ResponsesRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which some calls were released."""
        return history.blob(choice, refused, turn=False)

    def aside_blob(self) -> bytes:
        """Return the stored body of words of our own between hops, which the model is not to find."""
        return b'{"turn":true,"calls":[],"answers":[]}'

    def items(self, request: ResponsesRequest) -> list[Item]:
        """Return the history's items with their keys."""
        return history.items(request)

    def last_key(self, request: ResponsesRequest) -> str:
        """Return the key of the history's last item; empty if there is none."""
        return history.last_key(request)

    def answer_key(self, said: Sequence[ResponsesRead]) -> str:
        """Return the key that the answer will have when the client sends back what these hops said."""
        return history.answer_key(said)

    def last_said(self, out: ResponsesRead | None, closing: str) -> ResponsesRead:
        """Return what the client got last: what a hop had said before it failed, and our closing text."""
        return history.last_said(out, closing)

    def restore(
        self,
        request: ResponsesRequest,
        found: Found,
        notices: Mapping[int, Sequence[str]],
        manner: Manner,
    ) -> bytes:
        """Put withheld exchanges back, and notices behind the items with these indices.

        Reasoning in front of them is the agent's own, and stays as the agent sends it.
        """
        return restore.restore(request, found, notices)

    def kept(self, request: ResponsesRequest) -> Kept | None:
        """Return where the answer to a request is kept; None if it is not."""
        return stored.kept(request)

    def unstored(self, body: RequestBody) -> bytes:
        """Return a body that asks for nothing to be kept."""
        return stored.unstored(body)

    def goes_on_from(self, request: ResponsesRequest) -> str:
        """Return the id of the answer or the conversation that a request goes on from; empty for none."""
        return stored.goes_on_from(request)

    def go_on(self, request: ResponsesRequest, mapped: AnswerMapped) -> bytes:
        """Let a request go on from the last hop, with the results that are owed in front."""
        return stored.go_on(request, mapped)

    def chained(
        self, request: ResponsesRequest, choice: ResponsesRead, refused: Sequence[Refused]
    ) -> bytes | None:
        """Return the next hop as our answers alone, behind the answer that the provider keeps."""
        return stored.chained(request, choice, refused)

    def answer_id(self, choice: ResponsesRead) -> str:
        """Return the id under which a hop's answer is kept; empty if it is not."""
        return choice.id if choice.stored and choice.finish != "failed" else ""

    def owed(self, refused: Sequence[Refused], note: str) -> tuple[str, ...]:
        """Return the results of refused calls, and a note to the model, as a later request holds them."""
        return stored.owed(refused, note)

    def forget(
        self,
        request: ResponsesRequest,
        found: Found,
        notices: Mapping[int, Sequence[str]],
        lost: Lost,
    ) -> bytes:
        """Put back what there is, and take out reasoning that nothing follows any more."""
        return restore.restore(request, found, notices, lost)

    def newest_is_user(self, request: ResponsesRequest) -> bool:
        """Return whether the history ends with a message of the user."""
        return history.newest_is_user(request)

    def stream_reader(self, *, strictly: bool) -> ResponsesStreamReader:
        """Return a reader for one hop; `strictly` where its frames will be edited."""
        return ResponsesStreamReader(strictly=strictly)

    def straightener(self, limit: int, ids: Ids) -> ResponsesStraightener:
        """Return what straightens a hop's stream."""
        return ResponsesStraightener(limit, ids)

    def straight_whole(self, body: bytes, ids: Ids) -> bytes:
        """Return a whole answer in which each call has an id of its own."""
        return _LISTED.straight(body, ids)

    def stream_writer(self) -> ResponsesStreamWriter:
        """Return the writer for a step."""
        return ResponsesStreamWriter()

    def read_whole(self, body: bytes) -> ResponsesWhole:
        """Read an answer that is one JSON body."""
        return ResponsesWhole(body)

    def spoken(self, data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
        """Return the visible text of one frame or of a whole answer, and which choices end with it."""
        return visible_text.spoken(data, streamed=streamed)

    def system_text(self, request: ResponsesRequest) -> str:
        """Return what the agent tells its model of itself."""
        return visible_text.system_text(request)

    def may_go_on(self, finish: str | None) -> bool:
        """Return whether an answer that finished so may be followed by another hop."""
        return finish in (None, "completed")
