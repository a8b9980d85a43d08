"""Answers through the gate: what passes, what is refused, and how hops become one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.responses.said import Out
from modegate.core.dialects.responses.write import ResponsesStreamWriter
from modegate.core.errors import UpstreamFailed
from modegate.core.events import CallJudged, TurnWithheld
from modegate.core.hop import StreamedHop
from modegate.core.policy import Limits
from support import judges
from support.playbook import POLICY, Got, Reply, Session, bytewise, cut_at, mode, policy
from support.responses import (
    CLIENTS,
    added,
    answer,
    begin,
    call,
    custom,
    end,
    events,
    frame,
    item_events,
    kinds,
    last,
    message,
    read,
    reasoning,
    request,
    response,
    session,
    stream,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')
HOSTED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}


def step(*replies: Any, rules: Any = POLICY, body: Any = REQUEST) -> Got:
    return session(rules=rules).step(body, replies)


def numbers(body: bytes) -> list[int]:
    return [event["sequence_number"] for event in read(body)]


def output(body: bytes) -> list[Any]:
    found: list[Any] = last(body)["output"]
    return found


def said(body: bytes) -> list[str]:
    return [item["content"][0]["text"] for item in output(body) if item["type"] == "message"]


# What passes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [
    [message("Hello")],
    [reasoning(), message("Hello"), READ, GREP],
    [custom("read", "free text")],
    [call("read", ""), message("Behind it")],
    [call("read", namespace="functions")],
    [],
], ids=["text", "calls", "custom", "no arguments", "namespace", "nothing"])  # fmt: skip
def test_what_is_released_keeps_its_bytes(items: list[Any]) -> None:
    body = answer(*items)
    assert step(body).body == body
    assert session().step(REQUEST, [body], cut=bytewise).body == body


def test_lines_comments_and_names_keep_their_bytes() -> None:
    body = answer(message("Hello"), READ).replace(b"\n", b"\r\n")
    body = b": hi\r\n\r\n" + body.replace(b"event: response.created\r\n", b"", 1)
    assert step(body).body == body


def test_a_stream_without_numbers_stays_without_them() -> None:
    body = b"".join(frame(event) for event in events(message("a"), WRITE))
    got = step(body, b"".join(frame(event) for event in events(message("b", "msg_2"), n=2)))
    assert all("sequence_number" not in event for event in read(got.body))
    assert said(got.body) == ["a", "b"]


@pytest.mark.parametrize("cut", range(0, 4000, 61))
def test_cuts_change_nothing(cut: int) -> None:
    bodies = [answer(message("a"), WRITE, GREP), answer(message("b"), n=2)]
    assert session().step(REQUEST, bodies, cut=cut_at(cut)).body == step(*bodies).body


# What is refused --------------------------------------------------------------------------------


def test_a_refused_call_leaves_no_gap() -> None:
    got = step(answer(reasoning(), WRITE, READ | {"id": "fc_2", "call_id": "c2"}, message("Hi")))
    assert b"SECRET" not in got.body
    assert b"fc_1" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))
    assert [item["type"] for item in output(got.body)] == ["reasoning", "function_call", "message"]
    places = [event["output_index"] for event in read(got.body) if "output_index" in event]
    assert sorted(set(places)) == [0, 1, 2]
    assert len(got.requests) == 1


def test_numbers_stay_as_they_are_in_front_of_it() -> None:
    found = [event | {"sequence_number": 7 + n} for n, event in enumerate(events(message("a")))]
    got = step(stream(found))
    assert numbers(got.body) == [event["sequence_number"] for event in found]


def test_all_refused_is_followed_by_a_hop() -> None:
    got = step(answer(reasoning(), message("I write."), WRITE), answer(message("No.", "m2"), n=2))
    assert said(got.body) == ["I write.", "No."]
    assert {event["response"]["id"] for event in read(got.body) if "response" in event} == {
        "resp_1"
    }
    assert kinds(got.body).count("created") == 1
    assert numbers(got.body) == list(range(len(read(got.body))))
    usage = last(got.body)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 10, 20)
    sent = got.upstream["input"]
    assert [item.get("type") for item in sent[-4:]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert sent[-1]["call_id"] == sent[-2]["call_id"]
    assert "was refused" in sent[-1]["output"]


@pytest.mark.parametrize("items", [
    [reasoning(), message("a"), WRITE],
    [WRITE, message("a")],
    [WRITE, READ | {"id": "fc_9", "call_id": "c9"}],
    [custom("write", "SECRET")],
], ids=["behind", "in front", "mixed", "custom"])  # fmt: skip
def test_the_official_sdk_takes_it(items: list[Any]) -> None:
    got = step(answer(*items), answer(message("b", "msg_2"), n=2))
    assert b"SECRET" not in got.body
    read_ = judges.responses(got.body, streamed=True)
    shown = [item for item in items if item.get("name") != "write"]
    hops = len(got.requests)
    assert len(read_.output) == len(shown) + hops - 1


def test_ids_that_come_again_in_a_later_hop_are_told_apart() -> None:
    got = step(answer(message("a"), WRITE), answer(message("b"), n=2))
    ids = [item["id"] for item in output(got.body)]
    assert ids == ["msg_1", "msg_1_2"]
    done = [event["item"]["id"] for event in read(got.body) if event["type"].endswith("item.done")]
    assert done == ids
    pieces = [event["item_id"] for event in read(got.body) if event["type"].endswith("text.delta")]
    assert pieces == ["msg_1", "msg_1_2"]
    assert judges.responses(got.body, streamed=True).output_text == "ab"


def test_the_end_says_what_was_refused_where_the_model_does_not_give_in() -> None:
    got = step(answer(message("a"), WRITE))
    assert len(got.requests) == 2
    assert "[modegate] Refused" in said(got.body)[-1]
    assert judges.responses(got.body, streamed=True).output_text.endswith(said(got.body)[-1])


def test_an_empty_snapshot_is_filled_where_something_was_put_in() -> None:
    first = events(message("a"), WRITE)[:-1]
    second = [*events(message("b", "msg_2"), n=2)[:-1], end([], n=2)]
    got = step(stream([*first, end([])]), stream(second))
    assert said(got.body) == ["a", "b"]
    alone = stream([*events(message("a"))[:-1], end([])])
    assert step(alone).body == alone


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_no_hop_follows_an_answer_that_did_not_complete(status: str) -> None:
    got = step(answer(WRITE, status=status))
    assert len(got.requests) == 1
    assert kinds(got.body)[-1] == status
    assert b"SECRET" not in got.body


def test_a_call_that_is_cut_at_a_limit_passes_if_its_tool_is_allowed() -> None:
    cut = call("read", '{"path":"a', status="incomplete")
    body = answer(cut, status="incomplete")
    assert step(body).body == body


def test_a_call_without_an_end_goes_nowhere() -> None:
    held = [begin(), *item_events(WRITE, 0)[:-1], end([], "incomplete")]
    assert kinds(step(stream(held)).body) == ["created", "incomplete"]
    got = step(stream([*held[:-1], end([])]), answer(message("b"), n=2))
    assert said(got.body) == ["b"]
    assert b"SECRET" not in got.body


@pytest.mark.parametrize("broken", [True, False])
def test_a_stream_that_stops_fails(broken: bool) -> None:
    body = stream(events(message("a"), READ, WRITE)[:-3])
    got = step(Reply(body, broken=broken))
    assert kinds(got.body)[-1] == "failed"
    assert last(got.body)["id"] == "resp_1"
    assert last(got.body)["error"]["code"] == "server_error"
    assert b"SECRET" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))


def test_an_error_of_the_upstream_ends_it() -> None:
    body = stream([begin(), {"type": "error", "code": "x", "message": "no", "param": None}])
    assert step(body).body == body


# Later hops that fail ---------------------------------------------------------------------------

FIRST = answer(reasoning(), message("I write."), WRITE)


@pytest.mark.parametrize("second", [
    Reply(b"", status=500),
    Reply(stream(events(message("Half of it", "m2"), n=2)[:5]), broken=True),
    Reply(stream(events(reasoning("Half", "r2"), n=2)[:2])),
    Reply(stream([begin(2), end([], "failed", 2)])),
    Reply(stream([begin(2), {"type": "error", "message": "no"}])),
    Reply(b"data: {oops\n\n"),
], ids=["500", "broken", "cut", "failed", "error", "garbage"])  # fmt: skip
def test_a_later_hop_that_fails_ends_the_answer(second: Reply) -> None:
    got = step(FIRST, second)
    assert kinds(got.body)[-1] == "completed"
    assert said(got.body)[0] == "I write."
    assert "[modegate] Refused" in said(got.body)[-1]
    assert b"SECRET" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))
    read_ = judges.responses(got.body, streamed=True)
    assert [item.type for item in read_.output] == [item["type"] for item in output(got.body)]
    ends = [event["item"] for event in read(got.body) if event["type"].endswith("item.done")]
    assert ends == output(got.body)
    assert read_.usage is not None
    assert read_.usage.output_tokens == 5
    (event,) = [one for one in got.events if isinstance(one, TurnWithheld)]
    assert len(event.hops) == 2


def test_a_later_hop_that_fails_behind_a_released_call_fails() -> None:
    got = step(FIRST, Reply(stream(events(READ | {"id": "x"}, message("b"), n=2)[:-2])))
    assert kinds(got.body)[-1] == "failed"


# What the provider ran --------------------------------------------------------------------------


def test_what_a_policy_allows_to_run_is_shown() -> None:
    rules = policy(mode("plan", "read", "web_search"))
    body = answer(HOSTED, message("Found"))
    assert step(body, rules=rules).body == body


def test_a_hop_may_follow_what_was_allowed_to_run() -> None:
    rules = policy(mode("plan", "read", "web_search"))
    got = step(answer(HOSTED, WRITE), answer(message("b"), n=2), rules=rules)
    assert [item["type"] for item in output(got.body)] == ["web_search_call", "message"]
    assert got.upstream["input"][-3]["type"] == "web_search_call"


@pytest.mark.parametrize("item", [
    HOSTED,
    {"type": "code_interpreter_call", "id": "ci", "code": "SECRET", "container_id": "c"},
    {"type": "image_generation_call", "id": "ig", "result": "SECRET"},
    {"type": "file_search_call", "id": "fs", "queries": ["SECRET"]},
    {"type": "mcp_call", "id": "m", "server_label": "l", "name": "n", "arguments": '{"SECRET":1}'},
    {"type": "mcp_list_tools", "id": "m", "server_label": "l", "tools": [{"name": "SECRET"}]},
    {"type": "program", "id": "p", "code": "SECRET", "call_id": "c", "fingerprint": "f"},
    {"type": "computer_call", "id": "c", "call_id": "k", "action": {"type": "click", "x": "SECRET"}},
    {"type": "function_call_output", "id": "c", "call_id": "k", "output": "SECRET"},
    {"type": "something_new", "id": "n", "what": "SECRET"},
], ids=lambda item: item["type"])  # fmt: skip
@pytest.mark.parametrize("streamed", [True, False])
def test_what_ran_and_is_not_allowed_is_not_shown_and_ends_it(item: Any, streamed: bool) -> None:
    items = [item, message("I ran it.")]
    got = step(answer(*items) if streamed else whole(*items))
    assert len(got.requests) == 1
    assert b"SECRET" not in got.body
    texts = said(got.body) if streamed else [i["content"][0]["text"] for i in got.json["output"]]
    assert texts[0] == "I ran it."
    assert "[modegate] Refused" in texts[1]


def test_mcp_tools_are_known_by_server_and_name() -> None:
    rules = policy(mode("plan", "mcp__docs__*"))
    listed = {"type": "mcp_list_tools", "id": "l", "server_label": "docs", "tools": [{"name": "a"}]}
    ran = {"type": "mcp_call", "id": "m", "server_label": "docs", "name": "a", "arguments": "{}"}
    body = answer(listed, ran, message("ok"))
    assert step(body, rules=rules).body == body


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("item", "allowed"), [
    (call("spawn", namespace="multi"), ["multi__spawn"]),
    (call("multi__spawn", namespace="multi"), ["multi__spawn"]),
    (call("spawn", namespace="functions"), ["spawn"]),
    (call("spawn", namespace=None), ["spawn"]),
    ({"type": "local_shell_call", "id": "l", "call_id": "k", "action": {"type": "exec"}}, ["local_shell"]),
    ({"type": "apply_patch_call", "id": "l", "call_id": "k", "operation": {}}, ["apply_patch"]),
    ({"type": "tool_search_call", "id": "l", "call_id": "k", "execution": "client", "arguments": {}},
     ["tool_search"]),
    ({"type": "mcp_approval_request", "id": "l", "server_label": "d", "name": "n", "arguments": "{}"},
     ["mcp__d__n"]),
], ids=["namespace", "long", "home", "null", "local_shell", "apply_patch", "tool_search", "mcp"])  # fmt: skip
def test_the_name_under_which_a_policy_knows_a_call(item: Any, allowed: list[str]) -> None:
    body = answer(item)
    assert step(body, rules=policy(mode("plan", *allowed))).body == body
    got = step(body, answer(message("b"), n=2), rules=policy(mode("plan", "spawn_not", "x")))
    assert b'"call_id"' not in got.body
    assert b"mcp_approval" not in got.body
    (judged,) = [event for event in got.events if isinstance(event, CallJudged)]
    assert judged.tool == allowed[0]


def test_a_namespace_does_not_hide_a_tool_of_the_plain_name() -> None:
    rules = policy(mode("plan", "multi__*"))
    item = call("write", namespace="multi")
    body = answer(item)
    assert step(body, rules=rules, body=request("other", stream=True)).body == body
    got = step(body, answer(message("b"), n=2), rules=rules)
    assert "function_call" not in kinds(got.body)
    assert b'"multi"' not in got.body


OUTPUTS: list[tuple[Any, Any]] = [
    (custom("write"), {"type": "custom_tool_call_output", "call_id": "call_of_this_answer_1"}),
    ({"type": "local_shell_call", "id": "l", "call_id": "local_call_1", "action": {}},
     {"type": "local_shell_call_output", "id": "local_call_1"}),
    ({"type": "shell_call", "id": "l", "call_id": "shell_call_1", "action": {"commands": ["x"]}},
     {"type": "shell_call_output", "call_id": "shell_call_1"}),
    ({"type": "apply_patch_call", "id": "l", "call_id": "patch_call_1", "operation": {}},
     {"type": "apply_patch_call_output", "call_id": "patch_call_1", "status": "failed"}),
    ({"type": "tool_search_call", "id": "l", "call_id": "search_call_1", "execution": "client"},
     {"type": "tool_search_output", "call_id": "search_call_1", "tools": []}),
    ({"type": "mcp_approval_request", "id": "approval_request_1", "server_label": "d", "name": "n",
      "arguments": "{}"},
     {"type": "mcp_approval_response", "approval_request_id": "approval_request_1", "approve": False}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "wanted"), OUTPUTS, ids=[one["type"] for one, _ in OUTPUTS])
def test_each_type_of_call_is_answered_in_its_own_way(item: Any, wanted: Any) -> None:
    got = step(answer(item), answer(message("b"), n=2))
    *_, sent, result = got.upstream["input"]
    assert sent == item
    assert {key: result[key] for key in wanted} == wanted
    assert said(got.body) == ["b"]


# Whole ------------------------------------------------------------------------------------------

ASKED = request("read", "grep", "write")


def test_a_whole_answer_that_stays_keeps_its_bytes() -> None:
    reply = whole(reasoning(), message("a"), READ)
    assert step(reply, body=ASKED).body == reply.body


def test_a_whole_answer_of_several_hops() -> None:
    got = step(
        whole(reasoning(), message("a"), WRITE),
        whole(message("b", "msg_2"), READ, WRITE | {"id": "z", "call_id": "zz"}, n=2),
        body=ASKED,
    )
    assert b"SECRET" not in got.body
    value = got.json
    assert [item["type"] for item in value["output"]] == [
        "reasoning",
        "message",
        "message",
        "function_call",
    ]
    assert value["id"] == "resp_2"
    assert value["usage"]["output_tokens"] == 10
    assert judges.responses(got.body, streamed=False).output_text == "ab"


def test_a_whole_answer_ends_with_what_was_refused() -> None:
    got = step(whole(WRITE), body=ASKED)
    (item,) = got.json["output"]
    assert item["content"][0]["text"].startswith("[modegate] Refused")


@pytest.mark.parametrize("body", [
    {"output": "x"}, {"output": [1]}, {"output": [{"type": 3}]}, {"output": [{}]},
    {"response": {"output": [WRITE]}}, {"item": WRITE},
    {"output": [message("a") | {"content": [WRITE]}]},
    {"output": [message("a") | {"content": [{"type": "output_text", "text": "a", "x": WRITE}]}]},
    {"Output": [WRITE]}, {"output": [], "more": [WRITE]}, {"output": [], "function_call": WRITE},
    {"output": [{**WRITE, "Name": "read"}]},
    {"output": [{**message("a"), "role": "user"}]},
    {"output": [{"type": "message", "content": 1}]},
], ids=map(str, range(14)))  # fmt: skip
def test_a_whole_answer_that_leaves_a_doubt_is_refused(body: Any) -> None:
    got = step(Reply(json.dumps(response([]) | body).encode(), [(b"content-type", b"application/json")]),
               body=ASKED)  # fmt: skip
    assert got.head is not None
    assert got.head.status == 502
    assert b"SECRET" not in got.body


def test_duplicate_keys_are_refused() -> None:
    raw = json.dumps(response([READ])).replace('"name": "read"', '"name": "read", "name": "write"')
    got = step(Reply(raw.encode(), [(b"content-type", b"application/json")]), body=ASKED)
    assert got.head is not None
    assert got.head.status == 502


# Order and limits -------------------------------------------------------------------------------


def test_what_follows_a_call_waits_for_it() -> None:
    found = [begin(), added(READ, 0), *item_events(message("b"), 1), *item_events(READ, 0)[1:],
             end([READ, message("b")])]  # fmt: skip
    body = stream(found)
    got = step(body)
    assert got.body == body
    refused = stream([begin(), added(WRITE, 0), *item_events(message("b"), 1),
                      *item_events(WRITE, 0)[1:], end([WRITE, message("b")])])  # fmt: skip
    got = step(refused, answer(message("c", "m3"), n=2))
    assert said(got.body) == ["b", "c"]
    assert judges.responses(got.body, streamed=True).output_text == "bc"


def test_what_is_held_is_bounded() -> None:
    rules = policy(mode("plan", "read"), limits=Limits(held=2000))
    big = call("read", json.dumps({"path": "x" * 5000}))
    got = step(answer(message("a"), big), rules=rules)
    assert kinds(got.body)[-1] == "failed"
    assert last(got.body)["error"]["code"] == "invalid_prompt"


def test_an_answer_of_many_items_is_refused() -> None:
    items = [message("a", f"m{at}") for at in range(600)]
    got = step(answer(*items))
    assert kinds(got.body)[-1] == "failed"


def test_a_long_text_is_not_followed_by_a_hop() -> None:
    long = message("x" * 300_000)
    got = step(answer(long, WRITE))
    assert len(got.requests) == 1
    assert "[modegate] Refused" in said(got.body)[-1]
    assert b"SECRET" not in got.body


def test_no_connection_is_an_error_in_the_apis_form() -> None:
    got = Session(dialect=session().dialect).step(REQUEST, [Reply(b"", status=0)])
    assert got.head is not None
    assert got.head.status == UpstreamFailed.status
    assert got.json["error"]["code"] == "upstream_failed"


def test_each_client_sees_an_ordinary_call() -> None:
    """So that tests of what no client can run can fail."""
    for name, client in CLIENTS.items():
        assert [built.name for built in client(answer(READ))] == ["read"], name


# What servers do --------------------------------------------------------------------------------


def plainly(found: list[Any], *keys: str) -> list[Any]:
    """Leave keys out of events and their items, as some servers do."""
    drop = {"output_index", "sequence_number", *keys}
    return [
        {
            key: {k: v for k, v in value.items() if k not in keys} if key == "item" else value
            for key, value in event.items()
            if key not in drop
        }
        for event in found
    ]


def unnumbered(found: list[Any]) -> bytes:
    return b"".join(frame(event) for event in found)


@pytest.mark.parametrize("keys", [(), ("id",), ("id", "item_id")], ids=["ids", "no ids", "none"])
def test_items_without_an_index_come_one_behind_the_other(keys: tuple[str, ...]) -> None:
    """As llama.cpp sends them (issue 20607)."""
    body = unnumbered(plainly(events(reasoning(), message("a"), READ, GREP), *keys))
    assert step(body).body == body
    got = step(unnumbered(plainly(events(message("a"), WRITE), *keys)), answer(message("b"), n=2))
    assert b"SECRET" not in got.body
    assert said(got.body) == ["a", "b"]


def test_items_without_an_index_do_not_stand_side_by_side() -> None:
    found = [begin(), added(READ, 0), added(GREP, 1), end([])]
    assert kinds(step(unnumbered(plainly(found))).body)[-1] == "failed"


def test_an_item_may_lose_its_id_at_its_end() -> None:
    """As one gateway sends calls: without `id`, with `item_id` and `output_index` inside."""
    last_ = {key: value for key, value in READ.items() if key != "id"}
    last_ |= {"item_id": READ["id"], "output_index": 0}
    found = [begin(), *item_events(READ, 0)[:-1], item_events(last_, 0)[-1], end([last_])]
    assert step(stream(found)).body == stream(found)
    refused = {**last_, "name": "write"}
    found = [begin(), *item_events(WRITE, 0)[:-1], item_events(refused, 0)[-1], end([refused])]
    assert b"write" not in step(stream(found), answer(message("b"), n=2)).body


def test_ids_may_differ_from_event_to_event() -> None:
    """As some servers make a new one each time; the index tells what belongs together."""
    found = events(message("a"), READ)
    other = [
        {**event, "item": {**event["item"], "id": f"x{at}"}} if "item" in event else event
        for at, event in enumerate(found)
    ]
    assert step(stream(other)).body == stream(other)


def test_what_ran_may_have_other_ids_at_the_end() -> None:
    ran = {"type": "mcp_call", "id": "m1", "server_label": "d", "name": "n", "arguments": "{}"}
    found = [begin(), *item_events(ran, 0)[:-1], item_events(ran | {"id": "m2"}, 0)[-1],
             end([ran | {"id": "m3"}])]  # fmt: skip
    rules = policy(mode("plan", "mcp__d__n"))
    assert step(stream(found), rules=rules).body == stream(found)


def test_an_event_of_no_item_leaves_a_call_alone() -> None:
    found = events(READ)
    found.insert(2, {"type": "codex.rate_limits", "limits": {}})
    got = step(stream(found))
    assert [item["name"] for item in output(got.body)] == ["read"]
    assert "codex.rate_limits" not in kinds(got.body)


def test_commands_that_agree_are_one_call() -> None:
    shell = {"type": "shell_call", "id": "s", "call_id": "k", "action": {"commands": ["ls -l"]},
             "status": "completed"}  # fmt: skip
    place = {"output_index": 0, "command_index": 0}
    name = "response.shell_call_command"
    found = [
        begin(),
        added(shell | {"action": {"commands": []}}, 0),  # not all there yet
        {"type": f"{name}.added", **place, "command": ""},
        {"type": f"{name}.delta", **place, "delta": "ls"},
        {"type": f"{name}.delta", **place, "delta": " -l"},
        {"type": f"{name}.done", **place, "command": "ls -l"},
        item_events(shell, 0)[-1],
        end([shell]),
    ]
    rules = policy(mode("plan", "shell"))
    assert step(stream(found), rules=rules).body == stream(found)
    odd = [*found[:5], found[5] | {"command": "rm"}, *found[6:]]
    refused = step(stream(odd), answer(message("b"), n=2), rules=rules)
    assert said(refused.body) == ["b"]


def test_what_keeps_a_connection_alive_passes() -> None:
    found = [*events(message("a"))[:3], {"type": "keepalive"}, *events(message("a"))[3:]]
    assert step(stream(found)).body == stream(found)


@pytest.mark.parametrize("items", [
    [call("read", at=at) for at in range(200)],
    [message("a", f"m{at}") for at in range(600)],
], ids=["calls", "items"])  # fmt: skip
def test_a_whole_answer_has_limits(items: list[Any]) -> None:
    got = step(whole(*items), body=ASKED)
    assert got.head is not None
    assert got.head.status == 502


def test_ids_of_items_have_a_limit() -> None:
    found = [begin(), added(message("a"), 0)]
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "x"}
    found += [delta | {"item_id": f"m{at}"} for at in range(3000)]
    assert kinds(step(stream(found)).body)[-1] == "failed"


def test_a_snapshot_without_a_list_is_filled_where_something_was_put_in() -> None:
    found = [*events(WRITE)[:-1], end([]) | {"response": response([]) | {"output": None}}]
    got = step(stream(found))
    assert "[modegate] Refused" in said(got.body)[-1]


def test_a_whole_answer_goes_on_from_what_the_client_said() -> None:
    got = step(
        whole(WRITE, previous_response_id="resp_0"),
        whole(message("b"), n=2, previous_response_id="resp_1"),
        body=ASKED,
    )
    assert got.json["previous_response_id"] == "resp_0"


def test_little_is_kept_of_a_long_answer() -> None:
    """Nothing of a text over the limit, and of its item neither, once it has gone."""
    dialect = session().dialect
    writer = ResponsesStreamWriter()
    hop = StreamedHop(dialect.stream_reader(strictly=False), writer,
                      Limits(), later=False)  # fmt: skip
    long = message("x" * 5_000_000)
    hop.feed(answer(long, message("y", "msg_2")))
    assert hop.advance()
    assert not hop.choices[0].whole
    outs: list[Out] = hop.choices[0].outs  # type: ignore[attr-defined]
    assert sum(len(out.raw) + len(out.text) for out in outs) < 1_000
    assert sum(len(item) for item in writer._shown) < 1_000


def test_a_client_is_kept_waiting_by_comments() -> None:
    assert session().dialect.stream_writer().keepalive().startswith(b": ")
