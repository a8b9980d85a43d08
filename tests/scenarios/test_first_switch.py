"""H14, A5, R2: the first switch of a session stops the write that is streaming, wherever it is made.

A second proxy on the same log, in this process or not, learns of a switch by the feed alone.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from modegate.core.endpoints import Endpoint
from modegate.scripted.model import ScriptedCall, Turn
from modegate.server.proxy.sending import Sending
from modegate.server.proxy.step import Step
from support.raw_upstream import Piece, RawUpstream, chunked, head, whole
from support.redis_server import redis_server
from support.running import POLICIES, Running, client, policies_file, running
from support.speech import Heard, Speech
from support.speeches import SPEECHES
from support.waiting import PATIENCE

SECRET = "S3CRET"
WRITE = ScriptedCall("write", json.dumps({"path": SECRET}))
READ = ScriptedCall("read", '{"path": "a"}')
PATHS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}
CALLS = {"chat": b'"tool_calls":[', "responses": b'"function_call"', "messages": b'"tool_use"'}
STREAMED = [one for one in SPEECHES if one.streamed]
MANY = 400


@pytest.fixture(params=["embedded", "redis"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield a store that two processes can have."""
    if request.param == "embedded":
        yield f"sqlite:{tmp_path / 'shared.db'}"
    else:
        (tmp_path / "redis").mkdir()
        with redis_server(tmp_path / "redis") as server:
            yield server.url


def request_of(speech: Speech) -> bytes:
    """Return what the agent asks."""
    api = speech.api
    asked = api.request([api.user("rename foo")], ("read", "grep", "write"), streamed=True)
    return json.dumps(asked).encode()


@dataclass
class Answering:
    """An upstream's streamed answer that waits in front of its call until it is told to go on."""

    speech: Speech
    call: ScriptedCall = WRITE
    inside: bool = False
    """It waits within the call instead."""

    def __post_init__(self) -> None:
        self.asked = request_of(self.speech)
        self.body = self.speech.reply(Turn("I say.", calls=(self.call,)), self.asked).body
        at = self.body.index(CALLS[self.speech.name])
        self.cut = max(self.body.rfind(b"\n\n", 0, at), -2) + 2
        if self.inside:
            self.cut = self.body.index(b"\n\n", at) + 2
        self.go = asyncio.Event()

    def pieces(self, *between: Piece) -> list[Piece]:
        """Return the answer; what stands `between` goes before the rest."""
        return chunked(self.body[: self.cut], *between, self.go, self.body[self.cut :])


@asynccontextmanager
async def opened(
    proxy: Running, speech: Speech, asked: bytes, session: str = "s", **headers: str
) -> AsyncIterator[httpx.Response]:
    """Send a request and give its answer as it comes."""
    async with client() as http:
        url = f"{proxy.base(session)}/{PATHS[speech.name]}"
        async with http.stream("POST", url, content=asked, headers=headers) as answer:
            yield answer


async def rest_of(stream: AsyncIterator[bytes]) -> bytes:
    """Return what comes, also of an answer that breaks off."""
    found = b""
    try:
        async for piece in stream:
            found += piece
    except httpx.RemoteProtocolError:
        return found + b"(broken)"
    return found


async def read_up_to(stream: AsyncIterator[bytes], size: int) -> bytes:
    """Read so many bytes of an answer that waits then."""
    found = b""
    async with asyncio.timeout(PATIENCE):
        while len(found) < size:
            found += await anext(stream)
    return found


def heard(speech: Speech, body: bytes) -> Heard:
    """Read an answer as its client does."""
    return speech.api.heard(body, streamed=True)


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_h14_a_write_after_the_switch_never_comes(tmp_path: Path, speech: Speech) -> None:
    """Text goes on as one answer; the model hears of the mode."""
    model = Answering(speech)
    again = speech.reply(Turn("Then not."), request_of(speech)).body
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(model.pieces())
        up.enqueue(chunked(again))
        async with opened(proxy, speech, model.asked) as answer:
            stream = answer.aiter_raw()
            body = await read_up_to(stream, model.cut)
            assert body == model.body[: model.cut]
            await proxy.set_mode("plan")
            model.go.set()
            body += await rest_of(stream)
        found = heard(speech, body)
        assert (found.text, found.calls, found.finish) == ("I say.\n\nThen not.", (), "stop")
        assert SECRET.encode() not in body
        assert b"PLAN-SECTION" in up.requests[1].body
        verdicts = [
            e["data"]["verdict"] for e in await proxy.events() if e["type"] == "call/judged"
        ]
        assert verdicts == ["answer"]


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_h14_a_read_after_the_switch_comes(tmp_path: Path, speech: Speech) -> None:
    """The answer is what the upstream sent."""
    model = Answering(speech, READ)
    async with RawUpstream(model.pieces()) as up, running(tmp_path, up.base_url) as proxy:
        async with opened(proxy, speech, model.asked) as answer:
            stream = answer.aiter_raw()
            body = await read_up_to(stream, model.cut)
            await proxy.set_mode("plan")
            model.go.set()
            assert body + await rest_of(stream) == model.body


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_h14_a_write_under_way_is_cut_off(tmp_path: Path, speech: Speech) -> None:
    """Its client is told by the API's own error."""
    model = Answering(speech, inside=True)
    async with RawUpstream(model.pieces()) as up, running(tmp_path, up.base_url) as proxy:
        async with opened(proxy, speech, model.asked) as answer:
            stream = answer.aiter_raw()
            await read_up_to(stream, model.cut)
            await proxy.set_mode("plan")
            model.go.set()
            rest = await rest_of(stream)
    assert b"was cut off" in rest
    assert not rest.endswith(b"(broken)")
    assert model.body[model.cut : model.cut + 40] not in rest


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_h14_another_process_makes_the_switch(
    tmp_path: Path, log: str, speech: Speech
) -> None:
    """The one that streams learns of it by the feed; text that comes until then passes raw."""
    model = Answering(speech)
    again = speech.reply(Turn("Then not."), request_of(speech)).body
    ticks = [asyncio.Event() for _ in range(MANY)]
    between: list[Piece] = [one for tick in ticks for one in (tick, b": tick\n\n")]
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(RawUpstream())
        proxies = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            made = running(tmp_path / name, up.base_url, log=log)
            proxies.append(await stack.enter_async_context(made))
        streams, sets = proxies
        up.enqueue(model.pieces(*between))
        up.enqueue(chunked(again))
        answer = await stack.enter_async_context(opened(streams, speech, model.asked))
        stream = answer.aiter_raw()
        body = await read_up_to(stream, model.cut)
        await sets.set_mode("plan")
        for tick in ticks:
            tick.set()
            body += await anext(stream)
            if await overtaken(streams):
                break
        else:
            raise AssertionError("the switch was never noticed")
        for tick in ticks:
            tick.set()
        model.go.set()
        body += await rest_of(stream)
    found = heard(speech, body)
    assert (found.text, found.calls, found.finish) == ("I say.\n\nThen not.", (), "stop")
    assert SECRET.encode() not in body


async def overtaken(proxy: Running) -> bool:
    """Return whether an answer is read from its middle on."""
    async with client() as http:
        page = (await http.get(f"{proxy.url}/metrics")).text
    return 'modegate_tightened_answers_total{how="read"} 1.0' in page


async def test_h14_a_parent_is_tightened(tmp_path: Path) -> None:
    """It holds its child, whose own log does not change."""
    speech = STREAMED[0]
    model = Answering(speech)
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(model.pieces())
        up.enqueue(chunked(speech.reply(Turn("Then not."), request_of(speech)).body))
        headers = {"x-parent-session-id": "parent"}
        async with opened(proxy, speech, model.asked, "child", **headers) as answer:
            stream = answer.aiter_raw()
            body = await read_up_to(stream, model.cut)
            await proxy.set_mode("plan", "parent")
            model.go.set()
            body += await rest_of(stream)
    assert heard(speech, body).text == "I say.\n\nThen not."
    assert SECRET.encode() not in body


def _whole() -> tuple[str, list[Piece], asyncio.Event]:
    go, body = asyncio.Event(), b'{"choices": []}'
    top = head(200, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return "chat/completions", [top + body[:5], go, body[5:]], go


def _zipped() -> tuple[str, list[Piece], asyncio.Event]:
    go, body = asyncio.Event(), gzip.compress(b'data: {"choices": []}\n\n' * 9)
    headers = [("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")]
    return "chat/completions", chunked(body[:20], go, body[20:], headers=headers), go


def _elsewhere() -> tuple[str, list[Piece], asyncio.Event]:
    go = asyncio.Event()
    return "assistants", chunked(b"data: {}\n\n", go, b"data: {}\n\n"), go


@pytest.mark.parametrize("make", [_whole, _zipped, _elsewhere], ids=lambda one: one.__name__)
async def test_h14_what_cannot_be_read_breaks_off(tmp_path: Path, make: object) -> None:
    """A whole body, a compressed answer, a path that the gate does not know."""
    assert callable(make)
    path, pieces, go = make()
    async with RawUpstream(pieces) as up, running(tmp_path, up.base_url) as proxy:
        async with client() as http:
            async with http.stream(
                "POST", f"{proxy.base()}/{path}", content=b'{"messages": []}'
            ) as got:
                stream = got.aiter_raw()
                await read_up_to(stream, 5)
                await proxy.set_mode("plan")
                go.set()
                assert await rest_of(stream) == b"(broken)"


async def test_h14_an_answer_that_was_sent_is_left_alone(tmp_path: Path) -> None:
    """The upstream only has to say that it is over."""
    go, body = asyncio.Event(), b'data: {"choices": []}\n\ndata: [DONE]\n\n'
    async with RawUpstream(chunked(body, go)) as up, running(tmp_path, up.base_url) as proxy:
        async with opened(proxy, STREAMED[0], b'{"messages": []}') as answer:
            stream = answer.aiter_raw()
            assert await read_up_to(stream, len(body)) == body
            await proxy.set_mode("plan")
            go.set()
            assert await rest_of(stream) == b""


async def test_h14_the_restore_path_is_watched_too(tmp_path: Path) -> None:
    """A session that has left its mode, whose agent has an exit tool of its own: nothing is to be read."""
    speech = STREAMED[0]
    model = Answering(speech)
    asked = json.loads(model.asked)
    asked["tools"].append({"type": "function", "function": {"name": "exit_plan_mode"}})
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        await proxy.set_mode("default")
        up.enqueue(model.pieces())
        up.enqueue(chunked(speech.reply(Turn("Then not."), request_of(speech)).body))
        async with opened(proxy, speech, json.dumps(asked).encode()) as answer:
            stream = answer.aiter_raw()
            body = await read_up_to(stream, model.cut)
            await proxy.set_mode("plan")
            model.go.set()
            body += await rest_of(stream)
    assert heard(speech, body).text == "I say.\n\nThen not."
    assert SECRET.encode() not in body


async def test_h14_the_rest_of_a_large_read_passes_unread_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the restore path a large read leaves in pieces, which a slow client takes as it likes."""
    speech = STREAMED[0]
    asked = json.loads(request_of(speech))
    asked["tools"].append({"type": "function", "function": {"name": "exit_plan_mode"}})
    body = speech.reply(Turn("I say. " * 300, calls=(WRITE,)), request_of(speech)).body
    sent: list[bytes] = []
    sends = Sending.body
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:

        async def switching(self: Sending, data: bytes, *, more: bool) -> None:
            await sends(self, data, more=more)
            sent.append(data)
            if len(sent) == 1:
                await proxy.set_mode("plan")

        await proxy.set_mode("plan")
        await proxy.set_mode("default")
        monkeypatch.setattr(Sending, "body", switching)
        up.enqueue(chunked(body))
        up.enqueue(chunked(speech.reply(Turn("Then not."), request_of(speech)).body))
        async with opened(proxy, speech, json.dumps(asked).encode()) as answer:
            got = await rest_of(answer.aiter_raw())
    assert body.startswith(sent[0])
    assert SECRET.encode() in body
    assert SECRET.encode() not in got


# H8: a request that lacks a byte when the mode is set ----------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/s/s/v1/chat/completions", "/s/s/v1/messages", "/s/s/v1/responses"]
)
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_h8_a_stockpiled_request_meets_the_mode(
    tmp_path: Path, path: str, framing: str
) -> None:
    """The state is read once all of the request is there."""
    speech = next(one for one in STREAMED if path.endswith(PATHS[one.name]))
    asked = request_of(speech)
    async with RawUpstream(chunked(speech.reply(Turn("x"), asked).body)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            sent = await stockpiled(proxy, path, asked, framing)
    assert b" 200 " in sent.split(b"\r\n")[0]
    assert b"PLAN-SECTION" in up.requests[0].body
    assert b'"write"' not in up.requests[0].body


async def test_h8_a_path_that_the_gate_does_not_know(tmp_path: Path) -> None:
    """It is refused, as it is in a mode."""
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        sent = await stockpiled(proxy, "/s/s/api/chat", b'{"a": 1}', "length")
        assert b" 400 " in sent.split(b"\r\n")[0]
        assert up.requests == []


async def test_h8_a_stockpiled_request_meets_the_policy_of_now(tmp_path: Path) -> None:
    """What the provider runs by itself, or is shown, nobody could take back later."""
    speech = STREAMED[0]
    asked = request_of(speech)
    async with RawUpstream(chunked(speech.reply(Turn("x"), asked).body)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            assert proxy.composed is not None
            policies = proxy.composed.services.policies

            async def narrow() -> None:
                policies_file(tmp_path, POLICIES.replace("[read, grep]", "[grep]"))
                while policies.status.generation < 2:
                    await policies.poll(0)

            await proxy.set_mode("plan")
            path = "/s/s/v1/chat/completions"
            sent = await stockpiled(proxy, path, asked, "length", narrow)
    assert b" 200 " in sent.split(b"\r\n")[0]
    assert b'"grep"' in up.requests[0].body
    assert b'"read"' not in up.requests[0].body


async def test_h8_a_request_that_waits_to_be_read_meets_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large bodies are read one after the other; what goes upstream then is what the mode lets go."""
    speech = STREAMED[0]
    asked = request_of(speech)
    reads = Step._model
    async with RawUpstream(chunked(speech.reply(Turn("x"), asked).body)) as up:
        async with running(tmp_path, up.base_url) as proxy:

            async def waits(self: Step, endpoint: Endpoint) -> str | None:
                await proxy.set_mode("plan")
                return await reads(self, endpoint)

            monkeypatch.setattr(Step, "_model", waits)
            async with opened(proxy, speech, asked) as answer:
                await rest_of(answer.aiter_raw())
    assert b"PLAN-SECTION" in up.requests[0].body
    assert b'"write"' not in up.requests[0].body


async def stockpiled(
    proxy: Running,
    path: str,
    body: bytes,
    framing: str,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> bytes:
    """Send all but the last byte, set the mode (or do something else), and send that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    top = f"POST {path} HTTP/1.1\r\nHost: p\r\nConnection: close\r\n".encode()
    if framing == "chunked":
        begin = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body) - 1, body[:-1])
        end = b"1\r\n%b\r\n0\r\n\r\n" % body[-1:]
    else:
        begin = b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:-1])
        end = body[-1:]
    writer.write(top + begin)
    await writer.drain()
    # Answered behind the request's head, on another connection: that one has begun.
    await proxy.control("GET", "/sessions")
    await (meanwhile() if meanwhile else proxy.set_mode("plan"))
    writer.write(end)
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    return answer
