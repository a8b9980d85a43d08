"""What back ends refuse: each rule gives what is wrong with a request, as values for its words.

Most hold for one API; those that look at `told` alone hold for all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from support.backends.entry import Json
from support.backends.told import Told

Wrong = Json | None
"""Values for the words of a refusal; None where there is nothing to refuse."""


@dataclass(frozen=True)
class Asked:
    """A request, and what a rule says more."""

    body: Json
    told: Sequence[Told]
    more: Json
    seals: Mapping[str, str]
    """What the back end has signed, by signature."""

    @property
    def messages(self) -> list[Json]:
        """The messages of chat completions and Messages."""
        found: list[Json] = self.body["messages"]
        return found

    @property
    def since_user(self) -> int:
        """Where the newest message of the user stands."""
        return max((one.at for one in self.told if one.kind == "user"), default=0)


def unknown_fields(asked: Asked) -> Wrong:
    """Refuse members that the API has not; `known` by role, `call` for a call, `top` for the request."""
    known: dict[str, list[str]] = asked.more["known"]
    for key in set(asked.body) - set(known.get("top", asked.body)):
        return {"at": "body", "role": "", "what": key}
    for at, message in enumerate(asked.messages):
        for key in message:
            if key not in known[message["role"]]:
                return {"at": at, "role": message["role"], "what": key}
        for call in message.get("tool_calls") or ():
            for key in set(call) - set(known.get("call", call)):
                return {"at": at, "role": message["role"], "what": key}
    return None


def unpaired(asked: Asked) -> Wrong:
    """Refuse a call without a result right behind it, and a result without a call."""
    waiting: list[str] = []
    answering = False
    """Some calls of the answer have their results, and others not."""
    for one in asked.told:
        if one.kind == "result":
            if one.id not in waiting:
                return {"at": one.at, "what": one.id}
            waiting.remove(one.id)
            answering = bool(waiting)
        elif waiting and (answering or one.kind in ("user", "system")):
            return {"at": one.at, "what": waiting[0]}
        elif one.kind == "call":
            waiting.append(one.id)
    return {"at": asked.told[-1].at, "what": waiting[0]} if waiting else None


def repeated_ids(asked: Asked) -> Wrong:
    """Refuse two calls of one id."""
    ids = [one.id for one in asked.told if one.kind == "call"]
    return next(({"what": id_} for id_ in ids if ids.count(id_) > 1), None)


def id_form(asked: Asked) -> Wrong:
    """Refuse ids of another `form`."""
    ids = (one.id for one in asked.told if one.kind == "call")
    return next(({"what": i} for i in ids if not re.fullmatch(asked.more["form"], i)), None)


def alternation(asked: Asked) -> Wrong:
    """Refuse two user messages, or two answers without calls, in a row, as chat templates do.

    Calls and their results are not looked at.
    """
    turns: list[tuple[int, str]] = []
    for at, message in enumerate(asked.messages):
        if message["role"] == "user" or (
            message["role"] == "assistant" and not message.get("tool_calls")
        ):
            turns.append((at, message["role"]))
    wanted = ["user", "assistant"]
    for number, (at, role) in enumerate(turns):
        if role != wanted[number % 2]:
            return {"at": at, "role": role}
    return None


def strict_alternation(asked: Asked) -> Wrong:
    """Refuse two messages of one role in a row (Messages)."""
    roles = [message["role"] for message in asked.messages]
    return next(({"at": at} for at, (a, b) in enumerate(pairwise(roles)) if a == b), None)


def user_after_tool(asked: Asked) -> Wrong:
    """Refuse what is neither a result nor an answer behind a result."""
    roles = [message["role"] for message in asked.messages]
    for one, next_one in pairwise(roles):
        if one == "tool" and next_one not in ("tool", "assistant"):
            return {"role": next_one}
    return None


def last_role(asked: Asked) -> Wrong:
    """Refuse a history that ends in an answer."""
    role = asked.messages[-1]["role"]
    return None if role in ("user", "tool") else {"role": role}


def late_system(asked: Asked) -> Wrong:
    """Refuse a system message that is not the first message."""
    for at, message in enumerate(asked.messages):
        if at and message["role"] in ("system", "developer"):
            return {"at": at}
    return None


def missing_reasoning(asked: Asked) -> Wrong:
    """Refuse answers without `field`: those with calls, or `all`; all of them, or those `since: user`."""
    since = asked.since_user if asked.more.get("since") == "user" else 0
    for at, message in enumerate(asked.messages[since:], since):
        wanted = asked.more.get("all") or message.get("tool_calls")
        if message["role"] != "assistant" or not wanted:
            continue
        if not isinstance(message.get(asked.more["field"]), str):
            return {"at": at}
    return None


def missing_thinking(asked: Asked) -> Wrong:
    """Refuse answers with calls that do not begin with thinking (Messages)."""
    for at, message in enumerate(asked.messages):
        kinds = _kinds(message)
        if message["role"] == "assistant" and "tool_use" in kinds and kinds[0] != "thinking":
            return {"at": at}
    return None


def broken_seal(asked: Asked) -> Wrong:
    """Refuse thinking that was not said like this (Messages)."""
    for at, message in enumerate(asked.messages):
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "thinking" and not _sealed(
                asked, part.get("signature"), part["thinking"]
            ):
                return {"at": at}
    return None


def broken_reasoning(asked: Asked) -> Wrong:
    """Refuse reasoning that was not said like this (Responses)."""
    for item in asked.body["input"]:
        if item.get("type") == "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            if not _sealed(asked, item.get("encrypted_content"), text):
                return {"what": item.get("id", "")}
    return None


def _sealed(asked: Asked, signature: Any, text: str) -> bool:
    return signature in asked.seals and asked.seals[signature] == text


def missing_seal(asked: Asked) -> Wrong:
    """Refuse a first call of an answer to the newest user message without its thought signature."""
    for message in asked.messages[asked.since_user :]:
        for call in (message.get("tool_calls") or ())[:1]:
            extra = call.get("extra_content") or {}
            if (extra.get("google") or {}).get("thought_signature") not in asked.seals:
                return {"what": call["function"]["name"]}
    return None


def undeclared_tools(asked: Asked) -> Wrong:
    """Refuse a history with calls in a request that declares no tools."""
    called = any(one.kind in ("call", "result") for one in asked.told)
    return {} if called and not asked.body.get("tools") else None


def empty_tools(asked: Asked) -> Wrong:
    """Refuse a list of no tools, and a choice where there is none."""
    if asked.body.get("tools") == []:
        return {"what": "tools"}
    odd = {"tool_choice", "parallel_tool_calls"} & set(asked.body)
    return {"what": odd.pop()} if odd and "tools" not in asked.body else None


def blank_text(asked: Asked) -> Wrong:
    """Refuse text of nothing but blanks."""
    for at, message in enumerate(asked.messages):
        content = message.get("content")
        texts = [content] if isinstance(content, str) else []
        texts += [part["text"] for part in content or () if _is_text(part)]
        if any(not text.strip() for text in texts) and message["role"] != "tool":
            return {"at": at}
    return None


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def empty_answer(asked: Asked) -> Wrong:
    """Refuse an answer that says nothing and calls nothing."""
    for at, message in enumerate(asked.messages):
        if message["role"] == "assistant" and not (
            message.get("content") or message.get("tool_calls")
        ):
            return {"at": at}
    return None


def content_of_parts(asked: Asked) -> Wrong:
    """Refuse content that is a list."""
    for at, message in enumerate(asked.messages):
        if isinstance(message.get("content"), list):
            return {"at": at}
    return None


def content_null(asked: Asked) -> Wrong:
    """Refuse content that is null."""
    for at, message in enumerate(asked.messages):
        if message.get("content", "") is None:
            return {"at": at}
    return None


def unreadable_arguments(asked: Asked) -> Wrong:
    """Refuse calls without a name, or whose arguments are not one JSON object."""
    for one in asked.told:
        if one.kind != "call":
            continue
        try:
            sound = bool(one.name) and isinstance(json.loads(one.text), dict)
        except ValueError:
            sound = False
        if not sound:
            return {"what": one.id, "at": one.at}
    return None


def lonely_reasoning(asked: Asked) -> Wrong:
    """Refuse reasoning that nothing of the model follows (Responses)."""
    items: list[Json] = asked.body["input"]
    for at, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        after = items[at + 1] if at + 1 < len(items) else {}
        mine = after.get("role") == "assistant" or after.get("type") in (
            "function_call",
            "reasoning",
        )
        if not mine:
            return {"what": item.get("id", "")}
    return None


def foreign_ids(asked: Asked) -> Wrong:
    """Refuse items whose id does not begin as those of their type do (Responses)."""
    begins = {"reasoning": "rs_", "function_call": "fc_", "message": "msg_"}
    for at, item in enumerate(asked.body["input"]):
        wanted = begins.get(item.get("type", "message"), "")
        if "id" in item and not str(item["id"]).startswith(wanted):
            return {"at": at, "what": item["id"]}
    return None


def tool_result_first(asked: Asked) -> Wrong:
    """Refuse a user message in which something stands in front of a result (Messages)."""
    for at, message in enumerate(asked.messages):
        kinds = _kinds(message)
        if "tool_result" in kinds and kinds != sorted(kinds, key=lambda one: one != "tool_result"):
            return {"at": at}
    return None


def _kinds(message: Json) -> list[str]:
    content = message["content"]
    return ["text"] if isinstance(content, str) else [part["type"] for part in content]


RULES: dict[str, Callable[[Asked], Wrong]] = {
    rule.__name__: rule
    for rule in (
        alternation,
        blank_text,
        broken_reasoning,
        broken_seal,
        content_null,
        content_of_parts,
        empty_answer,
        empty_tools,
        foreign_ids,
        id_form,
        last_role,
        late_system,
        lonely_reasoning,
        missing_reasoning,
        missing_seal,
        missing_thinking,
        repeated_ids,
        strict_alternation,
        tool_result_first,
        undeclared_tools,
        unknown_fields,
        unpaired,
        unreadable_arguments,
        user_after_tool,
    )
}
