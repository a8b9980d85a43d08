"""The official SDKs against a running proxy, with one script as the model of all three APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.running import Running, running
from support.sdk_clients import anthropic_client, openai_client

SCRIPT = """
answers:
  - when: {lacks: write, results: 0}
    reasoning: "They want a file."
    text: "I write it."
    calls: [{name: write, arguments: {path: S3CRET}}]
  - when: {last_result: refused}
    text: "Then I read."
    calls: [{name: read, arguments: {path: a}}, {name: write, arguments: {path: S3CRET2}}]
  - when: {offers: write}
    calls: [{name: write, arguments: {path: open}}]
  - text: "Done."
"""
NAMES = ("read", "write")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
USER: Any = [{"role": "user", "content": "Rename foo"}]

Heard = tuple[str, list[tuple[str, object]]]
"""Text without what stands between its parts, and calls."""


async def chat(proxy: Running, *, streamed: bool) -> Heard:
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
    ]
    async with openai_client(proxy.base(), key="k") as client:
        if streamed:
            asked = client.chat.completions.stream(model="m", messages=USER, tools=tools)
            async with asked as events:
                message: Any = (await events.get_final_completion()).choices[0].message
        else:
            made = await client.chat.completions.create(model="m", messages=USER, tools=tools)
            message = made.choices[0].message
    return message.content or "", [
        (call.function.name, call.function.arguments) for call in message.tool_calls or ()
    ]


async def responses(proxy: Running, *, streamed: bool) -> Heard:
    tools: Any = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
    asked: dict[str, Any] = {"model": "m", "input": USER, "tools": tools, "store": False}
    async with openai_client(proxy.base(), key="k") as client:
        if streamed:
            async with client.responses.stream(**asked) as events:
                response: Any = await events.get_final_response()
        else:
            response = await client.responses.create(**asked)
    calls = [item for item in response.output if item.type == "function_call"]
    return response.output_text, [(call.name, call.arguments) for call in calls]


async def messages(proxy: Running, *, streamed: bool) -> Heard:
    tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": USER, "tools": tools}
    base = proxy.base().removesuffix("/v1")
    async with anthropic_client(base, key="k") as client:
        if streamed:
            async with client.messages.stream(**asked) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(**asked)
        counted = await client.messages.count_tokens(model="m", messages=USER)
        assert counted.input_tokens > 0
    texts = [block.text for block in message.content if block.type == "text"]
    calls = [block for block in message.content if block.type == "tool_use"]
    return "".join(texts), [(call.name, str(call.input).replace("'", '"')) for call in calls]


Client = Callable[..., Awaitable[Heard]]


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Running]:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    async with running(tmp_path, f"scripted:{script}") as started:
        yield started


def plain(heard: Heard) -> Heard:
    """Take white space off, of which each SDK and API has its own."""
    text, calls = heard
    return "".join(text.split()), [(name, "".join(str(said).split())) for name, said in calls]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", [chat, responses, messages], ids=lambda one: one.__name__)
async def test_an_sdk_gets_what_the_mode_allows(
    proxy: Running, client: Client, *, streamed: bool
) -> None:
    """In plan mode the refused calls never reach it; in the default mode nothing is held back."""
    await proxy.set_mode("plan")
    heard = await client(proxy, streamed=streamed)
    assert plain(heard) == ("Iwriteit.ThenIread.", [("read", '{"path":"a"}')])
    judged = [
        (event["data"]["tool"], event["data"]["verdict"])
        for event in await proxy.events()
        if event["type"] == "call/judged"
    ]
    assert judged == [("write", "answer"), ("read", "release"), ("write", "answer")]
    await proxy.set_mode("default")
    heard = await client(proxy, streamed=streamed)
    assert plain(heard) == ("", [("write", '{"path":"open"}')])
