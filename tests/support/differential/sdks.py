"""The SDKs for Python, and for Node in a process of their own: what they make of an answer's bytes."""

from __future__ import annotations

import base64
import json
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anthropic
import httpx2
import openai

from modegate.core.errors import DialectName
from support.differential.clients import Call

CLIENTS = Path(__file__).parents[2] / "sdk-clients"
USER: Any = [{"role": "user", "content": "hello"}]

AHEAD = 8
"""Answers that Node has in front of it while one is read: both sides work, and no pipe is ever full."""

Told = dict[str, list[Call]]
"""For each SDK the calls that an agent on it could run."""


def _kind(*, streamed: bool) -> dict[str, str]:
    return {"content-type": "text/event-stream" if streamed else "application/json"}


class PythonSdks:
    """The SDKs for Python; one after the other reads an answer."""

    def __init__(self) -> None:
        """Make the clients, which ask nobody."""
        # Not among what `make check` needs: `make test` installs them.
        anthropic_chain = import_module("langchain_anthropic").ChatAnthropic
        openai_chain = import_module("langchain_openai").ChatOpenAI
        self._body = b""
        self._streamed = True
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        self._openai = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
        self._anthropic = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
        chain: Any = {"model": "m", "api_key": "k", "max_retries": 0}
        chat, responses = (
            openai_chain(**chain, http_client=http, use_responses_api=stored)
            for stored in (False, True)
        )
        messages = anthropic_chain(**chain)
        messages.__dict__["_client"] = self._anthropic
        self._chains: dict[DialectName, Any] = {
            "chat": chat,
            "responses": responses,
            "messages": messages,
        }
        self.errors: Counter[str] = Counter()

    def _answer(self, _request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=_kind(streamed=self._streamed), content=self._body)

    def calls(self, api: DialectName, body: bytes, *, streamed: bool) -> Told:
        """Read an answer with each of them."""
        self._body, self._streamed = body, streamed
        native: dict[DialectName, Callable[[list[Call]], None]] = {
            "chat": self._chat,
            "responses": self._responses,
            "messages": self._messages,
        }
        told: Told = {"python": [], "python-langchain": []}
        self._guarded("python", native[api], told["python"])
        self._guarded(
            "python-langchain", lambda into: self._langchain(api, into), told["python-langchain"]
        )
        return told

    def _guarded(self, name: str, read: Callable[[list[Call]], None], into: list[Call]) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(into)
        except Exception:  # noqa: BLE001 -- SDKs raise anything; what was called until then counts
            self.errors[name] += 1

    def _chat(self, into: list[Call]) -> None:
        asked = self._openai.chat.completions
        if not self._streamed:
            done: Any = asked.create(model="m", messages=USER)
        else:
            with asked.stream(model="m", messages=USER) as events:
                for event in events:
                    if event.type == "tool_calls.function.arguments.done":
                        into += [(event.name, event.arguments)]
                done = events.get_final_completion()
        for choice in done.choices:
            into += _chat_calls(choice.message)

    def _responses(self, into: list[Call]) -> None:
        if not self._streamed:
            done: Any = self._openai.responses.create(model="m", input="hello")
        else:
            with self._openai.responses.stream(model="m", input="hello") as events:
                for event in events:
                    if event.type == "response.output_item.done":
                        into += _item_calls(event.item)
                done = events.get_final_response()
        for item in done.output:
            into += _item_calls(item)

    def _messages(self, into: list[Call]) -> None:
        asked: Any = {"model": "m", "max_tokens": 9, "messages": USER}
        if not self._streamed:
            done: Any = self._anthropic.messages.create(**asked)
        else:
            with self._anthropic.messages.stream(**asked) as events:
                for event in events:
                    if event.type == "content_block_stop":
                        into += _block_calls(event.content_block)
                done = events.get_final_message()
        for block in done.content:
            into += _block_calls(block)

    def _langchain(self, api: DialectName, into: list[Call]) -> None:
        model = self._chains[api]
        if self._streamed:
            message = None
            for chunk in list(model.stream("hello")):
                message = chunk if message is None else message + chunk
        else:
            message = model.invoke("hello")
        if message is None:
            return
        into += [(call["name"], {"value": call["args"]}) for call in message.tool_calls]
        for block in message.content_blocks:
            if block.get("type") == "tool_call":
                into.append((str(block.get("name")), {"value": block.get("args")}))
        legacy = message.additional_kwargs.get("function_call")
        if legacy:
            into.append((str(legacy.get("name")), legacy.get("arguments")))


def _chat_calls(message: Any) -> Iterator[Call]:
    for call in message.tool_calls or ():
        inner = getattr(call, "function", None)
        if inner is not None:
            given = inner.arguments
            yield inner.name, {"value": given} if isinstance(given, dict) else given
        free = getattr(call, "custom", None)
        if free is not None:
            yield free.name, {"value": {"input": free.input}}
    if message.function_call is not None:
        yield message.function_call.name, message.function_call.arguments


def _item_calls(item: Any) -> Iterator[Call]:
    if item.type == "function_call":
        yield item.name, item.arguments
    elif item.type == "custom_tool_call":
        yield item.name, {"value": {"input": item.input}}
    elif item.type in ("shell_call", "local_shell_call", "apply_patch_call", "computer_call"):
        given: Any = getattr(item, "operation", None) or getattr(item, "action", None)
        value = given.model_dump() if hasattr(given, "model_dump") else given
        yield item.type.removesuffix("_call"), {"value": value}


def _block_calls(block: Any) -> Iterator[Call]:
    if block.type == "tool_use":
        yield block.name, {"value": block.input}


class NodeSdks:
    """The SDKs for Node, which one long-lived process holds: a batch of answers in, their calls out."""

    def __init__(self, tools: Sequence[str]) -> None:
        """Start it."""
        self._tools = list(tools)
        node = CLIENTS.parent / "acp-clients/node_modules/.bin/node"
        self._process = subprocess.Popen(
            [str(node) if node.exists() else "node", str(CLIENTS / "accumulate.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.errors: Counter[str] = Counter()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def calls(self, answers: Iterable[tuple[DialectName, bytes, bool, int]]) -> list[Told]:
        """Read answers: an API, a body, whether it is streamed, and the size of its pieces (0: one)."""
        asked = [
            {
                "api": api,
                "body": base64.b64encode(body).decode(),
                "streamed": streamed,
                "size": size,
                "tools": self._tools,
            }
            for api, body, streamed, size in answers
        ]
        found: list[Told] = []
        for at, one in enumerate(asked):
            self._ask(one)
            if at >= AHEAD:
                found.append(self._told())
        found += [self._told() for _ in asked[len(found) :]]
        return found

    def _ask(self, one: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise AssertionError("the process has pipes")
        self._process.stdin.write(json.dumps(one) + "\n")
        self._process.stdin.flush()

    def _told(self) -> Told:
        if self._process.stdout is None:
            raise AssertionError("the process has pipes")
        answer = json.loads(self._process.stdout.readline())
        for name in answer["errors"]:
            self.errors[name] += 1
        return {f"node-{name}": list(map(_call, calls)) for name, calls in answer["calls"].items()}


def _call(told: list[Any]) -> Call:
    name, arguments = (*told, None)[:2]
    return str(name), arguments
