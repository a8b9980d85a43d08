"""Answers of the Messages API in short, streamed and whole, and clients that put streams together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.policy.model import Policy
from support.playbook import JSON, POLICY, Reply, Session

SECRET = "S3CRET"
WRITE = json.dumps({"path": SECRET})


def session(rules: Policy = POLICY) -> Session:
    """Return a session in plan mode whose agent speaks this API."""
    return Session(rules=rules, dialect=MESSAGES)


def event(kind: str, *, name: str | None = "", **fields: Any) -> bytes:
    """Return one event; `name` differs from its type, or None leaves it out."""
    head = b"" if name is None else b"event: %b\n" % (name or kind).encode()
    return head + b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def message(**more: Any) -> dict[str, Any]:
    """Return a message's outside."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 7, "output_tokens": 1}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": usage, **more}


def begin(**more: Any) -> bytes:
    """Return the first event."""
    return event("message_start", message=message(**more))


def start(at: Any, block: dict[str, Any]) -> bytes:
    """Return the beginning of a block."""
    return event("content_block_start", index=at, content_block=block)


def delta(at: Any, kind: str, **fields: Any) -> bytes:
    """Return a piece of a block."""
    return event("content_block_delta", index=at, delta={"type": kind, **fields})


def stop(at: Any) -> bytes:
    """Return the end of a block."""
    return event("content_block_stop", index=at)


def text(at: int, *pieces: str) -> bytes:
    """Return a block of text."""
    said = b"".join(delta(at, "text_delta", text=piece) for piece in pieces)
    return start(at, {"type": "text", "text": ""}) + said + stop(at)


def thinking(at: int, said: str, signature: str = "signed-1") -> bytes:
    """Return a block of thinking; without a signature none is sent."""
    signed = delta(at, "signature_delta", signature=signature) if signature else b""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    return start(at, block) + delta(at, "thinking_delta", thinking=said) + signed + stop(at)


def use(at: int, name: Any, *pieces: str, id_: Any = None, **more: Any) -> bytes:
    """Return a call."""
    block = {"type": "tool_use", "id": id_ or f"toolu_0000_{at}", "name": name, "input": {}, **more}
    said = b"".join(delta(at, "input_json_delta", partial_json=one) for one in pieces or ("{}",))
    return start(at, block) + said + stop(at)


def end(reason: str | None = "tool_use", *, tokens: int = 5) -> bytes:
    """Return why an answer ended, and its end."""
    why = {"stop_reason": reason, "stop_sequence": None}
    finish = event("message_delta", delta=why, usage={"output_tokens": tokens})
    return (finish if reason else b"") + event("message_stop")


def stream(*frames: bytes, reason: str | None = "tool_use", **more: Any) -> bytes:
    """Return a whole stream."""
    return begin(**more) + b"".join(frames) + end(reason)


def said(words: str = "ok") -> bytes:
    """Return a stream that is only text."""
    return stream(text(0, words), reason="end_turn")


def whole(*blocks: dict[str, Any], reason: str | None = "tool_use", **more: Any) -> Reply:
    """Return an answer that is one body."""
    value = message(content=list(blocks), stop_reason=reason, **more)
    return Reply(json.dumps(value).encode(), list(JSON))


def call(name: Any, input_: Any = None, id_: str = "toolu_0000_0", **more: Any) -> dict[str, Any]:
    """Return a call as a whole message holds it."""
    return {"type": "tool_use", "id": id_, "name": name, "input": input_ or {}, **more}


# Histories, and what they are in short.


def result(id_: str = "toolu_read_1", content: str = "ok", **more: Any) -> dict[str, Any]:
    """Return a tool's result."""
    block = {"type": "tool_result", "tool_use_id": id_, "content": content, **more}
    return {"role": "user", "content": [block]}


def shape(messages: list[dict[str, Any]]) -> list[str]:
    """Return a history in short: roles, and what their blocks are."""
    found = []
    for message in messages:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        found.append(f"{message['role']}({','.join(map(_short, blocks))})")
    return found


def _short(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return repr(block["text"])
        case "tool_use":
            return str(block["name"])
        case "tool_result":
            return "refused" if block.get("is_error") else "result"
        case kind:
            return str(block.get("signature") or kind)


# How clients put a stream together: what any of them could run, the gate answers for.


@dataclass
class Built:
    """A block as a client has it at the end."""

    kind: Any
    name: Any
    input: Any
    json: str = ""

    @property
    def arguments(self) -> str:
        """What a tool would be run with, if it is a call."""
        return self.json or (json.dumps(self.input) if self.input else "{}")


def events(body: bytes, *, named: bool) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream up to its end; `named` as a client that goes by `event:`."""
    for frame in body.decode("utf-8", "replace").split("\n\n"):
        lines = dict(line.split(":", 1) for line in frame.split("\n") if ":" in line)
        name = lines.get("event", "").strip()
        try:
            value = json.loads(lines.get("data", ""))
        except ValueError:
            continue
        if not isinstance(value, dict) or (named and name in ("", "ping")):
            continue
        if value.get("type") == "message_stop":
            return
        yield value


def _block(value: Any) -> Built:
    block = value if isinstance(value, dict) else {}
    return Built(block.get("type"), block.get("name"), block.get("input"))


def _piece(value: Any) -> str:
    piece = value.get("partial_json") if isinstance(value, dict) else None
    return piece if isinstance(piece, str) else ""


def _by(body: bytes, *, place: Callable[[int, Any], Any], named: bool) -> list[Built]:
    built: dict[Any, Built] = {}
    count = 0
    for value in events(body, named=named):
        if value.get("type") == "message_start":
            for one in (value.get("message") or {}).get("content") or ():
                built[count] = _block(one)
                count += 1
        elif value.get("type") == "content_block_start":
            built[place(count, value.get("index"))] = _block(value.get("content_block"))
            count += 1
        elif value.get("type") == "content_block_delta":
            block = built.get(place(-1, value.get("index")))
            if block is not None:
                block.json += _piece(value.get("delta"))
    return list(built.values())


def by_index(body: bytes) -> list[Built]:
    """Go by index, and by the type in the data."""
    return _by(body, place=lambda _, index: index, named=False)


def by_index_and_name(body: bytes) -> list[Built]:
    """Go by index, and read nothing that has no name."""
    return _by(body, place=lambda _, index: index, named=True)


def by_place(body: bytes) -> list[Built]:
    """Count the blocks, and take a piece's index for a place among them, as the official SDK does."""
    return _by(body, place=lambda count, index: index if count < 0 else count, named=True)


def last_block(body: bytes) -> list[Built]:
    """Take every piece for one of the block that began last."""
    built: list[Built] = []
    for value in events(body, named=False):
        if value.get("type") == "content_block_start":
            built.append(_block(value.get("content_block")))
        elif value.get("type") == "content_block_delta" and built:
            built[-1].json += _piece(value.get("delta"))
    return built


CLIENTS: dict[str, Callable[[bytes], list[Built]]] = {
    "by-index": by_index,
    "by-index-and-name": by_index_and_name,
    "by-place": by_place,
    "last-block": last_block,
}
