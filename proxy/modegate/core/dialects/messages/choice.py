"""A choice of tools in a Messages request, relaxed where it names one that the mode took away."""

from __future__ import annotations

from modegate.core.dialects import choice
from modegate.core.dialects.messages.request import MessagesRequest
from modegate.core.dialects.messages.tools import names_in_choice
from modegate.core.ids import ToolName
from modegate.core.spans import Edit

KEY = "tool_choice"
PARALLEL = "disable_parallel_tool_use"


def choice_edits(request: MessagesRequest, kept: frozenset[ToolName]) -> list[Edit]:
    """Relax a choice of a tool that is not there, or of any where none is.

    Raises:
        BadRequest: a key stands there twice.
    """
    span = request.top.get(KEY)
    if span is None:
        return []
    relaxed = b'{"type":"auto"}'
    if request.text(span)[:1] == b"{":
        for key in ("type", "name"):
            request.member_of(span, key)
        parallel = request.member_of(span, PARALLEL)
        if parallel is not None:
            relaxed = b'{"type":"auto","%b":%b}' % (PARALLEL.encode(), request.text(parallel))
    return choice.choice_edits(request, KEY, kept, relaxed=relaxed, names=names_in_choice)
