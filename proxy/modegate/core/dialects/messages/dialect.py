"""The Messages API behind the dialects' protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modegate.core.dialects.messages.answer import visible_text
from modegate.core.dialects.messages.answer.blocks import CALL, TEXT, Block, MessageRead
from modegate.core.dialects.messages.answer.straight import MessagesStraightener
from modegate.core.dialects.messages.answer.stream import MessagesStreamReader
from modegate.core.dialects.messages.answer.whole import MessagesWhole
from modegate.core.dialects.messages.answer.write import MessagesStreamWriter
from modegate.core.dialects.messages.request import edit, history, restore, thinking_prefix
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.errors import DialectName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.straightener import Ids, Listed
from modegate.core.step.dialect import (
    Assembled,
    Found,
    Item,
    Refused,
    Spoken,
)
from modegate.core.step.effects import CallUpstream
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.request_body import RequestBody

# Stop reasons after which the model has nothing more to say or may say nothing more.
FINAL = frozenset(
    {
        "compaction",
        "content_filter",
        "length",
        "max_tokens",
        "model_context_window_exceeded",
        "pause_turn",
        "refusal",
    }
)

_LISTED = Listed("content", frozenset({CALL}), "id", "toolu_")


class MessagesDialect:
    """Anthropic Messages."""

    name: DialectName = "messages"

    def read(self, body: RequestBody) -> MessagesRequest:
        """Read a request."""
        return MessagesRequest(body)

    def assemble(self, request: MessagesRequest, in_force: ModesInForce, section: str) -> Assembled:
        """Show the model only what the mode allows, and the section."""
        return edit.assemble(request, in_force, section)

    def extend(
        self,
        request: MessagesRequest,
        choice: MessageRead,
        refused: Sequence[Refused],
        manner: Manner,
    ) -> bytes:
        """Return the next hop's request: this one, the model's turn, our answers to its calls."""
        return history.extend(request, choice, refused, manner.thoughts)

    def turn_blob(self, choice: MessageRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which every call was refused."""
        return history.blob(choice, refused, turn=True)

    def partial_blob(self, choice: MessageRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which some calls were released."""
        return history.blob(choice, refused, turn=False)

    def aside_blob(self) -> bytes:
        """Return the stored body of words of our own between hops, which the model is not to find."""
        return b'{"turn":true,"calls":[],"answers":[]}'

    def items(self, request: MessagesRequest) -> list[Item]:
        """Return the history's items with their keys."""
        return history.items(request)

    def last_key(self, request: MessagesRequest) -> str:
        """Return the key of the history's last item; empty if there is none."""
        return history.last_key(request)

    def answer_key(self, said: Sequence[MessageRead]) -> str:
        """Return the key that the answer will have when the client sends back what these hops said."""
        return history.answer_key(said)

    def last_said(self, out: MessageRead | None, closing: str) -> MessageRead:
        """Return what the client got last: what a hop had said before it failed, and our closing text."""
        end = Block(TEXT, {"type": TEXT, "text": ""}, pieces=[closing], closed=True)
        return MessageRead(blocks=[*(out.shown() if out else ()), end])

    def restore(
        self,
        request: MessagesRequest,
        found: Found,
        notices: Mapping[int, Sequence[str]],
        manner: Manner,
    ) -> bytes:
        """Put withheld exchanges back, and notices into the messages with these indices."""
        return restore.restore(request, found, notices, manner.thoughts)

    def newest_is_user(self, request: MessagesRequest) -> bool:
        """Return whether the history ends with a message of the user."""
        return history.newest_is_user(request)

    def stream_reader(self, *, strictly: bool) -> MessagesStreamReader:
        """Return a reader for one hop; `strictly` where its frames will be edited."""
        return MessagesStreamReader(strictly=strictly)

    def straightener(self, limit: int, ids: Ids) -> MessagesStraightener:
        """Return what straightens a hop's stream."""
        return MessagesStraightener(limit, ids)

    def straight_whole(self, body: bytes, ids: Ids) -> bytes:
        """Return a whole answer in which each call has an id of its own."""
        return _LISTED.straight(body, ids)

    def stream_writer(self) -> MessagesStreamWriter:
        """Return the writer for a step."""
        return MessagesStreamWriter()

    def read_whole(self, body: bytes) -> MessagesWhole:
        """Read an answer that is one JSON body."""
        return MessagesWhole(body)

    def mend(self, call: CallUpstream, complaint: bytes) -> CallUpstream | None:
        """Let the API drop thinking that a mode's changes in front of it have made unfit."""
        return thinking_prefix.mend(call, complaint)

    def spoken(self, data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
        """Return the visible text of one frame or of a whole answer, and which choices end with it."""
        return visible_text.spoken(data, streamed=streamed)

    def system_text(self, request: MessagesRequest) -> str:
        """Return what the agent tells its model of itself."""
        return visible_text.system_text(request)

    def may_go_on(self, finish: str | None) -> bool:
        """Return whether an answer that finished so may be followed by another hop."""
        return finish not in FINAL
