"""OpenAI chat completions."""

from __future__ import annotations

from collections.abc import Sequence

from modegate.core.dialects.chat.answer import visible_text
from modegate.core.dialects.chat.answer.answer_items import ChatRead
from modegate.core.dialects.chat.answer.stream import ChatStreamReader
from modegate.core.dialects.chat.answer.whole import ChatWhole, join_texts
from modegate.core.dialects.chat.answer.write import ChatStreamWriter
from modegate.core.dialects.chat.api import API
from modegate.core.dialects.chat.request import edit, history, recorded, restore
from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.dialects.chat.translation import TRANSLATION
from modegate.core.dialects.common.call_members import id_paths
from modegate.core.dialects.common.texts import begins_compacted, without_asides
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Dialect, erased
from modegate.core.step.request.request_form import Manner

# Finishes after which the model has nothing more to say or may say nothing more.
_FINAL = frozenset({"length", "content_filter"})


def _extend(
    request: ChatRequest, choice: ChatRead, refused: Sequence[Refused], manner: Manner
) -> bytes:
    return request.append(history.extend(request, choice, refused, manner))


def _answer_key(said: Sequence[ChatRead]) -> str:
    text = join_texts(*(choice.text() for choice in said))
    return history.answer_key(text, said[-1].released())


def _last_said(out: ChatRead | None, closing: str) -> ChatRead:
    return ChatRead({"text": [join_texts(out.text() if out else "", closing)]})


def _newest_is_user(request: ChatRequest) -> bool:
    return bool(request.messages) and request.role(request.messages[-1]) == "user"


CHAT = erased(
    Dialect(
        api=API,
        read=ChatRequest,
        assemble=edit.assemble,
        extend=_extend,
        system_text=visible_text.system_text,
        items=history.items,
        last_key=history.last_key,
        newest_is_user=_newest_is_user,
        answer_key=_answer_key,
        restore=restore.restore,
        begins_compacted=begins_compacted,
        without_asides=without_asides,
        told_calls=recorded.told_calls,
        claims=recorded.claims,
        turn_blob=history.turn_blob,
        partial_blob=history.partial_blob,
        aside_blob=b'{"turn":[],"calls":[],"answers":[]}',
        blob_ids=id_paths("turn.*", "turn.*.tool_calls.*", "calls.*.1", "answers.*"),
        stream_reader=ChatStreamReader,
        stream_writer=ChatStreamWriter,
        read_whole=ChatWhole,
        spoken=visible_text.visible_texts,
        last_said=_last_said,
        may_go_on=lambda finish: finish not in _FINAL,
        unbound=restore.unbound,
        translation=TRANSLATION,
    )
)
