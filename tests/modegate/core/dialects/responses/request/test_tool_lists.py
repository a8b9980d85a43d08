"""Which tools stay, in every place that declares some; all else keeps its bytes (L3, L6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.globs import glob_matches
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect, Policy, Rule
from modegate.core.policy.when import When
from support.asked import (
    USER,
    assembled,
    custom,
    function,
    namespace,
    request,
    rules,
    sent,
    server,
)


def item(kind: str, *tools: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "tools": list(tools), **more}


def in_tools(*tools: Any) -> dict[str, Any]:
    return request(*tools)


def in_additional(*tools: Any) -> dict[str, Any]:
    return request(input=[item("additional_tools", *tools, role="developer"), USER])


def in_loaded(*tools: Any) -> dict[str, Any]:
    loaded = item("tool_search_output", *tools, call_id="c1", status="completed")
    return request("read", input=[USER, loaded])


def found_in(body: Any) -> list[Any]:
    items = [one["tools"] for one in body["input"] if "tools" in one]
    return list(items[0] if items else body.get("tools", []))


PLACES: dict[str, Callable[..., dict[str, Any]]] = {
    "tools": in_tools,
    "additional": in_additional,
    "loaded": in_loaded,
}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
SEARCH = {"type": "web_search", "search_context_size": "low"}

TABLE: dict[str, tuple[list[Any], list[str], list[Any]]] = {
    "functions": ([function("read"), function("write")], ["read"], [function("read")]),
    "exact": ([function("readx"), function("Read"), function("read ")], ["read"], []),
    "glob": ([function("fs_a"), function("fsb")], ["fs_*"], [function("fs_a")]),
    "freeform": ([custom("apply_patch"), custom("grep")], ["grep"], [custom("grep")]),
    "dispatcher": ([custom("exec"), function("wait")], ["wait"], [function("wait")]),
    "deferred": (
        [function("write", defer_loading=True), function("read", defer_loading=True)],
        ["read"],
        [function("read", defer_loading=True)],
    ),
    "namespace-part": (
        [namespace("fs", "read", "write")],
        ["fs__read"],
        [namespace("fs", "read")],
    ),
    "namespace-whole": ([namespace("fs", "read", "write")], ["read", "write"], []),
    "namespace-glob": (
        [namespace("fs", "read", "write"), namespace("fsx", "read")],
        ["fs__*"],
        [namespace("fs", "read", "write")],
    ),
    "namespace-home": (
        [namespace("functions", "read", custom("exec"))],
        ["read"],
        [namespace("functions", "read")],
    ),
    "namespace-mcp": (
        [namespace("mcp__docs", "search", "delete"), namespace("mcp__docs__", "search")],
        ["mcp__docs__search"],
        [namespace("mcp__docs", "search"), namespace("mcp__docs__", "search")],
    ),
    "namespace-in-namespace": (
        [namespace("fs", namespace("fs", "read"), "read")],
        ["*__read", "fs", "namespace"],
        [namespace("fs", "read")],
    ),
    "hosted-in-namespace": (
        [namespace("fs", SEARCH, server("docs", "a"))],
        ["*search*", "fs*"],
        [],
    ),
    "namespace-empty": ([namespace("fs")], ["fs*", "namespace"], []),
    "namespace-names-allowed": ([namespace("fs", "write")], ["namespace", "fs", "tools"], []),
    "hosted": ([SEARCH, CODE, {"type": "file_search"}], ["web_search"], [SEARCH]),
    "hosted-other-version": ([{"type": "web_search_2025_08_26"}], ["web_search"], []),
    "hosted-and-name": ([{"type": "bash_20250124", "name": "bash"}], ["bash"], []),
    "agents-own-types": (
        [{"type": "local_shell"}, {"type": "apply_patch"}, {"type": "computer"}],
        ["apply_patch"],
        [{"type": "apply_patch"}],
    ),
    "search": (
        [{"type": "tool_search", "execution": "client"}, {"type": "tool_search"}],
        ["tool_search"],
        [{"type": "tool_search", "execution": "client"}, {"type": "tool_search"}],
    ),
    "unknown-type": ([{"type": "new_thing"}, {"type": 1, "name": "read"}], ["read"], []),
    "programs": (
        [{"type": "programmatic_tool_calling"}, function("read")],
        ["read"],
        [function("read")],
    ),
    "server": ([server("docs"), server("docs", "search")], ["read"], []),
    "server-part": (
        [server("docs", "search", "delete", require_approval="never")],
        ["mcp__docs__search"],
        [server("docs", "search", require_approval="never")],
    ),
    "server-object": (
        [server("docs", allowed_tools={"read_only": True, "tool_names": ["delete", "search"]})],
        ["mcp__docs__search"],
        [server("docs", allowed_tools={"read_only": True, "tool_names": ["search"]})],
    ),
    # Which tools it has nobody knows here, whatever it says of itself or asks approval for.
    "server-open": (
        [
            server("docs"),
            server("docs", require_approval="always"),
            server("docs", allowed_tools={"read_only": True}),
            server("docs", allowed_tools=[]),
        ],
        ["mcp__docs__*", "mcp__*", "docs"],
        [],
    ),
    "server-any": (
        [server("docs"), server("docs", "search", "delete")],
        ["mcp"],
        [server("docs"), server("docs", "search", "delete")],
    ),
    "server-label-of-another": (
        [server("docs__search", "x"), server("docs", "search")],
        ["mcp__docs__search"],
        [server("docs", "search")],
    ),
    "server-odd-names": ([server("docs", allowed_tools=[1, None, {"a": 1}])], ["mcp__docs__*"], []),
    "two-names": ([function("read", function={"name": "write"})], ["read"], []),
    "hidden-inside": ([function("read", tools=[function("write")])], ["read"], []),
    "chat-shape": (
        [
            {"type": "function", "function": {"name": "write"}},
            {"type": "function", "function": {"name": "read"}},
        ],
        ["read"],
        [{"type": "function", "function": {"name": "read"}}],
    ),
    "all": (
        [function("a"), namespace("n", "b", custom("c")), server("s"), SEARCH],
        ["*"],
        [function("a"), namespace("n", "b", custom("c")), server("s"), SEARCH],
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("tools", "allowed", "left"), TABLE.values(), ids=TABLE.keys())
def test_b001_b015_b016_b017_b056_b100_what_stays(
    place: str, tools: list[Any], allowed: list[str], left: list[Any]
) -> None:
    body = PLACES[place](*tools)
    got = sent(body, rules(*allowed, "read", section=""))
    if place == "loaded":
        assert got["tools"] == [function("read")]
        assert found_in(got) == left
    else:
        assert found_in(got) == left
    other = {key: value for key, value in got.items() if key not in ("tools", "input")}
    assert other == {key: value for key, value in body.items() if key not in ("tools", "input")}


@pytest.mark.parametrize(
    "name", ["Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"]
)
def test_b019_a_variant_of_an_allowed_name_goes(name: str) -> None:
    tools = [function("read"), function(name), namespace("functions", name), custom(name)]
    assert sent(request(*tools), rules("read"))["tools"] == [function("read")]


def test_an_item_of_which_nothing_is_left_goes_but_for_what_answers_a_call() -> None:
    call = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}}
    more = item("additional_tools", function("write"), role="developer")
    loaded = item("tool_search_output", function("write"), call_id="c1", id="x")
    body = request("read", input=[more, USER, call, loaded, more, more, USER])
    got = sent(body, rules("read", section=""))
    assert got["input"] == [USER, call, {**loaded, "tools": []}, USER]


def test_an_empty_item_of_the_agents_stays() -> None:
    more = item("additional_tools", role="developer")
    assert sent(request("read", input=[more]), rules("read", section=""))["input"] == [more]


def test_what_a_server_listed_is_filtered_as_its_tools_are() -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("search", "delete")]
    listed = item("mcp_list_tools", *tools, server_label="docs", id="mcpl_1")
    body = request("read", input=[listed])
    for allowed, left in (([], []), (["mcp__docs__search"], tools[:1]), (["mcp__docs__*"], tools)):
        got = sent(body, rules("read", *allowed, section=""))
        assert got["input"] == [{**listed, "tools": left}]
    without_label = {key: value for key, value in listed.items() if key != "server_label"}
    got = sent(request("read", input=[without_label]), rules("read", "mcp__docs__*", section=""))
    assert got["input"][0]["tools"] == []


def ruled(*made: Rule) -> Policy:
    return rules("read", *made, section="")


ANY = When({}, others_any=True)
LOW = When({"query": Equals("x")}, others_any=True)


@pytest.mark.parametrize(
    ("given", "shell", "search"),
    [
        (Rule(Effect.ALLOW, "*"), True, True),
        (Rule(Effect.ASK, "*"), True, False),
        (Rule(Effect.ALLOW, "*", LOW), True, False),
        (Rule(Effect.ALLOW, "*", ANY), True, False),
        (Rule(Effect.DENY, "*", LOW), False, False),
        (Rule(Effect.DENY, "*"), False, False),
    ],
    ids=["allow", "ask", "allow-some", "allow-any", "deny-some", "deny"],
)
def test_l6_what_the_provider_runs_needs_a_rule_that_allows_every_call(
    given: Rule, shell: bool, search: bool
) -> None:
    """No call of it can wait for a person, and its arguments are not seen before it has run."""
    hosted = [SEARCH, server("docs", "a"), {"type": "tool_search"}]
    got = sent(request({"type": "local_shell"}, *hosted), ruled(given))
    assert got.get("tools", []) == [*[{"type": "local_shell"}] * shell, *hosted * search]


def test_the_header_lists_what_was_kept_as_a_policy_knows_it() -> None:
    tools = [
        function("read"),
        namespace("fs", "a", "b"),
        server("docs", "s", "t"),
        SEARCH,
        server("x"),
    ]
    more = item("additional_tools", namespace("functions", "wait", "read"), role="developer")
    got = assembled(
        request(*tools, input=[more]), rules("read", "wait", "fs__a", "mcp__docs__s", "web_search")
    )
    assert got.tools == ("read", "fs__a", "mcp__docs__s", "web_search", "wait")
    assert assembled(request(*tools), rules("mcp")).tools == ("mcp",)


@pytest.mark.parametrize("key", ["cache_control", "prompt_cache_breakpoint"])
def test_b090_the_cache_marker_of_a_gateway_moves_as_everywhere(key: str) -> None:
    body = request("read", function("write", **{key: {"type": "ephemeral"}}))
    left = sent(body, rules("read"))["tools"]
    marked = {"cache_control": {"type": "ephemeral"}} if key == "cache_control" else {}
    assert left == [{**function("read"), **marked}]


# Random requests under random policies.

words = st.sampled_from(["read", "write", "exec", "wait", "fs__read", "a"])
spaces = st.sampled_from(["fs", "functions", "mcp__docs", "mcp__docs__"])
own = st.builds(function, words) | st.builds(custom, words)
hosted = st.sampled_from(
    [SEARCH, CODE, {"type": "local_shell"}, {"type": "tool_search"}, {"type": "x"}]
)
grouped = st.builds(
    lambda name, tools: namespace(name, *tools), spaces, st.lists(own | hosted, max_size=3)
)
servers = st.builds(lambda tools: server("docs", *tools), st.lists(words, max_size=3))
definitions = st.lists(own | grouped | servers | hosted, max_size=4)
items = st.lists(
    st.just(USER)
    | st.builds(lambda tools: item("additional_tools", *tools, role="developer"), definitions)
    | st.builds(lambda tools: item("tool_search_output", *tools, call_id="c"), definitions),
    max_size=4,
)
allowed = st.lists(
    st.sampled_from(
        [
            "read",
            "write",
            "wait",
            "fs__*",
            "fs__read",
            "mcp__docs__*",
            "*__read",
            "w*",
            "mcp",
            "local_*",
            "*",
        ]
    ),
    max_size=3,
)
requests = st.builds(lambda tools, got: request(*tools, input=got), definitions, items)


def wanted(tools: Iterable[Any], allows: Callable[[str], bool]) -> list[Any]:
    """Return what may stay of a list, by a second reading of docs/policies.md."""
    left = []
    for tool in tools:
        kind = tool["type"]
        if kind == "namespace":
            prefix = "" if tool["name"] == "functions" else tool["name"].rstrip("_") + "__"
            inner = [
                one
                for one in tool["tools"]
                if one["type"] in ("function", "custom")
                and allows(prefix + one["name"].removeprefix(prefix))
            ]
            left += [{**tool, "tools": inner}] if inner else []
        elif kind == "mcp" and not allows("mcp"):
            names = [one for one in tool.get("allowed_tools", ()) if allows(f"mcp__docs__{one}")]
            left += [{**tool, "allowed_tools": names}] if names else []
        elif allows(tool["name"] if kind in ("function", "custom") else kind):
            left.append(tool)
    return left


@given(requests, allowed, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]))
def test_l3_l6_no_forbidden_name_is_left_and_every_other_byte_is(
    body: dict[str, Any], globs: list[str], separators: tuple[str, str]
) -> None:
    raw = json.dumps(body, separators=separators).encode()
    got = assembled(raw, rules(*globs, section="")).body

    def allows(name: str) -> bool:
        return any(glob_matches(glob, name) for glob in globs)

    expected: dict[str, Any] = {**body, "input": []}
    expected["tools"] = wanted(body.get("tools", ()), allows)
    for one in body["input"]:
        tools = wanted(one.get("tools", ()), allows)
        if one.get("type") != "additional_tools" or tools or not one["tools"]:
            expected["input"].append({**one, "tools": tools} if "tools" in one else one)
    if not expected["tools"]:
        del expected["tools"]
    assert json.loads(got) == expected
    # Nothing was written anew: what is left is what came, with pieces taken out.
    rest = iter(raw)
    assert all(byte in rest for byte in got)
    if expected == body:
        assert got == raw
    # And it is all that there was to do.
    assert assembled(got, rules(*globs, section="")).body == got
