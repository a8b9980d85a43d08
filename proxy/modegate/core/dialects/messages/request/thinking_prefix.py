"""Thinking that is bound to what stood in front of it.

Newer models check that system text, tools and messages in front of a thinking block are those under which
it was made, and refuse a request in which they are not. A mode that is set or left in the middle of a
conversation changes system text and tools, so that the thinking of before no longer fits. The API's own
way out is to let it drop such blocks; it takes a field of the body and a beta header, which others may
not know, so that they are sent only once it has refused a request.

Source: the Claude API documentation, "Preserved thinking" (prefix checks, `block_binding`).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.errors import BadRequest
from modegate.core.step.effects import CallUpstream, Headers
from modegate.core.wire.json_spans import Edit, Member, apply
from modegate.core.wire.request_body import RequestBody

REFUSED_FOR = b"prefix_mismatch_behavior"
"""What the API's refusal names as the way out."""

BETA = b"thinking-binding-controls-2026-08-01"
DROP = {"prefix_mismatch_behavior": "drop_block"}

_encode = msgspec.json.encode


def drop_old_thinking(call: CallUpstream, refusal: bytes) -> CallUpstream | None:
    """Let the API drop thinking that no longer fits; None if that was not why it refused the request."""
    if REFUSED_FOR not in refusal:
        return None
    try:
        request = MessagesRequest(RequestBody(call.body))
        edits = _edits(request)
    except BadRequest:
        return None
    if edits is None:
        return None
    return replace(call, headers=_with_beta(call.headers), body=apply(call.body, edits))


def _edits(request: MessagesRequest) -> list[Edit] | None:
    thinking = [member for member in request.members if member.key == "thinking"]
    if not thinking:
        # Models that bind their thinking think adaptively unless they are told otherwise.
        at = request.members[-1].value.end
        value = {"type": "adaptive", "block_binding": DROP}
        return [Edit(at, at, b',"thinking":' + _encode(value))]
    (one,) = thinking[:1]
    given = request.decode(one.value)
    if len(thinking) > 1 or not isinstance(given, dict) or given.get("type") == "disabled":
        return None
    found = request.members_of(one.value)
    return _binding_edits(request, one, found)


def _binding_edits(
    request: MessagesRequest, thinking: Member, found: list[Member]
) -> list[Edit] | None:
    bindings = [member for member in found if member.key == "block_binding"]
    if not bindings:
        at = thinking.value.end - 1
        comma = b"," if found else b""
        return [Edit(at, at, comma + b'"block_binding":' + _encode(DROP))]
    if len(bindings) > 1:
        return None
    given = request.decode(bindings[0].value)
    if isinstance(given, dict) and given.get("prefix_mismatch_behavior") == "drop_block":
        return None
    merged = {**given, **DROP} if isinstance(given, dict) else DROP
    return [Edit(*bindings[0].value, _encode(merged))]


def _with_beta(lines: Headers) -> Headers:
    """Add the beta to those that the client asks for."""
    for at, (name, value) in enumerate(lines):
        if name == b"anthropic-beta":
            return [*lines[:at], (name, value + b"," + BETA), *lines[at + 1 :]]
    return [*lines, (b"anthropic-beta", BETA)]
