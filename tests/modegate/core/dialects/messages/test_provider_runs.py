"""What the provider ran by itself: shown where the policy allows it, else not, and the step ends."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.policy.model import Effect, Policy
from support.message_frames import (
    SECRET,
    delta,
    said,
    session,
    start,
    stop,
    stream,
    text,
    thinking,
    use,
    whole,
)
from support.messages import request
from support.playbook import Got, mode, policy, rule

ASK = request("read", "write")
STREAMED = request("read", "write", stream=True)
READ_ONLY = policy(mode("plan", "read"))


def ran(name: str = "web_search", **more: Any) -> list[dict[str, Any]]:
    """Return a call that the provider runs, and its result."""
    kind = "mcp_tool_use" if "server_name" in more else "server_tool_use"
    result = "mcp_tool_result" if "server_name" in more else f"{name}_tool_result"
    asked = {"type": kind, "id": "srvtoolu_1", "name": name, "input": {"q": SECRET}, **more}
    return [asked, {"type": result, "tool_use_id": "srvtoolu_1", "content": [{"text": SECRET}]}]


def frames(*blocks: dict[str, Any], at: int = 0) -> bytes:
    """Return whole blocks as a stream's events."""
    return b"".join(start(at + n, block) + stop(at + n) for n, block in enumerate(blocks))


SEARCH = ran()
MCP = ran("find", server_name="docs")
ALONE = [
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0", "content": [{"text": SECRET}]}
]
UNKNOWN = [{"type": "dance", "steps": SECRET}]
FILE = [{"type": "container_upload", "file_id": SECRET}]

CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "search": (SEARCH, "web_search"),
    "mcp": (MCP, "mcp__docs__find"),
    "any mcp": (MCP, "mcp"),
    "result alone": (ALONE, "web_search"),
    "mcp result alone": ([{**ALONE[0], "type": "mcp_tool_result"}], "mcp"),
    "code": (ran("code_execution"), "code_execution"),
    "code in parts": (ran("bash_code_execution"), "code_execution"),
    "file": (FILE, "code_execution"),
}


@pytest.mark.parametrize(("blocks", "name"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_it_is_shown_where_the_policy_allows_it(
    blocks: list[dict[str, Any]], name: str, streamed: bool
) -> None:
    """A result goes with its use; nothing is written anew."""
    got, body = answer(blocks, policy(mode("plan", "read", name)), streamed=streamed)
    assert got.body == body
    assert len(got.requests) == 1


@pytest.mark.parametrize("blocks", [*(case[0] for case in CASES.values()), UNKNOWN, [{"no": SECRET}]],
                         ids=[*CASES, "unknown", "no type"])  # fmt: skip
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_it_is_not_shown_where_no_rule_allows_it(
    blocks: list[dict[str, Any]], streamed: bool
) -> None:
    """Nor is its result, and the step ends with a text that says so."""
    got, _ = answer(blocks, READ_ONLY, streamed=streamed)
    assert SECRET.encode() not in got.body
    assert b"So it is." in got.body
    assert b"[modegate] Not shown in mode 'plan' (Plan)" in got.body
    assert b"ran." not in got.body
    assert len(got.requests) == 1


def test_an_unknown_block_is_refused_whatever_the_policy_allows() -> None:
    """Nobody knows what runs it."""
    got, _ = answer(UNKNOWN, policy(mode("plan", "*")), streamed=True)
    assert SECRET.encode() not in got.body


def test_who_allows_every_server_allows_each_call() -> None:
    """As in the request, where nothing is taken out then; else a rule against one tool holds."""
    deny = rule("mcp__docs__find", None, Effect.DENY)
    for allowed, goes in (("mcp__*", False), ("mcp", True)):
        got, _ = answer(MCP, policy(mode("plan", deny, allowed)), streamed=True)
        assert (SECRET.encode() in got.body) is goes


def answer(blocks: list[dict[str, Any]], rules: Policy, *, streamed: bool) -> tuple[Got, bytes]:
    """Answer with these blocks in front of a text; give what came of it, and the answer."""
    if streamed:
        body = stream(frames(*blocks), text(len(blocks), "So it is."), reason="end_turn")
        return session(rules).step(STREAMED, [body]), body
    reply = whole(*blocks, {"type": "text", "text": "So it is."}, reason="end_turn")
    return session(rules).step(ASK, [reply]), reply.body


def test_beside_a_refused_call_it_is_told_again_as_it_was() -> None:
    """A call of the agent's that is refused is followed by another hop, though the provider ran something."""
    rules = policy(mode("plan", "read", "web_search"))
    got = session(rules).step(STREAMED, [stream(frames(*SEARCH), use(2, "write")), said()])
    assert b"end_turn" in got.body
    assert len(got.requests) == 2
    content = got.upstream["messages"][-2]["content"]
    assert content[:2] == SEARCH
    assert content[2]["name"] == "write"


def test_a_finish_that_tells_of_calls_is_normal_where_only_the_provider_ran_some() -> None:
    """An agent that is told of calls looks for one to run."""
    rules = policy(mode("plan", "read", "web_search"))
    got = session(rules).step(STREAMED, [stream(frames(*SEARCH))])
    assert b'"stop_reason": "end_turn"' in got.body
    got = session(rules).step(ASK, [whole(*SEARCH)])
    assert got.json["stop_reason"] == "end_turn"


def test_what_it_ran_is_not_put_back() -> None:
    """The API would run a use without a result again; a refused call beside it is put back."""
    one = session(READ_ONLY)
    got = one.step(STREAMED, [stream(thinking(0, "Hm."), frames(*SEARCH, at=1), use(3, "write"))])
    kept = [{"type": "thinking", "thinking": "Hm.", "signature": "signed-1"},
            {"type": "text", "text": _closing(got)}]  # fmt: skip
    history = [
        {"role": "user", "content": "rename foo"},
        {"role": "assistant", "content": kept},
        {"role": "user", "content": "go on"},
    ]
    got = one.step({**STREAMED, "messages": history}, [said()])
    assert SECRET.encode() not in got.requests[0]
    shape = [(m["role"], [b["type"] for b in m["content"]]) for m in got.upstream["messages"][1:4]]
    assert shape == [
        ("assistant", ["thinking", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]


def _closing(got: Got) -> str:
    return got.body.decode().split('"text_delta","text":"')[1].split('"}')[0]


def test_pieces_of_what_the_provider_runs_go_with_it() -> None:
    """Its arguments come in pieces, too, and so may what it gives."""
    asked = use(0, "search", f'{{"q":"{SECRET}"}}').replace(b'"tool_use"', b'"server_tool_use"')
    result = {"type": "search_tool_result", "tool_use_id": "toolu_0000_0", "content": ""}
    given = start(1, result) + delta(1, "content_delta", content=SECRET) + stop(1)
    body = stream(asked, given, text(2, "So it is."), reason="end_turn")
    assert session(policy(mode("plan", "search"))).step(STREAMED, [body]).body == body
    got = session(READ_ONLY).step(STREAMED, [body])
    assert SECRET.encode() not in got.body
    assert text(2, "So it is.").replace(b'"index": 2', b'"index": 0') in got.body
