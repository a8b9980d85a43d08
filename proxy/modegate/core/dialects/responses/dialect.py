"""OpenAI Responses, and the endpoint of it that makes a history shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from modegate.core.dialects.common.call_members import id_paths
from modegate.core.dialects.common.straight import CallList
from modegate.core.dialects.common.texts import begins_compacted, without_asides
from modegate.core.dialects.responses.answer import visible_text
from modegate.core.dialects.responses.answer.answer_items import ResponsesRead
from modegate.core.dialects.responses.answer.calls import CALLS
from modegate.core.dialects.responses.answer.fetched import FetchedItems, FetchedResponse
from modegate.core.dialects.responses.answer.straight import ResponsesStraightener
from modegate.core.dialects.responses.answer.stream import ResponsesStreamReader
from modegate.core.dialects.responses.answer.whole import ResponsesWhole
from modegate.core.dialects.responses.answer.write import ResponsesStreamWriter
from modegate.core.dialects.responses.api import API
from modegate.core.dialects.responses.request import edit, history, recorded, restore, stored
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.dialects.responses.translation import TRANSLATION
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Assembled, Dialect, Found, Notices, StoredAnswers, erased
from modegate.core.step.request.request_form import Manner


def _extend(
    request: ResponsesRequest, choice: ResponsesRead, refused: Sequence[Refused], manner: Manner
) -> bytes:
    return history.extend(request, choice, refused, manner.thoughts)


def _restore(request: ResponsesRequest, found: Found, notices: Notices, _manner: Manner) -> bytes:
    # Reasoning in front of them is the agent's own, and stays as the agent sends it.
    return restore.restore(request, found, notices)


def _answer_id(choice: ResponsesRead) -> str:
    return choice.id if choice.stored and choice.finish != "failed" else ""


_STORED = StoredAnswers(
    kept=stored.kept,
    unstored=stored.unstored,
    goes_on_from=stored.goes_on_from,
    go_on=stored.go_on,
    chained=stored.chained,
    answer_id=_answer_id,
    owed=stored.owed,
    fetched=FetchedResponse,
    fetched_items=FetchedItems,
)

_RESPONSES = Dialect(
    api=API,
    read=ResponsesRequest,
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
    stream_reader=ResponsesStreamReader,
    stream_writer=ResponsesStreamWriter,
    read_whole=ResponsesWhole,
    spoken=visible_text.visible_texts,
    last_said=history.last_said,
    may_go_on=lambda finish: finish in (None, "completed"),
    straightener=ResponsesStraightener,
    straight_whole=CallList("output", CALLS, "call_id", "call_").straight,
    forget=restore.restore,
    stored=_STORED,
    translation=TRANSLATION,
)


def _assemble_compact(
    request: ResponsesRequest, in_force: ModesInForce, _section: str
) -> Assembled:
    # A section would outlive its mode in what comes out.
    return edit.assemble(request, in_force, "")


_COMPACT = replace(
    _RESPONSES,
    assemble=_assemble_compact,
    read_whole=partial(ResponsesWhole, history=True),
    may_go_on=lambda _finish: False,
    # Its answer is not kept, but it may go on from one that is.
    stored=replace(_STORED, kept=lambda _request: None),
)
"""A history goes in, a shorter one comes out, as one body that is never streamed: messages of any role may
be in it, and nothing of it is kept as an answer."""

RESPONSES = erased(replace(_RESPONSES, variants={"compact": _COMPACT}))
