"""JSON-RPC: what is a message, and what each refusal says."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate_acp.messages import jsonrpc
from modegate_acp.messages.jsonrpc import (
    Batch,
    Incoming,
    Notification,
    Reply,
    Request,
    RpcError,
    read,
)

HEAD = '"jsonrpc":"2.0"'

MESSAGES: dict[str, tuple[str, Incoming]] = {
    "a request": (f'{{{HEAD},"id":1,"method":"m","params":{{"a":1}}}}', Request(1, "m", {"a": 1})),
    "without params": (f'{{{HEAD},"id":"x","method":"m"}}', Request("x", "m")),
    "a notification": (f'{{{HEAD},"method":"m"}}', Notification("m")),
    "a result": (f'{{{HEAD},"id":1,"result":{{"a":1}}}}', Reply(1, {"a": 1})),
    "a result of nothing": (f'{{{HEAD},"id":1,"result":null}}', Reply(1)),
    "an error": (f'{{{HEAD},"id":1,"error":{{"code":1}}}}', Reply(1, None, {"code": 1})),
    "an error and a result": (
        f'{{{HEAD},"id":1,"result":{{}},"error":{{"code":1}}}}',
        Reply(1, {}, {"code": 1}),
    ),
    "meta and unknown keys": (
        f'{{{HEAD},"id":1,"method":"m","_meta":{{"method":"n"}},"x":1}}',
        Request(1, "m"),
    ),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("form", [str, str.encode], ids=["text", "bytes"])
def test_messages(case: tuple[str, Incoming], form: Any) -> None:
    text, message = case
    assert read(form(text)) == message


BROKEN: dict[str, tuple[str | bytes, int, Any]] = {
    "no JSON": ("{", -32700, None),
    "nothing": ("", -32700, None),
    "not UTF-8": (b'{"a":"\xff"}', -32700, None),
    "a key twice": (f'{{{HEAD},"id":1,"method":"m","method":"n"}}', -32700, None),
    "a key twice, deep": (
        f'{{{HEAD},"id":1,"method":"m","params":{{"modeId":"a","modeId":"b"}}}}',
        -32700,
        None,
    ),
    "not a number": (f'{{{HEAD},"id":1,"method":"m","params":{{"a":NaN}}}}', -32700, None),
    "infinite": (f'{{{HEAD},"id":1,"method":"m","params":{{"a":-Infinity}}}}', -32700, None),
    "deep": ("[" * 15_000, -32700, None),
    "a huge number": (
        f'{{{HEAD},"id":1,"method":"m","params":{{"a":{"9" * 5000}}}}}',
        -32700,
        None,
    ),
    "a string": ('"m"', -32600, None),
    "null": ("null", -32600, None),
    "no version": ('{"id":1,"method":"m"}', -32600, 1),
    "another version": ('{"jsonrpc":"1.0","id":1,"method":"m"}', -32600, 1),
    "null as id": (f'{{{HEAD},"id":null,"method":"m"}}', -32600, None),
    "a fraction as id": (f'{{{HEAD},"id":1.5,"method":"m"}}', -32600, None),
    "true as id": (f'{{{HEAD},"id":true,"method":"m"}}', -32600, None),
    "a long id": (f'{{{HEAD},"id":"{"x" * 257}","method":"m"}}', -32600, None),
    "a large id": (f'{{{HEAD},"id":{2**64},"method":"m"}}', -32600, None),
    "nothing asked": (f'{{{HEAD},"id":1}}', -32600, 1),
    "nothing at all": (f"{{{HEAD}}}", -32600, None),
    "a number as method": (f'{{{HEAD},"id":1,"method":1}}', -32600, 1),
    "a list of params": (f'{{{HEAD},"id":1,"method":"m","params":[]}}', -32602, 1),
    "null as params": (f'{{{HEAD},"id":1,"method":"m","params":null}}', -32602, 1),
}


HEAVY = {
    "keys": "{" + ",".join(f'"k{n}":{n}' for n in range(240_000)) + "}",
    "objects": '{"a":[' + ",".join(['{"a":1}'] * 400_000) + "]}",
    "strings": '{"a":[' + ",".join(['""'] * 1_300_000) + "]}",
    "depth": '{"a":' * 400_000,
}


@pytest.mark.parametrize("params", HEAVY.values(), ids=HEAVY)
def test_a9_what_would_hold_everybody_up_is_not_read(
    monkeypatch: pytest.MonkeyPatch, params: str
) -> None:
    """A message of 3.8 MB with 240,000 keys took 1.2 s of the one loop."""

    def read_all(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was read")

    monkeypatch.setattr(json, "loads", read_all)
    with pytest.raises(RpcError, match="some thousand values") as caught:
        read(f'{{{HEAD},"id":1,"method":"m","params":{params}}}')
    assert caught.value.code == -32600


def test_a9_a_long_text_is_no_heavy_message() -> None:
    text = "a,b,[x],{y}\n" * 100_000
    params = json.dumps({"sessionId": "s", "prompt": [{"type": "text", "text": text}]})
    found = read(f'{{{HEAD},"id":1,"method":"session/prompt","params":{params}}}')
    assert isinstance(found, Request)
    assert found.params["prompt"][0]["text"] == text


def test_a9_a_number_has_a_limit() -> None:
    assert read(f'{{{HEAD},"id":1,"result":{"9" * 64}}}') == Reply(1, int("9" * 64))
    with pytest.raises(RpcError, match="too many digits"):
        read(f'{{{HEAD},"id":1,"result":{"9" * 65}}}')


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_is_no_message(case: tuple[str | bytes, int, Any]) -> None:
    text, code, request = case
    with pytest.raises(RpcError) as caught:
        read(text)
    assert (caught.value.code, caught.value.request) == (code, request)


def test_a_batch_is_known_as_one() -> None:
    with pytest.raises(Batch) as caught:
        read("[]")
    assert caught.value.code == -32600


def test_what_goes_out() -> None:
    error = RpcError(-32602, "no", {"a": 1})
    assert jsonrpc.result(1, {}) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert jsonrpc.failure("x", error)["error"] == {
        "code": -32602,
        "message": "no",
        "data": {"a": 1},
    }
    assert "data" not in jsonrpc.failure(None, RpcError(-32603, "no"))["error"]
    assert jsonrpc.notification("m", {"a": 1}) == {
        "jsonrpc": "2.0",
        "method": "m",
        "params": {"a": 1},
    }
    assert jsonrpc.request("x", "m", {}) == {
        "jsonrpc": "2.0",
        "id": "x",
        "method": "m",
        "params": {},
    }


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()))
def test_what_is_written_is_one_line_that_reads_the_same(text: str, params: dict[str, Any]) -> None:
    message = jsonrpc.notification("m", {"text": text, "params": params})
    written = jsonrpc.write(message)
    assert "\n" not in written
    assert written.isascii()
    assert json.loads(written) == message


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_nothing_else_is_raised(raw: bytes) -> None:
    with contextlib.suppress(RpcError):
        read(raw)
