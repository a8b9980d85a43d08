"""How an API is spoken to providers that do not speak it, by translation (litellm): facts of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from modegate.core.wire.sse import write_event

Json = dict[str, Any]

Thoughts = Callable[[], str | None]
"""Gives what the provider wants back of the reasoning that was said so far."""

_KINDS = {401: "authentication_error", 429: "rate_limit_error"}


def openai_failure(status: int, message: str) -> bytes:
    """Return a provider's error in the format of the OpenAI API."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": None, "code": None}
    return msgspec.json.encode({"error": error})


def named_frame(event: Mapping[str, Any]) -> bytes:
    """Return a server-sent event that bears its type as its name."""
    return write_event(msgspec.json.encode(event), str(event["type"]))


def _as_it_is(_arguments: Json) -> None:
    """Change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What may be asked of litellm, and how its answers are cut back to what the API knows."""

    function: str
    """litellm's."""
    fields: frozenset[str]
    """The keys of a body that are passed on: the function also takes addresses, keys and switches."""
    refused: tuple[str, ...] = ()
    """Keys that refer to something which is stored, and nothing is."""
    adapt: Callable[[Json], None] = _as_it_is
    """Changes the arguments, in place, to what litellm takes."""
    whole: Callable[[Json], Json]
    """Cuts a whole answer back."""
    frame: Callable[[Json | bytes, Thoughts], bytes]
    """Makes a frame of an event, which some functions give as written bytes."""
    opening: int = 0
    """Frames with which litellm begins before the provider has said anything."""
    end: bytes = b""
    """What ends a stream and does not come from litellm."""
    failure: Callable[[int, str], bytes] = openai_failure
    """Writes a provider's error, of a status and in its words."""
    native: str = ""
    """The provider that speaks this API itself, so that nothing is translated for it."""
