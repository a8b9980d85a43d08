"""Where a Messages history ends, and where it is told of a mode that a person changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.message_frames import (
    call,
    result,
    said,
    session,
    shape,
    stream,
    use,
    whole,
)
from support.messages import LEAVE, request

Message = dict[str, Any]
USER: Message = {"role": "user", "content": [{"type": "text", "text": "rename foo"}]}
SYSTEM: Message = {"role": "system", "content": "Mind the time."}
TOOLS = ("read", "write")


def ask(*history: Message, **more: Any) -> dict[str, Any]:
    """Give a request with this history."""
    return request(*TOOLS, messages=[USER, *history], stream=True, **more)


NEWEST: dict[str, tuple[Any, bool]] = {
    "words": ("go on", True),
    "a text": ([{"type": "text", "text": "go on"}], True),
    "a picture": ([{"type": "image", "source": {}}], True),
    "results": (result()["content"], False),
    "results and a reminder": (
        [*result()["content"], {"type": "text", "text": "<system-reminder>x</system-reminder>"}], False),
    "results and words": ([*result()["content"], {"type": "text", "text": "no, wait"}], True),
    "nothing": ("", False),
    "no text": ([{"type": "text"}], False),
}  # fmt: skip


@pytest.mark.parametrize("between", [[], [SYSTEM]], ids=["last", "before a system message"])
@pytest.mark.parametrize(("content", "wanted"), NEWEST.values(), ids=NEWEST)
def test_results_and_reminders_are_no_new_message_of_the_user(
    content: Any, wanted: bool, between: list[Message]
) -> None:
    """They come from the agent, so a question that waits for its user stays open."""
    dialect = session().dialect
    history = [{"role": "user", "content": content}, *between]
    assert (
        dialect.newest_is_user(dialect.read(json.dumps({"messages": history}).encode())) is wanted
    )


def test_a_history_of_nothing_has_no_key() -> None:
    """Nor does it end with a message of the user."""
    dialect = session().dialect
    empty = dialect.read(b'{"messages":[]}')
    assert dialect.last_key(empty) == ""
    assert dialect.items(empty) == []
    assert dialect.newest_is_user(empty) is False
    answer = dialect.read(b'{"messages":[{"role":"assistant","content":"x"}]}')
    assert dialect.newest_is_user(answer) is False


PLACES: dict[str, tuple[list[Message], str]] = {
    "words": ([], "user('rename foo',notice)"),
    "results": ([{"role": "assistant", "content": [call("read", {}, "toolu_read_9")]},
                 result("toolu_read_9")], "user(result,notice)"),
    "a system message": ([SYSTEM], "user('rename foo',notice)"),
}  # fmt: skip


@pytest.mark.parametrize(("history", "wanted"), PLACES.values(), ids=PLACES)
def test_a_notice_stands_in_the_newest_user_message(history: list[Message], wanted: str) -> None:
    """Behind its results, and there it stays."""
    one = session()
    one.step(ask(), [said()])
    one.set_mode("default")
    got = one.step(ask(*history), [said()])
    told = got.requests[0].decode()
    assert told.count("[modegate] The user changed the mode") == 1
    messages = json.loads(told)["messages"]
    place = max(n for n, message in enumerate(messages) if message["role"] == "user")
    assert _noticed(messages[place]) == wanted
    answer = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    got = one.step(ask(*history, answer, {"role": "user", "content": "more"}), [said()])
    assert got.upstream["messages"][: len(messages)] == messages
    assert got.requests[0].decode().count("[modegate] The user changed the mode") == 1


def _noticed(message: Message) -> str:
    *front, last = message["content"]
    assert last["text"].startswith("[modegate] The user changed the mode")
    return shape([{**message, "content": [*front, {"type": "notice"}]}])[0]


def test_a_notice_behind_a_message_of_no_known_shape_is_one_of_its_own() -> None:
    """There is nothing to lengthen."""
    one = session()
    one.step(ask(), [said()])
    one.set_mode("default")
    answer = {"role": "assistant", "content": "ok"}
    got = one.step(ask(answer, {"role": "user", "content": None}), [said()])
    assert shape(got.upstream["messages"][:2]) == ["user('rename foo')", "assistant('ok')"]
    assert got.upstream["messages"][2] == {"role": "user", "content": None}
    assert _noticed(got.upstream["messages"][3]) == "user(notice)"


@pytest.mark.parametrize("option", ["approve", "reject"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_only_a_plan_that_was_approved_is_no_error(option: str, streamed: bool) -> None:
    """In the step, and in the history that the agent sends next."""
    one = session(LEAVE)
    one.person = lambda asked: one.settle(asked, option)
    plan = {"plan": "# Plan"}
    if streamed:
        hops: list[Any] = [stream(use(0, "exit_plan_mode", json.dumps(plan))), said()]
    else:
        hops = [whole(call("exit_plan_mode", plan)), whole({"type": "text", "text": "ok"})]
    asked = one.step(ask(), hops)
    (block,) = asked.upstream["messages"][-1]["content"]
    assert block.get("is_error", False) is (option == "reject")
    history = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    got = one.step(ask(*history), [said()])
    assert got.upstream["messages"][2]["content"] == [block]
