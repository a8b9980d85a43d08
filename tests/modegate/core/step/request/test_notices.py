"""When a lane is told of a mode change, and where the sentence stands from then on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from modegate.core.ids import Lane, ModeId, Seq
from modegate.core.log.events import NoticeGiven, RequestHeader
from modegate.core.policy.model import Exit, ExitOption, Policy
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Item
from modegate.core.step.request import notices
from support.playbook import (
    Reply,
    Session,
    call,
    chunk,
    mode,
    policy,
    request,
    said,
    stream,
    tool_call,
)

LANE = Lane("main")
RULES = policy(mode("plan", "read"), mode("review", "read"))


def history(keys: str) -> list[Item]:
    """Return items: a small letter for a message, a capital for an answer."""
    return [Item(key, key.isupper()) for key in keys]


def session(*modes: str) -> Session:
    """Return a session whose lane was shown the first of these modes before a person set the others."""
    made = Session(modes[0], RULES)
    made.append([RequestHeader(LANE, modes[0], "h", (), "")])
    for name in modes[1:]:
        made.set_mode(name)
    return made


@pytest.mark.parametrize(("modes", "keys", "told"), [
    (("plan", "default"), "uAv", "from 'plan' to 'default'. All tools are available again"),
    (("plan", "review"), "u", "from 'plan' to 'review'. Its rules are in the system text"),
    (("plan",), "uAv", ""),
    (("plan", "default", "plan"), "uAv", ""),
    (("plan", "default"), "uA", ""),
    (("plan", "default"), "", ""),
], ids=["left", "changed", "same", "net-zero", "behind-an-answer", "no-history"])  # fmt: skip
def test_due(modes: tuple[str, ...], keys: str, told: str) -> None:
    """B012: a change that is still one is told, behind the newest message of the agent."""
    given = notices.due(session(*modes).in_force(), LANE, history(keys))
    assert (given is not None) is bool(told)
    if given is not None:
        assert told in given.text
        assert (given.item, given.at) == (keys[-1], len(keys) - 1)
        assert given.before == (keys[-2] if len(keys) > 1 else "")


def test_the_first_step_of_a_lane_is_told_by_the_section() -> None:
    """It knows of no other mode."""
    in_force = session("plan", "default").in_force()
    assert notices.due(in_force, Lane("another"), history("u")) is None


@pytest.mark.parametrize(("keys", "at", "wanted"), [
    ("uv", 1, 1), ("xuv", 1, 2), ("uw", 1, None), ("v", 0, None), ("uvAuv", 1, 1), ("uvAuv", 9, 4),
    ("uvAuv", -1, 4),
])  # fmt: skip
def test_place(keys: str, at: int, wanted: int | None) -> None:
    """Behind the same message behind the same one: at the old place, else at the last."""
    one = NoticeGiven(LANE, "default", Seq(2), "u", "v", "told", at)
    other = NoticeGiven(Lane("another"), "default", Seq(2), "u", "v", "not here", at)
    placed = notices.place(history(keys), [one, other], LANE)
    assert placed == ({} if wanted is None else {wanted: ["told"]})


def test_two_in_one_place_stand_in_order() -> None:
    """A step that was sent again after one more change."""
    both = [NoticeGiven(LANE, "m", Seq(n), "", "u", f"n{n}", 0) for n in (2, 3)]
    assert notices.place(history("u"), both, LANE) == {0: ["n2", "n3"]}


# As agents live with them.

EXITS = policy(mode("plan", "read", exit=Exit((ExitOption("Approve", ModeId("default")),))))
TOOLS = ("read", "write")
LEFT = "from 'plan' to 'default'"


def user(text: Any) -> dict[str, Any]:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def told(name: str = "plan", rules: Policy = EXITS) -> Session:
    """Return a session whose agent was shown this mode in a conversation that began with `one`."""
    made = Session(name, rules)
    made.step(request(*TOOLS, messages=[user("one")]), [said("a")])
    return made


def sends(one: Session, messages: list[Any], *tools: str) -> list[Any]:
    """Send a history and give the one that the model got."""
    got = one.step(request(*(tools or TOOLS), messages=messages), [said("b")])
    sent: list[Any] = got.upstream["messages"]
    return sent


PARTS = [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
RESULTS: list[Any] = [
    {"role": "assistant", "content": None, "tool_calls": [tool_call("read"), tool_call("read", "{}", "c1")]},
    {"role": "tool", "tool_call_id": "c0", "content": "x"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "y"}]},
]  # fmt: skip


PLACES: dict[str, tuple[list[Any], list[Any]]] = {
    "string": ([user("two")], []),
    "parts": ([user(PARTS)], PARTS),
    "results": (RESULTS, RESULTS[-1]["content"]),
    "one result": (RESULTS[:2], []),
    "behind results": ([*RESULTS, user("two")], []),
    "the developer's": ([{"role": "developer", "content": "two"}], []),
}


@pytest.mark.parametrize(("newest", "parts"), PLACES.values(), ids=PLACES)
def test_n007_b083_where_a_notice_stands(newest: list[Any], parts: list[Any]) -> None:
    """At the end of the newest message, be it the user's or a result; and there it stays."""
    session_ = told()
    session_.set_mode("default")
    before = [user("one"), {"role": "assistant", "content": "a"}][
        : 1 if newest[0]["role"] == "assistant" else 2
    ]
    history = [*before, *newest]
    sent = sends(session_, history)
    assert sent[:-1] == history[:-1]
    assert len(sent) == len(history)
    was, content = history[-1]["content"], sent[-1]["content"]
    assert {**sent[-1], "content": was} == history[-1]
    if parts:
        assert content[:-1] == parts
        assert LEFT in content[-1]["text"]
    else:
        assert content.startswith(was + "\n\n[modegate]")
    later = [*history, {"role": "assistant", "content": "b"}, user("three")]
    assert sends(session_, later) == [*sent, *later[-2:]]


@pytest.mark.parametrize("content", [None, {"text": "x"}, 7], ids=str)
def test_n007_what_has_no_words_gets_none(content: Any) -> None:
    """A message of its own could be refused, now or later: the next one that can hold it does."""
    session_ = told()
    session_.set_mode("default")
    history: list[Any] = [user("one"), RESULTS[0], RESULTS[1] | {"content": content}]
    assert sends(session_, history) == history
    later = [*history, {"role": "assistant", "content": "b"}, user("two")]
    sent = sends(session_, later)
    assert sent[:-1] == later[:-1]
    assert LEFT in sent[-1]["content"]


def test_the_same_request_again_says_the_same() -> None:
    """Its upstream failed, so the agent sends it once more: one notice, in the same bytes."""
    session_ = told()
    session_.set_mode("default")
    asked = request(
        *TOOLS, messages=[user("one"), {"role": "assistant", "content": "a"}, user("two")]
    )
    first = session_.step(asked, [Reply(b"{}", status=503)]).requests
    assert LEFT.encode() in first[0]
    assert session_.step(asked, [said()]).requests == first
    assert sum(isinstance(event, NoticeGiven) for event in session_.events) == 1


def test_a_lane_without_tools_is_told_nothing() -> None:
    """An agent that only wants a title for its conversation gets its own bytes through."""
    session_ = told()
    session_.set_mode("default")
    body = json.dumps(request(messages=[user("one")])).encode()
    assert session_.step(body, [said()]).requests == [body]


def test_each_lane_is_told_once() -> None:
    """Two agents of one session, in turns."""
    session_ = Session(rules=EXITS)
    starts = ([user("one")], [user("another task")])
    for start in starts:
        sends(session_, start)
    session_.set_mode("default")
    longer = [[*start, {"role": "assistant", "content": "a"}, user("two")] for start in starts]
    for history in longer:
        assert LEFT in sends(session_, history)[-1]["content"]
    for history in longer:
        assert json.dumps(sends(session_, history)).count(LEFT) == 1
    lanes = [event.lane for event in session_.events if isinstance(event, NoticeGiven)]
    assert len(lanes) == len(set(lanes)) == 2


def test_an_exit_is_told_to_the_other_lane_alone() -> None:
    """The one that submitted the plan had its answer; the other one was in plan too."""
    session_ = Session(rules=EXITS)
    other = [user("another task")]
    sends(session_, other)
    session_.person = lambda asked: session_.settle(asked)
    submit = stream(call("exit_plan_mode", '{"plan":"# P"}'))
    session_.step(request(*TOOLS, messages=[user("one")], stream=True), [submit, said("a")])
    assert session_.state.mode == "default"
    more = [{"role": "assistant", "content": "a"}, user("two")]
    assert LEFT not in json.dumps(sends(session_, [user("one"), *more]))
    assert LEFT in sends(session_, [*other, *more])[-1]["content"]


def test_to_and_fro_each_change_is_told_where_it_was_made() -> None:
    """Left and entered again, with a request after each."""
    session_ = told()
    history: list[Any] = [user("one")]
    sent: list[Any] = []
    for name in ("default", "plan", "default"):
        session_.set_mode(name)
        history += [{"role": "assistant", "content": "a"}, user(f"on in {name}")]
        sent = sends(session_, history)
    at = {
        n: one["content"].partition("[modegate]")[2]
        for n, one in enumerate(sent)
        if "[modegate]" in one["content"]
    }
    assert list(at) == [2, 4, 6]
    assert LEFT in at[2]
    assert "from 'default' to 'plan'. Its rules are in the system text" in at[4]
    assert LEFT in at[6]


def test_a_compacted_history_loses_its_notice_and_gets_no_other() -> None:
    """The agent's summary took its place; the lane was told."""
    session_ = told()
    session_.set_mode("default")
    history = [user("one"), {"role": "assistant", "content": "a"}, user("two")]
    assert LEFT in json.dumps(sends(session_, history))
    for compacted in ([user("one"), user("summary")], [history[0], history[2]]):
        assert sends(session_, compacted) == compacted


@pytest.mark.parametrize("flips", [("default",), ("default", "plan", "default"), ()])
def test_b012_narrate_false_leaves_every_byte(flips: tuple[str, ...]) -> None:
    """In default mode R2 and R3 are the client's own, in a mode they have its section alone."""
    session_ = told(rules=replace(EXITS, narrate=False))
    for name in flips:
        session_.set_mode(name)
    history = [user("one"), {"role": "assistant", "content": "a"}, user("two")]
    for more in ([], [{"role": "assistant", "content": "b"}, user("three")]):
        sent = sends(session_, [*history, *more])
        assert [one for one in sent if one["role"] != "system"] == [*history, *more]
        assert not any(isinstance(event, NoticeGiven) for event in session_.events)


def test_behind_an_answer_it_waits_for_the_next_message() -> None:
    """A request that lets the model go on with its own words has no place for it."""
    session_ = told()
    session_.set_mode("default")
    history = [user("one"), {"role": "assistant", "content": "a"}]
    assert sends(session_, history) == history
    assert LEFT in sends(session_, [*history, user("two")])[-1]["content"]


@pytest.mark.parametrize(("texts", "wanted"), [
    ("", []), ("n", [("n", "n")]), ("t", [("t", "t")]), ("tt", [("t", "t\n\nt")]),
    ("nt", [("n", "n\n\nt")]), ("tnnt", [("n", "n"), ("n", "n\n\nt\n\nt")]),
])  # fmt: skip
def test_n007_what_is_said_of_calls_in_text_stands_in_a_result(
    texts: str, wanted: list[tuple[str, str]]
) -> None:
    """Behind results it would be a message of the user; without one it is one alone."""
    refused = [
        Refused(Gathered(0, "function", id=name, text=name == "t"), name, name, None)
        for name in texts
    ]
    assert [(one.id, one.answer) for one in notices.in_results(refused)] == wanted


def test_n007_no_hop_has_a_message_behind_results() -> None:
    """A model that calls by the API and in its text, as agents with both habits have it."""
    rules = policy(mode("plan", "read", text_calls="refuse"))
    session_ = Session(rules=rules)
    text = '<write_file>{"path":"x"}</write_file>\n@write(c9): {"path": "x"}\n'
    reply = stream(chunk({"content": text}), call("write", '{"path":"y"}'))
    got = session_.step(request(*TOOLS, stream=True), [reply, said("ok")])
    roles = [one["role"] for one in got.upstream["messages"]]
    assert roles[-2:] == ["assistant", "tool"]
    assert "Your text held a call" in got.upstream["messages"][-1]["content"]
