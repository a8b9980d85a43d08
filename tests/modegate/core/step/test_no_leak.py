"""L5: whatever an answer is made of and however it is cut, no client can run what the policy refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modegate.core.ids import ToolName
from modegate.core.policy import judge as rules
from modegate.core.policy.conditions import Equals, Glob
from modegate.core.policy.judge import ToolCall, Verdict
from modegate.core.policy.model import Effect, Limits
from modegate.core.policy.when import When
from modegate.core.wire.arguments import parse_arguments
from support.clients import CLIENTS
from support.playbook import (
    DONE,
    JSON,
    STREAM,
    USAGE,
    Reply,
    Session,
    bytewise,
    chunk,
    cut_at,
    frame,
    mode,
    piece,
    policy,
    request,
    rule,
    said,
    stream,
    text,
)

MODE = mode(
    "plan",
    "read",
    "grep",
    rule("edit", When({"path": Equals("plan.md")})),
    rule("bash", When({"command": Glob(("rm*",))}), Effect.DENY),
    rule("bash", None),
)
POLICY = policy(MODE, limits=Limits(held=20_000))
NAMES = ["read", "grep", "edit", "bash", "write", "readgrep", "re", "ad", ""]
TOOLS = ("read", "grep", "edit", "bash", "write", "readgrep")
REQUEST = request(*TOOLS, stream=True)

FORBIDDEN = frozenset({"write", "readgrep", "re", "ad"})
MARK = "MARK"
"""Stands for a text that is in one piece of one answer only."""

ARGUMENTS: list[Any] = [
    "",
    "{}",
    '{"path":"plan.md"}',
    '{"path":"/etc"}',
    '{"command":"rm"}',
    '{"command":"',
    'rm"}',
    '{"path":"',
    'plan.md"}',
    '/etc","x":"',
    "{",
    "}",
    f'{{"p":"{MARK}"}}',
    {"path": "plan.md"},
    {"path": MARK},
]


@st.composite
def call_pieces(draw: st.DrawFn) -> dict[str, Any]:
    """Return one piece of a call, as some server might send it."""
    inner: dict[str, Any] = {}
    name = draw(st.sampled_from([None, *NAMES]))
    if name is not None:
        inner["name"] = name
    arguments = draw(st.sampled_from([None, *ARGUMENTS]))
    shape = draw(st.sampled_from(["function"] * 6 + ["custom"]))
    if arguments is not None:
        inner["input" if shape == "custom" else "arguments"] = arguments
    one: dict[str, Any] = {shape: inner}
    for key, values in (("index", [0, 1, 2, None, 1.0, "0"]), ("id", ["a", "b", "", None])):
        value = draw(st.sampled_from(["absent", *values]))
        if value != "absent":
            one[key] = value
    kind = draw(st.sampled_from([None, None, "function", "custom"]))
    return {**one, "type": kind} if kind else one


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    """Return one choice of one frame."""
    delta: dict[str, Any] = {}
    if draw(st.booleans()):
        delta["tool_calls"] = draw(st.lists(call_pieces(), max_size=3))
    if draw(st.integers(0, 5)) == 0:
        delta["content"] = draw(st.sampled_from(["hello", "", None, " \u2028", "call it"]))
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from([None, *NAMES]))
        arguments = draw(st.sampled_from(["", "{}", f'{{"p":"{MARK}"}}']))
        delta["function_call"] = {"name": name, "arguments": arguments}
    finishes = [None] * 6 + ["tool_calls", "stop", "length", "function_call"]
    choice = {"index": draw(st.sampled_from([0, 0, 0, 0, 1])), "delta": delta}
    return {**choice, "finish_reason": draw(st.sampled_from(finishes))}


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Return one frame of a stream."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        odd = [b": comment\n\n", USAGE, b"data: {oops\n\n", b"event: x\n\n", b"\n", b"data:\n\n"]
        odd += [DONE, b'data: {"error":{"message":"x"}}\n\n', b"data: [DONE] and more\n\n"]
        return draw(st.sampled_from(odd))
    value: dict[str, Any] = {"choices": draw(st.lists(choices(), min_size=1, max_size=2))}
    if kind == 1:
        value["usage"] = {"completion_tokens": 1}
    return frame(value)


def marked(body: bytes, base: int = 0) -> bytes:
    """Return every mark in an answer its own number."""
    first, *rest = body.split(MARK.encode())
    return first + b"".join(f"{MARK}{base + n:04}.".encode() + part for n, part in enumerate(rest))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Return a streamed answer."""
    body = b"".join(draw(st.lists(frames(), max_size=8)))
    body += draw(st.sampled_from([DONE, DONE, b"", chunk(None, "tool_calls") + DONE]))
    if draw(st.integers(0, 7)) == 0:
        body = body.replace(b"\n", b"\r\n")
    return body


def forbidden_marks(body: bytes) -> set[str]:
    """Return the marks of pieces that bear a forbidden name."""
    found: set[str] = set()
    for line in body.decode().splitlines():
        try:
            value = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        for choice in value.get("choices", ()) if isinstance(value, dict) else ():
            delta = choice["delta"]
            given_ = [
                *(delta.get("tool_calls") or ()),
                {"function": delta.get("function_call") or {}},
            ]
            for one in given_:
                inner = one.get("function") or one.get("custom") or {}
                if inner.get("name") in FORBIDDEN:
                    text_ = json.dumps(inner)
                    found |= {
                        text_[at : at + 9] for at in range(len(text_)) if text_.startswith(MARK, at)
                    }
    return found


def allowed(name: str, arguments: str, *, custom: bool) -> bool:
    """Return whether the policy releases what a client would run."""
    parsed = parse_arguments(arguments or "{}")
    if custom and parsed is None:
        parsed = {"input": arguments}
    return rules.judge(MODE, ToolCall(ToolName(name), parsed)).verdict is Verdict.RELEASE


def check(body: bytes, got: bytes) -> None:
    """Hold what the client got against what upstream sent."""
    for mark in forbidden_marks(body):
        assert mark.encode() not in got
    for name, client in CLIENTS.items():
        for built in client(got):
            # A name that the agent has no tool for is one that it cannot run.
            if built.name in TOOLS:
                assert allowed(built.name, built.arguments, custom=built.custom), (name, built)


@given(streams(), st.lists(st.integers(0, 2000), max_size=4))
@example(
    frame({"choices": [
        {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read"}}]}},
        {"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "write"}}]}},
    ]}) + DONE,
    [],
)  # fmt: skip
def test_no_client_can_run_what_is_refused(body: bytes, places: list[int]) -> None:
    """However a client puts calls together, each is one that the policy allows; cuts change nothing."""
    body = marked(body)
    got = Session(rules=POLICY).step(REQUEST, [body, said("fine")], cut=cut_at(*places))
    check(body, got.body)
    again = Session(rules=POLICY).step(REQUEST, [body, said("fine")], cut=bytewise)
    assert again.body == got.body
    assert again.events == got.events


@st.composite
def entangled(draw: st.DrawFn) -> bytes:
    """Return a stream of few pieces that are each allowed for themselves, or continue something."""
    heads: list[tuple[str | None, str]] = [
        ("read", ""),
        ("read", '{"path":"/etc"}'),
        ("grep", '/etc","x":"'),
        ("grep", '{"command":"rm"}'),
        ("edit", ""),
        ("edit", '{"path":"plan.md"}'),
        ("edit", '{"path":"'),
        ("bash", ""),
        ("bash", '{"command":"ls"}'),
        (None, '{"path":"plan.md"}'),
        (None, '{"path":"/etc"}'),
        (None, '{"command":"rm"}'),
        (None, 'plan.md"}'),
        (None, '/etc","x":"'),
    ]
    found: list[dict[str, Any]] = []
    for name, arguments in draw(st.lists(st.sampled_from(heads), min_size=2, max_size=5)):
        one: dict[str, Any] = {"function": {"arguments": arguments}}
        if name:
            one["function"]["name"] = name
        index, id_ = (
            draw(st.sampled_from([0, 0, 1, 2, None])),
            draw(st.sampled_from(["a", "b", "c", ""])),
        )
        one |= {"index": index} if index is not None else {}
        one |= {"id": id_} if id_ else {}
        found.append(one)
    return stream(*(piece(**one) for one in found))


@given(entangled())
def test_no_client_makes_one_call_of_two(body: bytes) -> None:
    """Calls that are harmless each do not become another one where a client takes them for one."""
    got = Session(rules=POLICY).step(REQUEST, [body, said("fine")])
    check(body, got.body)


@given(st.lists(streams(), min_size=2, max_size=4))
def test_nor_in_later_hops(bodies: list[bytes]) -> None:
    """A second hop is gated as the first."""
    bodies = [marked(body, 1000 * n) for n, body in enumerate(bodies)]
    first = stream(piece(index=0, id="w", function={"name": "write", "arguments": "{}"}))
    got = Session(rules=POLICY).step(REQUEST, [text("a") + first, *bodies])
    for body in bodies[: len(got.requests)]:
        check(body, got.body)


@given(st.lists(choices(), max_size=2))
def test_nor_in_a_whole_answer(found: list[dict[str, Any]]) -> None:
    """An answer that comes as one body holds no refused call, and stays JSON."""
    for choice in found:
        choice["message"] = {"role": "assistant", **choice.pop("delta")}
    body = marked(json.dumps({"id": "x", "choices": found}).encode())
    end = json.dumps({"choices": [{"index": 0, "message": {"content": "fine"}}]}).encode()
    got = Session(rules=POLICY).step(REQUEST, [Reply(body, list(JSON)), Reply(end, list(JSON))])
    for choice in got.json.get("choices", ()):
        message = choice["message"]
        calls = [
            *(message.get("tool_calls") or ()),
            {"function": message.get("function_call") or {}},
        ]
        for call in calls:
            inner = call.get("function") or call.get("custom") or {}
            arguments = inner.get("arguments", inner.get("input")) or ""
            shown = arguments if isinstance(arguments, str) else json.dumps(arguments)
            if inner.get("name"):
                assert allowed(inner["name"], shown, custom="custom" in call)


def test_a_legacy_call_in_two_choices() -> None:
    """A client that does not tell choices apart joins their names."""
    found = [{"index": n, "delta": {"function_call": {"name": name, "arguments": ""}}}
             for n, name in enumerate(["read", "grep"])]  # fmt: skip
    body = frame({"choices": found}) + DONE
    check(body, Session(rules=POLICY).step(REQUEST, [body]).body)


@given(st.binary(max_size=300), st.sampled_from([STREAM, JSON]), st.integers(0, 3))
def test_garbage_raises_nothing(noise: bytes, head: list[tuple[bytes, bytes]], place: int) -> None:
    """Bytes that mean nothing end a step in an error or pass as text; nothing is raised."""
    good = [
        text("a"),
        piece(index=0, id="a", function={"name": "write"}),
        chunk(None, "stop"),
        DONE,
    ]
    body = b"".join([*good[:place], noise, *good[place:]])
    got = Session(rules=POLICY).step(REQUEST, [Reply(body, list(head)), said()])
    assert got.finish is not None
    for client in CLIENTS.values():
        assert "write" not in [built.name for built in client(got.body)]


@pytest.mark.parametrize("name", CLIENTS)
def test_the_clients_can_tell(name: str) -> None:
    """Each model does assemble an ordinary call, so that the tests above can fail."""
    body = stream(
        piece(index=0, id="a", function={"name": "write", "arguments": ""}),
        piece(index=0, function={"arguments": '{"p":1}'}),
    )
    built = [(one.name, one.arguments) for one in CLIENTS[name](body) if one.name]
    assert built == [("write", '{"p":1}')]
