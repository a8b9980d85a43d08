"""What is judged is what runs: one source of name and arguments for each shape of call.

Each case is one call as a hostile upstream could write it: read in one way it is allowed, read in another
it is not. It must not arrive, nor may a person be asked about it. Streamed and whole, in every API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modegate.core.policy import Condition, Effect, When
from support import message_frames as messages
from support import responses
from support.playbook import (
    Cut,
    Got,
    Reply,
    Session,
    answer,
    bytewise,
    chunk,
    cut_at,
    mode,
    policy,
    request,
    rule,
    said,
    stream,
    whole,
)

Json = dict[str, Any]

SECRET = "S3CRET-ARGUMENT"
VIEW = When({"command": Condition(equals="view")}, others_any=True)
CREATE = When({"command": Condition(equals="create")}, others_any=True)
RULES = policy(
    mode(
        "plan",
        "read",
        "apply_patch",
        "local_shell",
        rule("edit", VIEW),
        rule("change", CREATE, Effect.DENY),
        "change",
        rule("fetch", effect=Effect.ASK),
    )
)
TOOLS = ("read", "edit", "change", "fetch", "write")
EVIL = json.dumps({"command": "create", "x": SECRET})
GOOD = json.dumps({"command": "view"})
PROTO = "__proto__"


# Arguments that say two things, under a rule that reads them.

ARGUMENTS = {
    f"{name}, {tool}": (tool, text)
    for tool in ("edit", "change", "fetch")
    for name, text in {
        "H9 two cases": f'{{"command":"view","Command":"create","x":"{SECRET}"}}',
        "H9 two cases, the other first": f'{{"COMMAND":"create","command":"view","x":"{SECRET}"}}',
        "H9 inside": f'{{"command":"view","x":[{{"a":1,"A":"{SECRET}"}}]}}',
        "H9 a Kelvin sign": f'{{"command":"view","k":1,"\\u212a":"{SECRET}"}}',
        "H6 inherited": f'{{"command":"view","{PROTO}":{{"command":"create","x":"{SECRET}"}}}}',
        "H6 inherited, inside": f'{{"command":"view","x":{{"{PROTO}":{{"x":"{SECRET}"}}}}}}',
        "H6 of its maker": f'{{"command":"view","constructor":{{"prototype":{{"x":"{SECRET}"}}}}}}',
    }.items()
} | {
    "H9 a denied argument in another case": ("change", f'{{"Command":"create","x":"{SECRET}"}}'),
    "H9 a denied argument in another spelling": ("change", f'{{"com-mand":"create","x":"{SECRET}"}}'),
}  # fmt: skip


# Calls of chat completions: members of an entry of `tool_calls`.


def function(name: str = "read", arguments: Any = "{}", **more: Any) -> Json:
    """Give a call of this API."""
    body = {"name": name, "arguments": arguments, **more}
    return {"index": 0, "id": "call_000000001", "type": "function", "function": body}


def custom(name: str = "fetch", text: str = "ls", **more: Any) -> Json:
    """Give a call with free text."""
    body = {"name": name, "input": text, **more}
    return {"index": 0, "id": "call_000000001", "type": "custom", "custom": body}


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


# How each API sends a call: streamed, and whole.


def chat(call: Json, *, streamed: bool) -> Reply:
    if streamed:
        return Reply(stream(chunk({"tool_calls": [call]})))
    return answer({"tool_calls": [call]})


def in_responses(item: Json, *, streamed: bool) -> Reply:
    return Reply(responses.answer(item)) if streamed else responses.whole(item)


def in_messages(block: Json, *, streamed: bool) -> Reply:
    if not streamed:
        return messages.whole(block)
    return Reply(messages.stream(messages.start(0, block), messages.stop(0)))


def chat_call(name: str, arguments: str) -> Json:
    return function(name, arguments)


def message_call(name: str, arguments: str) -> Json:
    return {**messages.call(name), "input": Written(arguments)}


class Written(dict[str, Any]):
    """An object that is written as it is given here."""

    def __init__(self, text: str) -> None:
        super().__init__(written=text)


def written(reply: Reply) -> Reply:
    """Put what is written as it is given in its place."""
    body, mark = reply.body, b'{"written": '
    while mark in body:
        at = body.index(mark)
        text, end = json.JSONDecoder().raw_decode(body[at + len(mark) :].decode())
        size = len(body[at + len(mark) :].decode()[:end].encode())
        body = body[:at] + text.encode() + body[at + len(mark) + size + 1 :]
    return Reply(body, reply.headers)


APIS: dict[str, tuple[Callable[..., Reply], Callable[..., Json], Callable[[], Session], Json]] = {
    "chat": (chat, chat_call, lambda: Session(rules=RULES), request(*TOOLS)),
    "responses": (
        in_responses,
        responses.call,
        lambda: responses.session(rules=RULES),
        responses.request(*TOOLS),
    ),
    "messages": (
        in_messages,
        message_call,
        lambda: messages.session(RULES),
        request()
        | {
            "max_tokens": 9,
            "tools": [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS],
        },
    ),
}
FINE: dict[str, tuple[Reply, Reply]] = {
    "chat": (answer({"content": "ok"}, "stop"), Reply(said())),
    "responses": (
        responses.whole(responses.message("ok"), n=2),
        Reply(responses.answer(responses.message("ok"), n=2)),
    ),
    "messages": (
        messages.whole({"type": "text", "text": "ok"}, reason="end_turn"),
        Reply(messages.said()),
    ),
}


def step(api: str, call: Json, *, streamed: bool, cut: Cut = whole) -> Got:
    """Live through a step whose first answer holds this call."""
    send, _, session, asked = APIS[api]
    first = written(send(call, streamed=streamed))
    body = {**asked, "stream": streamed}
    return session().step(body, [first, FINE[api][streamed]], cut=cut)


def all_cases() -> Iterator[Any]:
    """Give every call in every API."""
    tables = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
    for api, table in tables.items():
        for name, call in table.items():
            yield pytest.param(api, call, id=f"{api}, {name}")
        for name, (tool, text) in ARGUMENTS.items():
            yield pytest.param(api, APIS[api][1](tool, text), id=f"{api}, {name}")


def assert_nothing_arrives(got: Got) -> None:
    """No byte of a call, and nobody is asked."""
    assert SECRET.encode() not in got.body
    assert b"fc_1" not in got.body
    assert b"call_000000001" not in got.body
    assert b"toolu_0000_0" not in got.body
    assert got.asked == []
    assert got.finish is not None


@pytest.mark.parametrize(("api", "call"), list(all_cases()))
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_call_that_says_two_things_does_not_arrive(api: str, call: Json, streamed: bool) -> None:
    assert_nothing_arrives(step(api, call, streamed=streamed))


@pytest.mark.parametrize(("api", "call"), list(all_cases()))
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
    send = APIS[api][0]
    for place in range(len(send(call, streamed=True).body)):
        assert_nothing_arrives(step(api, call, streamed=True, cut=cut_at(place)))


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
    assert got.body == APIS[api][0](call, streamed=streamed).body


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


def test_h3_an_event_with_arguments_under_two_keys() -> None:
    for more in ({"input": GOOD}, {"arguments": GOOD}, {"delta": GOOD, "input": GOOD}):
        events = responses.events(responses.call("edit", EVIL))
        for event in events:
            if event["type"].endswith("arguments.delta"):
                event |= more
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


# S6: what does not read alike everywhere, and is no broken JSON.

HALVES = {
    "S6 half a character": ('{"a":"\\ud83d"}', "half of a character"),
    "S6 half a character, the other half": ('{"a":"x\\ude00"}', "half of a character"),
    "S6 a number out of range": ('{"a":1e400}', "a number that is out of range"),
    "S6 a number out of range, inside": ('{"a":[{"b":-1E+999}]}', "a number that is out of range"),
    "a key twice": ('{"a":1,"a":2}', "one key twice"),
}


@pytest.mark.parametrize(("text", "why"), HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", APIS)
def test_s6_the_model_is_told_what_is_wrong(api: str, streamed: bool, text: str, why: str) -> None:
    """And all else of the answer stands, streamed and whole alike."""
    got = step(api, APIS[api][1]("read", text), streamed=streamed)
    assert got.finish is not None
    assert got.finish.outcome == "answered"
    assert len(got.requests) == 2
    assert why in got.requests[1].decode()
    assert b"not one JSON object" not in got.requests[1]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_s6_half_a_character_as_the_api_itself_escapes_it(streamed: bool) -> None:
    """As JavaScript writes a text that it has cut: the same words, whoever sends it."""
    half = "\ud83d"
    for api, call in (("chat", function("read", f'{{"a":"{half}"}}')),
                      ("responses", responses.call("read", f'{{"a":"{half}"}}')),
                      ("messages", messages.call("read", {"a": half}))):  # fmt: skip
        got = step(api, call, streamed=streamed)
        assert got.finish is not None
        assert got.finish.outcome == "answered"
        assert "half of a character" in got.requests[1].decode()


def test_s6_a_character_that_is_cut_between_two_pieces_is_whole() -> None:
    """Servers in JavaScript cut an emoji in two; clients join the pieces before they read them."""
    first, second = '{"a":"\ud83d', '\ude00"}'
    text = '{"a":"\U0001f600"}'
    body = stream(
        chunk({"tool_calls": [function("read", first)]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": second}}]}),
    )
    assert Session(rules=RULES).step({**APIS["chat"][3], "stream": True}, [body]).body == body
    events = responses.events(responses.call("read", text))
    pieces = [event for event in events if event["type"].endswith("arguments.delta")]
    pieces[0]["delta"], pieces[1]["delta"] = first, second
    sent = responses.stream(events)
    asked = {**APIS["responses"][3], "stream": True}
    assert responses.session(rules=RULES).step(asked, [sent]).body == sent
    frames = messages.stream(messages.use(0, "read", first, second))
    asked = {**APIS["messages"][3], "stream": True}
    assert messages.session(RULES).step(asked, [frames]).body == frames


def test_a_half_of_a_character_in_free_text_breaks_nothing() -> None:
    """It is put into the history that the model is shown, where it cannot be encoded."""
    for api, call in (("chat", custom("write", "\ud83d")), ("chat", custom("fetch", "\ud83d")),
                      ("responses", responses.custom("write", "\ud83d")),
                      ("responses", responses.custom("fetch", "\ud83d"))):  # fmt: skip
        for streamed in (True, False):
            got = step(api, call, streamed=streamed)
            assert got.asked == []
            assert got.finish is not None
            assert got.finish.outcome == "answered"
