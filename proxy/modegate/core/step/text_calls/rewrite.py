"""Frames and bodies with our words in the place of calls that were refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from modegate.core.wire.json_spans import Edit, Span, apply, elements, members
from modegate.core.wire.sse import Frame, write_event
from modegate.core.wire.surrogates import without_lone_surrogates

_TEXT_KEYS = frozenset({"text", "content", "delta", "reasoning_content", "reasoning"})


def rewritten(frame: Frame, changes: Mapping[str, str]) -> Frame:
    if not changes or frame.data is None:
        return frame
    data = retold(frame.data, changes)
    at = frame.raw.rfind(frame.data)
    if at < 0:
        # It came over several lines, which JSON has only between its values.
        return Frame(write_event(data.replace(b"\n", b" "), frame.event), data, frame.event)
    raw = frame.raw[:at] + data + frame.raw[at + len(frame.data) :]
    return Frame(raw, data, frame.event)


def retold(data: bytes, changes: Mapping[str, str]) -> bytes:
    """Return a JSON text with other words in the place of these; without `logprobs`, which hold them too."""
    readable = without_lone_surrogates(data)
    start = len(data) - len(data.lstrip())
    return apply(data, _edits(readable, Span(start, len(data.rstrip())), "", changes))


def _edits(data: bytes, span: Span, key: str, changes: Mapping[str, str]) -> Iterator[Edit]:
    first = data[span.start : span.start + 1]
    if key == "logprobs" and first in (b"{", b"["):
        yield Edit(*span, b"null" if first == b"{" else b"[]")
    elif first == b"{":
        for member in members(data, span):
            yield from _edits(data, member.value, member.key, changes)
    elif first == b"[":
        for place in elements(data, span):
            yield from _edits(data, place, key, changes)
    elif first == b'"' and key in _TEXT_KEYS:
        text = msgspec.json.decode(data[span.start : span.end])
        if text in changes:
            yield Edit(*span, msgspec.json.encode(changes[text]))
