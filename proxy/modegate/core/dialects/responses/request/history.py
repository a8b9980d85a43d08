"""Withheld exchanges in a Responses history: made from an answer, and the keys under which one is found.

What the model said of an answer is several items: its reasoning, its messages, its calls. They follow one
another in the history, and are found by the first of them; agents put results behind all calls or behind
each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import members_in
from modegate.core.dialects.common.texts import plain_content
from modegate.core.dialects.responses.answer.answer_items import OutputItem, ResponsesRead, texts_of
from modegate.core.dialects.responses.answer.calls import ItemCall, arguments_of, ran
from modegate.core.dialects.responses.answer.output import text_part
from modegate.core.dialects.responses.answer.parsing import CLIENT_RUNS
from modegate.core.dialects.responses.request.edit import extend as extended
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.identify.body import plain
from modegate.core.step.answer.calls import arguments_hash, digest
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Item
from modegate.core.step.request.request_form import Thoughts
from modegate.core.wire.arguments import parse_arguments
from modegate.core.wire.json_spans import Edit, apply

_encode = msgspec.json.encode

_ALSO_ANSWERS = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request", "program"})


def shows_thoughts(request: ResponsesRequest) -> Thoughts:
    """Return whether the agent sends readable reasoning back; None where it has sent no answer yet."""
    turns = [item for item in request.history if is_answer(item)]
    if not turns:
        return None
    return any(kind_of(item) == "reasoning" and item.get("content") for item in turns)


def _goes_back(
    out: OutputItem, request: ResponsesRequest, thoughts: Thoughts, *, kept: bool
) -> bool:
    """Return whether an item is told to the model again.

    Reasoning that its provider looks for by its id is with the provider or nowhere. What is sealed, and what
    can be read, can be sent anywhere.
    """
    if not (out.shown and out.raw):
        return False
    if out.type != "reasoning" or thoughts is not None:
        return out.type != "reasoning" or (thoughts is True and (kept or out.sealed or out.open))
    return kept or out.sealed or (out.open and shows_thoughts(request) is not False)


def extend(
    request: ResponsesRequest, choice: ResponsesRead, refused: Sequence[Refused], thoughts: Thoughts
) -> bytes:
    by_call = {id(one.call): one for one in refused}
    kept = request.value("store") is not False and choice.stored
    items: list[bytes] = []
    for out in choice.items:
        one = by_call.get(id(out.call))
        if one is not None:
            items.append(call_bytes(out, one))
        elif _goes_back(out, request, thoughts, kept=kept):
            items.append(out.raw)
    items += [_encode(item) for one in refused for item in answer_items(one, one.id)]
    return extended(request, b",".join(items))


def call_bytes(out: OutputItem, one: Refused) -> bytes:
    """Return a refused call as it stands in the history: its own bytes, but for an id that would collide."""
    call = one.call
    key = "id" if out.type == "mcp_approval_request" else "call_id"
    if not out.raw:
        return _encode({"type": out.type, key: one.id, "name": call.name, "arguments": "{}"})
    unreadable = out.type == "function_call" and parse_arguments(call.arguments) is None
    edits = []
    for member in members_in(out.raw):
        if member.key == key and one.id != call.id:
            edits.append(Edit(*member.value, _encode(one.id)))
        elif member.key == "arguments" and unreadable:
            # What does not parse would be refused by providers for ever after.
            edits.append(Edit(*member.value, b'"{}"'))
    return apply(out.raw, edits)


def user_message(text: str) -> dict[str, Any]:
    """Return words of ours that are no result of a call."""
    part = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}


def answer_items(one: Refused, name: str) -> list[dict[str, Any]]:
    """Return our answer to a refused call, under the call's id."""
    if one.call.text:
        return [user_message(one.answer)]
    if isinstance(one.call, ItemCall) and one.call.type == "computer_call":
        # The API takes a picture alone, so the words stand behind it.
        return [no_screenshot(name, one.call.checks), user_message(one.answer)]
    return [_result(one, name)]


def _result(one: Refused, name: str) -> dict[str, Any]:
    kind = one.call.type if isinstance(one.call, ItemCall) else "function_call"
    if kind == "local_shell_call":
        return {"type": f"{kind}_output", "id": name, "output": one.answer}
    if kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 1}
        chunk = {"stdout": "", "stderr": one.answer, "outcome": outcome}
        return {"type": f"{kind}_output", "call_id": name, "output": [chunk]}
    if kind == "apply_patch_call":
        failed = {"status": "failed", "output": one.answer}
        return {"type": f"{kind}_output", "call_id": name, **failed}
    if kind == "tool_search_call":
        none = {"execution": "client", "status": "completed", "tools": []}
        return {"type": "tool_search_output", "call_id": name, **none}
    if kind == "mcp_approval_request":
        no = {"approve": False, "reason": one.answer}
        return {"type": "mcp_approval_response", "approval_request_id": name, **no}
    return {"type": f"{kind}_output", "call_id": name, "output": one.answer}


def blob(choice: ResponsesRead, refused: Sequence[Refused], *, turn: bool) -> bytes:
    """Return the stored body of a hop: its refused calls, behind how many of its items each stands.

    With `turn`, our answers follow the calls at once, as another hop followed.
    """
    by_call = {id(one.call): one for one in refused}
    calls: list[tuple[int, msgspec.Raw]] = []
    shown = 0
    for out in choice.items:
        one = by_call.get(id(out.call))
        if one is not None:
            calls.append((shown, msgspec.Raw(call_bytes(out, one))))
        shown += out.shown
    answers = [item for one in by_call.values() for item in answer_items(one, one.id)]
    return _encode({"turn": turn, "calls": calls, "answers": answers})


def kind_of(item: dict[str, Any]) -> str:
    """Return the type of an item of the history, which a message may leave out."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else "message" if "role" in item else ""


def is_answer(item: dict[str, Any]) -> bool:
    """Return whether an item of the history is something that the model said."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind in _ALSO_ANSWERS or kind.endswith("_call")


def items(request: ResponsesRequest) -> list[Item]:
    """Return the items with their keys; the first one of an answer stands for all of it."""
    found: list[Item] = []
    history = request.history
    for index, item in enumerate(history):
        if not is_answer(item):
            found.append(Item(_key(item), answer=False))
        elif index and is_answer(history[index - 1]):
            found.append(Item(f"rest:{_key(item)}", answer=True))
        else:
            found.append(Item(_run_key(history[index : run_end(history, index)]), answer=True))
    return found


def run_end(history: Sequence[dict[str, Any]], begin: int) -> int:
    """Return the index behind the last of the model's items that follow one another from here."""
    end = begin
    while end < len(history) and is_answer(history[end]):
        end += 1
    return end


def last_key(request: ResponsesRequest) -> str:
    history = request.history
    if not history:
        return ""
    return items(request)[-1].key if is_answer(history[-1]) else _key(history[-1])


def _key(item: dict[str, Any]) -> str:
    kind = kind_of(item)
    if kind == "message":
        return f"{item.get('role')}:{digest(plain_content(item.get('content')))}"
    return f"{kind}:{item.get('call_id') or item.get('id') or item.get('approval_request_id')}"


def _run_key(run: Iterable[dict[str, Any]]) -> str:
    texts: list[str] = []
    for item in run:
        kind = kind_of(item)
        if kind == "message":
            texts.append("".join(texts_of(item)))
        elif kind in CLIENT_RUNS and not ran(item):
            name = item.get("call_id") or item.get("id")
            arguments = arguments_of(item)
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            return _call_key(kind, str(name), str(item.get("name") or ""), text)
    return _text_key(texts)


def _call_key(kind: str, name: str, tool: str, arguments: str) -> str:
    """Return the key of an answer with calls: of the first, its id, name and arguments."""
    if kind != "custom_tool_call":
        arguments = arguments or "{}"
    return f"call:{name}:{tool}:{arguments_hash(arguments)}"


def _text_key(texts: Iterable[str]) -> str:
    # Agents join and split messages as they like, so that no white space between them counts.
    return "text:" + digest("\n".join(words for text in texts if (words := plain(text))))


def answer_key(hops: Sequence[ResponsesRead]) -> str:
    texts: list[str] = []
    for out in (out for hop in hops for out in hop.items if out.shown):
        call = out.call
        if out.type == "message":
            texts.append(out.text)
        elif call is not None and out.type in CLIENT_RUNS and not call.ran:
            return _call_key(out.type, call.id, call.plain, call.arguments)
    return _text_key(texts)


def last_said(out: ResponsesRead | None, closing: str) -> ResponsesRead:
    read = ResponsesRead()
    read.items = [one for one in out.items if one.shown] if out is not None else []
    own = OutputItem(-1, len(read.items), "message", "", None, pieces=[closing], ended=True)
    own.raw = _encode({"type": "message", "role": "assistant", "content": [text_part(closing)]})
    read.items.append(own)
    return read


def newest_is_user(request: ResponsesRequest) -> bool:
    history = request.history
    return bool(history) and kind_of(history[-1]) == "message" and history[-1].get("role") == "user"


_WHITE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAEklEQVR42mP4DwUMo4xRBukM"
    "AOPT/hAC2mzjAAAAAElFTkSuQmCC"
)
"""64 x 64 white pixels: no screenshot was taken, and the words behind it say so."""


def no_screenshot(call: str, checks: Sequence[Any]) -> dict[str, Any]:
    """Return the result of a `computer_call` that did not run; the API takes nothing for one but a picture.

    Its safety checks are acknowledged, since the API refuses the history for ever without that: of a call
    that did not run nothing is let through by it.
    """
    output = {"type": "computer_screenshot", "image_url": _WHITE}
    result = {"type": "computer_call_output", "call_id": call, "output": output}
    return result | ({"acknowledged_safety_checks": list(checks)} if checks else {})
