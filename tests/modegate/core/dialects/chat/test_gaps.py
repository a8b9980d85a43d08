"""The indices of a chat stream of which some calls were refused: without a gap, and only there changed."""

from __future__ import annotations

from typing import Any

import pytest

from support.playbook import (
    DONE,
    Session,
    bytewise,
    chunk,
    frames,
    mode,
    piece,
    policy,
    request,
    stream,
)


def begins(name: str, at: int | None, id_: str) -> bytes:
    """Return the first piece of a call; without an index where there is none."""
    place = {} if at is None else {"index": at}
    return piece(**place, id=id_, type="function", function={"name": name, "arguments": '{"p"'})


def goes_on(at: int) -> bytes:
    """Return the last piece of a call."""
    return piece(index=at, function={"arguments": ":1}"})


def indices(body: bytes) -> list[Any]:
    """Return the index of each piece that a client gets."""
    deltas = [choice["delta"] for value in frames(body) for choice in value.get("choices", ())]
    return [one.get("index") for delta in deltas for one in delta.get("tool_calls", ())]


def whole(name: str, at: int | None, id_: str) -> bytes:
    """Return a call in one piece."""
    place = {} if at is None else {"index": at}
    return piece(**place, id=id_, type="function", function={"name": name, "arguments": "{}"})


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([whole("write", 0, "a"), whole("read", 1, "b")], [0]),
        ([whole("write", 1, "a"), whole("read", 3, "b")], [0]),
        ([whole("read", 0, "a"), whole("write", 1, "b")], [0]),
        ([whole("read", 0, "a"), whole("write", 1, "b"), whole("grep", 2, "c")], [0, 1]),
        (
            [
                begins("write", 0, "a"),
                goes_on(0),
                begins("read", 1, "b"),
                begins("grep", 2, "c"),
                goes_on(2),
                goes_on(1),
            ],
            [0, 1, 1, 0],
        ),
        ([whole("write", None, "a"), whole("read", None, "b")], [None]),
    ],
    ids=["first", "from-one", "last", "middle", "in-turns", "without-index"],
)
def test_a_gap_is_closed(pieces: list[bytes], expected: list[Any]) -> None:
    got = Session().step(request("read", "grep", "write", stream=True), [stream(*pieces)])
    assert indices(got.body) == expected
    assert b"write" not in got.body


def test_without_a_refusal_a_gap_of_the_upstream_stays() -> None:
    body = stream(whole("read", 1, "a"), whole("grep", 4, "b"))
    assert Session().step(request("read", "grep", stream=True), [body]).body == body


def test_each_choice_counts_for_itself() -> None:
    one = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    other = {**one, "id": "b", "function": {"name": "write", "arguments": "{}"}}
    body = stream(
        chunk({"tool_calls": [{"index": 0, **other}]}, index=0),
        chunk({"tool_calls": [{"index": 1, **one}]}, index=0),
        chunk({"tool_calls": [{"index": 1, **one, "id": "c"}]}, index=1),
        chunk(None, "tool_calls", index=1),
    )
    got = Session().step(request("read", "write", stream=True, n=2), [body])
    # The second choice finished first, and nothing of it was refused.
    assert indices(got.body) == [1, 0]


FINISH = chunk(None, "tool_calls")
AGAIN = {
    "a gap of the upstream's, then a refusal": (
        [whole("read", 1, "a"), FINISH, whole("write", 0, "b"), whole("grep", 2, "c"), FINISH],
        [1, 2],
    ),
    "a refusal behind what was released": (
        [
            whole("read", 2, "a"),
            FINISH,
            whole("write", 3, "b"),
            FINISH,
            whole("grep", 0, "c"),
            FINISH,
        ],
        [2, 3],
    ),
    "an own index that was given away": (
        [whole("write", 0, "a"), whole("read", 1, "b"), FINISH, whole("grep", 0, "c"), FINISH],
        [0, 1],
    ),
    "pieces under two indices": (
        [
            whole("write", 0, "a"),
            whole("read", 3, "b"),
            begins("grep", 4, "c"),
            piece(index=0, id="c", function={"arguments": ":1}"}),
            FINISH,
        ],
        [0],
    ),
}


@pytest.mark.parametrize("name", AGAIN)
def test_h10_no_index_is_given_twice(name: str) -> None:
    """Two calls under one index are one call to a client, of a name that nobody has judged."""
    pieces, expected = AGAIN[name]
    body = b"".join((*pieces, DONE))
    asked = request("read", "grep", "write", "readgrep", stream=True)
    rules = policy(mode("plan", "read", "grep"))
    got = Session(rules=rules).step(asked, [body])
    assert indices(got.body) == expected
    assert Session(rules=rules).step(asked, [body], cut=bytewise).body == got.body
