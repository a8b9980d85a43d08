"""Chat completions of a provider that is reached by translation (litellm)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from modegate.core.step.translation import Json, Thoughts, Translation
from modegate.core.wire.arguments import words
from modegate.core.wire.sse import DONE, write_event

FIELDS = words("""
    messages tools tool_choice functions function_call parallel_tool_calls stream stream_options
    temperature top_p n stop max_tokens max_completion_tokens presence_penalty frequency_penalty
    logit_bias logprobs top_logprobs response_format seed user reasoning_effort verbosity thinking
    modalities prediction service_tier web_search_options prompt_cache_key safety_identifier
""")
"""The keys of a body that are passed on."""

_CHUNK = "id object created model service_tier system_fingerprint choices usage"
_CHOICE = "index delta message finish_reason logprobs"
_MESSAGE = """
    role content refusal reasoning_content thinking_blocks tool_calls function_call annotations audio
    images
"""
_CALL = "index id type function"
_USAGE = """
    prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details
"""


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


def _kept(given: Mapping[str, Any], keys: str) -> dict[str, Any]:
    return {key: given[key] for key in keys.split() if given.get(key) is not None}


def _frame(event: Json | bytes, _thoughts: Thoughts) -> bytes:
    if isinstance(event, bytes):
        raise TypeError("litellm gives chunks as objects")
    return write_event(msgspec.json.encode(chat_object(event)))


TRANSLATION = Translation(
    function="acompletion", fields=FIELDS, whole=chat_object, frame=_frame, end=write_event(DONE)
)
