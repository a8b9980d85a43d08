"""One continuous streamed answer of the Responses API out of the parts of one hop or more.

Events that may go leave as the bytes that came. Once something was dropped, put in, or belongs to a later
hop, the numbers that count events and items are written anew, as clients go by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import members_in, value_of
from modegate.core.dialects.responses.answer import output, parsing
from modegate.core.dialects.responses.answer.calls import is_gone
from modegate.core.dialects.responses.answer.sent_items import SentItems
from modegate.core.dialects.responses.answer.stream_items import EventFrame
from modegate.core.errors import ModegateError
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.wire.json_spans import Edit, Span, apply, elements
from modegate.core.wire.sse import FrameWriter
from modegate.core.wire.surrogates import without_lone_surrogates

_HEAD = """
    id created_at model metadata previous_response_id conversation service_tier store temperature
    top_p truncation user
"""
HEAD_KEYS = tuple(_HEAD.split())
"""What an end of our own repeats of the upstream's beginning."""

DEFAULTS = {"id": "resp_modegate", "created_at": 0, "model": "", "metadata": {}}


class ResponsesStreamWriter:
    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._hop = 0
        """Hops before the one under way."""
        self._events = 0
        """Events of it that went."""
        self._items = SentItems()
        self._spent: list[Mapping[str, Any]] = []
        self._last = -1
        """The sequence number that went last."""
        self._renumbers = False
        self._begun = False
        """The client has the first event."""
        self._over = False
        self._out = FrameWriter()

    def seen(self, part: Part) -> None:
        self._out.seen(part.frame.raw)
        response = part.frame.value.get("response")
        if not self._head and isinstance(response, dict):
            self._head = {key: response[key] for key in HEAD_KEYS if key in response}

    def write(self, parts: Sequence[Part]) -> bytes:
        return b"".join(self._part(part) for part in parts)

    def next_hop(self, usage: Mapping[str, Any] | None) -> None:
        if usage is not None:
            self._spent.append(usage)
        self._hop, self._events = self._hop + 1, 0
        self._items.next_hop()
        self._renumbers = True

    def text(self, choice: int, text: str) -> bytes:
        closed = self._close()
        name = output.own_id(str(self._head.get("id")), len(self._items.sent))
        self._renumbers = True
        item, part = output.message_item(name, text), output.text_part(text)
        begun = output.message_item(name, text, begun=True)
        index = self._items.add_own(name, msgspec.json.encode(item))
        at = {"item_id": name, "output_index": index, "content_index": 0}
        return closed + b"".join(
            (
                self._event(parsing.ADDED, output_index=index, item=begun),
                self._event("response.content_part.added", **at, part=output.text_part("")),
                self._event("response.output_text.delta", **at, delta=text, logprobs=[]),
                self._event("response.output_text.done", **at, text=text, logprobs=[]),
                self._event("response.content_part.done", **at, part=part),
                self._event(parsing.DONE, output_index=index, item=item),
            )
        )

    def finish(self, choice: int) -> bytes:
        """Return nothing: an answer's end is its finish."""
        return b""

    def keepalive(self) -> bytes:
        """Return the event that OpenAI sends, numbered as the others; a comment in front of the first."""
        if self._over:
            return b""
        if not self._begun:
            return self._out.comment("waiting")
        if self._last < 0:
            return self._out.own(b'{"type":"keepalive"}', b"keepalive")
        self._renumbers = True
        return self._event("keepalive")

    def done(self) -> bytes:
        spent = self._spent[-1] if self._spent else {}
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, **spent}
        usage |= parsing.TOKENS.added(usage, self._spent[:-1])
        self._over = True
        return self._event(
            "response.completed", response=self._response("completed", usage, self._items.sent)
        )

    def stopped(self) -> bytes:
        """Return the event that says that the answer failed, as no end came."""
        return self._failure("server_error", "the upstream stopped before the end of its answer")

    def error(self, error: ModegateError) -> bytes:
        # Agents send again after a server's error, and show any other.
        code = "server_error" if error.status >= 500 else "invalid_prompt"
        return self._failure(code, str(error))

    def _failure(self, code: str, message: str) -> bytes:
        response = self._response("failed", None, ())
        response["error"] = {"code": code, "message": message}
        self._over = True
        return self._event("response.failed", response=response)

    def _response(
        self, status: str, usage: dict[str, Any] | None, items: Sequence[bytes]
    ) -> dict[str, Any]:
        return {
            "object": "response",
            **DEFAULTS,
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "output": [msgspec.Raw(item) for item in items],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage,
        }

    def _event(self, kind: str, **members: Any) -> bytes:
        self._last += 1
        value = {"type": kind, "sequence_number": self._last, **members}
        return self._out.own(msgspec.json.encode(value), kind.encode())

    def _part(self, part: Part) -> bytes:
        event: EventFrame = part.frame
        if not event.data:
            return self._out.passed(event.raw)
        if self._hop and event.type in parsing.BEGINNINGS:
            return b""
        if part.kind is Kind.CALL and not all(call.released for call in part.calls):
            return b""
        self._begun = True
        self._over = self._over or part.kind in (Kind.FINISH, Kind.ERROR)
        self._renumbers = self._renumbers or event.number != self._events
        edits = self._item_edits(event) if event.out is not None else []
        if part.kind is Kind.FINISH and event.type != parsing.ERROR:
            edits += self._end_edits(event)
        edits += self._number_edits(event)
        self._events += 1
        if not edits and not event.own:
            return self._out.passed(event.raw)
        # Written anew: what a comment or an id repeats of the data is no part of what was judged.
        return self._out.own(apply(event.data, edits), event.name)

    def _number_edits(self, event: EventFrame) -> list[Edit]:
        number = event.value.get("sequence_number")
        if number is None:
            return []
        # In order too, where those of a loose server were not.
        ordered = self._last < 0 or number == self._last + 1
        self._renumbers = self._renumbers or not ordered
        self._last = wanted = self._last + 1 if self._renumbers else number
        if wanted == number:
            return []
        return [Edit(*event.places["sequence_number"], str(wanted).encode())]

    def _item_edits(self, event: EventFrame) -> list[Edit]:
        out = event.out
        if out is None:
            return []
        index = self._items.index_of(out)
        edits: list[Edit] = []
        if index != out.index and "output_index" in event.places:
            edits.append(Edit(*event.places["output_index"], str(index).encode()))
        edits += self._name_edits(event)
        if event.type == parsing.DONE:
            self._items.end(out)
        elif self._hop:
            self._items.note(out, event.type, event.value)
        return edits

    def _name_edits(self, event: EventFrame) -> list[Edit]:
        if not self._items.renamed:
            return []
        spans = [event.places.get("item_id")]
        if isinstance(event.value.get("item"), dict):
            spans.append(value_of(event.data, "id", event.places["item"]))
        return [edit for span in spans if span for edit in self._renaming(event.data, span)]

    def _renaming(self, data: bytes, span: Span) -> list[Edit]:
        name = msgspec.json.decode(without_lone_surrogates(data[span.start : span.end]))
        new = self._items.renamed.get(name) if isinstance(name, str) else None
        return [] if new is None else [Edit(*span, msgspec.json.encode(new))]

    def _close(self) -> bytes:
        """End what a hop that failed has left open."""
        return b"".join(self._event(kind, **more) for kind, more in self._items.close())

    def _end_edits(self, event: EventFrame) -> list[Edit]:
        """Make the snapshot at the end one of the whole answer, as the client got it."""
        data, value = event.data, event.value["response"]
        span = event.places["response"]
        spans = {member.key: member.value for member in members_in(data, span)}
        edits: list[Edit] = []
        if self._hop:
            edits += [
                Edit(*spans[key], msgspec.json.encode(self._head[key]))
                for key in ("id", "created_at", "previous_response_id")
                if key in spans and key in self._head
            ]
            if isinstance(value.get("usage"), dict):
                edits += parsing.TOKENS.edits(data, spans["usage"], value["usage"], self._spent)
        if "output" in spans:
            edits += self._output_edits(event, spans["output"])
        return edits

    def _output_edits(self, event: EventFrame, span: Span) -> list[Edit]:
        drop = {at for at, call in enumerate(event.listed) if is_gone(call)}
        before, behind = self._items.earlier, self._items.own
        if not event.listed and (before or behind):
            # Some servers leave the snapshot empty; where something is put in, it has to be whole.
            return output.output_edits(event.data, span, drop=set(), before=self._items.sent)
        edits = output.output_edits(event.data, span, drop=drop, before=before, behind=behind)
        if not self._items.renamed:
            return edits
        for at, place in enumerate(elements(without_lone_surrogates(event.data), span)):
            name = value_of(event.data, "id", place)
            if at not in drop and name is not None:
                edits += self._renaming(event.data, name)
        return edits
