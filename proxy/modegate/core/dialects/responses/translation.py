"""Responses of a provider that is reached by translation (litellm)."""

from __future__ import annotations

from typing import Any

from modegate.core.step.translation import Json, Thoughts, Translation, named_frame
from modegate.core.wire.arguments import words

FIELDS = words("""
    input instructions include max_output_tokens parallel_tool_calls reasoning stream temperature
    text tool_choice tools top_p truncation user prompt_cache_key safety_identifier service_tier
""")
"""The keys of a body that are passed on."""


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


def _frame(event: Json | bytes, thoughts: Thoughts) -> bytes:
    if isinstance(event, bytes):
        raise TypeError("litellm gives events as objects")
    # litellm tells what the provider wants back only at the end of the whole answer, and clients keep a
    # reasoning item as it ended.
    ends = event.get("type") == "response.output_item.done"
    reasoning = ends and event["item"].get("type") == "reasoning"
    return named_frame(responses_object(event, thoughts() if reasoning else None))


TRANSLATION = Translation(
    function="aresponses",
    fields=FIELDS,
    refused=("previous_response_id", "conversation", "prompt", "background"),
    whole=responses_object,
    frame=_frame,
)
