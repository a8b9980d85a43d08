"""The official SDKs as judges: what a client makes of an answer's bytes, streamed or whole."""

from __future__ import annotations

import json

import anthropic
import httpx2
import openai
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from modegate.core.errors import DialectName

USER = "hello"


def chat(body: bytes, *, streamed: bool) -> ChatCompletion:
    """Read a chat completion."""
    with _openai(body, streamed=streamed) as client:
        if not streamed:
            return client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": USER}]
            )
        with client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": USER}]
        ) as events:
            return events.get_final_completion()


def responses(body: bytes, *, streamed: bool) -> Response:
    """Read a response."""
    with _openai(body, streamed=streamed) as client:
        if not streamed:
            return client.responses.create(model="m", input=USER)
        with client.responses.stream(model="m", input=USER) as events:
            return events.get_final_response()


def messages(body: bytes, *, streamed: bool) -> Message:
    """Read a message."""
    transport = httpx2.MockTransport(lambda _request: _answer(body, streamed=streamed))
    http = anthropic.DefaultHttpxClient(transport=transport)
    with anthropic.Anthropic(api_key="k", http_client=http, max_retries=0) as client:
        if not streamed:
            return client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": USER}]
            )
        with client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": USER}]
        ) as events:
            return events.get_final_message()


Told = tuple[str, list[tuple[str, object]]]
"""The whole text, and each call's name and arguments."""


def told(dialect: DialectName, body: bytes, *, streamed: bool) -> Told:
    """Read an answer in any dialect."""
    if dialect == "chat":
        message = chat(body, streamed=streamed).choices[0].message
        calls = [call for call in message.tool_calls or () if call.type == "function"]
        return message.content or "", [
            (call.function.name, json.loads(call.function.arguments)) for call in calls
        ]
    if dialect == "responses":
        response = responses(body, streamed=streamed)
        return response.output_text, [
            (item.name, json.loads(item.arguments))
            for item in response.output
            if item.type == "function_call"
        ]
    blocks = messages(body, streamed=streamed).content
    return "".join(block.text for block in blocks if block.type == "text"), [
        (block.name, block.input) for block in blocks if block.type == "tool_use"
    ]


def _openai(body: bytes, *, streamed: bool) -> openai.OpenAI:
    transport = httpx2.MockTransport(lambda _request: _answer(body, streamed=streamed))
    http = openai.DefaultHttpxClient(transport=transport)
    return openai.OpenAI(api_key="k", http_client=http, max_retries=0)


def _answer(body: bytes, *, streamed: bool) -> httpx2.Response:
    kind = "text/event-stream" if streamed else "application/json"
    return httpx2.Response(200, headers={"content-type": kind}, content=body)
