"""A choice of tools in a Responses request: every name in it, as `Tool.choices` has them.

An agent's own tool is named as a policy knows it, or by its plain name; a namespace is `namespace:NAME`, an
MCP server `mcp:LABEL`, what has a type of its own its type.
"""

from __future__ import annotations

from itertools import product

import msgspec

from modegate.core.dialects.common.tools import OWN_TYPES, tool_names
from modegate.core.dialects.responses.request.tools import MCP, NAMESPACE, mcp_name, policy_name
from modegate.core.ids import ToolName
from modegate.core.wire.json_spans import Span, members

_decode = msgspec.json.Decoder().decode


def choice_names(text: bytes, span: Span, open_labels: frozenset[str]) -> set[ToolName]:
    """Return every name in a tool choice, or in an entry of `allowed_tools`.

    Of a server in `open_labels` every tool may be chosen.

    Raises:
        ValueError: it is not an object.
    """
    found: dict[str, list[str]] = {"type": [], "name": [], "namespace": [], "server_label": []}
    names: set[str] = set()
    for member in members(text, span):
        if member.key not in found:
            names.update(tool_names(text, span))  # whatever a server could make of it
        elif text[member.value.start : member.value.end] != b"null":
            found[member.key].append(_word(text, member.value))
    for kind in found["type"] or ["function"]:
        names.update(_chosen(kind, found, open_labels))
    return {ToolName(name) for name in names}


def _word(text: bytes, span: Span) -> str:
    raw = text[span.start : span.end]
    return str(_decode(raw)) if raw[:1] == b'"' else raw.decode()


def _chosen(kind: str, found: dict[str, list[str]], open_labels: frozenset[str]) -> set[str]:
    labels, named = found["server_label"], found["name"]
    names: set[str] = set()
    if kind == MCP:
        names.update(f"{MCP}:{label}" for label in labels)
        closed = [label for label in labels if label not in open_labels]
        names.update(mcp_name(label, name) for label, name in product(closed, named))
    elif kind == NAMESPACE:
        names.update(f"{NAMESPACE}:{name}" for name in named)
    else:
        spaces = found["namespace"] or [""]
        names.update(policy_name(space, name) for space, name in product(spaces, named))
    # A type that the agent does not run is a name too, and where nothing is named, nothing is there.
    return names if names and kind in {MCP, NAMESPACE, *OWN_TYPES} else {*names, kind}
