"""Ways in which an upstream's answer goes wrong on the wire, and what a client sees of it, to the byte.

A `Sight` is what a strict HTTP client makes of an answer: its head, its body without framing, and whether it
had a proper end, which is how a client learns that an answer was cut.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import httpx
import zstandard

from modegate.scripted.model import Answer, ScriptedCall, Turn, render
from support.raw_upstream import Act, Piece, RawUpstream, Received, chunk, chunked, head, whole
from support.running import POLICIES, TOKEN, Running, client, exchange, policies_file, post, running
from support.speech import Heard, Speech

SECRET = "S3CRET"
"""In the arguments of each call; must never be in an answer that breaks off before it is judged."""
CALL_MARKS = (
    b"S3C",
    b'"tool_calls":',
    b'"function_call"',
    b'"function_call_arguments',
    b'"tool_use"',
)
TEXT = "I look around."
SAID = TEXT[:12].encode()
"""The first piece of the text, in a stream."""
READ = ScriptedCall("read", json.dumps({"path": SECRET}))
WRITE = ScriptedCall("write", json.dumps({"path": SECRET}))
PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}


@dataclass(frozen=True)
class Sight:
    """An answer as it came to a client."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    ended: bool
    """Whether it came to the end that its framing promises."""

    @classmethod
    def of(cls, raw: bytes) -> Sight:
        """Read all that came over a connection that closed behind it; raises if it is not valid HTTP."""
        top, mark, rest = raw.partition(b"\r\n\r\n")
        assert mark, f"no head: {raw[:200]!r}"
        first, *rows = top.split(b"\r\n")
        version, status = first.split(b" ")[:2]
        assert version == b"HTTP/1.1"
        lines = [
            (name.lower(), value.strip()) for name, _, value in (r.partition(b":") for r in rows)
        ]
        framing = dict(lines)
        assert not {b"content-length", b"transfer-encoding"} <= set(framing), "framed twice"
        if b"transfer-encoding" in framing:
            body, ended = _unchunked(rest)
        elif int(status) in (204, 304):
            body, ended = rest, True
            assert not body
        else:
            length = int(framing[b"content-length"])
            body, ended = rest, len(rest) == length
            assert len(rest) <= length
        return cls(int(status), tuple(lines), body, ended)

    def header(self, name: str) -> list[bytes]:
        """Return the values under a name."""
        return [value for key, value in self.headers if key == name.encode()]

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)

    @property
    def leaks(self) -> bool:
        """Whether anything of a call is in it, were it a piece of its arguments or only that there is one."""
        return any(mark in self.body for mark in CALL_MARKS)


def _unchunked(data: bytes) -> tuple[bytes, bool]:
    body, at = bytearray(), 0
    while (line := data.find(b"\r\n", at)) > 0:
        size, at = int(data[at:line], 16), line + 2
        if not size:
            assert data[at:] == b"\r\n"
            return bytes(body), True
        body += data[at : at + size]
        at += size + 2
        assert data[at - 2 : at] in (b"\r\n", b"\r", b""), "a chunk without its end"
    return bytes(body), False


# What is asked ------------------------------------------------------------------------------------


def asked(speech: Speech) -> bytes:
    """Return an agent's first request."""
    history = [speech.api.user("rename foo")]
    body = speech.api.request(history, ["read", "grep", "write"], streamed=speech.streamed)
    return json.dumps(body).encode()


async def ask(proxy: Running, speech: Speech, session: str) -> Sight:
    """Send an agent's request and read the answer to its end, or to where it is cut."""
    path = f"/s/{session}/v1{PATHS[speech.name]}"
    return Sight.of(await exchange(proxy.port, post(path, asked(speech))))


def heard(speech: Speech, sight: Sight) -> Heard:
    """Return what a strict client of the API makes of an answer; an error's shape is checked too."""
    if sight.status < 400:
        return speech.api.heard(sight.body, streamed=speech.streamed)
    body = sight.json
    assert sight.header("content-type") == [b"application/json"]
    if speech.name == "messages":
        assert (body["type"], set(body["error"])) == ("error", {"type", "message"})
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}
    return Heard(error=body["error"]["message"])


def told(speech: Speech, sight: Sight, *, status: int = 502) -> str:
    """Check that an answer failed, and that nothing of its call is in it; give what the client is told."""
    assert not sight.leaks
    assert sight.ended, "the error is the end of the answer"
    heard_ = heard(speech, sight)
    assert (heard_.calls, heard_.finish) == ((), ""), "an end that is invented"
    if speech.streamed:
        assert sight.status == 200
        assert SAID in sight.body
    else:
        assert sight.status == status
    assert heard_.error
    return heard_.error


# What is answered ---------------------------------------------------------------------------------


def said(speech: Speech, request: bytes, turn: Turn) -> bytes:
    """Return the body with which a model says this."""
    done = render(Answer(turn), speech.api.script.read(request), speech.api.script)
    return b"".join(done.pieces)


def kind(speech: Speech) -> tuple[str, str]:
    """Return the line that says what a body is."""
    return "Content-Type", "text/event-stream" if speech.streamed else "application/json"


def begun(speech: Speech, body: bytes) -> bytes:
    """Return a body up to the midst of its first call: where its secret was said, and it is not complete."""
    at = body.index(SECRET[:3].encode())
    end = body.index(b"\n\n", at) + 2 if speech.streamed else at + 2
    assert end < len(body)
    return body[:end]


@dataclass
class World:
    """Two proxies with one upstream and one log; one has narrow limits and little patience."""

    up: RawUpstream
    patient: Running
    hasty: Running
    sessions: Iterator[str]
    http: httpx.AsyncClient

    async def session(self, mode: str = "default") -> str:
        """Return a session that was not used before, in a mode."""
        name = next(self.sessions)
        if mode != "default":
            # By one client for all: to make one takes longer than to ask it.
            url = f"{self.patient.url}/control/v1/sessions/{name}/mode"
            lines = {"authorization": f"Bearer {TOKEN}"}
            answer = await self.http.put(url, json={"mode": mode}, headers=lines)
            assert answer.status_code == 200
        return name


HASTY = """
upstreams:
  only: {{url: "{url}", timeouts: {{read: 0.5}}}}
routes: [{{upstream: only}}]
limits: {{body: 20000, frame: 4000}}
"""


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Run all three."""
    names = (f"s{number}" for number in count())
    (folder / "hasty").mkdir()
    async with RawUpstream() as up:
        short = policies_file(folder / "hasty", POLICIES + HASTY.format(url=up.base_url))
        async with (
            running(folder, up.base_url) as patient,
            running(folder, up.base_url, policies=short) as hasty,
            client() as http,
        ):
            yield World(up, patient, hasty, names, http)


Wire = Callable[[bytes, tuple[str, str]], Sequence[Piece]]
"""Puts a body on the wire: that it is so far, and the line that says of what kind."""


def answering(
    speech: Speech, turn: Turn, wire: Wire, *, part: bool
) -> Callable[[Received], Sequence[Piece]]:
    """Answer each request with what is said, or its beginning, put on the wire in some way."""

    def answer(request: Received) -> Sequence[Piece]:
        body = said(speech, request.body, turn)
        return wire(begun(speech, body) if part else body, kind(speech))

    return answer


def _length(extra: int, act: Act | None = None) -> Wire:
    def wire(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        pieces: list[Piece] = [head(200, [line, ("Content-Length", str(len(body) + extra))]) + body]
        return [*pieces, act] if act else pieces

    return wire


def _chunks(*then: Piece) -> Wire:
    def wire(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        return [head(200, [line, ("Transfer-Encoding", "chunked")]) + chunk(body), *then]

    return wire


def _coded(coding: str, code: Callable[[bytes], bytes], *, lost: int = 0) -> Wire:
    def wire(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        coded = code(body)
        return whole(coded[: len(coded) - lost], headers=[line, ("Content-Encoding", coding)])

    return wire


def _zstd(body: bytes) -> bytes:
    return zstandard.compress(body)


def _twice(body: bytes) -> bytes:
    coded: bytes = brotli.compress(gzip.compress(body))
    return coded


BROKEN: dict[str, Wire] = {
    "reset": _chunks(Act.RESET),
    "closed": _chunks(Act.CLOSE),
    "half closed": _chunks(Act.HALF_CLOSE),
    "length too long": _length(9, Act.CLOSE),
    "length too long, reset": _length(9, Act.RESET),
    "length too long, half closed": _length(9, Act.HALF_CLOSE),
}
"""A body breaks off, and HTTP says so."""

ENDED: dict[str, Wire] = {
    "with its length": _length(0),
    "in chunks": _chunks(b"0\r\n\r\n"),
    "with the connection": lambda body, line: [head(200, [line]), body, Act.CLOSE],
    "half closed": lambda body, line: [head(200, [line]), body, Act.HALF_CLOSE],
    "HTTP/1.0": lambda body, line: [
        head(200, [line]).replace(b"HTTP/1.1", b"HTTP/1.0") + body,
        Act.CLOSE,
    ],
    "trailers": lambda body, line: chunked(body, headers=[line], trailers=[("X-T", "1")]),
    "interim answers": lambda body, line: [
        head(100) + head(103, [("Link", "</x>")]),
        *whole(body, headers=[line]),
    ],
}
"""A body ends, and HTTP says so, however odd its ways."""

CODED: dict[str, Wire] = {
    "gzip": _coded("gzip", gzip.compress),
    "br": _coded("br", brotli.compress),
    "zstd": _coded("zstd", _zstd),
    "gzip, br": _coded("gzip, br", _twice),
    "identity": _coded("identity", bytes),
}
TRUNCATED: dict[str, Wire] = {
    "cut gzip": _coded("gzip", gzip.compress, lost=9),
    "cut br": _coded("br", brotli.compress, lost=2),
    "cut zstd": _coded("zstd", _zstd, lost=2),
    "cut gzip, br": _coded("gzip, br", _twice, lost=2),
    "not gzip": _coded("gzip", bytes),
    "unknown": _coded("snappy", bytes),
}
"""A body that HTTP calls whole, and its coding does not."""
