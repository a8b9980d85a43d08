"""What is known of Messages without reading a body."""

from __future__ import annotations

import re

import msgspec

from modegate.core.endpoints import Api, Credential, Operation

_KINDS = {413: "request_too_large", 504: "timeout_error"}
"""Statuses for which the API has a word of its own, of those that modegate answers with."""


def _error(message: str, status: int, _code: str) -> bytes:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


API = Api(
    name="messages",
    home="https://api.anthropic.com",
    operations=(
        Operation("messages", "/messages"),
        Operation("count_tokens", "/messages/count_tokens", counts=True),
    ),
    paths=re.compile(rb"(?:/v1)?/messages(?:/|$)"),
    header=b"anthropic-version",
    credential=Credential(b"x-api-key", b""),
    error=_error,
)
