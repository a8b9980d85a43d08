"""What happens when things fail: design's table, over real sockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.playbook import call, request, said, stream, text
from support.raw_upstream import Act, RawUpstream, chunked, whole
from support.redis_server import RedisServer
from support.running import POLICIES, client, exchange, policies_file, post, running

WRITE = stream(call("write", '{"path":"S3CRET"}'))
STEP = json.dumps(request("read", "write", stream=True)).encode()


async def test_log_unreachable_refuses_every_step(tmp_path: Path) -> None:
    """503 with Retry-After, in default mode too, as no mode is known; served again afterwards."""
    server = RedisServer(tmp_path, "--appendonly", "yes")
    server.start()
    try:
        async with RawUpstream(chunked(said())) as up:
            async with running(tmp_path, up.base_url, log=server.url) as proxy:
                raw = post("/s/s/v1/chat/completions", STEP)
                assert b" 200 " in await exchange(proxy.port, raw)
                server.kill()
                answer = await exchange(proxy.port, raw)
                assert b" 503 " in answer.split(b"\r\n")[0]
                assert b"retry-after: " in answer
                assert b"log_unavailable" in answer
                server.start()
                assert b" 200 " in await exchange(proxy.port, raw)
    finally:
        server.kill()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"messages":1}', b'{"messages":["x"]}', b'{"messages":[],"tools":{}}',
     b'{"messages":[],"tools":[],"tools":[]}', b'{"messages":[],"Tools":[]}', b"\xff" * 9,
     b'{"messages":[' + b"[" * 3000 + b"]" * 3000 + b"]}"],
    ids=["empty", "cut", "list", "messages", "message", "tools", "twice", "case", "bytes", "deep"],
)  # fmt: skip
async def test_bodies_that_cannot_be_read(tmp_path: Path, body: bytes) -> None:
    """In a mode a 400 in the API's own shape, and nothing goes upstream; in default mode they pass."""
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        raw = post("/s/s/v1/chat/completions", body)
        assert b" 200 " in (await exchange(proxy.port, raw)).split(b"\r\n")[0]
        await proxy.set_mode("plan")
        top, _, sent = (await exchange(proxy.port, raw)).partition(b"\r\n\r\n")
        assert b" 400 " in top.split(b"\r\n")[0]
        assert json.loads(sent)["error"]["type"] == "invalid_request_error"
    assert [one.body for one in up.requests] == [body]


async def test_upstream_that_is_not_there(tmp_path: Path) -> None:
    """502 that names the upstream, in default mode and in plan."""
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        for mode in ("default", "plan"):
            await proxy.set_mode(mode)
            answer = await exchange(proxy.port, post("/s/s/v1/chat/completions", STEP))
            assert b" 502 " in answer.split(b"\r\n")[0]
            assert b"127.0.0.1:9" in answer


CUTS = {
    "before-the-head": [Act.RESET],
    "in-the-head": [b"HTTP/1.1 200 OK\r\nContent-Ty", Act.CLOSE],
}


@pytest.mark.parametrize("pieces", CUTS.values(), ids=CUTS)
async def test_upstream_that_gives_no_answer(tmp_path: Path, pieces: list[bytes | Act]) -> None:
    """No head, no answer: 502."""
    async with RawUpstream(pieces) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        answer = await exchange(proxy.port, post("/s/s/v1/chat/completions", STEP))
    assert b" 502 " in answer.split(b"\r\n")[0]


async def test_upstream_cut_in_mid_stream(tmp_path: Path) -> None:
    """What came goes out, held calls do not, an error frame says so, no end is invented."""
    answer = [*chunked(text("a") + call("read"))[:2], Act.RESET]
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        got = await exchange(proxy.port, post("/s/s/v1/chat/completions", STEP))
    assert text("a") in got
    assert b'data: {"error"' in got
    assert b"tool_calls" not in got
    assert b"[DONE]" not in got


async def test_b149_a_broken_policy_keeps_the_last_good_one(tmp_path: Path) -> None:
    """Saved broken: still plan as it was, with a warning; mended: the next request obeys it."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        assert proxy.composed is not None
        policies = proxy.composed.services.policies
        await proxy.set_mode("plan")
        policies_file(tmp_path, "modes:\n  plan:\n    tools: [read, ")
        await policies.poll()
        raw = post("/s/s/v1/chat/completions", STEP)
        assert b"S3CRET" not in await exchange(proxy.port, raw)
        async with client() as http:
            ready = await http.get(f"{proxy.url}/readyz")
        assert ready.status_code == 200
        assert "line" in ready.text or "warning" in ready.text
        policies_file(tmp_path, POLICIES.replace("[read, grep]", "[read, write]"))
        await policies.poll()
        assert b"S3CRET" in await exchange(proxy.port, raw)


async def test_a_mode_that_is_gone_refuses(tmp_path: Path) -> None:
    """Never default: 400 that names the mode, until another is set."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        assert proxy.composed is not None
        await proxy.set_mode("plan")
        gone = "modes:\n  review:\n    section: x\n    tools: [read]\n"
        policies_file(tmp_path, gone)
        await proxy.composed.services.policies.poll()
        raw = post("/s/s/v1/chat/completions", STEP)
        answer = await exchange(proxy.port, raw)
        assert b" 400 " in answer.split(b"\r\n")[0]
        assert b"mode_gone" in answer
        assert b"plan" in answer
        await proxy.set_mode("review")
        assert b" 200 " in await exchange(proxy.port, raw)


async def test_unknown_modes_fail_loudly(tmp_path: Path) -> None:
    """422 with what is available; nothing is appended."""
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        answer = await proxy.control("PUT", "/sessions/s/mode", json={"mode": "plna"})
        assert answer.status_code == 422
        assert "plan" in answer.text
        assert await proxy.events() == []
