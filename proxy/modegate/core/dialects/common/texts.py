"""The content of a message, be it a string or parts: read, lengthened, and rid of our own line."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from modegate.core.dialects.common.body import Body
from modegate.core.identify.body import first_user_text, plain_parts
from modegate.core.step.texts import PLAN_WAITS
from modegate.core.wire.json_spans import Edit, Span, apply, quote, without


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return what of a list are objects; nothing if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def content_text(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in dicts_in(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def plain_content(content: Any) -> str:
    """Return the words of a message's content, without an agent's reminders."""
    parts = content if isinstance(content, list) else [content]
    return plain_parts(content_text([part]) or content_text(part) for part in parts)


def grow(
    request: Body, span: Span, text: str, *, part: str = "text", key: str = "content"
) -> Edit | None:
    """Lengthen a message's content; None where it has none of a known shape, or two.

    `part` is the type under which this API has text among the parts of a content, `key` where that stands.
    """
    contents = [m.value for m in request.members_of(span) if m.key == key]
    return grow_value(request, contents[0], text, part=part) if len(contents) == 1 else None


def grow_value(request: Body, value: Span, text: str, *, part: str = "text") -> Edit | None:
    """Lengthen a string by a paragraph or a list by a part; None where the value is neither."""
    start, end = value
    first = request.body[start : start + 1]
    if first == b'"':
        # In front of the closing quote, as one more paragraph.
        return Edit(end - 1, end - 1, quote("\n\n" + text)[1:-1])
    if first == b"[":
        added = msgspec.json.encode({"type": part, "text": text})
        comma = b"," if request.elements_of(value) else b""
        return Edit(end - 1, end - 1, comma + added)
    return None


class Conversation(Body):
    """A request whose history is `messages`, each with a role."""

    @cached_property
    def first_user_text(self) -> str:
        return first_user_text(map(self.decode, self.messages))

    def append(self, messages: bytes) -> bytes:
        """Return the body with messages, with commas between, at the end of its history."""
        at = self.messages[-1].end if self.messages else self.top["messages"].start + 1
        return apply(self.body, [Edit(at, at, (b"," if self.messages else b"") + messages)])

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """All messages decoded; only for what needs the whole history."""
        return [self.decode(span) for span in self.messages]


def begins_compacted(request: Body) -> bool:
    for span in request.messages:
        item = request.decode(span)
        if not isinstance(item, dict):
            return False
        content = item.get("content")
        parts = [item, *(content if isinstance(content, list) else ())]
        kinds = (part.get("type") for part in parts if isinstance(part, dict))
        if any(isinstance(kind, str) and "compaction" in kind for kind in kinds):
            return True
        if item.get("role") == "user":
            return False
    return False


_LINE = PLAN_WAITS.encode()
"""What says on an agent's screen that a plan waits (R6). From an answer that came to its end it is taken
with what was withheld (`transcript`). Of one that was broken off while it waited nothing is logged, and its
agent may keep what it got: no model is to find it there either."""


def without_asides(request: Body) -> bytes | None:
    if _LINE not in request.body:
        return None
    edits: list[Edit] = []
    gone: set[int] = set()
    for at, span in enumerate(request.messages):
        if _LINE in request.text(span) and request.role(span) == "assistant":
            members = {member.key: member.value for member in request.members_of(span)}
            content = members.get("content")
            new = [] if content is None else _content(request, content)
            if new is not None:
                edits += new
            elif content is not None and "tool_calls" in members:
                edits.append(Edit(*content, b"null"))
            else:
                gone.add(at)
    return apply(request.body, [*edits, *without(request.messages, gone)])


def _content(request: Body, content: Span) -> list[Edit] | None:
    """Return what takes the line out of a content; None if nothing is left of that."""
    value = request.decode(content)
    if isinstance(value, str):
        return _text(content, value)
    if not isinstance(value, list):
        return []
    places = request.elements_of(content)
    edits: list[Edit] = []
    gone: set[int] = set()
    for at, (part, place) in enumerate(zip(value, places, strict=True)):
        said = part.get("text") if isinstance(part, dict) else None
        if isinstance(said, str) and PLAN_WAITS in said:
            text = next(m.value for m in reversed(request.members_of(place)) if m.key == "text")
            new = _text(text, said)
            edits += new or ()
            gone |= {at} if new is None else set()
    return None if len(gone) == len(places) else [*edits, *without(places, gone)]


def _text(place: Span, said: str) -> list[Edit] | None:
    pieces = [one.strip("\n") for one in said.split(PLAN_WAITS)]
    rest = "\n\n".join(one for one in pieces if one)
    return [Edit(*place, quote(rest))] if rest else None
