"""Answers of a provider that is reached by translation (litellm), cut back to the dialect's frames.

So the gate and the client read them as any other answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from modegate.core.errors import DialectName
from modegate.core.step.answer.calls import SIGNATURE

MESSAGE_LIMIT = 2000
"""Characters of a provider's error that are told."""

_CHUNK = (
    "id",
    "object",
    "created",
    "model",
    "service_tier",
    "system_fingerprint",
    "choices",
    "usage",
)
_CHOICE = ("index", "delta", "message", "finish_reason", "logprobs")
_MESSAGE = (
    "role",
    "content",
    "refusal",
    "reasoning_content",
    "thinking_blocks",
    "tool_calls",
    "function_call",
    "annotations",
    "audio",
    "images",
)
_CALL = ("index", "id", "type", "function")
_USAGE = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
)

_MESSAGES_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def chat_object(given: Mapping[str, Any]) -> dict[str, Any]:
    """Cut a chat completion, or a chunk of one, back to what the dialect knows.

    Thinking stays, in the two ways in which clients of other providers know it.
    """
    kept = _kept(given, _CHUNK)
    kept["choices"] = [_choice(choice) for choice in given.get("choices") or []]
    if kept.get("usage"):
        kept["usage"] = _kept(kept["usage"], _USAGE)
    return kept


def _choice(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = _kept(given, _CHOICE)
    kept.setdefault("finish_reason", None)
    for key in ("delta", "message"):
        if key in kept:
            message = kept[key] = _kept(kept[key], _MESSAGE)
            if not message.get("images"):
                message.pop("images", None)
            if "tool_calls" in message:
                message["tool_calls"] = _calls(message["tool_calls"], whole=key == "message")
            if key == "message":
                message.setdefault("content", None)
    return kept


def _calls(given: Iterable[Mapping[str, Any]], *, whole: bool) -> list[dict[str, Any]]:
    calls = [_kept(call, _CALL) for call in given]
    if whole:
        for call in calls:
            call.pop("index", None)  # there is no such key outside of a stream
    return calls


def responses_object(given: dict[str, Any], thinking: str | None = None) -> dict[str, Any]:
    """Mend an answer, or an event of one, of the Responses API.

    litellm writes reasoning items in two ways, one of them with what a message has. `thinking` is what the
    provider wants back of the item that ends with this event.
    """
    response = given.get("response", given)
    for item in response.get("output") or []:
        _mend(item, None)
    if given.get("type") == "response.output_item.done":
        _mend(given["item"], thinking)
    for holder in (given, response):
        holder.pop("provider_specific_fields", None)
    if response.get("usage"):
        response["usage"].pop("cost", None)
    return given


def _mend(item: dict[str, Any], thinking: str | None) -> None:
    item.pop("provider_specific_fields", None)
    if item.get("type") != "reasoning":
        return
    texts = [part.get("text", "") for part in item.pop("content", None) or []]
    item.pop("role", None)
    item.setdefault("summary", [{"type": "summary_text", "text": text} for text in texts])
    if thinking is not None:
        item.setdefault("encrypted_content", thinking)


def join_thinking(blocks: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Join a piece of a thinking block to the block; a signature ends one."""
    if piece.get("type") != "thinking":
        blocks.append(dict(piece))
    elif blocks and blocks[-1].get("type") == "thinking" and not blocks[-1].get("signature"):
        blocks[-1]["thinking"] += piece.get("thinking") or ""
        blocks[-1]["signature"] = piece.get("signature") or ""
    else:
        blocks.append(
            {
                "type": "thinking",
                "thinking": piece.get("thinking") or "",
                "signature": piece.get("signature") or "",
            }
        )


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
    return frame("messages", messages_object(msgspec.json.decode(data)))


def _sign(block: dict[str, Any]) -> None:
    """Put what Gemini wants back with a call into the call's id, as litellm does in the other dialects:
    clients give ids back as they were, and nothing else that they do not know."""
    more = block.pop("provider_specific_fields", None) or {}
    signature = more.get("signature")
    if signature and block.get("type") == "tool_use" and SIGNATURE not in block["id"]:
        block["id"] += SIGNATURE + signature


def frame(dialect: DialectName, event: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    data = msgspec.json.encode(event)
    if dialect == "chat":
        return b"data: %b\n\n" % data
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data)


def error_body(dialect: DialectName, status: int, message: str) -> bytes:
    """Return a provider's error in the dialect's own format."""
    if dialect == "messages":
        kind = _MESSAGES_ERRORS.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": None, "code": None}
    return msgspec.json.encode({"error": error})


def told(text: str, secret: str = "") -> str:
    """Return what a provider said, out of the words that were put around it; never the credential."""
    inner = text[text.find("{") : text.rfind("}") + 1]
    try:
        said = msgspec.json.decode(inner)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        said = text
    said = said if isinstance(said, str) else text
    if secret:
        said = said.replace(secret, "***")
    return said[:MESSAGE_LIMIT]


def _kept(given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: given[key] for key in keys if given.get(key) is not None}
