"""Where a Messages history ends, and where it is told of a mode that a person changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.wire.request_body import RequestBody
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
    """Return a request with this history."""
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
        dialect.newest_is_user(
            dialect.read(RequestBody(json.dumps({"messages": history}).encode()))
        )
        is wanted
    )


def test_a_history_of_nothing_has_no_key() -> None:
    """Nor does it end with a message of the user."""
    dialect = session().dialect
    empty = dialect.read(RequestBody(b'{"messages":[]}'))
    assert dialect.last_key(empty) == ""
    assert dialect.items(empty) == []
    assert dialect.newest_is_user(empty) is False
    answer = dialect.read(RequestBody(b'{"messages":[{"role":"assistant","content":"x"}]}'))
    assert dialect.newest_is_user(answer) is False


PLACES: dict[str, tuple[list[Message], str]] = {
    "words": ([], "user('rename foo',notice)"),
    "results": ([{"role": "assistant", "content": [call("read", {}, "toolu_read_9")]},
                 result("toolu_read_9")], "user(result+notice)"),
    "results and a reminder": (
        [{"role": "assistant", "content": [call("read", {}, "toolu_read_9")]},
         {"role": "user", "content": [*result("toolu_read_9")["content"],
                                      {"type": "text", "text": "mind the time"}]}],
        "user(result,'mind the time',notice)"),
    "a system message": ([SYSTEM], "user('rename foo',notice)"),
}  # fmt: skip


@pytest.mark.parametrize(("history", "wanted"), PLACES.values(), ids=PLACES)
def test_n007_a_notice_stands_in_the_newest_user_message(
    history: list[Message], wanted: str
) -> None:
    """In its last result where nothing stands behind that, and there it stays."""
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
    if last["type"] == "tool_result":
        said = last["content"]
        said = said if isinstance(said, str) else said[-1]["text"]
        assert "[modegate] The user changed the mode" in said
        return shape([message])[0].removesuffix(")") + "+notice)"
    assert last["text"].startswith("[modegate] The user changed the mode")
    return shape([{**message, "content": [*front, {"type": "notice"}]}])[0]


RESULT_SAYS: dict[str, tuple[Any, bool]] = {
    "words": ("x", True),
    "nothing": ("", True),
    "parts": ([{"type": "text", "text": "x"}], True),
    "a picture": ([{"type": "image", "source": {}}], True),
    "references": ([{"type": "tool_reference", "tool_name": "read"}], False),
    "no content": (None, False),
}  # fmt: skip


@pytest.mark.parametrize(("said_", "inside"), RESULT_SAYS.values(), ids=RESULT_SAYS)
def test_n007_a_result_that_holds_no_words_is_followed_by_them(said_: Any, inside: bool) -> None:
    """What else a result may hold, the API defines; behind it a text is always allowed."""
    one = session()
    one.step(ask(), [said()])
    one.set_mode("default")
    block = {"type": "tool_result", "tool_use_id": "toolu_read_9", "content": said_}
    history: list[Message] = [
        {"role": "assistant", "content": [call("read", {}, "toolu_read_9")]},
        {"role": "user", "content": [block]},
    ]
    got = one.step(ask(*history), [said()])
    blocks = got.upstream["messages"][-1]["content"]
    assert len(blocks) == (1 if inside else 2)
    assert "[modegate]" in str(blocks[-1])
    assert inside or blocks[0] == block


def test_n007_a_message_of_no_known_shape_gets_no_notice() -> None:
    """There is nothing to lengthen, and two messages of the user are one too many: the next one gets it."""
    one = session()
    one.step(ask(), [said()])
    one.set_mode("default")
    answer = {"role": "assistant", "content": "ok"}
    odd: list[Message] = [answer, {"role": "user", "content": None}]
    got = one.step(ask(*odd), [said()])
    assert got.upstream["messages"] == [USER, *odd]
    got = one.step(ask(*odd, answer, {"role": "user", "content": "more"}), [said()])
    assert "[modegate]" in got.upstream["messages"][-1]["content"]
    assert b"[modegate]" not in json.dumps(got.upstream["messages"][:-1]).encode()


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
