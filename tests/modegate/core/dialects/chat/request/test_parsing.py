"""A chat completions request as the gate reads it: in a mode, in one way only or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.errors import BadRequest
from modegate.core.wire.request_body import RequestBody
from support.playbook import Session, request, said, tool

HEAD = b'{"model":"m","messages":[{"role":"user","content":"x"}]'
DEEP = b"[" * 100_000 + b"]" * 100_000

BAD = {
    "empty": (b"", "not a JSON object"),
    "space": (b"  \n", "not a JSON object"),
    "not-json": (b"hello", "not a JSON object"),
    "cut-short": (HEAD, "not a JSON object"),
    "two-values": (HEAD + b"}{}", "not a JSON object"),
    "list": (b"[]", "not a JSON object"),
    "string": (b'"messages"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "byte-order-mark": (b"\xef\xbb\xbf" + HEAD + b"}", "not a JSON object"),
    "trailing-comma": (HEAD + b",}", "not a JSON object"),
    "nan": (HEAD + b',"temperature":NaN}', "not a JSON object"),
    "comment": (HEAD + b"/**/}", "not a JSON object"),
    "single-quotes": (HEAD + b",'tools':[]}", "not a JSON object"),
    "broken-utf-8": (HEAD + b',"user":"\xff"}', "utf-8"),
    "overlong-quote": (HEAD + b',"user":"\xc0\xa2"}', "utf-8"),
    "utf-16": ((HEAD + b"}").decode().encode("utf-16"), "utf-8"),
    "deep": (HEAD + b',"metadata":' + DEEP + b"}", "nested too deeply"),
    "deep-tools": (HEAD + b',"tools":' + DEEP + b"}", "nested too deeply"),
    "no-messages": (b'{"model":"m"}', "'messages' is missing"),
    "null-messages": (b'{"messages":null}', "'messages' is missing"),
    "messages-object": (b'{"messages":{"role":"user"}}', "'messages' is not a list"),
    "messages-string": (b'{"messages":"x"}', "'messages' is not a list"),
    "message-string": (b'{"messages":["x"]}', "'messages' holds something"),
    "message-null": (b'{"messages":[null]}', "'messages' holds something"),
    "tools-object": (HEAD + b',"tools":{"name":"write"}}', "'tools' is not a list"),
    "tools-string": (HEAD + b',"tools":"write"}', "'tools' is not a list"),
    "tools-true": (HEAD + b',"tools":true}', "'tools' is not a list"),
    "tool-null": (HEAD + b',"tools":[null]}', "'tools' holds something"),
    "tool-string": (HEAD + b',"tools":["write"]}', "'tools' holds something"),
    "tool-list": (HEAD + b',"tools":[[]]}', "'tools' holds something"),
    "functions-object": (HEAD + b',"functions":{}}', "'functions' is not a list"),
    "function-string": (HEAD + b',"functions":["write"]}', "'functions' holds something"),
    "camel-case": (HEAD + b',"toolChoice":"required"}', "did you mean 'tool_choice'"),
    "upper-case": (HEAD + b',"TOOLS":[]}', "did you mean 'tools'"),
    "no-underscore": (HEAD + b',"functioncall":{}}', "did you mean 'function_call'"),
    "long-s": (HEAD + ',"toolſ":[]}'.encode(), "did you mean 'tools'"),
    "escaped-look-alike": (HEAD + b',"\\u0054ools":[]}', "did you mean 'tools'"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD.keys())
def test_in_a_mode_what_cannot_be_read_is_refused_and_goes_nowhere(
    body: bytes, message: str
) -> None:
    got = Session().step(body, [said()])
    assert got.requests == []
    assert got.head is not None
    assert got.head.status == 400
    assert got.json["error"]["type"] == "invalid_request_error"
    assert got.json["error"]["code"] == "bad_request"
    assert message in got.json["error"]["message"]


@pytest.mark.parametrize(("body", "_message"), BAD.values(), ids=BAD.keys())
def test_l1_in_default_the_same_bytes_pass(body: bytes, _message: str) -> None:
    got = Session("default").step(body, [said()])
    assert got.requests == [body]
    assert got.events == []


@pytest.mark.parametrize("key", sorted(ChatRequest.GATED))
def test_a_key_that_decides_may_not_stand_twice(key: str) -> None:
    value = b'[{"role":"user","content":"x"}]' if key == "messages" else b"null"
    once = b'{"messages":[{"role":"user","content":"x"}],' if key != "messages" else b"{"
    pair = b'"%s":%s' % (key.encode(), value)
    escaped = b'"\\u%04x%s":%s' % (ord(key[0]), key[1:].encode(), value)
    ChatRequest(RequestBody(once + pair + b"}"))
    for second in (pair, escaped):
        with pytest.raises(BadRequest, match=f"{key!r} stands twice"):
            ChatRequest(RequestBody(once + pair + b"," + second + b"}"))


@pytest.mark.parametrize("key", sorted(ChatRequest.TOOLS))
@given(st.data())
def test_a_key_that_decides_is_refused_in_any_other_spelling(key: str, data: st.DataObject) -> None:
    letters = [data.draw(st.sampled_from([char, char.upper()])) for char in key]
    other = "".join(data.draw(st.sampled_from([c, ""])) if c == "_" else c for c in letters)
    body = b'{"messages":[],%s:null}' % json.dumps(other).encode()
    if other in (key, "messages"):
        return
    with pytest.raises(BadRequest, match=f"did you mean {key!r}"):
        ChatRequest(RequestBody(body))


@pytest.mark.parametrize("raw", [b"[]", b"null"])
def test_no_tools_are_declared_by_an_empty_list_or_null(raw: bytes) -> None:
    read = ChatRequest(RequestBody(HEAD + b',"tools":' + raw + b',"functions":' + raw + b"}"))
    assert not read.declares_tools
    assert read.declared == frozenset()


def test_parts_are_found_whatever_the_order_and_white_space() -> None:
    user = b'{"role":"user","content":[{"type":"text","text":"hi"}]}'
    body = b' { "tools" : [ %s ] ,\n"messages" : [ ' + user + b" ] } \n"
    read = ChatRequest(RequestBody(body % json.dumps(tool("read")).encode()))
    assert read.declared == {"read"}
    assert read.first_user_text == "hi"


def test_what_is_read_of_the_history() -> None:
    calls: list[Any] = [{"id": "c1"}, "odd", {"id": 7}]
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "assistant", "tool_calls": None},
        {"role": "user", "content": "second"},
    ]
    read = ChatRequest(RequestBody(json.dumps(request("read", messages=messages)).encode()))
    assert read.first_user_text == "first"
    assert read.call_ids == {"c1", "7"}
    assert [read.role(span) for span in read.messages][:2] == ["system", "user"]


@pytest.mark.parametrize(
    "message", [{"content": "x"}, {"role": 1}, {"role": "user", "content": None}]
)
def test_a_message_of_another_shape_has_no_text(message: dict[str, Any]) -> None:
    read = ChatRequest(RequestBody(json.dumps({"messages": [message]}).encode()))
    assert read.first_user_text == ""


def test_a_history_that_no_decoder_takes_is_refused() -> None:
    read = ChatRequest(RequestBody(b'{"messages":[{"role":"user","content":"x","n":1e999}]}'))
    with pytest.raises(BadRequest, match="not valid JSON"):
        _ = read.history


@pytest.mark.parametrize("part", ["members_of", "elements_of"])
def test_a_part_of_another_type_is_refused(part: str) -> None:
    read = ChatRequest(RequestBody(HEAD + b',"user":"x"}'))
    with pytest.raises(BadRequest, match="unreadable"):
        getattr(read, part)(read.top["user"])


def test_b085_unknown_keys_may_stand_twice_and_numbers_be_odd() -> None:
    body = HEAD + b',"b":1,"a":2,"t":"\\u00e9\xc3\xa9\\/","n":1.0,"e":1E2,"z":-0,"dup":1,"dup":2}\n'
    got = Session().step(body, [said()])
    assert got.requests == [body]


@pytest.mark.parametrize("half", [rb"\ud83d", rb"x\uDE00y", rb"\ud83d\ud83d\ude00"])
def test_half_an_emoji_is_readable(half: bytes) -> None:
    """JavaScript agents cut texts within a pair: the request is read, and its bytes stay."""
    body = (
        b'{"messages":[{"role":"user","content":"' + half + b'"}],'
        b'"tools":[{"type":"function","function":{"name":"write"}}]}'
    )
    got = Session().step(body, [said()])
    assert half in got.requests[0]
    assert b'"write"' not in got.requests[0]
