"""What a Responses request declares: functions, freeform tools, namespaces, MCP servers, hosted tools.

Fields and types follow the API's published schema of November 2026. A tool in a namespace is known to a
policy as `NAMESPACE__NAME`, one of a remote MCP server as `mcp__LABEL__NAME`, as agents write them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tools import OWN_TYPES, PLAIN_FIELDS, Declared, read_declared
from modegate.core.ids import ToolName
from modegate.core.wire.arguments import spelling, words
from modegate.core.wire.json_spans import Member, Span

NAMESPACE = "namespace"
MCP = ToolName("mcp")
HOME = "functions"
"""The namespace in which a tool has its plain name, as newer Codex models declare them."""

AGENT_RUNS = frozenset(
    {"apply_patch", "computer", "computer_use", "computer_use_preview", "local_shell"}
)
"""Types beside `function` and `custom` of which the agent gets the call and runs it."""

AGENT_RUNS_WHERE = {
    "shell": ("environment", "type", "local"),
    "tool_search": ("execution", "client"),
}
"""Types that the agent runs only where this field says so; the last word is the value."""

_PLAIN = PLAIN_FIELDS | {"async"}

HOSTED_FIELDS = words("""
    action background complexity container display_height display_width environment execution
    external_web_access filters frame_count frame_duration_ms input_fidelity input_image_mask
    max_num_results model moderation output_compression output_format partial_images quality
    ranking_options search_content_types search_context_size size svg user_location vector_store_ids
""")
"""Options of the types that are not the agent's own; any other field could be a tool, as everywhere."""

MCP_FIELDS = words("""
    type server_label allowed_callers allowed_tools authorization connector_id defer_loading headers
    require_approval server_description server_url tunnel_id
""")
_NAMESPACE_FIELDS = frozenset({"type", "name", "description", "tools"})
_HOSTED = _PLAIN | {spelling(field) for field in HOSTED_FIELDS}


@dataclass(frozen=True, slots=True)
class Tool(Declared):
    """One definition; without `names` and `inner` it is one that nobody can read, and goes."""

    choices: frozenset[str] = frozenset()
    """How a choice of tools names it; see `edit.choice_names`."""
    inner: tuple[Tool, ...] = ()
    """What stands in a namespace, or in the list of a server's allowed tools."""
    label: str = ""
    """For `mcp`: the server's label."""


def policy_name(namespace: str | None, name: str) -> ToolName:
    """Return the name under which a policy knows a tool, and a call of it.

    `NAMESPACE__NAME`; the plain name where there is no namespace, in `functions`, and where it already
    begins so.
    """
    if not namespace or namespace == HOME:
        return ToolName(name)
    prefix = namespace if namespace.endswith("__") else f"{namespace}__"
    return ToolName(name if name.startswith(prefix) else prefix + name)


def mcp_name(label: str, name: str) -> ToolName:
    """Return the name under which a policy knows a tool of a remote MCP server."""
    return ToolName(f"mcp__{label}__{name}")


def read_tools(request: Body, spans: Iterable[Span]) -> tuple[Tool, ...]:
    """Read definitions. Raises `BadRequest` if something in one is not JSON."""
    return tuple(_read(request, span) for span in request.counted(spans))


def read_listed(request: Body, spans: Iterable[Span], label: str) -> tuple[Tool, ...]:
    """Read what a remote MCP server said that it has: an `mcp_list_tools` item holds it."""
    return tuple(
        Tool(span, _named(request, span, lambda name: mcp_name(label, name)), hosted=True)
        for span in request.counted(spans)
    )


def _read(request: Body, span: Span) -> Tool:
    found = request.members_of(span)
    typed = (one for one in found if spelling(one.key) == "type")
    kinds = [_string(request, one) for one in typed if request.text(one.value) != b"null"]
    if kinds == [NAMESPACE]:
        return _namespace(request, span, found)
    if kinds == [MCP]:
        return _server(request, span, found)
    own = OWN_TYPES.issuperset(kinds)
    read = read_declared(request.readable, span, plain=_PLAIN if own else _HOSTED)
    hosted = read.hosted
    if not own and all(spelling(one.key) in _HOSTED for one in found):
        hosted = not all(_agent_runs(request, kind, found) for kind in kinds)
    return Tool(span, read.names, hosted, frozenset(read.names))


def _agent_runs(request: Body, kind: str, found: list[Member]) -> bool:
    if kind in OWN_TYPES or kind in AGENT_RUNS:
        return True
    where = AGENT_RUNS_WHERE.get(kind)
    if where is None:
        return False
    key, *path = where
    values = [one.value for one in found if spelling(one.key) == spelling(key)]
    if len(values) != 1:
        return False
    value = request.decode(values[0])
    *keys, wanted = path
    for inner in keys:
        value = value.get(inner) if isinstance(value, dict) else None
    return bool(value == wanted)


def _namespace(request: Body, span: Span, found: list[Member]) -> Tool:
    fields = _once(found, _NAMESPACE_FIELDS)
    name = _text(request, fields.get("name"))
    tools = fields.get("tools")
    if name is None or tools is None or request.text(tools)[:1] != b"[":
        return Tool(span, ())
    each = request.counted(request.elements_of(tools))
    inner = tuple(_within(request, one, name) for one in each)
    return Tool(span, (), inner=inner, choices=frozenset({f"{NAMESPACE}:{name}"}))


def _within(request: Body, span: Span, namespace: str) -> Tool:
    if request.text(span)[:1] != b"{":
        return Tool(span, ())
    names = _named(request, span, lambda name: policy_name(namespace, name))
    plain = _named(request, span, ToolName)
    return Tool(span, names, choices=frozenset(names + plain))


def _named(request: Body, span: Span, name_of: Callable[[str], ToolName]) -> tuple[ToolName, ...]:
    """Return the names of a definition that holds nothing but an agent's own tool; none if it could."""
    found = request.members_of(span)
    kinds = {_string(request, one) for one in found if spelling(one.key) == "type"}
    read = read_declared(request.readable, span, plain=_PLAIN)
    if not kinds <= OWN_TYPES or read.hosted:
        return ()
    return tuple(map(name_of, read.names))


def _server(request: Body, span: Span, found: list[Member]) -> Tool:
    """Read an `mcp` entry: all of its server's tools, or those that it lists."""
    fields = _once(found, MCP_FIELDS)
    label = _text(request, fields.get("server_label"))
    if label is None:
        return Tool(span, ())
    listed = _listed(request, fields.get("allowed_tools"))
    inner = tuple(_allowed(request, one, label) for one in listed)
    return Tool(span, (MCP,), True, frozenset({f"{MCP}:{label}"}), inner, label)


def _listed(request: Body, span: Span | None) -> list[Span]:
    """Return the names in `allowed_tools`: a list of them, or an object with a list."""
    if span is not None and request.text(span)[:1] == b"{":
        fields = _once(request.members_of(span), frozenset({"tool_names", "read_only"}))
        span = fields.get("tool_names")
    if span is None or request.text(span)[:1] != b"[":
        return []
    return request.elements_of(span)


def _allowed(request: Body, span: Span, label: str) -> Tool:
    name = _text(request, span)
    # A server could take these characters for a glob of its own.
    names = () if name is None or "*" in name or "?" in name else (mcp_name(label, name),)
    return Tool(span, names, hosted=True, choices=frozenset(names))


def _once(found: list[Member], known: frozenset[str]) -> dict[str, Span]:
    """Return the fields of a definition; none if one is unknown or stands there twice."""
    fields = {member.key: member.value for member in found}
    if len(fields) != len(found) or not known.issuperset(fields):
        return {}
    return fields


def _text(request: Body, span: Span | None) -> str | None:
    value = None if span is None else request.decode(span)
    return value if isinstance(value, str) and value else None


def _string(request: Body, member: Member) -> str:
    value = request.decode(member.value)
    return value if isinstance(value, str) else request.text(member.value).decode()
