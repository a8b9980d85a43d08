"""What of a request's body tells one session from another: a few fields, and the first words of its user.

A body is scanned and not built: a long history costs little more than its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from modegate.core.endpoints import History
from modegate.core.identify.sources import body_names
from modegate.core.policy.model import Sessions
from modegate.core.wire.request_body import RequestBody

_UNREADABLE = (ValueError, RecursionError)
_DEFAULT_NAMES = body_names(Sessions())
_DEFAULT_HISTORY = History()

_OPENS = "<system-reminder>"
_CLOSES = "</system-reminder>"
_PLAN = "[[PLAN]]"
_AROUND = " \t\r\n\"'"

_decode = msgspec.json.decode
_decode_history = msgspec.json.Decoder(list[msgspec.Raw] | str).decode


@dataclass(frozen=True, slots=True)
class BodyFields:
    """What of a body tells one session from another."""

    top: Mapping[str, Any] = field(default_factory=dict)
    """Those top-level fields that a source names, decoded."""
    first_user_text: str = ""
    """The first user message's own words, see `plain`."""
    unread: str = ""
    """SHA-256 of a body that is no JSON object, or has too many values: so it is taken for no other
    conversation. Else empty."""


def body_fields(
    body: RequestBody, names: frozenset[str] = _DEFAULT_NAMES, history: History = _DEFAULT_HISTORY
) -> BodyFields:
    """Read of a body what `identify` and `lane` need, and no more.

    Never raises: a body may be malformed and is still passed on in the default mode. What cannot be
    read counts as absent.
    """
    for read in () if body.dense else (_read_spans, _read_whole):
        try:
            return read(body, names, history)
        except _UNREADABLE:
            continue
    return BodyFields(unread=sha256(body.decoded).hexdigest())


def _read_spans(body: RequestBody, names: frozenset[str], history: History) -> BodyFields:
    """Decode little: the history is decoded as far as the first message of a user."""
    text, wanted = body.decoded, names | {history.key}
    if body.readable is not text:
        raise ValueError("half a surrogate pair stands alone")
    spans = {member.key: member.value for member in body.members if member.key in wanted}
    top = {key: text[span.start : span.end] for key, span in spans.items()}
    fields = {name: _decode(top[name]) for name in names if name in top}
    items = _decode_history(top.get(history.key, b"[]"))
    if isinstance(items, str):
        return BodyFields(fields, _words(items))
    return BodyFields(fields, first_user_text((_decode(raw) for raw in items), history.content))


def _read_whole(body: RequestBody, names: frozenset[str], history: History) -> BodyFields:
    """Read what msgspec refuses and upstreams may accept, such as half a surrogate pair or a NaN."""
    top = json.loads(body.decoded)
    if not isinstance(top, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 -- unreadable, like all else here
    fields = {name: top[name] for name in names if name in top}
    items = top.get(history.key)
    if isinstance(items, str):
        return BodyFields(fields, _words(items))
    found = first_user_text(items if isinstance(items, list) else [], history.content)
    return BodyFields(fields, found)


def first_user_text(items: Iterable[Any], content: str = "content") -> str:
    """Return the words of a user's first message, which stand under this key of it."""
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user":
            return _words(item.get(content))
    return ""


def _words(content: Any) -> str:
    """Return the words of a text, or of content parts; in each dialect a part that is text has `text`."""
    if isinstance(content, str):
        return plain(content)
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return plain_parts(text for text in texts if isinstance(text, str))


def _without_reminders(text: str) -> str:
    kept: list[str] = []
    at = 0
    # A regular expression would look for the closing tag again from every opening one.
    while (opens := text.find(_OPENS, at)) >= 0 and (closes := text.find(_CLOSES, opens)) >= 0:
        kept.append(text[at:opens])
        at = closes + len(_CLOSES)
    kept.append(text[at:])
    return "".join(kept)


def plain(text: str) -> str:
    """Return a user's words alone, so that the same message always reads the same.

    Agents put `<system-reminder>` blocks into user messages and later drop or move them, one marks the first
    message of a plan with `[[PLAN]]`, and one puts the whole prompt in quotes.
    """
    return _without_reminders(text).strip(_AROUND).removeprefix(_PLAN).strip(_AROUND)


def plain_parts(parts: Iterable[str]) -> str:
    """Return the words of a message of several text parts; parts that hold nothing else leave no trace."""
    return "\n".join(words for part in parts if (words := plain(part)))
