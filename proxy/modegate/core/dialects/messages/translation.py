"""Messages of a provider that is reached by translation (litellm)."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core.step.answer.calls import SIGNATURE
from modegate.core.step.translation import Json, Thoughts, Translation, named_frame
from modegate.core.wire.arguments import words

FIELDS = words("""
    messages system max_tokens tools tool_choice stream temperature top_p top_k stop_sequences
    thinking metadata
""")
"""The keys of a body that are passed on."""

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def adapt(arguments: Json) -> None:
    """Put calls' signatures where litellm looks for them, and of `metadata` only who the user is."""
    _give_back(arguments.get("messages"))
    user = arguments.get("metadata")
    known = user.get("user_id") if isinstance(user, dict) else None
    arguments["metadata"] = None if known is None else {"user_id": known}


def _give_back(messages: Any) -> None:
    """Put what `_sign` wrote into a call's id where litellm looks for it in this dialect."""
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else []:
            name = block.get("id") if isinstance(block, dict) else None
            if isinstance(name, str) and SIGNATURE in name and block.get("type") == "tool_use":
                signature = name.partition(SIGNATURE)[2]
                block["provider_specific_fields"] = {"signature": signature}


def messages_object(given: dict[str, Any]) -> dict[str, Any]:
    """Cut a whole answer of the Messages API, or an event of one, back to what the dialect knows."""
    for block in given.get("content") or []:
        _sign(block)
    if given.get("type") == "content_block_start":
        _sign(given["content_block"])
    return given


def messages_frame(given: bytes) -> bytes:
    """Cut an event that is written already back to what the dialect knows; others keep their bytes."""
    if b"provider_specific_fields" not in given:
        return given
    data = given[given.index(b"data: ") + len(b"data: ") :]
    return named_frame(messages_object(msgspec.json.decode(data)))


def _sign(block: dict[str, Any]) -> None:
    """Put what Gemini wants back with a call into the call's id, as litellm does in the other dialects:
    clients give ids back as they were, and nothing else that they do not know."""
    more = block.pop("provider_specific_fields", None) or {}
    signature = more.get("signature")
    if signature and block.get("type") == "tool_use" and SIGNATURE not in block["id"]:
        block["id"] += SIGNATURE + signature


def _frame(event: Json | bytes, _thoughts: Thoughts) -> bytes:
    return messages_frame(event) if isinstance(event, bytes) else named_frame(event)


def failure(status: int, message: str) -> bytes:
    kind = _ERRORS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


TRANSLATION = Translation(
    function="anthropic_messages",
    fields=FIELDS,
    adapt=adapt,
    whole=messages_object,
    frame=_frame,
    opening=1,
    failure=failure,
    native="anthropic",
)
