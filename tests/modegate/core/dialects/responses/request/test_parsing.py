"""A Responses request as the gate reads it: in a mode, in one way only or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.errors import BadRequest
from modegate.core.wire.json_spans import Span
from modegate.core.wire.request_body import RequestBody
from support.asked import USER, custom, function, namespace, request, server

HEAD = b'{"model":"m","input":"x"'
ITEM = b'{"model":"m","input":[%s]}'

BAD = {
    "empty": (b"", "not a JSON object"),
    "list": (b"[]", "not a JSON object"),
    "cut-short": (HEAD, "not a JSON object"),
    "two-values": (HEAD + b"}{}", "not a JSON object"),
    "broken-utf-8": (HEAD + b',"user":"\xff"}', "utf-8"),
    "deep": (HEAD + b',"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "input-object": (b'{"input":{"role":"user"}}', "'input' is not a list"),
    "input-number": (b'{"input":1}', "'input' is not a list"),
    "item-string": (ITEM % b'"x"', "'input' holds something"),
    "item-null": (ITEM % b"null", "'input' holds something"),
    "item-list": (ITEM % b"[]", "'input' holds something"),
    "tools-object": (HEAD + b',"tools":{"name":"write"}}', "'tools' is not a list"),
    "tool-string": (HEAD + b',"tools":["write"]}', "'tools' holds something"),
    "instructions-list": (HEAD + b',"instructions":["x"]}', "'instructions' is not a string"),
    "instructions-object": (HEAD + b',"instructions":{}}', "'instructions' is not a string"),
    "type-number": (ITEM % b'{"type":1}', "not a string"),
    "role-list": (ITEM % b'{"role":["user"]}', "not a string"),
    "type-twice": (ITEM % b'{"type":"message","type":"additional_tools","tools":[]}', "twice"),
    "type-twice-escaped": (ITEM % b'{"type":"message","typ\\u0065":"x"}', "twice"),
    "role-twice": (ITEM % b'{"role":"user","role":"system","content":"x"}', "twice"),
    "item-tools-twice": (ITEM % b'{"type":"additional_tools","tools":[],"tools":[{}]}', "twice"),
    "item-tools-object": (
        ITEM % b'{"type":"additional_tools","tools":{}}',
        "'tools' is not a list",
    ),
    "item-tools-string": (
        ITEM % b'{"type":"additional_tools","tools":["x"]}',
        "'tools' holds something",
    ),
    "item-Type": (ITEM % b'{"Type":"additional_tools"}', "did you mean 'type'"),
    "item-Tools": (ITEM % b'{"type":"additional_tools","Tools":[]}', "did you mean 'tools'"),
    "item-long-s": (ITEM % '{"type":"message","toolſ":[]}'.encode(), "did you mean 'tools'"),
    "upper-case": (HEAD + b',"TOOLS":[]}', "did you mean 'tools'"),
    "camel-case": (HEAD + b',"previousResponseId":"r"}', "did you mean 'previous_response_id'"),
    "escaped-look-alike": (HEAD + b',"\\u0054ools":[]}', "did you mean 'tools'"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD.keys())
def test_what_leaves_a_doubt_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        ResponsesRequest(RequestBody(body))


@pytest.mark.parametrize("key", sorted(ResponsesRequest.GATED))
@pytest.mark.parametrize("again", ["same", "case", "dash"])
def test_no_key_that_the_gate_reads_stands_there_twice(key: str, again: str) -> None:
    other = {"same": key, "case": key.upper(), "dash": key.replace("_", "-") + "_"}[again]
    body = json.dumps({**request(), key: None})[:-1] + f',"{other}":null}}'
    with pytest.raises(BadRequest, match=repr(other)):
        ResponsesRequest(RequestBody(body.encode()))


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (USER, "message"),
        ({"type": None, "role": "user", "content": "x"}, "message"),
        ({"content": "x"}, "message"),
        ({"type": "message", "role": "assistant", "content": []}, "message"),
        ({"id": "rs_1"}, "item_reference"),
        ({"type": None, "id": "rs_1"}, "item_reference"),
        ({}, "item_reference"),
        (
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
            "function_call",
        ),
        ({"type": "reasoning", "id": "rs_1", "summary": []}, "reasoning"),
        ({"type": "agent_message", "author": "a", "tool": "x"}, "agent_message"),
        ({"type": "something_new", "new": {"tools": 1}}, "something_new"),
    ],
)
@pytest.mark.parametrize("spaced", [False, True])
def test_what_an_item_is(item: dict[str, Any], kind: str, spaced: bool) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    read = ResponsesRequest(
        RequestBody(json.dumps({"input": [item]}, separators=separators).encode())
    )
    assert [one.kind for one in read.items] == [kind]
    assert read.history == [item]


def test_a_string_is_one_message_of_the_user() -> None:
    read = ResponsesRequest(RequestBody(b'{"input":"rename \\ud83d foo"}'))
    assert read.messages == [Span(9, 28)]
    assert read.history == [{"type": "message", "role": "user", "content": "rename \ufffd foo"}]
    assert read.first_user_text == "rename \ufffd foo"
    assert read.items == []


@pytest.mark.parametrize("body", [b"{}", b'{"input":null}', b'{"input":[]}'])
def test_there_may_be_no_input(body: bytes) -> None:
    read = ResponsesRequest(RequestBody(body))
    assert (list(read.messages), read.history, read.first_user_text) == ([], [], "")
    assert not read.declares_tools


def test_where_tools_are_declared() -> None:
    """A list of what was found, or of what a server has, is no offer of the agent's."""
    found = {"type": "tool_search_output", "call_id": "c1", "tools": [function("late")]}
    listed = {"type": "mcp_list_tools", "server_label": "x", "tools": [{"name": "del"}]}
    more = {"type": "additional_tools", "role": "developer", "tools": [namespace("fs", "read")]}
    assert not ResponsesRequest(
        RequestBody(json.dumps(request(input=[found, listed])).encode())
    ).declares_tools
    assert not ResponsesRequest(
        RequestBody(json.dumps(request(input=[{**more, "tools": []}])).encode())
    ).declares_tools
    read = ResponsesRequest(
        RequestBody(
            json.dumps(
                request("a", custom("b"), server("docs", "c"), input=[more, found, listed])
            ).encode()
        )
    )
    assert read.declares_tools
    assert read.declared == {"a", "b", "mcp", "mcp__docs__c", "fs__read", "late", "mcp__x__del"}


def test_the_first_message_of_the_user() -> None:
    texts = [{"type": "input_text", "text": words} for words in ("one", "two")]
    first = {
        "type": "message",
        "role": "user",
        "content": [texts[0], {"type": "input_image"}, texts[1]],
    }
    others = [{"role": "developer", "content": "no"}, {"type": "reasoning", "role": "user"}]
    body = request(input=[*others, first, USER])
    assert ResponsesRequest(RequestBody(json.dumps(body).encode())).first_user_text == "one\ntwo"


def test_the_ids_of_calls() -> None:
    calls = [
        {"type": "function_call", "call_id": "c1"},
        {"type": "custom_tool_call", "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c0", "output": "x"},
        {"type": "local_shell_call", "call_id": "c3", "id": "x"},
        {"type": "tool_search_call", "call_id": None},
        USER,
    ]
    assert ResponsesRequest(RequestBody(json.dumps({"input": calls}).encode())).call_ids == {
        "c0",
        "c1",
        "c2",
        "c3",
    }


@pytest.mark.parametrize(
    ("more", "chained"),
    [
        ({}, False),
        ({"previous_response_id": "resp_1"}, True),
        ({"previous_response_id": None}, False),
        ({"conversation": "conv_1"}, True),
        ({"conversation": {"id": "conv_1"}}, True),
    ],
)
def test_whether_the_provider_holds_what_came_before(more: dict[str, Any], chained: bool) -> None:
    assert ResponsesRequest(RequestBody(json.dumps(request(**more)).encode())).chained == chained


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_comes_it_is_read_or_refused(noise: bytes) -> None:
    for body in (noise, b'{"input":[%s]}' % noise, b'{"input":"x","tools":[%s]}' % noise):
        try:
            ResponsesRequest(RequestBody(body))
        except BadRequest:
            continue


keys = st.sampled_from(["type", "role", "tools", "id", "content", "Type", "ro\u006ce", "x", "name"])
values = st.sampled_from(['"message"', '"user"', "null", "[]", '"additional_tools"', "{}", '"x"'])


@given(
    st.lists(st.tuples(keys, values), max_size=5),
    st.sampled_from([("", ""), (" ", ""), ("", " "), ("\n", "\t")]),
)
def test_no_item_is_read_whose_kind_stands_there_twice(
    pairs: list[tuple[str, str]], spaces: tuple[str, str]
) -> None:
    """However it is written: the quick way and the slow one see the same."""
    before, after = spaces
    text = ",".join(f'{before}"{key}":{after}{value}' for key, value in pairs)
    body = b'{"input":[{%s}]}' % text.encode()
    names = [key for key, _ in pairs]
    doubtful = any(names.count(key) > 1 for key in ("type", "role", "tools")) or "Type" in names
    if doubtful:
        with pytest.raises(BadRequest):
            ResponsesRequest(RequestBody(body))
        return
    try:
        read = ResponsesRequest(RequestBody(body))
    except BadRequest as error:
        assert "string" in str(error) or "list" in str(error)  # noqa: PT017 -- either is right
    else:
        assert read.history == [{key: json.loads(value) for key, value in pairs}]
