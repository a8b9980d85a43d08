"""Chat completions behind the dialects' protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modegate.core.dialects.chat.answer import visible_text
from modegate.core.dialects.chat.answer.answer_items import ChatRead
from modegate.core.dialects.chat.answer.stream import ChatStreamReader
from modegate.core.dialects.chat.answer.whole import ChatWhole, join_texts
from modegate.core.dialects.chat.answer.write import ChatStreamWriter
from modegate.core.dialects.chat.request import edit, history, restore
from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.errors import DialectName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.dialect import (
    Assembled,
    ChoiceRead,
    Found,
    Item,
    Refused,
    Spoken,
)
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.request_body import RequestBody

# Finishes after which the model has nothing more to say or may say nothing more.
FINAL = frozenset({"length", "content_filter"})


class ChatDialect:
    """OpenAI chat completions."""

    name: DialectName = "chat"

    def read(self, body: RequestBody) -> ChatRequest:
        """Read a request."""
        return ChatRequest(body)

    def assemble(self, request: ChatRequest, in_force: ModesInForce, section: str) -> Assembled:
        """Show the model only what the mode allows, and the section."""
        return edit.assemble(request, in_force, section)

    def extend(
        self,
        request: ChatRequest,
        choice: ChatRead,
        refused: Sequence[Refused],
        manner: Manner,
    ) -> bytes:
        """Return the next hop's request: this one, the model's turn, our answers to its calls."""
        return edit.extend(request, history.extend(request, choice, refused, manner))

    def turn_blob(self, choice: ChatRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which every call was refused."""
        return history.turn_blob(choice, refused)

    def partial_blob(self, choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
        """Return the stored body of a hop of which some calls were released."""
        return history.partial_blob(choice, refused)

    def aside_blob(self) -> bytes:
        """Return the stored body of words of our own between hops, which the model is not to find."""
        return b'{"turn":[],"calls":[],"answers":[]}'

    def items(self, request: ChatRequest) -> list[Item]:
        """Return the history's items with their keys."""
        return history.items(request)

    def last_key(self, request: ChatRequest) -> str:
        """Return the key of the history's last item; empty if there is none."""
        return history.last_key(request)

    def answer_key(self, said: Sequence[ChoiceRead]) -> str:
        """Return the key that the answer will have when the client sends back what these hops said."""
        text = join_texts(*(choice.text() for choice in said))
        return history.answer_key(text, said[-1].released())

    def last_said(self, out: ChoiceRead | None, closing: str) -> ChoiceRead:
        """Return what the client got last: what a hop had said before it failed, and our closing text."""
        return ChatRead({"text": [join_texts(out.text() if out else "", closing)]})

    def restore(
        self,
        request: ChatRequest,
        found: Found,
        notices: Mapping[int, Sequence[str]],
        manner: Manner,
    ) -> bytes:
        """Put withheld exchanges back, and notices behind the messages with these indices."""
        return restore.restore(request, found, notices, manner)

    def unbound(self, blob: bytes) -> bytes:
        """Return a stored body without what the model thought, and what its provider put beside calls."""
        return restore.unbound(blob)

    def newest_is_user(self, request: ChatRequest) -> bool:
        """Return whether the history ends with a message of the user."""
        return bool(request.messages) and request.role(request.messages[-1]) == "user"

    def stream_reader(self, *, strictly: bool) -> ChatStreamReader:
        """Return a reader for one hop; `strictly` where its frames will be edited."""
        return ChatStreamReader(strictly=strictly)

    def straightener(self, limit: int, ids: Ids) -> None:
        """Give nothing: what servers make of this API is read as it comes."""

    def straight_whole(self, body: bytes, ids: Ids) -> bytes:
        """Return a whole answer as it came."""
        return body

    def stream_writer(self) -> ChatStreamWriter:
        """Return the writer for a step."""
        return ChatStreamWriter()

    def read_whole(self, body: bytes) -> ChatWhole:
        """Read an answer that is one JSON body."""
        return ChatWhole(body)

    def spoken(self, data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
        """Return the visible text of one frame or of a whole answer, and which choices end with it."""
        return visible_text.spoken(data)

    def system_text(self, request: ChatRequest) -> str:
        """Return what the agent tells its model of itself."""
        return visible_text.system_text(request)

    def may_go_on(self, finish: str | None) -> bool:
        """Return whether an answer that finished so may be followed by another hop."""
        return finish not in FINAL
