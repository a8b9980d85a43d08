"""The worst bodies within the limits: requests and answers that cost the most for their bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MIB = 2**20
_TOOL = b'{"type":"function","function":{"name":"t%07d"}}'
_SAID = b'"messages":[{"role":"user","content":"hi"}]'


def _request(*members: bytes, stream: bool = False) -> bytes:
    flag = b"true" if stream else b"false"
    return b"{" + b",".join((b'"model":"m","stream":' + flag, *members)) + b"}"


def _tools(count: int) -> bytes:
    return _request(_SAID, b'"tools":[' + b",".join(_TOOL % n for n in range(count)) + b"]")


def _messages(one: bytes, count: int) -> bytes:
    return _request(b'"messages":[' + b",".join([one] * count) + b"]")


def _keys(count: int) -> bytes:
    return _request(_SAID, *(b'"k%07d":1' % n for n in range(count)))


def _text(piece: bytes, size: int) -> bytes:
    content = piece * (size // len(piece))
    return _request(b'"messages":[{"role":"user","content":"' + content + b'"}]')


def _calls(count: int) -> bytes:
    made = (
        b'{"role":"assistant","tool_calls":[{"id":"c%07d","type":"function",'
        b'"function":{"name":"read","arguments":"{}"}}]}' % n
        for n in range(count)
    )
    return _request(b'"messages":[' + b",".join(made) + b"]")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a model."""

    kind: str
    make: Callable[[], bytes]


STREAM, WHOLE = "text/event-stream", "application/json"
_DONE = b"data: [DONE]\n\n"


def _delta(delta: bytes, finish: bytes = b"null") -> bytes:
    return (
        b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{'
        + delta
        + b'},"finish_reason":'
        + finish
        + b"}]}\n\n"
    )


def _said(content: bytes) -> bytes:
    return (
        b'{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",'
        b'"message":{"role":"assistant","content":"' + content + b'"}}]}'
    )


def _event(content: bytes) -> bytes:
    return _delta(b'"content":"' + content + b'"') + _delta(b"", b'"stop"') + _DONE


def _pieces(count: int) -> bytes:
    first = (
        b'"tool_calls":[{"index":0,"id":"call_abcdefghij","type":"function",'
        b'"function":{"name":"read","arguments":"{\\"p\\":\\""}}]'
    )
    piece = _delta(b'"tool_calls":[{"index":0,"function":{"arguments":"xxxx"}}]')
    last = _delta(b'"tool_calls":[{"index":0,"function":{"arguments":"\\"}"}}]')
    return _delta(first) + piece * count + last + _delta(b"", b'"tool_calls"') + _DONE


ANSWERS: dict[str, Answer] = {
    "an event of 60 MiB of lone surrogates": Answer(
        STREAM, lambda: _event(b"\\ud83d" * (10 * MIB))
    ),
    "60 MiB of lone surrogates, whole": Answer(WHOLE, lambda: _said(b"\\ud83d" * (10 * MIB))),
    "an event of 60 MiB of text": Answer(STREAM, lambda: _event(b"x" * (60 * MIB))),
    "60 MiB of text, whole": Answer(WHOLE, lambda: _said(b"x" * (60 * MIB))),
    "1.9 million small objects": Answer(
        WHOLE, lambda: _said(b"a")[:-1] + b',"x":[' + b"{}," * 1_900_000 + b"1]}"
    ),
    "900,000 small objects": Answer(
        WHOLE, lambda: _said(b"a")[:-1] + b',"x":[' + b"{}," * 450_000 + b"1]}"
    ),
    "3.7 MiB of blank lines": Answer(STREAM, lambda: b"\n\r\n\r" * 970_000 + _event(b"a")),
    "400,000 small events": Answer(STREAM, lambda: b"data: {}\n\n" * 400_000 + _event(b"a")),
    "40,000 pieces of one call": Answer(STREAM, lambda: _pieces(40_000)),
}

REQUESTS: dict[str, Callable[[], bytes]] = {
    "500,000 tools": lambda: _tools(500_000),
    "1,000,000 top-level keys": lambda: _keys(1_000_000),
    "60 MiB of escaped backslash and ud83d": lambda: _text(b"\\\\ud83d", 60 * MIB),
    "60 MiB of lone surrogates": lambda: _text(b"\\ud83d", 60 * MIB),
    "60 MiB of pairs of surrogates": lambda: _text(b"\\ud83d\\ude00", 60 * MIB),
    "60 MiB of escaped line feeds": lambda: _text(b"\\n", 60 * MIB),
    "60 MiB of three-byte characters": lambda: _text("中".encode(), 60 * MIB),
    "60 MiB of plain text": lambda: _text(b"x", 60 * MIB),
    "200,000 calls in the history": lambda: _calls(200_000),
    "20 million empty messages": lambda: _messages(b"{}", 20_000_000),
    "600,000 empty messages": lambda: _messages(b"{}", 600_000),
    "a list of 20 million lists": lambda: _request(_SAID, b'"x":[' + b"[]," * 20_000_000 + b"1]"),
    "a list of 300,000 lists": lambda: _request(_SAID, b'"x":[' + b"[]," * 300_000 + b"1]"),
    "a million dense values in a schema": lambda: _request(
        _SAID,
        b'"tools":[{"type":"function","function":{"name":"read","parameters":{"enum":['
        + b"0," * 999_000
        + b"0]}}}]",
    ),
    "a key of 30 MiB of escapes, twice": lambda: _request(
        _SAID, *[b'"' + b"\\n" * (10 * MIB) + b'":1'] * 2
    ),
    "a value of 20 MiB of escapes under a key that comes again": lambda: _request(
        _SAID, b'"x":"' + b"\\n" * (10 * MIB) + b'"', b'"x":1'
    ),
    "3,900 tools": lambda: _tools(3_900),
    "85,000 messages": lambda: _messages(b"{}", 85_000),
    "30,000 calls in the history": lambda: _calls(30_000),
    "4,000 top-level keys": lambda: _keys(4_000),
    "a gzip of 64 MiB": lambda: _text(b"x", 63 * MIB),
}
