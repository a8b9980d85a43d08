"""What the model is shown in a mode: tools filtered, the section added, other bytes left alone (L3, L6)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect, Mode, Policy, Rule
from modegate.core.policy.when import When
from modegate.core.wire.request_body import RequestBody
from support.playbook import (
    PLAN,
    SECTION,
    Got,
    Reply,
    Session,
    call,
    mode,
    policy,
    request,
    said,
    stream,
    tool,
)
from support.playbook import POLICY as PLAY

USER = {"role": "user", "content": "rename foo"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}


def rules(*tools: str, section: str = SECTION) -> Policy:
    return policy(mode("plan", *tools, section=section))


def send(body: bytes | dict[str, Any], policy_: Policy | None = None) -> Got:
    session = Session(rules=policy_) if policy_ else Session()
    return session.step(body, [said()])


def sent(body: bytes | dict[str, Any], policy_: Policy | None = None) -> Any:
    return send(body, policy_).upstream


def raw(*tools: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], "tools": list(tools), **more}


def names(body: Any) -> list[Any]:
    return [
        one.get("function", one.get("custom", one)).get("name") for one in body.get("tools", ())
    ]


# Which tools stay.


def test_b001_only_allowed_tools_stay_in_the_agents_order() -> None:
    body = sent(request("write", "grep", "bash", "read", "edit"))
    assert body["tools"] == [tool("grep"), tool("read")]


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "name": "read", "function": {"name": "write", "parameters": {}}},
        {"name": "read", "function": {"name": "write"}, "input_schema": {}},
        '{"type":"function","function":{"name":"read"},"function":{"name":"write"}}',
        '{"type":"function","function":{"name":"write"},"function":{"name":"read"}}',
        '{"type":"function","function":{"name":"write","name":"read"}}',
        '{"type":"function","Function":{"name":"write"},"function":{"name":"read"}}',
        '{"type":"function","function":{"name":"read"},"NAME":"write"}',
        '{"type":"function","function":{"name":"read"},"\\u006eame":"wr\\u0069te"}',
    ],
)
def test_b015_a_definition_with_a_second_name_goes(entry: Any) -> None:
    text = entry if isinstance(entry, str) else json.dumps(entry)
    body = b'{"messages":[%s],"tools":[%s,%s]}' % (
        json.dumps(USER).encode(),
        text.encode(),
        json.dumps(tool("read")).encode(),
    )
    got = send(body)
    assert got.upstream["tools"] == [tool("read")]
    assert b"write" not in got.requests[0]


@pytest.mark.parametrize(
    ("allowed", "kept"),
    [
        (("read", "mcp__fs__read_file"), ["read", "mcp__fs__read_file"]),
        (("mcp__fs__read_*",), ["mcp__fs__read_file", "mcp__fs__read_file_and_delete"]),
        (
            ("mcp__*",),
            ["mcp__fs__read_file", "mcp__fs__read_file_and_delete", "mcp__fs__write_file"],
        ),
    ],
)
def test_b016_a_name_is_exact_and_a_glob_anchored(
    allowed: tuple[str, ...], kept: list[str]
) -> None:
    offered = ("read", "mcp__fs__read_file", "mcp__fs__read_file_and_delete", "mcp__fs__write_file")
    body = sent(request(*offered, "xmcp__fs__read_file"), rules(*allowed))
    assert names(body) == kept


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "function": {"name": "mcp__x__del"}},
        {"name": "mcp__x__del", "input_schema": {"type": "object"}},
        {"type": "custom", "name": "mcp__x__del", "input_schema": {}},
        {"type": "custom", "custom": {"name": "mcp__x__del"}},
        {"type": "function", "name": "mcp__x__del"},
        {"type": "unheard_of", "function": {"name": "read"}},
        {"type": "unheard_of", "name": "read"},
    ],
)
def test_b017_a_forbidden_tool_goes_in_every_shape(entry: dict[str, Any]) -> None:
    choice = {"type": "function", "function": {"name": "mcp__x__del"}}
    body = sent(raw(entry, tool("read"), tool_choice=choice))
    assert body["tools"] == [tool("read")]
    assert body["tool_choice"] == "auto"


@pytest.mark.parametrize(
    "name", ["Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"]
)
def test_b019_a_variant_of_an_allowed_name_goes(name: str) -> None:
    assert names(sent(raw(tool(name), tool("read")))) == ["read"]


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "web_search"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "mcp", "server_label": "x", "server_url": "u", "require_approval": "never"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "bash_20250124", "name": "read"},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "openrouter:web_search"},
        {"type": "live_search"},
        {"type": "builtin_function", "function": {"name": "$web_search"}},
        {"type": "function", "function": {"name": "googleSearch"}},
        {"type": "namespace", "name": "read", "tools": [tool("write")]},
        {"google_search": {}},
        {"codeExecution": {}},
        {"functionDeclarations": [{"name": "write"}]},
        {"type": "function", "function": {"name": "read"}, "google_search": {}},
        {"type": "function", "function": {"name": "read"}, "server_url": "u"},
        {},
    ],
    ids=json.dumps,
)
def test_b100_l6_what_the_provider_runs_goes(entry: dict[str, Any]) -> None:
    assert sent(raw(entry, tool("read")))["tools"] == [tool("read")]


@pytest.mark.parametrize(
    ("allowed", "entry"),
    [
        (("web_search",), {"type": "web_search"}),
        (
            ("web_search_20250305", "web_search"),
            {"type": "web_search_20250305", "name": "web_search"},
        ),
        (("google_search",), {"google_search": {}}),
    ],
)
def test_b100_what_the_provider_runs_stays_where_it_is_allowed(
    allowed: tuple[str, ...], entry: dict[str, Any]
) -> None:
    assert sent(raw(entry, tool("write")), rules(*allowed))["tools"] == [entry]


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "web_search"},
        {"google_search": {}},
        {"type": "function", "function": {"name": "x"}, "google_search": {}},
    ],
    ids=json.dumps,
)
def test_l6_what_the_provider_runs_needs_a_rule_that_allows_every_call(
    entry: dict[str, Any],
) -> None:
    """No call of it can wait for a person, and its arguments are not seen before it has run."""
    some = When({"q": Equals("x")}, others_any=True)
    for given in (Rule(Effect.ASK, "*"), Rule(Effect.ALLOW, "*", some)):
        shown = policy(mode("plan", "read", given))
        assert sent(raw(tool("read"), entry, tool("write")), shown)["tools"] == [
            tool("read"),
            tool("write"),
        ]
    assert sent(raw(entry), rules("*"))["tools"] == [entry]


def test_b101_the_agents_own_definitions_keep_their_bytes() -> None:
    entries = [
        '{"type" : "function","function":{"name":"read","strict":true, "parameters":{"maximum":1E2}}}',
        '{"function":{"strict": false,"name":"r\\u0065ad"}, "cache_control":{"type":"ephemeral"}}',
        '{"function":{"name":"grep"}}',
    ]
    body = '{"messages":[{"role":"user","content":"x"}],"tools":[ %s ]}'
    removed = json.dumps(tool("write"))
    got = send(
        (body % " , ".join([removed, *entries, removed])).encode(),
        rules("read", "grep", section=""),
    )
    assert got.requests == [(body % " , ".join(entries)).encode()]


def test_a_tool_that_is_allowed_with_some_arguments_or_asked_for_is_shown() -> None:
    view = When({"command": Equals("view")}, others_any=True)
    told = (
        Rule(Effect.ALLOW, "file_editor", view),
        Rule(Effect.ASK, "web_fetch"),
        Rule(Effect.DENY, "write"),
    )
    body = sent(
        request("file_editor", "web_fetch", "write"),
        policy(Mode(PLAN, "Plan", "", SECTION, told)),
    )
    assert names(body) == ["file_editor", "web_fetch"]


def test_the_header_lists_what_was_kept_once() -> None:
    got = send(
        {**request("read", "read", "write"), "functions": [{"name": "grep"}, {"name": "read"}]}
    )
    assert [event.tools for event in got.events if hasattr(event, "tools")] == [("read", "grep")]


# No tool left.


@pytest.mark.parametrize("choice", ["auto", "none", "required", {"type": "any"}, tool("write")])
def test_b078_b079_where_no_tool_is_left_the_choice_goes_too(choice: Any) -> None:
    more = {"tool_choice": choice, "parallel_tool_calls": True, "other": {"x": 1}}
    body = sent({**request("write", "bash"), **more})
    assert body.keys() == {"model", "messages", "other"}


@pytest.mark.parametrize("empty", [[], None])
def test_b078_an_agents_own_empty_list_is_left_alone(empty: Any) -> None:
    body = json.dumps({**request(), "tools": empty, "tool_choice": "auto"}).encode()
    assert send(body).requests == [body]
    assert Session("default").step(body, [said()]).requests == [body]


def test_b081_a_history_with_calls_keeps_one_inert_tool() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    messages = [USER, CALLED, result, {"role": "user", "content": "next"}]
    asked = request("write", messages=messages, tool_choice="required", parallel_tool_calls=True)
    session = Session()
    got = session.step(asked, [stream(call("no_tool_in_this_mode", "{}")), said()])
    body = json.loads(got.requests[0])
    assert names(body) == ["no_tool_in_this_mode"]
    assert body["tools"][0]["function"]["parameters"]["additionalProperties"] is False
    assert body["tool_choice"] == "auto"
    assert body["messages"][1:] == messages
    assert b"no_tool_in_this_mode" not in got.body
    assert len(got.requests) == 2


def test_b081_a_history_without_calls_needs_none() -> None:
    messages = [USER, {"role": "assistant", "content": "hi", "tool_calls": []}, USER]
    assert "tools" not in sent(request("write", messages=messages))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ({"name": "read"}, {"name": "read"}),
        ({"name": "write"}, "auto"),
    ],
)
def test_b055_legacy_functions_are_filtered_like_tools(choice: Any, expected: Any) -> None:
    functions = [{"name": "read", "parameters": {}}, {"name": "write", "parameters": {}}]
    body = sent({**request(), "functions": functions, "function_call": choice})
    assert body["functions"] == functions[:1]
    assert body["function_call"] == expected
    assert "tools" not in body


def test_b055_where_no_function_is_left_the_choice_goes_too() -> None:
    asked = {
        **request("read"),
        "functions": [{"name": "write"}],
        "function_call": {"name": "write"},
    }
    body = sent({**asked, "tool_choice": "auto"})
    assert body.keys() == {"model", "messages", "tools", "tool_choice"}


def test_b056_custom_tools_are_filtered_like_functions() -> None:
    patch = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "grammar"}}}
    body = sent(raw(patch, tool("read")), rules("read"))
    assert body["tools"] == [tool("read")]
    assert sent(raw(patch, tool("read")), rules("apply_patch"))["tools"] == [patch]


# Cache markers.

MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def marked(name: str, *, inside: bool = False) -> dict[str, Any]:
    one = tool(name)
    return {**one, "function": {**one["function"], **MARK}} if inside else {**one, **MARK}


@pytest.mark.parametrize("inside", [False, True])
def test_b090_a_marker_on_a_removed_tool_moves_to_the_last_kept_one(inside: bool) -> None:
    body = sent(raw(tool("read"), tool("grep"), marked("write", inside=inside)))
    assert body["tools"] == [tool("read"), marked("grep")]


@pytest.mark.parametrize("inside", [False, True])
def test_b090_no_marker_is_added_to_one_that_is_there(inside: bool) -> None:
    kept = marked("grep", inside=inside)
    assert sent(raw(marked("bash"), kept, marked("write")))["tools"] == [kept]


def test_b090_two_removed_markers_become_one_and_null_is_none() -> None:
    body = sent(raw(marked("bash"), tool("read"), marked("write")))
    assert body["tools"] == [marked("read")]
    nothing = {**tool("write"), "cache_control": None}
    assert sent(raw(tool("read"), nothing))["tools"] == [tool("read")]


# Where the section goes.


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], [{"role": "system", "content": SECTION}]),
        ([USER], [{"role": "system", "content": SECTION}, USER]),
        (
            [{"role": "system", "content": "A"}, USER],
            [{"role": "system", "content": f"A\n\n{SECTION}"}, USER],
        ),
        (
            [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, USER],
            [
                {"role": "system", "content": "A"},
                {"role": "developer", "content": f"B\n\n{SECTION}"},
                USER,
            ],
        ),
        (
            [{"role": "developer", "content": [{"type": "text", "text": "A"}]}, USER],
            [
                {
                    "role": "developer",
                    "content": [{"type": "text", "text": "A"}, {"type": "text", "text": SECTION}],
                },
                USER,
            ],
        ),
        (
            [{"role": "system", "content": []}, USER],
            [{"role": "system", "content": [{"type": "text", "text": SECTION}]}, USER],
        ),
        (
            [{"role": "developer", "content": None}, USER],
            [
                {"role": "developer", "content": None},
                {"role": "developer", "content": SECTION},
                USER,
            ],
        ),
        (
            [{"role": "system"}],
            [{"role": "system"}, {"role": "system", "content": SECTION}],
        ),
        (
            [USER, {"role": "system", "content": "middle"}, USER],
            [
                {"role": "system", "content": SECTION},
                USER,
                {"role": "system", "content": "middle"},
                USER,
            ],
        ),
    ],
)
def test_b095_the_section_stands_behind_the_agents_own_instructions(
    messages: list[Any], expected: list[Any]
) -> None:
    assert sent({"messages": messages, "tools": [tool("read")]})["messages"] == expected


def test_b095_a_message_with_two_contents_is_left_alone() -> None:
    twice = b'{"role":"system","content":"A","content":"B"}'
    body = b'{"messages":[%s],"tools":[%s]}' % (twice, json.dumps(tool("read")).encode())
    got = send(body)
    assert got.requests[0].count(twice) == 1
    assert got.upstream["messages"][1:] == [{"role": "system", "content": SECTION}]


def test_the_section_may_hold_anything() -> None:
    wild = 'quotes " \\ \n \u2028 é \U0001f600 </system>'
    body = sent(
        request("read", messages=[{"role": "system", "content": "A"}, USER]),
        rules("read", section=wild),
    )
    assert body["messages"][0]["content"] == f"A\n\n{wild}"


def test_b083_nothing_comes_between_a_call_and_its_result() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    messages = [{"role": "system", "content": "A"}, USER, CALLED, result]
    body = sent(request("read", messages=messages))
    assert body["messages"][1:] == messages[1:]


def test_b025_text_names_no_exit_tool_that_is_not_there() -> None:
    for asked in (request(), request("write"), request("read", "exit_plan_mode")):
        got = send(asked)
        assert b"exit_plan_mode" not in got.requests[0]


# L3: all other bytes.


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stream_options": {"include_usage": False}},
        {"stream_options": {"include_obfuscation": False}},
    ],
)
@pytest.mark.parametrize("mode_id", ["plan", "default"])
def test_b099_stream_options_are_left_alone(more: dict[str, Any], mode_id: str) -> None:
    body = json.dumps({**request(stream=True), **more}).encode()
    assert Session(mode_id).step(body, [said()]).requests == [body]


def test_b085_b087_l3_all_outside_of_tools_and_system_keeps_its_bytes() -> None:
    before = (
        b' {"model":"m",  "b":1,"a":2,"t":"\\u00e9\xc3\xa9\\/","n":1.0,"e":1E2,"z":-0,"dup":1,"dup":2,'
        b'"metadata":{"id":12345678901234567890},"seed":18446744073709551615,\n"messages" : ['
        b'{ "role":"system" , "content":"x \\ud83d\\ude00'
    )
    behind = (
        b'" }, {"content":"y","role":"user","n":1.10,"dup":1,"dup":2}\t],\r\n"tools":['
        b'{"type":"function","function":{"name":"read","parameters":{"maximum":9007199254740993}}}'
    )
    removed = b', {"type":"function","function":{"name":"write"}}'
    after = b' ] , "tool_choice" : "auto","logit_bias":{"1":-1e2} }\n'
    first = send(before + behind + removed + after)
    again = send(before + behind + removed + after)
    assert first.requests == [before + b"\\n\\n" + SECTION.encode() + behind + after]
    assert again.requests == first.requests


def test_b089_each_turn_begins_with_the_bytes_of_the_one_before() -> None:
    session = Session()
    messages: list[Any] = [{"role": "system", "content": "A"}]
    bodies: list[bytes] = []
    for turn in range(3):
        user = {"role": "user", "content": [{"type": "text", "text": f"turn {turn}", **MARK}]}
        asked = {"tools": [tool("write"), tool("read")], "messages": [*messages, user]}
        bodies.append(session.step(asked, [said()]).requests[0])
        plain = {"role": "user", "content": [{"type": "text", "text": f"turn {turn}"}]}
        messages += [plain, {"role": "assistant", "content": f"answer {turn}"}]
    for turn, (one, two) in enumerate(pairwise(bodies)):
        shared = one[: one.index(b', "cache_control"')]
        assert shared.endswith(f'"turn {turn}"'.encode())
        assert two.startswith(shared)
    assert [body.count(b"cache_control") for body in bodies] == [1, 1, 1]


QUIET = replace(PLAY, narrate=False)
"""Nothing is said of a mode change, so that bodies can be compared whole."""


def test_b091_tools_keep_the_agents_order_and_a_mode_its_bytes() -> None:
    session = Session(rules=QUIET)
    first = session.step(request("write", "read", "grep"), [said()]).requests[0]
    session.set_mode("default")
    between = json.dumps(request("write", "read", "grep")).encode()
    assert session.step(between, [said()]).requests == [between]
    session.set_mode("plan")
    assert session.step(request("write", "read", "grep"), [said()]).requests == [first]
    other = session.step(request("grep", "bash", "read"), [said()]).upstream
    assert names(other) == ["grep", "read"]


def test_b010_after_the_mode_no_word_of_it_is_left() -> None:
    session = Session(rules=QUIET)
    asked = request("read", "write", messages=[{"role": "system", "content": "A"}, USER])
    assert SECTION.encode() in session.step(asked, [said()]).requests[0]
    session.set_mode("default")
    body = json.dumps(asked).encode()
    assert session.step(body, [said()]).requests == [body]


# The next hop.


@pytest.mark.parametrize(
    ("messages", "expected"),
    [(b"[]", b"[1]"), (b"[ ]", b"[1 ]"), (b'[{"a":1} ]', b'[{"a":1},1 ]')],
)
def test_a_turn_is_added_at_the_end_of_the_history(messages: bytes, expected: bytes) -> None:
    assert (
        ChatRequest(RequestBody(b'{"messages":%s,"x":1E2}' % messages)).append(b"1")
        == b'{"messages":%s,"x":1E2}' % expected
    )


def test_l6_a_wider_assembly_opens_nothing() -> None:
    """The model calls a tool that was filtered, and the agent gets nothing of it."""
    session = Session()
    got = session.step(
        request("read", "write", stream=True),
        [Reply(stream(call("write", '{"p":"SECRET"}'))), said()],
    )
    assert b"SECRET" not in got.body
    assert names(json.loads(got.requests[0])) == ["read"]
