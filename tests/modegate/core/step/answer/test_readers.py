"""What is judged is what runs: one source of name and arguments for each shape of call.

Each case is one call as a hostile upstream could write it: read in one way it is allowed, read in another
it is not. It must not arrive, nor may a person be asked about it. Streamed and whole, in every API.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import judges, responses
from support import message_frames as messages
from support.apis import (
    APIS,
    EVIL,
    FINE,
    GOOD,
    PROTO,
    RULES,
    SECRET,
    Json,
    assert_nothing_arrives,
    chat,
    custom,
    function,
    step,
    written,
)
from support.playbook import (
    Reply,
    Session,
    answer,
    at_every_byte,
    bytewise,
    chunk,
    mode,
    policy,
    said,
    stream,
    whole,
)

# Calls of chat completions: members of an entry of `tool_calls`.

CHAT: dict[str, Json] = {
    "H2 arguments beside the function": function("edit", EVIL) | {"arguments": GOOD},
    "H2 half of them beside the function": function("edit", EVIL, input="}")
    | {"arguments": '{"command":"view","x":'},
    "H2 input in the function": function("edit", EVIL, input=GOOD),
    "H2 input beside the function": function("edit", EVIL) | {"input": GOOD},
    "H2 an object beside the function": function("edit", GOOD) | {"arguments": {"x": SECRET}},
    "H2 parameters in the function": function("edit", GOOD, parameters={"x": SECRET}),
    "H2 parameters as text": function("edit", GOOD, parameters=EVIL),
    "H2 args": function("edit", GOOD) | {"args": {"x": SECRET}},
    "H2 a name beside the function": function("read", EVIL) | {"name": "read"},
    "H2 another tool's name": function("read", EVIL, tool_name="write"),
    "H2 an object that is not known": function("read") | {"thing": {"name": "write", "x": SECRET}},
    "H2 a list that is not known": function("read") | {"things": [{"name": "write", "x": SECRET}]},
    "H3 arguments beside the input": custom(text=SECRET, arguments="ls"),
    "H3 arguments beside the custom": custom(text=SECRET) | {"arguments": "ls"},
    "H3 a function beside the custom": custom(text=SECRET) | {"function": {"arguments": "ls"}},
    "H3 of a type that is not known": function("read", EVIL) | {"type": "tool"},
    "H6 inherited by the call": function("read") | {PROTO: {"function": {"x": SECRET}}},
    "H6 inherited by the function": function("edit", GOOD, **{PROTO: {"arguments": EVIL}}),
    "H6 of its maker": function("read") | {"constructor": SECRET},
    "H6 of its kind": function("read", prototype=SECRET),
    "H6 inside what is known": function("read") | {"extra_content": {"a": [{PROTO: SECRET}]}},
    "H9 Arguments": function("edit", GOOD, Arguments=EVIL),
    "H9 Arguments, the other first": {
        "index": 0,
        "id": "call_000000001",
        "function": {"Arguments": EVIL, "name": "edit", "arguments": GOOD},
    },
    "H9 Input": custom("read", Input=SECRET),
    "H9 Type": function("read", EVIL) | {"Type": "custom"},
    "H9 INDEX": function("read", EVIL) | {"INDEX": 1},
    "H9 Id": function("read", EVIL) | {"Id": "x"},
    **{
        f"H11 index {index!r}": function("read", EVIL) | {"index": index}
        for index in (2**31, 2**53, 2**53 + 1, 2**64, 1e0, 1.0, 0.0, "0", "1", -1, True, [0])
    },
}

# Calls of the Responses API: items.
RESPONSES: dict[str, Json] = {
    "H3 input beside the arguments": responses.call("edit", EVIL, input=GOOD),
    "H3 an action beside the arguments": responses.call("edit", EVIL, action={"command": "view"}),
    "H3 arguments beside the input": responses.custom("fetch", SECRET) | {"arguments": "ls"},
    "H3 an object beside the input": responses.custom("fetch", SECRET)
    | {"operation": {"type": "x"}},
    "H3 code beside the input": responses.custom("read", SECRET) | {"code": "ls"},
    "H3 a shell with arguments": {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "call_of_this_answer_1",
        "status": "completed",
        "action": {"type": "exec", "command": [SECRET]},
        "arguments": '{"command":["ls"]}',
    },
    "H3 a shell with actions": {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "call_of_this_answer_1",
        "status": "completed",
        "action": {"type": "exec", "command": [SECRET]},
        "actions": [{"type": "exec", "command": ["ls"]}],
    },
    "H3 a patch with an input": {
        "type": "apply_patch_call",
        "id": "ap_1",
        "call_id": "call_of_this_answer_1",
        "status": "completed",
        "operation": {"type": "delete_file", "path": SECRET},
        "input": "x",
    },
    "H2 parameters": responses.call("edit", GOOD, parameters=json.loads(EVIL)),
    "H2 a function": responses.call("read", function={"name": "write", "arguments": EVIL}),
    "H2 an object that is not known": responses.call("read", thing={"x": SECRET}),
    "H6 inherited": responses.call("edit", GOOD) | {PROTO: {"arguments": EVIL}},
    "H6 of its maker": responses.call("read", constructor=SECRET),
    "H6 inside what is known": responses.call("read", metadata={PROTO: SECRET}),
    "H6 in an action": {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "call_of_this_answer_1",
        "status": "completed",
        "action": {"type": "exec", PROTO: {"command": [SECRET]}},
    },
    "H9 Arguments": responses.call("edit", GOOD, Arguments=EVIL),
    "H9 call-id": responses.call("read", EVIL, callId="x"),
}

# Calls of the Messages API: blocks.
MESSAGES: dict[str, Json] = {
    "H2 arguments beside the input": messages.call("edit", {"command": "view"}, arguments=EVIL),
    "H2 parameters": messages.call("edit", {"command": "view"}, parameters={"x": SECRET}),
    "H2 a function": messages.call("read", function={"name": "write", "arguments": EVIL}),
    "H2 pieces beside the input": messages.call("read", {"a": 1}, partial_json=EVIL),
    "H2 an object that is not known": messages.call("read", thing={"x": SECRET}),
    "H6 inherited": messages.call("edit", {"command": "view"}) | {PROTO: {"input": SECRET}},
    "H6 of its maker": messages.call("read", constructor=SECRET),
    "H9 Input": messages.call("edit", {"command": "view"}, Input=json.loads(EVIL)),
    "H9 NAME": messages.call("read", {"x": SECRET}, NAME="write"),
}


CALLS = [
    pytest.param(api, call, id=f"{api}, {name}")
    for api, table in {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}.items()
    for name, call in table.items()
]


@pytest.mark.parametrize(("api", "call"), CALLS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_call_that_says_two_things_does_not_arrive(api: str, call: Json, streamed: bool) -> None:
    assert_nothing_arrives(step(api, call, streamed=streamed))


@pytest.mark.parametrize(("api", "call"), CALLS)
def test_nor_does_it_byte_by_byte(api: str, call: Json) -> None:
    assert_nothing_arrives(step(api, call, streamed=True, cut=bytewise))


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("chat", CHAT["H2 half of them beside the function"]),
        ("chat", CHAT["H11 index 2147483648"]),
        ("responses", RESPONSES["H3 arguments beside the input"]),
        ("messages", MESSAGES["H2 arguments beside the input"]),
    ],
)
def test_nor_does_it_cut_at_any_byte(api: str, call: Json) -> None:
    for cut in at_every_byte():
        assert_nothing_arrives(step(api, call, streamed=True, cut=cut))


# What arrives as before: the same calls, plainly.

PLAIN: dict[str, tuple[str, Json]] = {
    "chat": ("chat", function()),
    "chat, with a signature (Gemini)": (
        "chat",
        function() | {"extra_content": {"google": {"thought_signature": "SIG=="}}},
    ),
    "chat, with a signature (litellm)": (
        "chat",
        function(provider_specific_fields={"thought_signature": "SIG=="})
        | {"provider_specific_fields": {"thought_signature": "SIG=="}},
    ),
    "chat, with a text that is not known": ("chat", function() | {"thought_signature": "SIG=="}),
    "chat, with empty places": (
        "chat",
        function(input=None, parameters={}) | {"custom": None, "arguments": "", "args": []},
    ),
    "chat, of what Moonshot offers itself": ("chat", function() | {"type": "builtin_function"}),
    "chat, without a type": ("chat", {k: v for k, v in function().items() if k != "type"}),
    "chat, with free text": ("chat", custom("read")),
    "chat, that nobody reads": ("chat", function("read", f'{{"a":1,"A":{{"{PROTO}":1}}}}')),
    "chat, under a rule": ("chat", function("edit", GOOD)),
    "responses": ("responses", responses.call("read")),
    "responses, with what Codex sends": (
        "responses",
        responses.call("read", internal_chat_message_metadata_passthrough={"a": 1}),
    ),
    "responses, with its caller": ("responses", responses.call("read", caller={"type": "direct"})),
    "responses, with free text": ("responses", responses.custom("read", "x")),
    "responses, under a rule": ("responses", responses.call("edit", GOOD)),
    "messages": ("messages", messages.call("read")),
    "messages, with its caller": ("messages", messages.call("read", caller={"type": "direct"})),
    "messages, under a rule": ("messages", messages.call("edit", {"command": "view"})),
    "messages, that nobody reads": ("messages", messages.call("read", {"a": 1, "A": 2})),
}


@pytest.mark.parametrize(("api", "call"), PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_what_providers_send_passes_to_the_byte(api: str, call: Json, streamed: bool) -> None:
    got = step(api, call, streamed=streamed)
    if api == "messages" and streamed and call["input"]:
        # Its beginning holds its arguments, as from loose servers; clients differ in what they make of it.
        assert judges.told("messages", got.body, streamed=True)[1] == [
            (call["name"], call["input"])
        ]
        return
    assert got.body == APIS[api][0](call, streamed=streamed).body


def test_what_the_provider_runs_passes_to_the_byte_where_it_is_allowed() -> None:
    """It comes with events and members of its own."""
    items: list[Json] = [
        {"type": "code_interpreter_call", "code": "1", "container_id": "c", "outputs": [{"a": 1}]},
        {"type": "web_search_call", "action": {"type": "search", "query": "q", "sources": []}},
        {"type": "file_search_call", "queries": ["q"], "results": [{"text": "t"}]},
        {"type": "mcp_call", "name": "a", "server_label": "m", "arguments": "{}", "output": "x"},
    ]
    items = [{"id": f"i_{at}", "status": "completed", **item} for at, item in enumerate(items)]
    events = responses.events(*items)
    code = {"item_id": "i_0", "output_index": 0}
    events[2:2] = [
        {"type": "response.code_interpreter_call_code.delta", **code, "delta": "1"},
        {"type": "response.code_interpreter_call_code.done", **code, "code": "1"},
    ]
    names = ("code_interpreter", "web_search", "file_search", "mcp__m__*")
    session = responses.session(rules=policy(mode("plan", *names)))
    sent = responses.stream(events)
    assert session.step({**APIS["responses"][3], "stream": True}, [sent]).body == sent
    reply = responses.whole(*items)
    assert session.step(APIS["responses"][3], [reply]).body == reply.body


# H12: content that is a call.

KINDS = (
    *("tool_call", "tool_call_chunk", "tool_use", "function_call", "custom_tool_call", "function"),
    *("server_tool_call", "mcp_call", "computer_call", "non_standard", "", None, ["text"]),
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("beside", [True, False], ids=["beside a call", "alone"])
def test_h12_a_part_of_content_that_could_be_a_call(
    kind: Any, streamed: bool, beside: bool
) -> None:
    """LangChain lists a part of type `tool_call` among the calls of a message."""
    part = {"type": kind, "name": "write", "args": {"x": SECRET}, "id": "c1"}
    said_ = {"content": [{"type": "text", "text": "a"}, part]}
    message = said_ | ({"tool_calls": [function()]} if beside else {})
    reply = Reply(stream(chunk(message))) if streamed else answer(message)
    body = {**APIS["chat"][3], "stream": streamed}
    for cut in (whole, bytewise):
        got = Session(rules=RULES).step(body, [reply, FINE["chat"][streamed]], cut=cut)
        assert SECRET.encode() not in got.body


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_h12_a_part_of_an_item_that_could_be_a_call(kind: Any) -> None:
    part = {"type": kind, "name": "write", "args": {"x": SECRET}, "id": "c1"}
    item = {**responses.message("a"), "content": [part]}
    body = {**APIS["responses"][3], "stream": False}
    got = responses.session(rules=RULES).step(body, [responses.whole(item)])
    assert SECRET.encode() not in got.body


CONTENT: list[Any] = [
    ["a", {"text": "b"}, {"type": "text", "text": "c"}],
    [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
    [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "x", "signature": "s"}]}],
    [{"type": "reference", "reference_ids": [1]}, {"type": "image_url", "image_url": {"url": "u"}}],
]


@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_h12_content_that_providers_send_passes(content: Any, streamed: bool) -> None:
    message = {"content": content, "tool_calls": [function()]}
    reply = Reply(stream(chunk(message))) if streamed else answer(message)
    got = Session(rules=RULES).step({**APIS["chat"][3], "stream": streamed}, [reply])
    assert json.dumps(content).encode() in got.body
    assert b"call_000000001" in got.body
    assert got.finish is not None
    assert got.finish.outcome == "answered"


# Other places of a chunk.

CHUNKS: dict[str, Json] = {
    "H9 a choice's INDEX": {"INDEX": 1, "delta": {"tool_calls": [function("read", EVIL)]}},
    "H6 inherited by a delta": {"delta": {PROTO: {"tool_calls": [function("read", EVIL)]}}},
    "H6 inherited beside a call": {"delta": {PROTO: {}, "tool_calls": [function("read", EVIL)]}},
    "H6 inherited by a choice": {PROTO: {}, "delta": {"tool_calls": [function("read", EVIL)]}},
    "H11 a choice's index": {"index": 2**53, "delta": {"tool_calls": [function("read", EVIL)]}},
    "H11 a choice's index as a fraction": {
        "index": 0.0,
        "delta": {"tool_calls": [function("read", EVIL)]},
    },
    "H2 the legacy call with an input": {
        "delta": {"function_call": {"name": "edit", "arguments": EVIL, "input": GOOD}}
    },
    "H9 the legacy call in two cases": {
        "delta": {"function_call": {"name": "edit", "arguments": GOOD, "Arguments": EVIL}}
    },
    "H6 the legacy call": {
        "delta": {"function_call": {"name": "edit", "arguments": GOOD, PROTO: {"x": SECRET}}}
    },
}


@pytest.mark.parametrize("choice", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("key", ["delta", "message"])
def test_a_choice_that_says_two_things(choice: Json, key: str) -> None:
    body = choice["delta"]
    one = {"index": 0, **choice} | ({"message": body, "finish_reason": "stop"})
    if key == "delta":
        del one["message"]
        reply = Reply(b"data: " + json.dumps({"choices": [one]}).encode() + b"\n\n")
    else:
        del one["delta"]
        reply = answer({}, choices=[one])
    streamed = key == "delta"
    asked = {**APIS["chat"][3], "stream": streamed}
    for cut in (whole, bytewise):
        got = Session(rules=RULES).step(asked, [reply, FINE["chat"][streamed]], cut=cut)
        assert_nothing_arrives(got)


def test_h11_a_minus_zero_is_no_index() -> None:
    """Rust reads it as a fraction, and a client that leaves out what it cannot read loses a piece."""
    reply = chat(function("read", EVIL), streamed=True)
    body = reply.body.replace(b'"index": 0, "id"', b'"index": -0, "id"')
    assert body != reply.body
    got = Session(rules=RULES).step({**APIS["chat"][3], "stream": True}, [body, said()])
    assert_nothing_arrives(got)
    words = function("read", json.dumps({"x": "[-0, -0]"}))
    plain = chat(words, streamed=True)
    assert (
        Session(rules=RULES).step({**APIS["chat"][3], "stream": True}, [plain]).body == plain.body
    )


@pytest.mark.parametrize("index", [2**31, 2**53, 1.0, "0", True])
def test_h11_an_index_of_the_other_apis(index: Any) -> None:
    events = responses.events(responses.call("read", EVIL))
    for event in events:
        if "output_index" in event:
            event["output_index"] = index
    asked = {**APIS["responses"][3], "stream": True}
    got = responses.session(rules=RULES).step(asked, [responses.stream(events)])
    assert_nothing_arrives(got)
    frames = messages.stream(messages.use(index, "read", EVIL, id_="toolu_0000_0"))
    asked = {**APIS["messages"][3], "stream": True}
    assert_nothing_arrives(messages.session(RULES).step(asked, [frames]))


@pytest.mark.parametrize("kind", ["arguments.delta", "arguments.done"])
@pytest.mark.parametrize("key", ["arguments", "input", "delta", "args"])
def test_h3_an_event_with_arguments_under_two_keys(kind: str, key: str) -> None:
    events = responses.events(responses.call("read", GOOD))
    for event in events:
        if event["type"].endswith(kind):
            event |= {key: EVIL}
    asked = {**APIS["responses"][3], "stream": True}
    got = responses.session(rules=RULES).step(asked, [responses.stream(events)])
    assert_nothing_arrives(got)


def test_h2_a_piece_with_arguments_under_two_keys() -> None:
    pieces = (
        messages.start(0, messages.call("edit")),
        messages.delta(0, "input_json_delta", partial_json=GOOD, input=EVIL),
        messages.stop(0),
    )
    asked = {**APIS["messages"][3], "stream": True}
    got = messages.session(RULES).step(asked, [messages.stream(*pieces), messages.said()])
    assert_nothing_arrives(got)


# H13: beside the data.

HIDDEN = {
    f"H13 {line!r} {sign!r}": line + sign
    for line in (b":", b": x", b"id: 1", b"retry: 1")
    for sign in (b"", b" ", b"\x0b", b"\x0c", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8")
}


HIDDEN_CALLS: dict[str, Json] = {
    "chat": {"choices": [{"index": 0, "delta": {"tool_calls": [function("write", EVIL)]}}]},
    "responses": responses.done(responses.call("write", EVIL), 0),
    "messages": {
        "type": "content_block_start",
        "index": 0,
        "content_block": messages.call("write", {"x": SECRET}),
    },
}


@pytest.mark.parametrize("lead", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("api", APIS)
def test_h13_a_call_beside_the_data(api: str, lead: bytes, end: bytes) -> None:
    """A client that cuts lines in its own way, or looks for `data:` anywhere, finds no call there."""
    call = b"data: " + json.dumps(HIDDEN_CALLS[api]).encode()
    fine = FINE[api][True].body.replace(b"\n", end)
    line = lead + call
    asked = {**APIS[api][3], "stream": True}
    # In front of the answer, and in its first frame.
    for body in (line + end + end + fine, line + end + fine):
        for cut in (whole, bytewise):
            got = APIS[api][2]().step(asked, [body], cut=cut)
            assert SECRET.encode() not in got.body
            assert got.finish is not None
            assert got.finish.outcome == "answered"


# S7: what is declared.


@pytest.mark.parametrize("more", [{"version": "1.0"}, {"index": 0}, {"_meta": {"a": 1}}], ids=str)
@pytest.mark.parametrize("api", APIS)
def test_s7_a_field_that_is_not_known_takes_no_tool_away(api: str, more: Json) -> None:
    asked = APIS[api][3]
    body = {**asked, "stream": False, "tools": [{**tool, **more} for tool in asked["tools"]]}
    sent = APIS[api][2]().step(body, [FINE[api][False]]).upstream["tools"]
    assert sent == body["tools"][:4]


@pytest.mark.parametrize("api", APIS)
def test_s7_what_could_be_a_second_tool_still_does(api: str) -> None:
    asked = APIS[api][3]
    others: list[Json] = [{"tool_name": "write"}, {"googleSearch": {}}, {"x": [{"name": "write"}]}]
    for more in others:
        body = {**asked, "stream": False, "tools": [{**tool, **more} for tool in asked["tools"]]}
        assert "tools" not in APIS[api][2]().step(body, [FINE[api][False]]).upstream


@pytest.mark.parametrize("api", APIS)
def test_h13_a_call_with_a_line_separator_arrives_whole_for_clients_that_cut_there(
    api: str,
) -> None:
    arguments = '{"a":"\u2028\u2029\x85"}'
    reply = written(APIS[api][0](APIS[api][1]("read", arguments), streamed=True))
    body = raw_signs(reply.body)
    assert len(body.decode().splitlines()) > len(body.split(b"\n"))
    got = APIS[api][2]().step({**APIS[api][3], "stream": True}, [body])
    assert got.body.decode().splitlines() == got.body.decode().split("\n")[:-1]
    if api == "messages":
        told = judges.told("messages", got.body, streamed=True)[1]
        assert told == [("read", {"a": "\u2028\u2029\x85"})]
        return
    assert raw_signs(got.body) == body


def raw_signs(body: bytes) -> bytes:
    """Return a stream with these signs as they are, and not escaped."""
    for sign in "\u2028\u2029\x85":
        body = body.replace(json.dumps(sign)[1:-1].encode(), sign.encode())
    return body
