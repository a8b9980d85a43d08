"""Under any policy: no tool is left that it does not allow, other bytes stay, and no marker is added."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.messages.request.tools import PLACEHOLDERS
from modegate.core.ids import ToolName
from modegate.core.policy.model import Effect, Policy, Rule
from modegate.core.wire.json_spans import members
from support.messages import MARK, assembled, markers, rules
from support.playbook import Session

NAMES = ["read", "grep", "write", "bash", "web_search", "ExitPlanMode", "DeferredToolPlaceholder"]
HOSTED = {"web_search_20250305": "web_search", "code_execution_20250825": "code_execution"}
OURS = {"exit_plan_mode", "no_tool_in_this_mode"}

name = st.sampled_from(NAMES)
marked = st.sampled_from([{}, {}, {}, MARK])
options = st.sampled_from([{}, {}, {"defer_loading": True}, {"strict": False}, {"Name": "bash"}])
own = st.builds(
    lambda n, o, m: {"name": n, "input_schema": {"maximum": 1.0}, **o, **m}, name, options, marked
)
hosted = st.builds(
    lambda kind, m: {"type": kind, "name": HOSTED[kind], **m}, st.sampled_from([*HOSTED]), marked
)
tools = st.lists(own | hosted, max_size=6)

reference = st.builds(lambda n, m: {"type": "tool_reference", "tool_name": n, **m}, name, marked)
text = st.builds(lambda m: {"type": "text", "text": "so", **m}, marked)
result = st.builds(
    lambda blocks: {"type": "tool_result", "tool_use_id": "t", "content": blocks},
    st.lists(reference | text, max_size=4),
)
change = st.builds(
    lambda kind, n: {"type": kind, "tool": {"type": "tool_reference", "name": n}},
    st.sampled_from(["tool_addition", "tool_removal"]),
    name,
)
definition = st.builds(
    lambda tool: {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}},
    own | hosted,
)
message = st.builds(
    lambda role, blocks: {"role": role, "content": blocks},
    st.sampled_from(["user", "system", "assistant"]),
    st.lists(text | result | change | definition, max_size=4),
)
system = st.sampled_from([None, "A", "", [], [{"type": "text", "text": "A", **MARK}]])
choice = st.sampled_from([None, {"type": "any"}, {"type": "auto"}]) | st.builds(
    lambda n: {"type": "tool", "name": n, "disable_parallel_tool_use": True}, name
)
body = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "messages": st.lists(message, max_size=5),
        "system": system,
        "n": st.just(1.0),
    },
    optional={"tools": tools, "tool_choice": choice, "x": st.just({"tools_of": "mine"})},
)

rule = st.builds(
    Rule, st.sampled_from(list(Effect)), name | st.sampled_from(["*", "w*", "code_execution"])
)
policy = st.builds(
    lambda found, leave: rules(*found, leave=leave), st.lists(rule, min_size=1), st.booleans()
)
spaces = st.sampled_from([None, 1])


def refers(value: Any) -> set[str]:
    """Return the names of all tools that the history loads, adds or removes."""
    if isinstance(value, list):
        return {found for one in value for found in refers(one)}
    if not isinstance(value, dict):
        return set()
    found = {found for one in value.values() for found in refers(one)}
    if value.get("type") == "tool_reference":
        found.add(value.get("tool_name") or value["name"])
    return found


def defined(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [found for one in value for found in defined(one)]
    if not isinstance(value, dict):
        return []
    if "definition" in value:
        return [value["definition"]]
    return [found for one in value.values() for found in defined(one)]


def may(tool: dict[str, Any], policy_: Policy) -> bool:
    in_force = Session(rules=policy_).in_force()
    if tool["name"] in PLACEHOLDERS and tool.get("defer_loading") and "Name" not in tool:
        return True
    allowed = in_force.may_run if "type" in tool else in_force.may_offer
    return all(allowed(ToolName(tool[key])) for key in ("name", "Name") if key in tool)


@given(body, policy, spaces)
def test_l6_no_tool_is_left_that_is_not_allowed(
    asked: Any, policy_: Policy, space: int | None
) -> None:
    got = json.loads(assembled(json.dumps(asked, indent=space).encode(), policy_).body)
    left = [*got.get("tools", ()), *defined(got["messages"])]
    for tool in left:
        assert tool["name"] in OURS or (may(tool, policy_) and tool["name"] != "ExitPlanMode")
    # All that may stay does, in order.
    wanted = [t for t in asked.get("tools", ()) if may(t, policy_) and t["name"] != "ExitPlanMode"]
    stayed = [t for t in got.get("tools", ()) if t["name"] not in OURS]
    bare = [{**t, "cache_control": None} for t in wanted]
    if any(t["name"] not in PLACEHOLDERS for t in wanted) or "exit_plan_mode" in str(
        got.get("tools")
    ):
        assert [{**t, "cache_control": None} for t in stayed] == bare
    # The API takes it: not every tool is deferred, and a choice is among what there is.
    if got.get("tools"):
        assert not all(tool.get("defer_loading") for tool in got["tools"])
    usable = {tool["name"] for tool in left}
    named = (got.get("tool_choice") or {}).get("name")
    # Without tools, a choice is between the agent and the API.
    declares = asked.get("tools") or defined(asked["messages"])
    assert named is None or named in usable or not declares
    for found in refers(got["messages"]):
        assert Session(rules=policy_).in_force().may_offer(ToolName(found))


@given(body, policy, spaces)
def test_b090_no_marker_is_added_and_none_stands_on_a_deferred_tool(
    asked: Any, policy_: Policy, space: int | None
) -> None:
    got = json.loads(assembled(json.dumps(asked, indent=space).encode(), policy_).body)
    assert markers(got) <= markers(asked)
    late = [t for t in asked.get("tools", ()) if t.get("defer_loading") and "cache_control" in t]
    if not late:
        assert not [
            t for t in got.get("tools", ()) if t.get("defer_loading") and "cache_control" in t
        ]


@given(body, policy, spaces)
def test_l3_other_members_keep_their_bytes_and_their_order(
    asked: Any, policy_: Policy, space: int | None
) -> None:
    raw = json.dumps(asked, indent=space).encode()
    got = assembled(raw, policy_).body
    before = {m.key: raw[m.value.start : m.value.end] for m in members(raw)}
    after = {m.key: got[m.value.start : m.value.end] for m in members(got)}
    for key in before.keys() - {"messages", "tools", "tool_choice", "system"}:
        assert after[key] == before[key]
    assert [key for key in after if key in before] == [key for key in before if key in after]
    assert assembled(raw, policy_).body == got
    if not refers(asked["messages"]) and not defined(asked["messages"]):
        assert after["messages"] == before["messages"]


@given(body, policy)
def test_what_was_assembled_stays_as_it_is_when_assembled_again(
    asked: Any, policy_: Policy
) -> None:
    once = json.loads(assembled(json.dumps(asked).encode(), policy_).body)
    again = json.loads(assembled(json.dumps(once).encode(), policy_).body)
    assert again["messages"] == once["messages"]
    assert [t for t in again.get("tools", ()) if t["name"] not in OURS] == [
        t for t in once.get("tools", ()) if t["name"] not in OURS
    ]
