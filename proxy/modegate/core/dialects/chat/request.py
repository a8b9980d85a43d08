"""A chat completions request as the gate reads it: where each thing stands, and what tools it names."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from modegate.core.dialects.chat.tools import Declared, spelling, tool_names
from modegate.core.errors import BadRequest
from modegate.core.spans import Member, Span, elements, members, without_lone_surrogates

# Top-level keys that decide what the model may call. Some servers match keys without regard to case or
# underscores, so a look-alike is refused instead of forwarded.
TOOL_KEYS = frozenset(
    {"messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"}
)

GATED_KEYS = TOOL_KEYS | {"model", "stream", "n"}
_SPELLINGS = {spelling(key): key for key in GATED_KEYS}


class ChatRequest:
    """One request; offsets are into `body`."""

    def __init__(self, body: bytes) -> None:
        """Find the parts.

        Raises:
            BadRequest: not a JSON object, `messages` is not a list of objects, a key that decides
                about tools stands there twice or in another case, or a wrong type.
        """
        self.body = body
        self._readable = without_lone_surrogates(body)
        try:
            # A lenient decoder could see a quote in a byte sequence that is not UTF-8.
            str(body, "utf-8")
            self.members = members(self._readable)
            self.top = self._top()
            self.messages = self._list("messages", required=True)
            self.tools = self._declared("tools")
            self.functions = self._declared("functions")
        except ValueError as error:
            raise BadRequest(f"the request body is not a JSON object: {error}") from error

    def _top(self) -> dict[str, Span]:
        top: dict[str, Span] = {}
        for member in self.members:
            exact = member.key in GATED_KEYS
            if not exact and (meant := _SPELLINGS.get(spelling(member.key))) is not None:
                raise BadRequest(
                    f"the key {member.key!r} is not one of this API's; did you mean {meant!r}?"
                )
            if exact and member.key in top:
                raise BadRequest(f"the key {member.key!r} stands twice in the request")
            top[member.key] = member.value
        return top

    def _list(self, key: str, *, required: bool = False) -> list[Span]:
        span = self.top.get(key)
        if span is None or self.text(span) == b"null":
            if required:
                raise BadRequest(f"{key!r} is missing")
            return []
        try:
            found = elements(self._readable, span)
        except ValueError as error:
            raise BadRequest(f"{key!r} is not a list") from error
        if any(self.body[item.start : item.start + 1] != b"{" for item in found):
            raise BadRequest(f"{key!r} holds something that is not an object")
        return found

    def _declared(self, key: str) -> list[Declared]:
        return [Declared(span, tool_names(self._readable, span)) for span in self._list(key)]

    def text(self, span: Span) -> bytes:
        """Give a value's bytes."""
        return self.body[span.start : span.end]

    def decode(self, span: Span) -> Any:
        """Decode a value."""
        return decode(self._readable, span)

    def value(self, key: str) -> Any:
        """Decode one top-level value; None if it is absent."""
        span = self.top.get(key)
        return None if span is None else decode(self._readable, span)

    @cached_property
    def declared(self) -> frozenset[str]:
        """Every name under which the agent declares a tool."""
        return frozenset(name for tool in (*self.tools, *self.functions) for name in tool.names)

    @property
    def declares_tools(self) -> bool:
        """Whether it declares any."""
        return bool(self.tools or self.functions)

    @cached_property
    def first_user_text(self) -> str:
        """The first user message's text."""
        for span in self.messages:
            if self.role(span) == "user":
                return content_text(decode(self._readable, span).get("content"))
        return ""

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """All messages decoded; only for what needs the whole history."""
        return [decode(self._readable, span) for span in self.messages]

    @cached_property
    def call_ids(self) -> frozenset[str]:
        """Ids of calls in the history."""
        return frozenset(
            str(call.get("id")) for message in self.history for call in calls_of(message)
        )

    def role(self, span: Span) -> str:
        """Give a message's role."""
        try:
            return _decode_role(self._readable[span.start : span.end]).role
        except msgspec.MsgspecError:
            return ""

    def members_of(self, span: Span) -> list[Member]:
        """Give the members of a message or another object.

        Raises:
            BadRequest: it is not an object.
        """
        try:
            return members(self._readable, span)
        except ValueError as error:
            raise BadRequest(f"the request holds something unreadable: {error}") from error

    def elements_of(self, span: Span) -> list[Span]:
        """Give the elements of a list.

        Raises:
            BadRequest: it is not a list.
        """
        try:
            return elements(self._readable, span)
        except ValueError as error:
            raise BadRequest(f"the request holds something unreadable: {error}") from error


class _Role(msgspec.Struct):
    role: str = ""


_decode_role = msgspec.json.Decoder(_Role).decode
_decode = msgspec.json.Decoder().decode


def decode(body: bytes, span: Span) -> Any:
    """Decode a value.

    Raises:
        BadRequest: it is not valid JSON, which a string with broken UTF-8 is not.
    """
    try:
        return _decode(body[span.start : span.end])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"the request body is not valid JSON: {error}") from error


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the tool calls of a history message that have the shape of one."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [call for call in calls if isinstance(call, dict)]


def content_text(content: Any) -> str:
    """Give the text of a message's content, be it a string or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
