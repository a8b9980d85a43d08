"""What an answer of the Responses API is made of: types of items and events, read with no doubt left.

Types follow the API's published schema of November 2026. An item is text that any client shows, a call
that the client runs, or something that the provider ran; what is none of these is taken for something
that ran, and is not shown unless a policy names its type.
"""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.answer_json import TokenCounts
from modegate.core.dialects.common.strict_json import (
    MAX_DEPTH,
    check_inherited,
    check_objects,
    decode_object,
    objects_in,
    spells_calls,
)
from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.arguments import spelling, words

TOKENS = TokenCounts("input_tokens", "output_tokens")

MAX_ITEMS = 512
"""Items of one answer; agents stop long before."""

MAX_CALLS = 128
"""Calls among them."""

MAX_KEPT = 4 * 2**20
"""Bytes of items kept of one hop and of one answer, to be told again; an answer may be longer, but then it
is not followed by another hop."""

INERT = frozenset({"message", "reasoning", "compaction"})
"""Items of which nothing runs."""

CLIENT_RUNS = words("""
    function_call custom_tool_call local_shell_call shell_call apply_patch_call computer_call
    tool_search_call mcp_approval_request
""")
"""Items on which a client acts."""

PARTS = frozenset({"output_text", "refusal", "text", "summary_text", "reasoning_text"})
"""Parts of an inert item's content."""

BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
OPEN = frozenset({"in_progress", "queued", "requires_action"})
"""States in which some servers say that an answer is at its end."""
ADDED, DONE = "response.output_item.added", "response.output_item.done"
ERROR = "error"
IDLE = frozenset({"keepalive", "ping", "response.heartbeat"})
"""Events that only keep a connection alive."""

INERT_EVENTS = (
    "response.content_part.",
    "response.output_text.",
    "response.refusal.",
    "response.reasoning",
)
"""How the events of inert items begin."""

# Keys that decide what an event or an item is. Some clients match keys without regard to case.
_EXACT = words("""
    action actions arguments call_id content delta execution id input item item_id name namespace
    operation output output_index part response sequence_number server_label status type
""")
_SPELLINGS = {spelling(key): key for key in _EXACT}

# What stands under these keys is the request's own, or free data: not looked into for items.
_FREE = words("""
    action actions arguments input_schema instructions metadata operation prompt results text
    tool_choice tools
""")
_CALL_LIKE = CLIENT_RUNS | {"tool_use", "server_tool_use", "program"}


def parse_event(data: bytes) -> dict[str, Any]:
    """Decode one JSON object of an answer: an event, or a whole response.

    Where it could hold an item it is read a second time: duplicate keys are refused, and so are items in
    places that this API does not have. Raises `AnswerUnreadable` if it is none, or leaves a doubt.
    """
    value = decode_object(data)
    check_keys(value)
    # Most events are a piece of text: one object, one type.
    if b"\\u" in data or data.count(b'"type"') != 1 or b"_call" in data or b"tool" in data:
        check_objects(data)
        _refuse_hidden(value, MAX_DEPTH, top=True)
    return value


def check_keys(value: dict[str, Any]) -> None:
    """Raise `AnswerUnreadable` for keys in another case or inherited, and for calls of other APIs."""
    for key, inner in value.items():
        check_inherited(key, inner)
        if key not in _EXACT and spelling(key) in _SPELLINGS:
            raise AnswerUnreadable(f"the upstream sent the key {key[:80]!r} in an unknown spelling")
        if spells_calls(key):
            raise AnswerUnreadable(f"the upstream sent calls under the unknown key {key[:80]!r}")


def _refuse_hidden(value: Any, depth: int, *, top: bool = False, item: bool = False) -> None:
    """Look for items that clients act on in places where this API has none.

    An event has its item under `item`, a response its items in `output`; an event has a response.
    """
    if not depth:
        raise AnswerUnreadable(f"the upstream sent JSON that is nested over {MAX_DEPTH} deep")
    if isinstance(value, list):
        for inner in value:
            _refuse_hidden(inner, depth - 1)
    elif isinstance(value, dict):
        kind = value.get("type")
        if not item and isinstance(kind, str) and kind in _CALL_LIKE:
            raise AnswerUnreadable(f"the upstream sent an item of type {kind!r} where none can be")
        for key, inner in value.items():
            _look_into(key, inner, depth - 1, top=top)


def _look_into(key: str, inner: Any, depth: int, *, top: bool) -> None:
    if top and key == "response" and isinstance(inner, dict):
        check_keys(inner)
        if "response" in inner or "item" in inner:
            raise AnswerUnreadable("the upstream sent an event in the place of an answer")
        _refuse_hidden(inner, depth, top=True)
    elif top and key == "output" and isinstance(inner, list):
        for one in inner:
            _refuse_hidden(one, depth, item=True)
    elif key not in _FREE or isinstance(inner, str):
        _refuse_hidden(inner, depth, item=top and key == "item")


def items_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a response's items. Raises `AnswerUnreadable` if they are not a list of objects, or too many."""
    return objects_in(response, "output", MAX_ITEMS)


def text_in(event: dict[str, Any], key: str) -> str:
    """Return a string member, empty if absent or null; raises `AnswerUnreadable` if it is something else."""
    value = event.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AnswerUnreadable(f"the upstream's {key!r} is not a string")
    return value
