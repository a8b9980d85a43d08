"""Plan mode over real sockets for the Messages API: the real anthropic SDK, as agents use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from support.message_frames import SECRET, WRITE, begin, call, start, stream, text, use, whole
from support.messages import tool
from support.raw_upstream import RawUpstream, chunked
from support.raw_upstream import whole as http_whole
from support.running import Running, running
from support.sdk_clients import anthropic_client

TOOLS: Any = [tool("read"), tool("write")]
USER: Any = {"role": "user", "content": "rename foo"}
ASK: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [USER], "tools": TOOLS}
FIRST = stream(text(0, "I write."), use(1, "write", WRITE))
SECOND = stream(text(0, "I read."), use(1, "read", '{"p":1}', id_="toolu_read_1"))


def sdk(proxy: Running) -> AsyncAnthropic:
    """Return a client as an agent has it: the session is in its base URL, which has no `/v1`."""
    return anthropic_client(proxy.base().removesuffix("/v1"))


async def test_anthropic_sdk_streamed(tmp_path: Path) -> None:
    """One message without the call; upstream got the SDK's own headers and query, and the history again."""
    async with RawUpstream(chunked(FIRST)) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(
            chunked(FIRST), chunked(SECOND), chunked(stream(text(0, "So."), reason="end_turn"))
        )
        await proxy.set_mode("plan")
        async with sdk(proxy) as client:
            extra: Any = {
                "extra_headers": {"anthropic-beta": "x-1", "x-api-key": "k"},
                "extra_query": {"beta": "true"},
            }
            async with client.messages.stream(**ASK, **extra) as events:
                message = await events.get_final_message()
            assert [block.type for block in message.content] == ["text", "text", "tool_use"]
            assert message.stop_reason == "tool_use"
            assert message.usage.output_tokens == 10
            assert SECRET not in message.to_json()
            history: Any = [
                USER,
                {"role": "assistant", "content": message.content},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_read_1"}],
                },
            ]
            async with client.messages.stream(**{**ASK, "messages": history}) as events:
                assert await events.get_final_text() == "So."
    for one in up.requests:
        assert one.header("authorization") == [b"Bearer none"]
        assert one.header("anthropic-version")
    assert up.requests[0].target == b"/v1/messages?beta=true"
    assert up.requests[0].header("anthropic-beta") == [b"x-1"]
    assert up.requests[0].header("x-api-key") == [b"k"]
    assert SECRET.encode() in up.requests[2].body


async def test_anthropic_sdk_whole(tmp_path: Path) -> None:
    """The same without a stream, and what is counted is what the model would be shown."""
    hops = [
        whole(call("write", {"path": SECRET})),
        whole({"type": "text", "text": "ok"}, reason="end_turn"),
    ]
    async with RawUpstream(http_whole(b"{}")) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(*(http_whole(hop.body) for hop in hops), http_whole(b'{"input_tokens":3}'))
        await proxy.set_mode("plan")
        async with sdk(proxy) as client:
            message = await client.messages.create(**ASK)
            assert [block.to_dict() for block in message.content] == [
                {"type": "text", "text": "ok"}
            ]
            counted = await client.messages.count_tokens(model="m", messages=[USER], tools=TOOLS)
            assert counted.input_tokens == 3
    assert b'"write"' not in up.requests[2].body
    assert b"PLAN-SECTION" in up.requests[2].body


async def test_what_the_sdk_makes_of_our_refusals(tmp_path: Path) -> None:
    """Each of its errors shows our words; a stream that was answered with 200 raises one as well."""
    async with RawUpstream(chunked(FIRST)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        async with sdk(proxy) as client:
            with pytest.raises(anthropic.BadRequestError, match="is not a list"):
                await client.messages.create(**{**ASK, "messages": "x"})
            with pytest.raises(anthropic.BadRequestError, match="cannot gate"):
                await client.messages.batches.list()
            up.enqueue(http_whole(b"nonsense"))
            with pytest.raises(anthropic.InternalServerError, match="not JSON"):
                await client.messages.create(**ASK)
            for body in (
                begin() + b"data: {\n\n",
                begin() + start(0, {"type": "text", "text": ""}),
            ):
                up.enqueue(chunked(body))
                with pytest.raises(anthropic.APIStatusError, match="the upstream"):
                    await _read(client)


async def test_an_upstreams_errors_are_its_own(tmp_path: Path) -> None:
    """Before the answer and in the middle of it."""
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}'
    async with RawUpstream(chunked(FIRST)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        async with sdk(proxy) as client:
            up.enqueue(http_whole(error, 529))
            with pytest.raises(anthropic.OverloadedError, match="Overloaded"):
                await _read(client)
            up.enqueue(chunked(begin() + text(0, "Hi") + b"event: error\ndata: " + error + b"\n\n"))
            with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
                await _read(client)


async def _read(client: AsyncAnthropic) -> None:
    async with client.messages.stream(**ASK) as events:
        await events.get_final_message()
