"""L5 by chance: whatever events an answer is made of, no client can run what the policy refuses."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from modegate.core.ids import ToolName
from modegate.core.policy import judge as rules
from modegate.core.policy.conditions import Equals, Glob
from modegate.core.policy.judge import ToolCall, Verdict
from modegate.core.policy.model import Effect, Limits
from modegate.core.policy.when import When
from modegate.core.wire.arguments import parse_arguments
from support.playbook import JSON, STREAM, Reply, cut_at, mode, policy, rule
from support.responses import (
    CLIENTS,
    answer,
    call,
    frame,
    kinds,
    message,
    read,
    request,
    response,
    session,
    stream,
)

MODE = mode(
    "plan",
    "read",
    "grep",
    "space__read",
    rule("edit", When({"path": Equals("plan.md")})),
    rule("bash", When({"command": Glob(("rm*",))}), Effect.DENY),
    rule("bash", None),
)
POLICY = policy(MODE, limits=Limits(held=20_000))
TOOLS = ("read", "grep", "edit", "bash", "write")
REQUEST = request(*TOOLS, stream=True)
FINE = answer(message("fine", "msg_9"), n=9)

NAMES = ["read", "grep", "edit", "bash", "write", ""]
ARGUMENTS = ["", "{}", '{"path":"plan.md"}', '{"path":"/etc"}', '{"command":"rm"}', '{"path":', "x"]
TYPES = ["function_call"] * 5 + [
    "custom_tool_call",
    "message",
    "reasoning",
    "local_shell_call",
    "mcp_call",
]
IDS = ["a", "b", "c", None]
EVENTS = [
    "response.output_item.added",
    "response.output_item.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.output_text.delta",
    "response.content_part.added",
    "response.completed",
    "response.created",
    "response.in_progress",
    "response.failed",
    "error",
    "response.unknown",
]  # fmt: skip


@st.composite
def items(draw: st.DrawFn) -> Any:
    """Return one item, as some server might send it."""
    item: dict[str, Any] = {"type": draw(st.sampled_from(TYPES)), "id": draw(st.sampled_from(IDS))}
    if item["type"] == "message":
        item["content"] = draw(st.sampled_from([[], [{"type": "output_text", "text": "hello"}]]))
        return item
    item["call_id"] = draw(st.sampled_from(["call_number_a", "call_number_b", None]))
    item["name"] = draw(st.sampled_from(NAMES))
    key = "input" if item["type"] == "custom_tool_call" else "arguments"
    item[key] = draw(st.sampled_from(ARGUMENTS))
    if draw(st.integers(0, 9)) == 0:
        item["namespace"] = draw(st.sampled_from(["functions", "space", "read"]))
    return item


@st.composite
def any_event(draw: st.DrawFn) -> Any:
    """Return one event of whatever shape."""
    kind = draw(st.sampled_from(EVENTS))
    event: dict[str, Any] = {"type": kind}
    if kind.startswith("response.output_item"):
        event["item"] = draw(items())
    elif kind in (
        "response.completed",
        "response.created",
        "response.in_progress",
        "response.failed",
    ):
        event["response"] = response(draw(st.lists(items(), max_size=2)), kind.partition(".")[2])
    if kind not in ("response.completed", "response.created"):
        event["output_index"] = draw(st.integers(0, 2))
        event["item_id"] = draw(st.sampled_from(IDS))
    text = draw(st.sampled_from(ARGUMENTS))
    event |= {"delta": text} if "delta" in kind else {"arguments": text} if "ments" in kind else {}
    return event


@st.composite
def lifelike(draw: st.DrawFn) -> list[Any]:
    """Return an answer as it should be, of which a few events are left out, doubled or changed."""
    found: list[Any] = [{"type": "response.created", "response": response((), "in_progress")}]
    drawn = draw(st.lists(items(), max_size=4))
    for at, item in enumerate(drawn):
        item["id"] = f"item_{at}"
        if item.get("call_id"):
            item["call_id"] = f"call_of_item_{at}"
        at_ = {"output_index": at, "item_id": item["id"]}
        key = "input" if "input" in item else "arguments"
        begun = {**item, key: ""} if key in item else item
        found.append({"type": "response.output_item.added", **at_, "item": begun})
        if key in item and item["type"] in ("function_call", "custom_tool_call"):
            name = "function_call_arguments" if key == "arguments" else "custom_tool_call_input"
            pieces = (item[key][:2], item[key][2:])
            found += [{"type": f"response.{name}.delta", **at_, "delta": one} for one in pieces]
            found.append({"type": f"response.{name}.done", **at_, key: item[key]})
        found.append({"type": "response.output_item.done", **at_, "item": item})
    found.append({"type": "response.completed", "response": response(drawn)})
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(found) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                del found[at]
            case 1:
                found.insert(draw(st.integers(0, len(found))), found[at])
            case 2:
                found.insert(at, draw(any_event()))
            case _:
                key = draw(st.sampled_from(["output_index", "item_id", "delta", "arguments"]))
                if key in found[at]:
                    found[at] = {**found[at], key: draw(any_event()).get(key)}
    if draw(st.integers(0, 4)) == 0:
        return [
            {key: one for key, one in event.items() if key != "output_index"} for event in found
        ]
    return found


def allowed(name: str, arguments: str, *, custom: bool) -> bool:
    """Return whether the policy releases what a client would run."""
    parsed = parse_arguments(arguments or "{}")
    if custom and parsed is None:
        parsed = {"input": arguments}
    return rules.judge(MODE, ToolCall(ToolName(name), parsed)).verdict is Verdict.RELEASE


def check(got: bytes) -> None:
    """No client can make a call of it that the policy refuses."""
    for name, client in CLIENTS.items():
        for built in client(got):
            if built.kind in ("function_call", "custom_tool_call", "local_shell_call"):
                known = built.name if built.namespace in ("", "functions") else "space__read"
                # One that is announced has no arguments yet: nobody runs it so.
                begun = name != "by_ends" and not built.arguments
                custom = built.kind == "custom_tool_call"
                assert begun or allowed(known, built.arguments, custom=custom), (name, built)
            else:
                raise AssertionError((name, built))


def numbered(body: bytes) -> None:
    """Events are numbered one by one, and each item has its own index.

    The first keeps the upstream's number, which is not 0 where a call was held that came in front of it.
    """
    events = read(body)
    first = events[0]["sequence_number"]
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(first, first + len(events)))
    begun = [e for e in events if e["type"] == "response.output_item.added" and "output_index" in e]
    assert len({e["output_index"] for e in begun}) == len(begun)


CREATED = {"type": "response.created", "response": response((), "in_progress")}
HELD = {
    "type": "function_call",
    "id": "item_0",
    "call_id": "call_of_item_0",
    "name": "write",
    "arguments": "{}",
}
AT = {"output_index": 0, "item_id": "item_0", "item": HELD}
CALL_IN_FRONT: list[Any] = [
    {"type": "response.output_item.added", **AT},
    CREATED,
    {"type": "response.output_item.done", **AT},
    {"type": "response.completed", "response": response([HELD])},
]


@given(lifelike(), st.lists(st.integers(0, 3000), max_size=3))
@example(CALL_IN_FRONT, [])
def test_no_client_can_run_what_is_refused(found: list[Any], places: list[int]) -> None:
    """However a client puts calls together, each is one that the policy allows; cuts change nothing."""
    body = stream(found)
    got = session(rules=POLICY).step(REQUEST, [body, FINE], cut=cut_at(*places))
    check(got.body)
    again = session(rules=POLICY).step(REQUEST, [body, FINE])
    assert again.body == got.body
    assert again.events == got.events
    if kinds(got.body)[-1:] == ["completed"]:
        numbered(got.body)


@given(st.lists(any_event(), max_size=8), st.booleans())
def test_nor_of_events_in_any_order(found: list[Any], first: bool) -> None:
    """Events that fit nowhere are refused or go nowhere."""
    begun = [{"type": "response.created", "response": response((), "in_progress")}] if first else []
    check(session(rules=POLICY).step(REQUEST, [stream(begun + found), FINE]).body)


@given(st.lists(lifelike(), min_size=2, max_size=4))
def test_nor_in_later_hops(hops: list[Any]) -> None:
    """A second hop is gated as the first."""
    first = answer(message("a"), call("write"))
    got = session(rules=POLICY).step(REQUEST, [first, *map(stream, hops)])
    check(got.body)


@given(st.lists(items(), max_size=3))
@example([call("write")])
def test_nor_in_a_whole_answer(found: list[Any]) -> None:
    """An answer that comes as one body holds no refused call, and stays JSON."""
    reply = Reply(json.dumps(response(found)).encode(), list(JSON))
    end = Reply(json.dumps(response([message("fine")])).encode(), list(JSON))
    got = session(rules=POLICY).step(request(*TOOLS), [reply, end])
    body = frame({"type": "response.completed", "response": got.json})
    check(body)


@given(st.binary(max_size=300), st.sampled_from([STREAM, JSON]), st.integers(0, 9))
def test_garbage_raises_nothing(noise: bytes, head: list[tuple[bytes, bytes]], place: int) -> None:
    """Bytes that mean nothing end a step in an error or pass as text; nothing is raised."""
    good = answer(message("a"), call("write")).split(b"\n\n")
    body = b"\n\n".join([*good[:place], noise, *good[place:]])
    got = session().step(REQUEST, [Reply(body, list(head)), FINE])
    assert got.finish is not None
    assert b'"write"' not in got.body
