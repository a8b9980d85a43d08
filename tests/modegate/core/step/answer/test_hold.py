"""What of a stream may go and when, and how much is held back at most."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.chat.answer.stream import ChatStreamReader
from modegate.core.errors import ModegateError, TooLarge
from modegate.core.step.answer.gate import release_all, withhold_all
from modegate.core.step.answer.hold import Hold
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.wire.sse_reader import FrameReader
from support.playbook import DONE, USAGE, call, chunk, frame, piece, text


def held(hold: Hold) -> int:
    """Return the bytes of the frames that are held back."""
    frames = {id(part.frame): len(part.frame.raw) for part in (*hold._held, *hold.deferred)}
    return sum(frames.values())


def run(hold: Hold, body: bytes, *, release: frozenset[str] = frozenset()) -> Iterator[list[Part]]:
    """Yield what goes after each frame; calls of these names are released."""
    for one in FrameReader(2**20).feed(body):
        hold.take(hold.reader.read(one))
        out = hold.advance()
        while calls := hold.to_judge():
            for gathered in calls:
                (release_all if gathered.name in release else withhold_all)((gathered,))
            out += hold.advance()
        yield out


def new(limit: int = 10_000, *, defer: bool = False) -> Hold:
    """Begin."""
    return Hold(ChatStreamReader(strictly=False), limit, defer=defer)


READ = frozenset({"read"})


@pytest.mark.parametrize(("body", "kinds"), [
    (text("a") + USAGE, [[Kind.LIVE], [Kind.TAIL]]),
    (call("read"), [[]]),
    (call("read") + chunk(None, "stop"), [[], [Kind.CALL, Kind.FINISH]]),
    (call("read") + DONE, [[], [Kind.CALL]]),
    (call("write") + chunk(None, "stop"), [[], []]),
    (call("write") + chunk(None, "stop") + USAGE, [[], [], []]),
    (call("read") + text("a"), [[], [Kind.LIVE]]),
    (chunk(None, "stop") + call("read") + DONE, [[Kind.FINISH], [], [Kind.CALL]]),
    (chunk({"content": "a", "tool_calls": [{"function": {"name": "read"}}]}), [[Kind.LIVE]]),
    (
        chunk({"content": "a", "tool_calls": [{"function": {"name": "read"}}]}, "stop"),
        [[Kind.LIVE, Kind.CALL, Kind.FINISH]],
    ),
    (
        chunk({"content": "a", "tool_calls": [{"function": {"name": "write"}}]}, "stop"),
        [[Kind.LIVE]],
    ),
], ids=map(str, range(11)))  # fmt: skip
def test_what_goes_when(body: bytes, kinds: list[list[Kind]]) -> None:
    """Text at once; calls at their finish, in order; a finish that depends on refused calls waits."""
    assert [[part.kind for part in out] for out in run(new(), body, release=READ)] == kinds


def test_a_later_hop_puts_every_finish_off() -> None:
    """The log comes before the end of an answer of which something was withheld."""
    hold = new(defer=True)
    body = text("a") + chunk(None, "stop") + USAGE + DONE
    assert [len(out) for out in run(hold, body)] == [1, 0, 0, 0]
    assert [part.kind for part in hold.deferred] == [Kind.FINISH, Kind.TAIL]
    assert hold.done is not None


@pytest.mark.parametrize(("made", "stop"), [("read", False), ("write", True), (None, True)])
def test_a_finish_without_calls_is_a_normal_one(made: str | None, stop: bool) -> None:
    """It is settled when it passes."""
    hold = new()
    body = (call(made) if made else b"") + chunk(None, "tool_calls")
    parts = [part for out in run(hold, body, release=READ) for part in out]
    (finish,) = [part for part in (*parts, *hold.deferred) if part.kind is Kind.FINISH]
    assert finish.stop is stop


ENDLESS = {
    "one-call": lambda n: piece(index=0, id="a", function={"name": "read", "arguments": "x" * 90}),
    "calls-with-text": lambda n: chunk(
        {"content": "y" * 90, "tool_calls": [{"index": 0, "function": {"name": "write"}}]}
    ),
    "usage-behind-a-refusal": lambda n: USAGE if n else call("write") + chunk(None, "stop"),
    "finishes-behind-a-refusal": lambda n: call("write") + chunk(None, "stop") if not n else chunk(None, "x"),
    "two-choices": lambda n: frame({"choices": [
        {"index": i, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "z"}}]}} for i in (0, 1)
    ]}),
}  # fmt: skip


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS)
def test_no_more_than_the_limit_is_held(make: object) -> None:
    """Whatever a stream repeats, it ends in an error before more than that is held back."""
    assert callable(make)
    hold = new(3_000)

    def go_on() -> None:
        for n in range(1_000):
            for _ in run(hold, make(n)):
                assert held(hold) <= 3_000

    with pytest.raises(TooLarge, match=r"limits\.held"):
        go_on()


@given(st.lists(st.sampled_from([
    text("a"), call("read"), call("write", at=1), call("read", at=2), chunk(None, "tool_calls"), USAGE,
    chunk({"content": "b", "tool_calls": [{"index": 0, "function": {"arguments": "c"}}]}, "stop"),
    piece(index=1, function={"arguments": "d"}), chunk({"tool_calls": [{"index": 0}]}, index=1),
])), st.booleans())  # fmt: skip
def test_the_bound_holds_for_any_order(frames: list[bytes], defer: bool) -> None:
    """And what is not held back has gone, or never goes."""
    hold = new(1_000, defer=defer)
    try:
        for _ in run(hold, b"".join(frames), release=READ):
            assert held(hold) <= 1_000
    except ModegateError:
        return


def test_memory_does_not_grow_with_a_stream() -> None:
    """A megabyte of text leaves no more than what could be told again, calls that are over nothing."""
    hold = new(defer=False)
    piece_ = text("x" * 1_000)
    for _ in range(400):
        for _ in run(hold, piece_):
            pass
    tracemalloc.start()
    try:
        for _ in range(1_000):
            for _ in run(hold, piece_):
                pass
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 50_000
    assert not hold.reader.choices[0].whole
