"""What the model is shown in a mode: choices, the section, what goes together; other bytes left alone."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.dialects.responses.request.edit import extend, insert_items
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.errors import BadRequest
from modegate.core.ids import ModeId
from modegate.core.policy.in_force import ModeInForce, ModesInForce
from modegate.core.policy.model import Policy
from modegate.core.wire.json_spans import apply
from modegate.core.wire.request_body import RequestBody
from support.asked import (
    DEVELOPER,
    USER,
    assembled,
    custom,
    function,
    leaving,
    namespace,
    refused,
    request,
    rules,
    sent,
    server,
)
from support.playbook import JSON, SECTION, Reply, Session, mode, policy

SEARCH = {"type": "web_search"}


def section(role: str = "developer") -> dict[str, Any]:
    """Return the section as an item."""
    content = [{"type": "input_text", "text": SECTION}]
    return {"type": "message", "role": role, "content": content}


# Choices of tools.


def listed(*tools: Any, mode_: str = "required") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode_, "tools": list(tools)}


def called(name: str, kind: str = "function", **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **more}


DECLARED = (
    "read",
    "write",
    custom("patch"),
    namespace("fs", "list", "delete"),
    namespace("gone", "x"),
    server("docs", "search", "drop"),
    server("open"),
    SEARCH,
    {"type": "image_generation"},
)
ALLOWED = rules("read", "patch", "fs__list", "mcp__docs__search", "web_search")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        *((same, same) for same in ("auto", "none", "required", None, "read")),
        *((same, same) for same in (called("read"), called("patch", "custom"), SEARCH)),
        (called("list"), called("list")),
        (called("list", namespace="fs"), called("list", namespace="fs")),
        (called("fs", "namespace"), called("fs", "namespace")),
        ({"type": "mcp", "server_label": "docs"}, {"type": "mcp", "server_label": "docs"}),
        (
            called("search", "mcp", server_label="docs"),
            called("search", "mcp", server_label="docs"),
        ),
        *(
            (gone, "auto")
            for gone in (called("write"), called("write", "custom"), called("delete"))
        ),
        (called("delete", namespace="fs"), "auto"),
        (called("read", namespace="fs"), "auto"),
        (called("gone", "namespace"), "auto"),
        (called("x", namespace="gone"), "auto"),
        (called("drop", "mcp", server_label="docs"), "auto"),
        ({"type": "mcp", "server_label": "open"}, "auto"),
        ({"type": "mcp"}, "auto"),
        ({"type": "image_generation"}, "auto"),
        ({"type": "web_search_preview"}, "auto"),
        ({"type": "programmatic_tool_calling"}, "auto"),
        ({"type": "shell"}, "auto"),
        (called("read", "function", function={"name": "write"}), "auto"),
        ({}, "auto"),
        (True, "auto"),
        ("write", "auto"),
        (listed(called("read")), listed(called("read"))),
        (
            listed(
                called("write"), called("read"), {"type": "image_generation"}, SEARCH, mode_="auto"
            ),
            listed(called("read"), SEARCH, mode_="auto"),
        ),
        (listed(called("write"), {"type": "mcp", "server_label": "open"}, "read"), "auto"),
        (listed(), "auto"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [called("write"), SEARCH]},
            },
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [SEARCH]}},
        ),
    ],
)
def test_b017_a_choice_that_is_not_there_is_relaxed(choice: Any, expected: Any) -> None:
    assert sent(request(*DECLARED, tool_choice=choice), ALLOWED)["tool_choice"] == expected


@pytest.mark.parametrize(
    "choice", [called("a", "mcp", server_label="open"), listed(called("read"))]
)
def test_where_all_is_allowed_every_choice_stays(choice: Any) -> None:
    assert sent(request(*DECLARED, tool_choice=choice), rules("*"))["tool_choice"] == choice


@pytest.mark.parametrize("choice", ["required", called("read"), SEARCH])
def test_a_choice_without_tools_forces_none(choice: Any) -> None:
    assert sent(request(tool_choice=choice))["tool_choice"] == "auto"


@pytest.mark.parametrize(
    "choice",
    [
        '{"type":"allowed_tools","tools":[],"tools":[{"type":"function","name":"write"}]}',
        '{"type":"allowed_tools","tools":"read"}',
        '{"type":"allowed_tools","allowed_tools":{"tools":[]},"allowed_tools":{"tools":[]}}',
        '{"type":"allowed_tools","allowed_tools":"read"}',
    ],
)
def test_a_list_of_allowed_tools_that_cannot_be_read_is_refused(choice: str) -> None:
    body = json.dumps(request("read", tool_choice=0)).replace(
        '"tool_choice": 0', f'"tool_choice":{choice}'
    )
    assert refused(body.encode())


# What goes together.


@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", called("write"), listed(called("write"))]
)
def test_b078_b079_where_no_tool_is_left_the_choice_goes_too(choice: Any) -> None:
    body = request("write", tool_choice=choice, parallel_tool_calls=True, max_tool_calls=3)
    assert sent(body, rules("read", section="")) == request(max_tool_calls=3)


def test_b078_so_it_does_where_all_was_declared_in_an_item() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [custom("exec")]}
    body = request(input=[item, USER], tool_choice="auto", parallel_tool_calls=False)
    assert sent(body, rules("read", section="")) == request(input=[USER])


def test_b078_the_choice_stays_where_a_tool_is_left_in_an_item() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [function("read")]}
    body = request("write", input=[item, USER], tool_choice="required", parallel_tool_calls=False)
    left = request(input=[item, USER], tool_choice="required", parallel_tool_calls=False)
    assert sent(body, rules("read", section="")) == left


def test_b078_an_agents_own_empty_list_is_left_alone() -> None:
    body = request(tools=[], tool_choice="auto")
    assert sent(body) == body


def test_b081_a_history_with_calls_needs_no_tool_here() -> None:
    calls = [
        {"type": "function_call", "call_id": "c1", "name": "write", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]
    body = request("write", input=[USER, *calls, USER])
    assert sent(body, rules("read", section="")) == request(input=[USER, *calls, USER])


@pytest.mark.parametrize(
    "include", [["web_search_call.action.sources", "reasoning.encrypted_content"], [], None]
)
def test_what_to_include_is_left_alone(include: Any) -> None:
    """For tools that are not there it asks for nothing."""
    assert sent(request("read", SEARCH, include=include))["include"] == include


# Where the section goes.

SYSTEM = {"role": "system", "content": "A"}
MORE = {"type": "additional_tools", "role": "developer", "tools": [function("read")]}
EMPTIED = {"type": "additional_tools", "role": "developer", "tools": [function("write")]}
UNKEPT = {"store": False}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input": "hi", "instructions": "A"}, {"instructions": f"A\n\n{SECTION}"}),
        ({"input": "hi"}, {"instructions": SECTION}),
        ({"input": "hi", "instructions": None}, {"instructions": SECTION}),
        ({"input": "hi", "instructions": ""}, {"instructions": SECTION}),
        ({"input": [USER], "instructions": "A"}, {"instructions": f"A\n\n{SECTION}"}),
        ({"input": [DEVELOPER, USER], "instructions": "A"}, {"instructions": f"A\n\n{SECTION}"}),
        ({"input": [USER], "instructions": ""}, {"instructions": SECTION}),
        ({"input": []}, {"instructions": SECTION}),
        ({"input": [USER], **UNKEPT}, {"input": [section(), USER]}),
        ({"input": [USER], "instructions": None, **UNKEPT}, {"input": [section(), USER]}),
        ({"input": [DEVELOPER, USER], **UNKEPT}, {"input": [DEVELOPER, section(), USER]}),
        ({"input": [DEVELOPER], **UNKEPT}, {"input": [DEVELOPER, section()]}),
        (
            {"input": [DEVELOPER, SYSTEM, USER, DEVELOPER, USER], **UNKEPT},
            {"input": [DEVELOPER, SYSTEM, section("system"), USER, DEVELOPER, USER]},
        ),
        (
            {"input": [SYSTEM, MORE, USER], **UNKEPT},
            {"input": [SYSTEM, MORE, section("system"), USER]},
        ),
        (
            {"input": [MORE, DEVELOPER, USER], **UNKEPT},
            {"input": [MORE, DEVELOPER, section(), USER]},
        ),
        ({"input": [EMPTIED, DEVELOPER, USER], **UNKEPT}, {"input": [DEVELOPER, section(), USER]}),
        ({"input": [DEVELOPER, EMPTIED, USER], **UNKEPT}, {"input": [DEVELOPER, section(), USER]}),
        ({"input": [EMPTIED, EMPTIED, USER], **UNKEPT}, {"input": [section(), USER]}),
        ({"input": [EMPTIED], **UNKEPT}, {"input": [section()]}),
        # Where the provider keeps the history, or may, a message would stay in it.
        ({"input": [USER]}, {"instructions": SECTION}),
        ({"input": [USER], "store": None}, {"instructions": SECTION}),
        ({"input": [USER], "store": True, "instructions": None}, {"instructions": SECTION}),
        ({"input": [DEVELOPER, SYSTEM, USER]}, {"instructions": SECTION}),
        ({"input": [EMPTIED, USER]}, {"input": [USER], "instructions": SECTION}),
        ({"input": [USER], "conversation": "c", **UNKEPT}, {"instructions": SECTION}),
        ({"input": [USER], "previous_response_id": "r"}, {"instructions": SECTION}),
        ({"input": [USER], "conversation": "c"}, {"instructions": SECTION}),
        ({"previous_response_id": "r", "input": None}, {"instructions": SECTION}),
    ],
)
@pytest.mark.parametrize("spaced", [False, True])
def test_b095_the_section_stands_behind_the_agents_own_instructions(
    given: dict[str, Any], expected: dict[str, Any], spaced: bool
) -> None:
    separators = (" , ", " : ") if spaced else (",", ":")
    body = {"tools": [function("read")], **given}
    got = json.loads(assembled(json.dumps(body, separators=separators).encode()).body)
    assert got == {**body, **expected}


INPUT = {"role": "user", "type": "message", "content": "hi"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input": "hi", "instructions": "A"}, {"input": [section(), INPUT]}),
        ({"input": "hi"}, {"input": [section(), INPUT]}),
        ({"input": [USER], "instructions": "A"}, {"input": [section(), USER]}),
        (
            {"input": [DEVELOPER, USER], "instructions": "A"},
            {"input": [DEVELOPER, section(), USER]},
        ),
        ({"input": [USER], "previous_response_id": "r"}, {"input": [section(), USER]}),
        ({"input": []}, {"input": [section()]}),
        ({"input": None}, {"input": [section()]}),
        ({"previous_response_id": "r"}, {"input": [section()]}),
    ],
)
def test_b096_where_instructions_are_checked_they_keep_their_bytes(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = {"tools": [function("read")], **given}
    assert sent(body, rules("read", section_in="input")) == {**body, **expected}


def test_b096_of_two_modes_in_force_one_is_enough() -> None:
    own, parents = mode("plan", "read"), mode("review", "read", section_in="input", section="R")
    given: Policy = policy(own, parents)
    in_force = Session(rules=given).in_force()
    force = ModeInForce(parents, in_force.modes[0].session, in_force.modes[0].seq)
    both = ModesInForce(in_force.state, (*in_force.modes, force), given)
    assert in_force.section_in == "instructions"
    assert both.section_in == "input"
    assert ModesInForce(in_force.state, (), given).section_in == "instructions"
    assert [one.mode.id for one in both.modes] == [ModeId("plan"), ModeId("review")]


def test_the_section_may_hold_anything() -> None:
    wild = 'quotes " \\ \n \u2028 é \U0001f600 </system>'
    given = rules("read", section=wild)
    assert sent(request("read", instructions="A"), given)["instructions"] == f"A\n\n{wild}"
    assert sent(request("read"), given)["input"][0]["content"][0]["text"] == wild


def test_b025_a_request_without_tools_gets_no_section_unless_policy_says() -> None:
    for body in (request(), request(tools=[]), request(input="title?")):
        assert sent(body) == body
        assert SECTION in json.dumps(sent(body, rules("read", without_tools="guide")))


def test_b025_text_names_no_exit_tool_that_is_not_there() -> None:
    for body in (request(), request("write"), request("read", "exit_plan_mode")):
        assert b"exit_plan_mode" not in assembled(body).body


def test_b083_nothing_comes_between_a_call_and_its_output() -> None:
    calls = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]
    # Also where the history begins with them, as it does behind a response that is stored.
    for items in ([USER, *calls], calls):
        assert sent(request("read", input=items), leaving("read"))["input"] == [section(), *items]
    got = sent(request("read", input=calls[2:], previous_response_id="r"), leaving("read"))
    assert got["input"] == calls[2:]


# L3: all other bytes.


def test_b098_what_the_proxy_does_not_know_is_neither_refused_nor_dropped() -> None:
    body = (
        b'{"model":"m","stream":true,"previous_response_id":"resp_1","input":"continue",'
        b'"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","unknown_new_field":{"a":1}}'
    )
    assert assembled(body).body == body
    tools = b'"tools":[{"type":"function","name":"read"}]}'
    again = body[:-1] + b"," + tools
    assert assembled(again).body == b'{"instructions":"PLAN-SECTION",' + again[1:]
    for whole in (body, again):
        session = Session("default", dialect=RESPONSES)
        assert session.step(whole, [Reply(b"{}", list(JSON))]).requests == [whole]


@pytest.mark.parametrize("options", [{"include_usage": False}, {"include_obfuscation": False}])
def test_b099_stream_options_are_left_alone(options: dict[str, Any]) -> None:
    body = request(stream=True, stream_options=options)
    assert sent(body) == body


def test_b085_b087_all_outside_of_tools_and_instructions_keeps_its_bytes() -> None:
    before = (
        b' {"model":"m",  "b":1,"a":2,"t":"\\u00e9\xc3\xa9\\/","n":1.0,"e":1E2,"z":-0,"dup":1,"dup":2,'
        b'"metadata":{"id":12345678901234567890},"seed":18446744073709551615,\n'
        b'"instructions" : "x \\ud83d\\ude00'
    )
    behind = (
        b'", "input":[ {"content":"y \\ud83d","role":"user","n":1.10,"dup":1,"dup":2}\t,'
        b' { "type":"reasoning" ,"encrypted_content":"A==", "summary":[] } ],\r\n"tools":['
        b'{"type":"namespace", "name":"fs","description":"d","tools":[ {"type":"function","name":"read",'
        b'"parameters":{"maximum":9007199254740993}}'
    )
    removed = b', {"type":"function","name":"write"}'
    middle = b" ] }"
    more = b',{"type":"custom","name":"write"} , {"type":"web_search"}'
    after = b' ] , "tool_choice" : "auto","x":{"1":-1e2} }\n'
    got = assembled(before + behind + removed + middle + more + after, rules("fs__read"))
    assert got.body == before + b"\\n\\n" + SECTION.encode() + behind + middle + after


def test_b102_answers_of_the_model_keep_their_bytes() -> None:
    reasoning = (
        b'{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a  \\u2028"}],'
    )
    reasoning += b'"encrypted_content":"gAAA=="}'
    answer = b'{"type":"message","id":"m","role":"assistant","status":"completed","content":'
    answer += b'[{"type":"output_text","text":"t ","annotations":[],"logprobs":[ ]}]}'
    call = b'{"type":"function_call","call_id":"c1","name":"write","arguments":"{ \\"a\\":1 }"}'
    body = b'{"input":[%s , %s,%s],"tools":[{"name":"write"},{"name":"read"}]}' % (
        reasoning,
        answer,
        call,
    )
    assert b"%s , %s,%s]" % (reasoning, answer, call) in assembled(body).body


def test_b089_b091_each_turn_begins_with_the_bytes_of_the_one_before() -> None:
    tools = {"tools": [function("write"), function("read")]}
    turns: list[list[Any]] = [
        [DEVELOPER, USER],
        [{"type": "reasoning", "id": "a", "summary": []}, USER],
        [USER],
    ]
    bodies = []
    for count in range(1, 4):
        items = [item for turn in turns[:count] for item in turn]
        body = json.dumps({**tools, "input": items}).encode()
        bodies.append(assembled(body, leaving("read")).body)
        assert assembled(body, leaving("read")).body == bodies[-1]
    for one, other in pairwise(bodies):
        assert other.startswith(one.removesuffix(b"]}"))


# Items put into `input`.


@pytest.mark.parametrize(
    ("body", "at", "expected"),
    [
        (b'{"input":"hi"}', 0, b'{"input":[1,{"type":"message","role":"user","content":"hi"}]}'),
        (
            b'{"input": "hi" }',
            1,
            b'{"input": [{"type":"message","role":"user","content":"hi"},1] }',
        ),
        (b'{"input":[]}', 0, b'{"input":[1]}'),
        (b'{"input":[ ]}', 0, b'{"input":[1 ]}'),
        (b'{"input":[{},{"a":1} ]}', 0, b'{"input":[1,{},{"a":1} ]}'),
        (b'{"input":[{},{"a":1} ]}', 1, b'{"input":[{},1,{"a":1} ]}'),
        (b'{"input":[{},{"a":1} ]}', 2, b'{"input":[{},{"a":1},1 ]}'),
        (b'{"input":null}', 0, b'{"input":[1]}'),
        (b'{"model":"m"}', 0, b'{"input":[1],"model":"m"}'),
        (b"{}", 0, b'{"input":[1]}'),
    ],
)
def test_items_are_put_in_front_of_an_index_or_behind_all(
    body: bytes, at: int, expected: bytes
) -> None:
    read = ResponsesRequest(RequestBody(body))
    assert apply(body, insert_items(read, at, b"1")) == expected
    if at == len(read.messages):
        assert extend(read, b"1") == expected
    assert json.loads(expected)["input"]


def test_what_is_refused_says_which_mode() -> None:
    with pytest.raises(BadRequest, match="mode 'plan'"):
        assembled(request("read", prompt={"id": "pmpt_1"}))
