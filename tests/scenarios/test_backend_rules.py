"""What the table of back ends stands on: each refuses what it is said to, and the docs have its row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.backends.entry import BACK_ENDS, BackEnd, Json
from support.backends.rules import RULES, Asked
from support.backends.server import PATHS, BackEnds
from support.backends.told import told
from support.raw_upstream import Received

DOCS = Path(__file__).parents[2] / "docs"

USER: Json = {"role": "user", "content": "hello"}
SYSTEM: Json = {"role": "system", "content": "s"}
SAID: Json = {"role": "assistant", "content": "Hello there."}


def call(id_: str = "c1", arguments: str = "{}", **more: Any) -> Json:
    return {"id": id_, "type": "function", "function": {"name": "f", "arguments": arguments}} | more


def calls(*found: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(found or [call()]), **more}


def result(id_: str = "c1") -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": "ran"}


USE: Json = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
RAN: Json = {"type": "tool_result", "tool_use_id": "t1", "content": "ran"}
THINKS: Json = {"type": "thinking", "thinking": "t", "signature": "signed-1"}
MUSING: Json = {"type": "reasoning", "summary": []}
SEALED_MUSING: Json = {
    **MUSING, "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "signed-1",
}  # fmt: skip
TEXT: Json = {"type": "text", "text": "x"}
KNOWN = {
    "known": {
        "user": ["role", "content"],
        "assistant": ["role", "content", "tool_calls"],
        "tool": [],
    }
}
FIELD = {"field": "reasoning_content"}
SEALED = call(extra_content={"google": {"thought_signature": "signed-1"}})

ONE_CALL = [USER, calls(), result(), SAID]

CASES: list[tuple[str, str, Json, Any, Any]] = [
    # the API, the rule, what it says more, a history that is taken, one that is refused
    ("chat", "alternation", {}, [USER, calls(), result(), SAID, USER], [USER, calls(), result(), USER]),
    ("chat", "alternation", {}, [USER, SAID, USER], [USER, SAID, SAID]),
    ("chat", "blank_text", {}, ONE_CALL, [USER, {"role": "assistant", "content": " \n"}]),
    ("chat", "content_null", {}, [USER, SAID], ONE_CALL),
    ("chat", "content_of_parts", {}, ONE_CALL, [{"role": "user", "content": [TEXT]}]),
    ("chat", "empty_answer", {}, ONE_CALL, [USER, {"role": "assistant", "content": ""}]),
    ("chat", "id_form", {"form": "c."}, ONE_CALL, [USER, calls(call("call_1"))]),
    ("chat", "last_role", {}, [USER, calls(), result()], [USER, SAID]),
    ("chat", "late_system", {}, [SYSTEM, USER], [USER, SYSTEM]),
    ("chat", "missing_reasoning", FIELD, [USER, SAID], [USER, calls()]),
    ("chat", "missing_reasoning", {**FIELD, "all": True}, [USER, calls(reasoning_content="")], [USER, SAID]),
    ("chat", "missing_seal", {}, [USER, calls(SEALED, call("c2"))], [USER, calls(call(), SEALED)]),
    ("chat", "missing_seal", {}, [*ONE_CALL, USER], [USER, calls(SEALED), result(), calls(call("c2"))]),
    ("chat", "repeated_ids", {}, ONE_CALL, [*ONE_CALL, *ONE_CALL]),
    ("chat", "unknown_fields", KNOWN, [USER, calls()], [USER, {**SAID, "reasoning": "r"}]),
    ("chat", "unknown_fields", {"known": {**KNOWN["known"], "call": ["id"]}}, [USER], [USER, calls()]),
    ("chat", "unpaired", {}, ONE_CALL, [USER, calls()]),
    ("chat", "unpaired", {}, ONE_CALL, [USER, calls(), USER, result()]),
    ("chat", "unpaired", {}, ONE_CALL, [USER, result()]),
    ("chat", "unpaired", {}, ONE_CALL, [USER, calls(call(), call("c2")), result(), SAID, result("c2")]),
    ("chat", "unreadable_arguments", {}, ONE_CALL, [USER, calls(call(arguments="{"))]),
    ("chat", "unreadable_arguments", {}, ONE_CALL, [USER, calls(call(arguments="[]"))]),
    ("chat", "user_after_tool", {}, ONE_CALL, [USER, calls(), result(), USER]),
    ("messages", "broken_seal", {}, [{"role": "assistant", "content": [THINKS]}],
     [{"role": "assistant", "content": [{**THINKS, "signature": ""}]}]),
    ("messages", "broken_seal", {}, [{"role": "assistant", "content": [THINKS]}],
     [{"role": "assistant", "content": [{**THINKS, "thinking": "T"}]}]),
    ("responses", "broken_reasoning", {}, [SEALED_MUSING, SAID], [{**SEALED_MUSING, "summary": []}, SAID]),
    ("responses", "broken_reasoning", {}, [USER], [MUSING, SAID]),
    ("messages", "missing_thinking", {}, [{"role": "assistant", "content": [THINKS, USE]}],
     [{"role": "assistant", "content": [TEXT, USE]}]),
    ("messages", "strict_alternation", {}, [USER, SAID], [USER, USER]),
    ("messages", "tool_result_first", {}, [{"role": "user", "content": [RAN, TEXT]}],
     [{"role": "user", "content": [TEXT, RAN]}]),
    ("responses", "foreign_ids", {}, [{**USER, "id": "msg_1"}], [{**USER, "id": "x"}]),
    ("responses", "lonely_reasoning", {}, [MUSING, SAID], [MUSING, USER]),
]  # fmt: skip


def wrong(api: str, rule: str, more: Json, history: Any, **top: Any) -> Json | None:
    body = {"input" if api == "responses" else "messages": history, **top}
    return RULES[rule](Asked(body, told(api, body), more, {"signed-1": "t"}))


@pytest.mark.parametrize(
    ("api", "rule", "more", "taken", "refused"),
    CASES,
    ids=[f"{case[1]} {number}" for number, case in enumerate(CASES)],
)
def test_rule(api: str, rule: str, more: Json, taken: Any, refused: Any) -> None:
    """A rule refuses what it is for, and that alone."""
    assert wrong(api, rule, more, taken) is None
    assert wrong(api, rule, more, refused) is not None


def test_rules_on_tools() -> None:
    """Of two rules the tools of the request decide."""
    assert wrong("chat", "undeclared_tools", {}, ONE_CALL, tools=[{}]) is None
    assert wrong("chat", "undeclared_tools", {}, [USER]) is None
    assert wrong("chat", "undeclared_tools", {}, ONE_CALL, tools=[]) is not None
    assert wrong("chat", "empty_tools", {}, ONE_CALL) is None
    assert wrong("chat", "empty_tools", {}, ONE_CALL, tools=[]) is not None
    assert wrong("chat", "empty_tools", {}, ONE_CALL, tool_choice="auto") is not None


def test_every_rule_is_tried() -> None:
    assert {case[1] for case in CASES} | {"undeclared_tools", "empty_tools"} == set(RULES)


HISTORIES: dict[str, Any] = {
    "chat": [USER, calls(call("x", "{", index=0)), {"role": "system", "content": [TEXT]}, USER,
             {"role": "assistant", "content": None, "odd": 1}],
    "messages": [USER, USER, {"role": "assistant", "content": [USE]}],
    "responses": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}, USER],
}  # fmt: skip


@pytest.mark.parametrize(
    "entry", [one for one in BACK_ENDS if one.refuses], ids=lambda entry: entry.key
)
def test_it_refuses_in_its_own_words(entry: BackEnd) -> None:
    """What is wrong in every way is refused, with every word filled in."""
    key = "input" if entry.api == "responses" else "messages"
    body = {"model": f"{entry.key}/x", key: HISTORIES[entry.api]}
    back_ends = BackEnds()
    head = b"POST " + PATHS[entry.api] + b" HTTP/1.1\r\n\r\n"
    answer = back_ends(Received(0, head, b"", json.dumps(body).encode()))
    ((says, _),) = back_ends.seen[body["model"]].refused
    assert "$" not in says
    assert isinstance(answer[0], bytes)
    assert answer[0].split(b" ")[1] in (b"400", b"422", b"500")
    assert says in json.dumps(
        json.loads(answer[0].partition(b"\r\n\r\n")[2]), ensure_ascii=False
    ).replace('\\"', '"')


def test_the_docs_have_a_row_for_each_and_no_other() -> None:
    text = (DOCS / "backends.md").read_text(encoding="utf-8")
    tables = text.split("| back end |")[1:]
    rows = [line for table in tables for line in table.split("\n")[2:] if line.startswith("|")]
    assert sorted(rows) == sorted(entry.row() for entry in BACK_ENDS)


@pytest.mark.parametrize("entry", BACK_ENDS, ids=lambda entry: entry.key)
def test_an_entry_says_where_it_has_its_facts_from(entry: BackEnd) -> None:
    assert entry.facts
    assert all(fact.startswith("https://") for fact in entry.facts)
