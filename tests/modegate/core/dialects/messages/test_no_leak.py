"""L5: whatever a Messages answer is made of and however it is cut, no client can run what is refused."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modegate.core.ids import ToolName
from modegate.core.policy import judge as rules
from modegate.core.policy.conditions import Equals
from modegate.core.policy.judge import ToolCall, Verdict
from modegate.core.policy.model import Limits
from modegate.core.policy.when import When
from modegate.core.wire.arguments import parse_arguments
from support.message_frames import (
    CLIENTS,
    begin,
    delta,
    end,
    event,
    said,
    session,
    start,
    stop,
    text,
    thinking,
    use,
)
from support.messages import request
from support.playbook import Got, Reply, bytewise, cut_at, mode, policy, rule

MODE = mode("plan", "read", rule("edit", When({"path": Equals("plan.md")})))
POLICY = policy(MODE, limits=Limits(held=20_000))
TOOLS = ("read", "edit", "write")
NAMES: list[Any] = ["read", "edit", "write", "reads", "", None, 7]
MARK = "MARK"
"""Stands in the arguments of calls that no rule allows, and nowhere else."""
MARKS = re.compile(rb"MARK")

ARGUMENTS = [
    "",
    "{}",
    '{"path":"plan.md"}',
    '{"path":"/etc"}',
    '{"path":',
    '"plan.md"}',
    "[1]",
    '{"a":1,"a":2}',
]
KINDS = ["text", "thinking", "tool_use", "server_tool_use", "tool_result", "x", None]
DELTAS = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "x"]  # fmt: skip


@st.composite
def block(draw: st.DrawFn, at: int) -> list[bytes]:
    """Return the frames of a block that is well made."""
    what = draw(st.sampled_from(["text", "thinking", "call", "call", "call", "ran"]))
    if what == "text":
        return _frames(text(at, *draw(st.lists(st.sampled_from(["a", "é", "\ud83d"]), max_size=3))))
    if what == "thinking":
        return _frames(thinking(at, "hm", draw(st.sampled_from(["s", ""]))))
    name = draw(st.sampled_from(NAMES))
    pieces = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=3))
    if name not in ("read", "edit"):
        pieces.append(f'{{"m":"{MARK}"}}')
    frames = _frames(use(at, name, *pieces))
    kind = b'"server_tool_use"' if what == "ran" else b'"tool_use"'
    return [frame.replace(b'"tool_use"', kind) for frame in frames]


@st.composite
def stray(draw: st.DrawFn) -> bytes:
    """Return a frame that may stand anywhere, or nowhere."""
    at: Any = draw(st.sampled_from([0, 1, 2, 3, "0", None, 1.0]))
    return draw(
        st.sampled_from(
            [
                start(at, {"type": draw(st.sampled_from(KINDS)), "name": draw(st.sampled_from(NAMES)),
                           "id": "t", "input": draw(st.sampled_from([{}, {"path": "plan.md"}, None, "x"]))}),
                delta(at, draw(st.sampled_from(DELTAS)), text="x", thinking="y", signature="z",
                      partial_json=draw(st.sampled_from(ARGUMENTS))),
                stop(at),
                event("ping"), event("error", error={"type": "x", "message": "y"}), b": note\n\n",
                begin(), end("tool_use"), end("end_turn"), end(None), b"data: [DONE]\n\n", b"data: {\n\n",
                event("message_delta", delta={"stop_reason": None}, usage=None),
                event("message_start", message=None), event("content_block_start", name="ping", index=at),
            ]
        )
    )  # fmt: skip


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Return a stream: well made, then perhaps with frames taken out, doubled, moved or put in."""
    made = [draw(block(at)) for at in range(draw(st.integers(0, 4)))]
    reason = draw(st.sampled_from(["tool_use", "end_turn", "max_tokens", None]))
    frames = [begin(), *(frame for one in made for frame in one), *_frames(end(reason))]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 4]))):
        where = draw(st.integers(0, len(frames) - 1))
        change = draw(st.sampled_from(["out", "twice", "swap", "in"]))
        if change == "out" and len(frames) > 1:
            del frames[where]
        elif change == "twice":
            frames.insert(where, frames[where])
        elif change == "swap":
            frames[where], frames[-1] = frames[-1], frames[where]
        else:
            frames.insert(where, draw(stray()))
    return b"".join(frames)


def _frames(body: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


def step(body: bytes, cut: Any = None) -> Got:
    """Live through a step of which the second hop gives in."""
    replies: list[Reply | bytes] = [body, said()]
    return session(POLICY).step(
        request(*TOOLS, stream=True), replies, cut=cut or (lambda all_: [all_])
    )


def check(got: Got) -> None:
    """Hold what each kind of client could run against the policy."""
    assert not MARKS.search(got.body)
    assert got.finish is not None
    assert got.finish.outcome in (
        "answered",
        "answer_unreadable",
        "cut",
        "later_hop_failed",
        "upstream_error",
        "too_large",
    )
    for client in CLIENTS.values():
        for built in client(got.body):
            if built.kind in ("text", "thinking"):
                continue
            assert built.kind in ("tool_use", "server_tool_use")
            call = ToolCall(ToolName(built.name), parse_arguments(built.arguments))
            assert rules.judge(MODE, call).verdict is Verdict.RELEASE


@given(answers())
def test_no_client_can_run_what_is_refused(body: bytes) -> None:
    """Whole; nothing but a refusal comes of it."""
    check(step(body))


@given(answers(), st.integers(1, 2000))
def test_it_does_not_matter_how_the_bytes_come(body: bytes, at: int) -> None:
    """In pieces the client gets the same."""
    got = step(body)
    for cut in (cut_at(at), bytewise):
        again = step(body, cut)
        assert again.body == got.body
        check(again)


@given(answers())
def test_a_second_hop_cannot_either(body: bytes) -> None:
    """Frames of a later hop are edited, and so read as strictly."""
    first = begin() + text(0, "I.") + use(1, "write", '{"n":1}') + end()
    got = session(POLICY).step(request(*TOOLS, stream=True), [first, body, said()])
    check(got)
