"""The line of ours that says on an agent's screen that a plan waits, where it stands in a history (R6).

From an answer that came to its end it is taken with what was withheld (`transcript`). Of one that was
broken off while it waited nothing is logged, and its agent may keep what it got: no model is to find it
there either.
"""

from __future__ import annotations

from modegate.core.dialects.common.body import Body
from modegate.core.step.texts import PLAN_WAITS
from modegate.core.wire.json_spans import Edit, Span, apply, quote, without

_LINE = PLAN_WAITS.encode()


def without_asides(request: Body) -> bytes | None:
    """Return the body without the line in what the model has said; None where it is not there."""
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
