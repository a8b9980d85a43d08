"""What the history of a Messages request loads or changes of its tools, and what of it stays in a mode.

- `tool_reference` in a `tool_result` loads a deferred tool (Claude Code's ToolSearch answers so), and so
  does each entry of a `tool_search_tool_result`; one that names a tool which is not in `tools` makes the API
  refuse this and every later request.
- `tool_addition` and `tool_removal` in a message change which tools there are from there on; an addition may
  hold a definition of its own. The same stand in the `tool_changes` of a `compaction` block, which is signed.
- `mcp_tool_listing` in an answer is the list of a server's tools, which the API refuses without the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from modegate.core.dialects.common.body import Body
from modegate.core.errors import BadRequest
from modegate.core.wire.json_spans import Edit, Span, without

WORDS = (b"tool_reference", b"tool_addition", b"tool_removal", b"compaction", b"mcp_tool_listing")

NOTHING_LEFT = msgspec.json.encode(
    {"type": "text", "text": "The tools that were named here cannot be used in this mode."}
)
"""Stands where a list of blocks would become empty, which the API refuses or shows as nothing at all."""


@dataclass(frozen=True, slots=True)
class Stays:
    """What is left of the tools, for what refers to them."""

    tool: Callable[[str], bool]
    """Whether the tool of this name is."""
    server: Callable[[str], bool]
    """Whether the MCP server of this name is."""
    definition: Callable[[Span], bool]
    """Whether the definition that stands here is."""


def contents(request: Body, messages: Iterable[Span]) -> list[Span]:
    """Return the lists of blocks of these messages. Raises `BadRequest` if a message has two contents."""
    found = (request.member_of(span, "content") for span in messages)
    return [span for span in found if span is not None and _is(request, span, b"[")]


def edits(request: Body, lists: Iterable[Span], stays: Stays) -> list[Edit]:
    """Take out what refers to tools that are gone; raises `BadRequest` if that is signed, or unclear."""
    return [edit for blocks in lists for edit in _list(request, blocks, stays)]


def definitions(request: Body, lists: Iterable[Span]) -> Iterator[Span]:
    """Yield the definitions within lists of blocks; raises `BadRequest` if they can be read in two ways."""
    for blocks in lists:
        yield from _definitions(request, blocks)


def _is(request: Body, span: Span, opening: bytes) -> bool:
    return request.text(span)[:1] == opening


def _objects(request: Body, blocks: Span) -> Iterator[tuple[int, Span, str]]:
    """Yield the objects of a list, each with its index and its type."""
    for index, block in enumerate(request.elements_of(blocks)):
        if _is(request, block, b"{"):
            yield index, block, _string(request, block, "type")


def _string(request: Body, span: Span, key: str) -> str:
    value = request.member_of(span, key)
    found = None if value is None else request.decode(value)
    return found if isinstance(found, str) else ""


def _inner_list(request: Body, block: Span, *path: str) -> Span | None:
    """Return the list that stands under these keys, one within the other."""
    at: Span | None = block
    for key in path:
        if at is None or not _is(request, at, b"{"):
            return None
        at = request.member_of(at, key)
    return at if at is not None and _is(request, at, b"[") else None


_INNER = {
    "tool_result": ("content",),
    "tool_search_tool_result": ("content", "tool_references"),
    "compaction": ("tool_changes",),
}
"""Where a block of this type has a list of its own."""

_INSTEAD = {"tool_result": NOTHING_LEFT, "tool_search_tool_result": b""}
"""What that list holds when nothing is left; a search may have found nothing."""


MAX_DEPTH = 8
"""Lists of blocks within one another: the API has two, and to look into each is to pass over all of it."""


def _inside(depth: int) -> int:
    if depth == MAX_DEPTH:
        raise BadRequest(f"a message holds lists of blocks over {MAX_DEPTH} deep")
    return depth + 1


def _definitions(request: Body, blocks: Span, depth: int = 0) -> Iterator[Span]:
    for _, block, kind in _objects(request, blocks):
        if kind == "tool_addition":
            definition = _definition(request, block)
            if definition is not None:
                yield definition
        elif kind in _INNER and (inner := _inner_list(request, block, *_INNER[kind])):
            yield from _definitions(request, inner, _inside(depth))


def _definition(request: Body, block: Span) -> Span | None:
    tool = request.member_of(block, "tool")
    if tool is None or not _is(request, tool, b"{"):
        return None
    definition = request.member_of(tool, "definition")
    if definition is not None and not _is(request, definition, b"{"):
        raise BadRequest("a 'tool_addition' holds a definition that is not an object")
    return definition


def _list(
    request: Body, blocks: Span, stays: Stays, *, instead: bytes = NOTHING_LEFT, depth: int = 0
) -> Iterator[Edit]:
    """Yield the edits of one list of blocks, and of the lists within; `instead` stands for all of it."""
    drop: set[int] = set()
    for index, block, kind in _objects(request, blocks):
        if kind in _INNER:
            inner = _inner_list(request, block, *_INNER[kind])
            if inner is not None and kind == "compaction":
                _check_signed(request, inner, stays)
            elif inner is not None:
                yield from _list(
                    request, inner, stays, instead=_INSTEAD[kind], depth=_inside(depth)
                )
        elif not _block_stays(request, block, kind, stays):
            drop.add(index)
    spans = request.elements_of(blocks) if drop else []
    if drop and len(drop) == len(spans):
        yield Edit(spans[0].start, spans[-1].end, instead)
    else:
        yield from without(spans, drop)


def _block_stays(request: Body, block: Span, kind: str, stays: Stays) -> bool:
    if kind == "tool_reference":
        return stays.tool(_string(request, block, "tool_name"))
    if kind == "mcp_tool_listing":
        return stays.server(_string(request, block, "mcp_server_name"))
    if kind in ("tool_addition", "tool_removal"):
        definition = _definition(request, block)
        if definition is not None:
            return stays.definition(definition)
        return _reference_stays(request, request.member_of(block, "tool"), stays)
    return True


def _reference_stays(request: Body, tool: Span | None, stays: Stays) -> bool:
    """Return whether what an addition or a removal names is left; a form that is not known is not."""
    if tool is None or not _is(request, tool, b"{"):
        return False
    kind = _string(request, tool, "type")
    if kind == "tool_reference":
        return stays.tool(_string(request, tool, "name"))
    if kind in ("mcp_tool_reference", "mcp_toolset_reference"):
        return stays.server(_string(request, tool, "server_name"))
    return False


def _check_signed(request: Body, blocks: Span, stays: Stays) -> None:
    for _, change, kind in _objects(request, blocks):
        if not _block_stays(request, change, kind, stays):
            raise BadRequest(
                "a 'compaction' block changes tools that this mode does not allow, and it cannot be edited, "
                "as it is signed; compact again, or set the session to another mode"
            )
