"""What the scripted model's dialects share: reading a request's JSON, cutting an answer, framing it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from modegate.core.errors import BadRequest
from modegate.core.wire.sse import write_event
from modegate.scripted.model import Turn

CREATED = 1_700_000_000
"""Any fixed time does."""

WORDS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
"""What Messages and Responses call the counts of a script's usage."""

Object = dict[str, Any]


def request_of(body: bytes) -> Object:
    """Read a request's body.

    Raises:
        BadRequest: it is no JSON object.
    """
    try:
        request = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("the scripted model cannot read this request: it is not JSON") from error
    if not isinstance(request, dict):
        raise BadRequest("the scripted model cannot read this request: it is not a JSON object")
    return request


def key_of(body: bytes) -> str:
    """Return the hash from which an answer's ids are made."""
    return sha256(body).hexdigest()[:12]


def dicts(value: Any) -> list[Object]:
    """Return the objects of a list, and none of what is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(content: Any) -> str:
    """Return the text of a string or of content parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in dicts(content) if "text" in part)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of this many characters."""
    return [text[at : at + size] for at in range(0, len(text), size or 1)]


def fragments(arguments: str, count: int) -> list[str]:
    """Cut a call's arguments into this many pieces, or fewer."""
    return pieces(arguments, -(-len(arguments) // count))


def event(value: Object) -> bytes:
    """Frame an event that is named by its `type`, as the Responses and the Messages API do."""
    return write_event(msgspec.json.encode(value), str(value["type"]))


def spent(turn: Turn, size: int) -> tuple[int, int]:
    """Estimate the tokens of a request of this many bytes and of its answer: four a token."""
    said = len(turn.text) + len(turn.reasoning) + sum(len(call.arguments) for call in turn.calls)
    return size // 4, said // 4 + 1


def usage_words(turn: Turn, words: dict[str, str]) -> Object | None:
    """Return the script's usage with the names of its fields in a dialect's own words."""
    if turn.usage is None:
        return None
    return {words.get(name, name): value for name, value in turn.usage.items()}
