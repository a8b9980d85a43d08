"""One call in every API, streamed and whole, under rules that some readings of it meet and others do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect
from modegate.core.policy.when import When
from support import message_frames as messages
from support import responses
from support.playbook import (
    Cut,
    Got,
    Reply,
    Session,
    answer,
    chunk,
    mode,
    policy,
    request,
    rule,
    said,
    stream,
    whole,
)

Json = dict[str, Any]

SECRET = "S3CRET-ARGUMENT"
VIEW = When({"command": Equals("view")}, others_any=True)
CREATE = When({"command": Equals("create")}, others_any=True)
RULES = policy(
    mode(
        "plan",
        "read",
        "apply_patch",
        "local_shell",
        rule("edit", VIEW),
        rule("change", CREATE, Effect.DENY),
        "change",
        rule("fetch", effect=Effect.ASK),
    )
)
TOOLS = ("read", "edit", "change", "fetch", "write")
EVIL = json.dumps({"command": "create", "x": SECRET})
GOOD = json.dumps({"command": "view"})
PROTO = "__proto__"


def function(name: str = "read", arguments: Any = "{}", **more: Any) -> Json:
    """Return a call of this API."""
    body = {"name": name, "arguments": arguments, **more}
    return {"index": 0, "id": "call_000000001", "type": "function", "function": body}


def custom(name: str = "fetch", text: str = "ls", **more: Any) -> Json:
    """Return a call with free text."""
    body = {"name": name, "input": text, **more}
    return {"index": 0, "id": "call_000000001", "type": "custom", "custom": body}


# How each API sends a call: streamed, and whole.


def chat(call: Json, *, streamed: bool) -> Reply:
    if streamed:
        return Reply(stream(chunk({"tool_calls": [call]})))
    return answer({"tool_calls": [call]})


def in_responses(item: Json, *, streamed: bool) -> Reply:
    return Reply(responses.answer(item)) if streamed else responses.whole(item)


def in_messages(block: Json, *, streamed: bool) -> Reply:
    if not streamed:
        return messages.whole(block)
    return Reply(messages.stream(messages.start(0, block), messages.stop(0)))


def chat_call(name: str, arguments: str) -> Json:
    return function(name, arguments)


def message_call(name: str, arguments: str) -> Json:
    return {**messages.call(name), "input": Written(arguments)}


class Written(dict[str, Any]):
    """An object that is written as it is given here."""

    def __init__(self, text: str) -> None:
        super().__init__(written=text)


def written(reply: Reply) -> Reply:
    """Put what is written as it is given in its place."""
    body, mark = reply.body, b'{"written": '
    while mark in body:
        at = body.index(mark)
        text, end = json.JSONDecoder().raw_decode(body[at + len(mark) :].decode())
        size = len(body[at + len(mark) :].decode()[:end].encode())
        body = body[:at] + text.encode() + body[at + len(mark) + size + 1 :]
    return Reply(body, reply.headers)


APIS: dict[str, tuple[Callable[..., Reply], Callable[..., Json], Callable[[], Session], Json]] = {
    "chat": (chat, chat_call, lambda: Session(rules=RULES), request(*TOOLS)),
    "responses": (
        in_responses,
        responses.call,
        lambda: responses.session(rules=RULES),
        responses.request(*TOOLS),
    ),
    "messages": (
        in_messages,
        message_call,
        lambda: messages.session(RULES),
        request()
        | {
            "max_tokens": 9,
            "tools": [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS],
        },
    ),
}
FINE: dict[str, tuple[Reply, Reply]] = {
    "chat": (answer({"content": "ok"}, "stop"), Reply(said())),
    "responses": (
        responses.whole(responses.message("ok"), n=2),
        Reply(responses.answer(responses.message("ok"), n=2)),
    ),
    "messages": (
        messages.whole({"type": "text", "text": "ok"}, reason="end_turn"),
        Reply(messages.said()),
    ),
}


def step(api: str, call: Json, *, streamed: bool, cut: Cut = whole) -> Got:
    """Live through a step whose first answer holds this call."""
    send, _, session, asked = APIS[api]
    first = written(send(call, streamed=streamed))
    body = {**asked, "stream": streamed}
    return session().step(body, [first, FINE[api][streamed]], cut=cut)


def assert_nothing_arrives(got: Got) -> None:
    """No byte of a call, and nobody is asked."""
    assert SECRET.encode() not in got.body
    assert b"fc_1" not in got.body
    assert b"call_000000001" not in got.body
    assert b"toolu_0000_0" not in got.body
    assert got.asked == []
    assert got.finish is not None
