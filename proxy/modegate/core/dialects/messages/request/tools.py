"""What a tool definition of the Messages API declares, by its names and by what its type means.

Types and fields as of the official SDK, `anthropic` 2.14. A type carries a date (`bash_20250124`); what is
compared with a policy is the name under which its calls come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from modegate.core.dialects.common import tool_filter
from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tools import PLAIN_FIELDS, Declared, read_declared, tool_names
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.arguments import words
from modegate.core.wire.json_spans import Span

TOOLSET = "mcp_toolset"
"""The type that stands for the tools of an MCP server, which the provider calls by itself."""

CLIENT_RUN = frozenset(
    {"bash", "text_editor", "computer", "memory", "browser_toolset", "computer_toolset"}
)
"""Types, without their dates, that Anthropic defines and the agent runs; the gate sees their calls.

All others are run by the provider: `web_search`, `web_fetch`, `code_execution`, `advisor`,
`tool_search_tool_regex`, `tool_search_tool_bm25`, `mcp_toolset`, and whatever is not known here.
"""

CALLED = {
    "text_editor_20241022": "str_replace_editor",
    "text_editor_20250124": "str_replace_editor",
    "text_editor_20250429": "str_replace_based_edit_tool",
    "text_editor_20250728": "str_replace_based_edit_tool",
    "browser_toolset": "browser",
    "computer_toolset": "computer",
    TOOLSET: "mcp",
}
"""Types, with their dates or without, whose calls come under another name than that."""

TYPED_FIELDS = PLAIN_FIELDS | words("""
    alloweddomains blockeddomains caching citations configs displayheightpx displaynumber
    displaywidthpx enablezoom maxcharacters maxcontenttokens maxtokens maxuses model
    responseinclusion urlsources usecache userlocation
""")
"""What may stand beside a type of Anthropic's and declares nothing."""

TOOLSET_FIELDS = TYPED_FIELDS | {"defaultconfig", "mcpservername", "tools"}

CHOICE_FIELDS = PLAIN_FIELDS | {"disableparalleltooluse"}
"""What may stand in a choice and names nothing."""

PLACEHOLDERS = frozenset({"DeferredToolPlaceholder", "__pi_deferred_placeholder__"})
"""Deferred tools of Claude Code and Pi that nothing ever loads: one deferred tool in the list keeps the
prompt as it is when others come and go. They stay, as they can do nothing; a call is judged like any."""

OWN = "null"
"""How a type that is null is read: here it means the agent's own."""

_DATE = re.compile(r"_20\d{6}\Z")
ESCAPES = (b"\\u004", b"\\u005", b"\\u006", b"\\u007")
"""How a letter or `_` looks where it is escaped: any word could be there."""


@dataclass(frozen=True, slots=True)
class Tool(Declared):
    """One entry of `tools`, or a definition within the messages."""

    deferred: bool = False
    """The model sees it only once something in the history has loaded it."""
    toolset: bool = False
    """It stands for an MCP server's tools; see `mcp`."""
    callers: Span | None = None
    """Its `allowed_callers`, if it has any."""

    @property
    def placeholder(self) -> bool:
        """Whether it is there for the sake of the list alone."""
        return self.deferred and not self.hosted and PLACEHOLDERS.issuperset(self.names)


def family(kind: str) -> str:
    return _DATE.sub("", kind)


def means(kind: str) -> Iterable[str]:
    """Return the name under which calls of a type come."""
    return (CALLED.get(kind) or CALLED.get(family(kind)) or family(kind),)


def says(text: bytes, *words: bytes) -> bool:
    """Return whether JSON may hold one of these words as a key or a value, also where letters are escaped."""
    return any(word in text for word in (*words, *ESCAPES))


def read_tool(request: Body, span: Span) -> Tool:
    """Read a definition; raises `BadRequest` if an option is there twice, `ValueError` if it is no object."""
    kinds: list[str] = []

    def note(kind: str) -> Iterable[str]:
        kinds.append(kind)
        return () if kind == OWN else means(kind)

    found = read_declared(request.readable, span, means=note)
    deferred, callers = _options(request, span)
    if not kinds or kinds == [OWN]:
        # Beside a type that is null, only a second name could be something that the provider runs.
        hosted = found.hosted and not (kinds and len(found.names) == 1)
        return Tool(span, found.names, hosted, deferred, callers=callers)
    toolset = set(kinds) == {TOOLSET}
    fields = TOOLSET_FIELDS if toolset else TYPED_FIELDS
    names = tool_names(request.readable, span, plain=fields, means=means)
    meant = {name for kind in kinds for name in means(kind)}
    client = all(family(kind) in CLIENT_RUN for kind in kinds) and meant == set(names)
    return Tool(span, names, not client, deferred, toolset, callers)


def _options(request: Body, span: Span) -> tuple[bool, Span | None]:
    if not says(request.text(span), b"defer_loading", b"allowed_callers"):
        return False, None  # as most; finding the members would cost more than the rest
    deferred = request.member_of(span, "defer_loading")
    callers = request.member_of(span, "allowed_callers")
    return deferred is not None and request.text(deferred) == b"true", callers


def may_stay(tool: Tool, in_force: ModesInForce) -> bool:
    """Return whether a definition may be shown, a toolset's apart; never the agent's own exit tool."""
    return tool.placeholder or tool_filter.may_stay(tool, in_force)


def names_in_choice(body: bytes, span: Span) -> tuple[ToolName, ...]:
    """Return the names in a tool choice, where `type` is the kind of choice."""
    return tool_names(body, span, plain=CHOICE_FIELDS, means=lambda _kind: ())
