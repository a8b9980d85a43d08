"""Responses that the provider keeps: by their ids, or in a conversation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modegate.core.dialects.responses.answer.answer_items import ResponsesRead
from modegate.core.dialects.responses.request.edit import insert_items
from modegate.core.dialects.responses.request.history import answer_items, user_message
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.log.events import AnswerMapped
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Kept
from modegate.core.wire.json_spans import Edit, apply
from modegate.core.wire.request_body import RequestBody


def kept(request: ResponsesRequest) -> Kept | None:
    conversation = _conversation(request)
    if conversation:
        return Kept(conversation)
    return None if request.value("store") is False else Kept()


def goes_on_from(request: ResponsesRequest) -> str:
    previous = request.value("previous_response_id")
    return previous if isinstance(previous, str) else _conversation(request)


def _conversation(request: ResponsesRequest) -> str:
    given = request.value("conversation")
    name = given.get("id") if isinstance(given, dict) else given
    return name if isinstance(name, str) else ""


def go_on(request: ResponsesRequest, mapped: AnswerMapped) -> bytes:
    edits: list[Edit] = []
    if mapped.last != mapped.client:
        span = request.top["previous_response_id"]
        edits.append(Edit(*span, msgspec.json.encode(mapped.last)))
    if mapped.owed:
        edits += insert_items(request, 0, ",".join(mapped.owed).encode())
    return apply(request.body, edits)


def chained(
    request: ResponsesRequest, choice: ResponsesRead, refused: Sequence[Refused]
) -> bytes | None:
    """Return the next hop as our answers alone, behind the answer that the provider keeps, or None.

    A conversation is kept whatever `store` says. Who chains knows that its provider keeps answers; of any
    other only what the provider says counts.
    """
    conversation = request.value("conversation") is not None
    surely = choice.surely_stored or (request.chained and choice.stored)
    stored = surely and bool(choice.id) and request.value("store") is not False
    if not (conversation or stored) or not request.members:
        return None
    answers = [item for one in refused for item in answer_items(one, one.call.id)]
    values = {"input": answers} | ({} if conversation else {"previous_response_id": choice.id})
    return apply(
        request.body,
        [request.set_member(key, msgspec.json.encode(one)) for key, one in values.items()],
    )


def owed(refused: Sequence[Refused], note: str) -> tuple[str, ...]:
    items = [item for one in refused for item in answer_items(one, one.call.id)]
    items += [user_message(note)] if note else []
    return tuple(msgspec.json.encode(item).decode() for item in items)


def unstored(body: RequestBody) -> bytes:
    """Return a body of the Responses API that asks for nothing to be stored; what cannot be read stays.

    Hops are then not chained to an answer that nobody has, but carry all that was said.
    """
    text = body.decoded
    try:
        top = body.members
    except ValueError:
        return text
    found = [member.value for member in top if member.key == "store"]
    if found:
        return apply(text, [Edit(span.start, span.end, b"false") for span in found])
    at = text.index(b"{") + 1
    return apply(text, [Edit(at, at, b'"store":false,' if top else b'"store":false')])
