"""Routes over real sockets: which upstream a request meets, with what, and what a reload changes."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.raw_upstream import Piece, RawUpstream, chunked, whole
from support.running import POLICIES, Running, client, exchange, policies_file, post, running
from support.waiting import PATIENCE

ROUTES = """
upstreams:
  anthropic: {{url: "{anthropic}", key: {{env: ROUTES_KEY}}}}
  gemini: {{url: "{gemini}", headers: {{x-team: blue}}}}
routes:
  - {{dialect: messages, upstream: anthropic}}
  - {{model: "gemini-*", upstream: gemini}}
"""

SECRET = "upstream-secret-1"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the upstream's key where the policy says it is."""
    monkeypatch.setenv("ROUTES_KEY", SECRET)


class World:
    """A proxy with two routes and a default, each to an upstream of its own."""

    def __init__(self, folder: Path, *, read_body: bool = True) -> None:
        self.folder = folder
        self.anthropic = RawUpstream(read_body=read_body)
        self.gemini, self.default = RawUpstream(), RawUpstream()

    def policies(self, text: str = ROUTES) -> Path:
        urls = {name: getattr(self, name).base_url for name in ("anthropic", "gemini")}
        return policies_file(self.folder, POLICIES + text.format(**urls))

    async def __aenter__(self) -> World:
        self._stack = AsyncExitStack()
        for upstream in (self.anthropic, self.gemini, self.default):
            await self._stack.enter_async_context(upstream)
        self.proxy: Running = await self._stack.enter_async_context(
            running(self.folder, self.default.base_url, policies=self.policies())
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def send(self, path: str, body: bytes, *lines: str) -> tuple[int, bytes]:
        """Send under a name that the proxy is known by; give status and body."""
        request = post(path, body, *lines).replace(b"Host: proxy", b"Host: localhost", 1)
        answer = await exchange(self.proxy.port, request)
        top, _, rest = answer.partition(b"\r\n\r\n")
        return int(top.split(b" ", 2)[1]), rest

    def met(self) -> dict[str, int]:
        """How many requests each upstream got."""
        return {
            name: len(getattr(self, name).requests) for name in ("anthropic", "gemini", "default")
        }


def body(model: str) -> bytes:
    """Return a body with a spelling that nobody would write anew."""
    return b'{ "messages":[], "n":1.0,\t"model": %b }\n' % json.dumps(model).encode()


@pytest.mark.parametrize(
    ("path", "model", "expected"),
    [
        ("/v1/chat/completions", "gemini-2.5-pro", "gemini"),
        ("/s/x/v1/responses", "gemini-2.5-pro", "gemini"),
        ("/v1/embeddings", "gemini-embedding", "gemini"),
        ("/openai/deployments/gemini-x/chat/completions?api-version=1", "other", "gemini"),
        ("/v1/chat/completions", "gpt-5", "default"),
        ("/v1/messages", "gemini-2.5-pro", "anthropic"),
        ("/v1/messages/count_tokens", "gpt-5", "anthropic"),
    ],
)
async def test_dialect_and_model_decide_and_the_body_keeps_its_bytes(
    tmp_path: Path, path: str, model: str, expected: str
) -> None:
    sent = body(model)
    async with World(tmp_path) as world:
        status, _ = await world.send(path, sent, "Content-Type: application/json")
        assert status == 200
        assert world.met()[expected] == sum(world.met().values()) == 1
        assert getattr(world, expected).requests[0].body == sent


async def test_an_encoded_body_is_read_and_passed_on_encoded(tmp_path: Path) -> None:
    sent = gzip.compress(body("gemini-2.5-pro"))
    async with World(tmp_path) as world:
        await world.send("/v1/chat/completions", sent, "Content-Encoding: gzip")
        assert world.gemini.requests[0].body == sent


@pytest.mark.parametrize("sent", [b"", b"{", b"\xff", b"[1]", gzip.compress(b"{}", mtime=0)])
async def test_a_body_that_names_no_model_goes_to_the_default(tmp_path: Path, sent: bytes) -> None:
    async with World(tmp_path) as world:
        assert (await world.send("/v1/chat/completions", sent))[0] == 200
        assert world.default.requests[0].body == sent


async def test_two_models_are_refused(tmp_path: Path) -> None:
    sent = b'{"model":"gpt-5","model":"gemini-2.5-pro"}'
    async with World(tmp_path) as world:
        status, told = await world.send("/v1/chat/completions", sent)
        assert (status, sum(world.met().values())) == (400, 0)
        assert b"names two models" in told


async def test_an_upload_that_is_harmless_in_every_mode_streams(tmp_path: Path) -> None:
    """The answer is there while the client still holds back its end; all others wait for that (H8)."""
    async with World(tmp_path, read_body=False) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.proxy.port)
        writer.write(b"POST /s/x/v1/files HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b'Anthropic-Version: 2023-06-01\r\nContent-Length: 9\r\n\r\n{"a":')
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_key_replaces_the_clients_and_nothing_of_modegates_goes_upstream(
    tmp_path: Path,
) -> None:
    lines = ("X-Api-Key: client", "Authorization: Bearer client", "X-Modegate-Session: s1")
    async with World(tmp_path) as world:
        await world.send("/v1/messages", body("x"), *lines)
        await world.send("/v1/chat/completions", body("gemini-x"), *lines, "X-Team: red")
    (request,) = world.anthropic.requests
    assert (request.header("x-api-key"), request.header("authorization")) == ([SECRET.encode()], [])
    (other,) = world.gemini.requests
    assert other.header("authorization") == [b"Bearer client"]
    assert other.header("x-team") == [b"blue"]
    assert not [name for r in (request, other) for name, _ in r.headers if b"modegate" in name]


@pytest.mark.parametrize(
    ("path", "lines", "status"),
    [
        ("/v1/messages", ("Host: evil.example",), 400),
        ("/v1/messages", ("Host: localhost", "Origin: http://evil.example"), 400),
        ("/v1/messages", ("Host: localhost", "Origin: http://localhost"), 200),
        ("/v1/messages", ("Host: 127.0.0.1:1",), 200),
        ("/v1/chat/completions", ("Host: evil.example", "Origin: http://evil.example"), 200),
    ],
    ids=["name", "site", "own site", "own name", "no credential of ours"],
)
async def test_no_page_can_use_a_credential_of_modegate(
    tmp_path: Path, path: str, lines: tuple[str, ...], status: int
) -> None:
    request = post(path, body("gemini-x"), *lines[1:]).replace(b"Host: proxy", lines[0].encode())
    async with World(tmp_path) as world:
        answer = await exchange(world.proxy.port, request)
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert (b"MODEGATE_HOSTS" in answer) is (status == 400)
    if status == 400:
        assert b'{"type":"error","error":{' in answer  # as clients of Messages want it
        assert sum(world.met().values()) == 0


async def test_a_step_in_a_mode_takes_its_route_too(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
    read = {"type": "function", "function": {"name": "read", "parameters": {}}}
    asked = {
        "model": "gemini-2.5-pro",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool, read],
    }
    said = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}}]}
    async with World(tmp_path) as world:
        world.gemini.answer = whole(json.dumps(said).encode())
        await world.proxy.set_mode("plan")
        async with client() as http:
            url = f"{world.proxy.base()}/chat/completions"
            answer = await http.post(url, json=asked)
        assert answer.json()["choices"][0]["message"]["content"] == "ok"
        assert world.met() == {"anthropic": 0, "gemini": 1, "default": 0}
        sent = json.loads(world.gemini.requests[0].body)
        assert [one["function"]["name"] for one in sent["tools"]] == ["read"]


async def test_a_reload_changes_where_the_next_request_goes_and_cuts_nothing(
    tmp_path: Path,
) -> None:
    pause = asyncio.Event()
    held: list[Piece] = chunked(b"data: 1\n\n", pause, b"data: 2\n\n")
    async with World(tmp_path) as world:
        assert world.proxy.composed is not None
        policies = world.proxy.composed.services.policies
        world.gemini.enqueue(held)
        url = f"{world.proxy.base()}/chat/completions"
        async with client() as http:
            async with http.stream("POST", url, content=body("gemini-x")) as answer:
                chunks = answer.aiter_bytes()
                assert await anext(chunks) == b"data: 1\n\n"
                world.policies(ROUTES.replace("gemini-*", "llama*").replace("blue", "green"))
                await policies.poll(settle=0)
                assert (await http.post(url, content=body("gemini-x"))).status_code == 200
                assert (await http.post(url, content=body("llama"))).status_code == 200
                pause.set()
                assert [chunk async for chunk in chunks] == [b"data: 2\n\n"]
        await world.gemini.gone(0)
        assert world.met() == {"anthropic": 0, "gemini": 2, "default": 1}
        assert world.gemini.requests[1].header("x-team") == [b"green"]


async def test_a_reload_that_names_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        assert world.proxy.composed is not None
        policies = world.proxy.composed.services.policies
        world.policies(ROUTES.replace("ROUTES_KEY", "ROUTES_NONE"))
        await policies.poll(settle=0)
        assert [str(problem) for problem in policies.status.problems] == [
            "upstreams.anthropic.key.env: the environment variable ROUTES_NONE is not set"
        ]
        await world.send("/v1/messages", body("x"))
        assert world.anthropic.requests[0].header("x-api-key") == [SECRET.encode()]
