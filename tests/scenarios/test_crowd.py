"""H24: an agent that takes every connection does not lock the operator out."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from support.acp import eventually
from support.raw_upstream import RawUpstream
from support.running import POLICIES, client, policies_file, process

FILES = 256
CROWD = 300
HALVES = {
    "nothing": b"",
    "half a head": b"POST /s/x/v1/chat/completions HTTP/1.1\r\nHost: a.b\r\n",
    "half a body": b"POST /s/x/v1/chat/completions HTTP/1.1\r\nHost: a.b\r\nContent-Length: 9\r\n\r\nhalf",
    "half a control request": b"PUT /control/v1/sessions/s/mode HTTP/1.1\r\nHost: a.b\r\n"
    b"Content-Length: 9\r\n\r\nhalf",
}


async def close(writer: asyncio.StreamWriter) -> None:
    """Be gone before the proxy is asked to end, which it does with its last request."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("name", HALVES)
async def test_h24_300_half_requests_against_256_descriptors(tmp_path: Path, name: str) -> None:
    """A person still sets the mode, and a changed policy is still read."""
    async with RawUpstream() as up:
        with process(tmp_path, up.base_url, files=FILES) as proxy:
            crowd = [
                await asyncio.open_connection("127.0.0.1", proxy.running.port) for _ in range(CROWD)
            ]
            for _, writer in crowd:
                writer.write(HALVES[name])
            await proxy.running.set_mode("plan")
            policies_file(tmp_path, POLICIES.replace("PLAN-SECTION", "ANOTHER"))

            async def reloaded() -> bool:
                answer = await proxy.running.control("GET", "/policy")
                return bool(answer.json()["generation"] == 2)

            await eventually(reloaded)
            async with client() as http:
                assert (await http.get(f"{proxy.running.url}/readyz")).status_code == 200
            for _, writer in crowd:
                await close(writer)


@pytest.mark.parametrize("path", ["/s/x/v1/chat/completions", "/s/x/v1/messages"])
async def test_h24_an_agent_too_many_is_told_in_its_own_format(tmp_path: Path, path: str) -> None:
    half = f"POST {path} HTTP/1.1\r\nHost: a.b\r\nContent-Length: 9\r\n\r\nhalf".encode()
    async with RawUpstream() as up:
        with process(tmp_path, up.base_url, "--connections", "1") as proxy:
            _, first = await asyncio.open_connection("127.0.0.1", proxy.running.port)
            first.write(half)

            async def refused() -> bool:
                async with client() as http:
                    answer = await http.post(proxy.running.url + path, content=b"{}")
                if answer.status_code != 503:
                    return False
                assert answer.headers["retry-after"] == "5"
                assert ("type" in answer.json()) == (path == "/s/x/v1/messages")
                return True

            await eventually(refused)
            await close(first)
