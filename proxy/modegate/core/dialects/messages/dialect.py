"""The Anthropic API's Messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from modegate.core.dialects.common.call_members import id_paths
from modegate.core.dialects.common.straight import CallList
from modegate.core.dialects.common.texts import begins_compacted, without_asides
from modegate.core.dialects.messages.answer import visible_text
from modegate.core.dialects.messages.answer.answer_items import CALL, TEXT, Block, MessageRead
from modegate.core.dialects.messages.answer.straight import MessagesStraightener
from modegate.core.dialects.messages.answer.stream import MessagesStreamReader
from modegate.core.dialects.messages.answer.whole import MessagesWhole
from modegate.core.dialects.messages.answer.write import MessagesStreamWriter
from modegate.core.dialects.messages.api import API
from modegate.core.dialects.messages.request import (
    edit,
    history,
    recorded,
    restore,
    thinking_prefix,
)
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.dialects.messages.translation import TRANSLATION
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Dialect, Found, Notices, erased
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.arguments import words

# Stop reasons after which the model has nothing more to say or may say nothing more.
_FINAL = words("""
    compaction content_filter length max_tokens model_context_window_exceeded pause_turn refusal
""")


def _extend(
    request: MessagesRequest, choice: MessageRead, refused: Sequence[Refused], manner: Manner
) -> bytes:
    return history.extend(request, choice, refused, manner.thoughts)


def _restore(request: MessagesRequest, found: Found, notices: Notices, manner: Manner) -> bytes:
    return restore.restore(request, found, notices, manner.thoughts)


def _last_said(out: MessageRead | None, closing: str) -> MessageRead:
    end = Block(TEXT, {"type": TEXT, "text": ""}, pieces=[closing], closed=True)
    return MessageRead(blocks=[*(out.shown() if out else ()), end])


MESSAGES = erased(
    Dialect(
        api=API,
        read=MessagesRequest,
        assemble=edit.assemble,
        extend=_extend,
        system_text=visible_text.system_text,
        items=history.items,
        last_key=history.last_key,
        newest_is_user=history.newest_is_user,
        answer_key=history.answer_key,
        restore=_restore,
        begins_compacted=begins_compacted,
        without_asides=without_asides,
        told_calls=recorded.told_calls,
        claims=recorded.claims,
        turn_blob=partial(history.blob, turn=True),
        partial_blob=partial(history.blob, turn=False),
        aside_blob=b'{"turn":true,"calls":[],"answers":[]}',
        blob_ids=id_paths("calls.*.1", "answers.*"),
        stream_reader=MessagesStreamReader,
        stream_writer=MessagesStreamWriter,
        read_whole=MessagesWhole,
        spoken=visible_text.visible_texts,
        last_said=_last_said,
        may_go_on=lambda finish: finish not in _FINAL,
        straightener=MessagesStraightener,
        straight_whole=CallList("content", frozenset({CALL}), "id", "toolu_").straight,
        mend=thinking_prefix.drop_old_thinking,
        translation=TRANSLATION,
    )
)
