"""Cases from public reports that are about answers of the Responses API, each under its id."""

from __future__ import annotations

import json

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.model import Exit, ExitOption
from support.playbook import Cut, Session, bytewise, cut_at, mode, policy, whole
from support.responses import (
    CLIENTS,
    Json,
    added,
    answer,
    begin,
    call,
    done,
    end,
    item_events,
    last,
    message,
    read,
    reasoning,
    request,
    session,
    stream,
)

RULES = policy(
    mode("plan", "read", exit=Exit((ExitOption("Approve", DEFAULT_MODE),))),
)
WRITE, READ = call("write", '{"path":"S3CRET"}', 1), call("read", '{"path":"a"}', 2)
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])


@CUTS
@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_b058_the_last_snapshot_holds_no_call_that_the_stream_did_not(
    status: str, cut: Cut
) -> None:
    """Clients take calls from the snapshot; places and numbers stay without a gap, usage as it was."""
    body = answer(reasoning(), WRITE, READ, status=status)
    got = session(rules=RULES).step(request("read", "write", stream=True), [body], cut=cut)
    assert b"S3CRET" not in got.body
    assert b"fc_1" not in got.body
    assert {client(got.body)[0].name for client in CLIENTS.values()} == {"read"}
    found = read(got.body)
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    assert sorted({one["output_index"] for one in found if "output_index" in one}) == [0, 1]
    assert [item["type"] for item in last(got.body)["output"]] == ["reasoning", "function_call"]
    assert last(got.body)["usage"] == last(body)["usage"]


def test_b058_a_call_that_stands_in_the_snapshot_alone() -> None:
    """It is judged like any other."""
    found = [begin(), *item_events(message("hi"), 0), end([message("hi"), WRITE])]
    again = answer(message("no", "msg_2"), n=2)
    got = session(rules=RULES).step(request("read", "write", stream=True), [stream(found), again])
    assert b"S3CRET" not in got.body


PLAN = '{"plan":"# A"}'


def late(announced: str | None = "exit_plan_mode") -> bytes:
    """Return a call of which nothing comes in pieces, and perhaps not even its name in front."""
    item = call("exit_plan_mode", PLAN)
    first = added(item, 0)
    first["item"]["name"] = announced
    if announced is None:
        del first["item"]["name"]
    arguments: Json = {
        "type": "response.function_call_arguments.done",
        "item_id": item["id"],
        "output_index": 0,
        "arguments": PLAN,
    }
    return stream([begin(), first, arguments, done(item, 0), end([item])])


@CUTS
@pytest.mark.parametrize(
    "announced", ["exit_plan_mode", "", None], ids=["named", "empty", "absent"]
)
def test_b060_arguments_that_come_only_at_the_end(announced: str | None, cut: Cut) -> None:
    """The person sees the whole plan, and what they approve is that plan."""
    asked: list[str] = []
    one: Session = session(rules=RULES)

    def person(question: object) -> None:
        asked.append(getattr(question, "text", ""))
        one.settle(question)  # type: ignore[arg-type]

    one.person = person
    again = answer(message("I begin.", "msg_2"), n=2)
    got = one.step(request("read", stream=True), [late(announced), again], cut=cut)
    assert asked == ["# A"]
    assert one.state.mode == DEFAULT_MODE
    assert b"exit_plan_mode" not in got.body
    turn = next(
        item for item in got.upstream["input"] if isinstance(item, dict) and "arguments" in item
    )
    assert json.loads(turn["arguments"]) == {"plan": "# A"}


@pytest.mark.parametrize("at", range(20, 1100, 97))
def test_b060_wherever_it_is_cut(at: int) -> None:
    """The same in every cut."""
    asked: list[str] = []
    one = session(rules=RULES)
    one.person = lambda question: asked.append(question.text)
    again = answer(message("Fine.", "msg_2"), n=2)
    one.step(request("read", stream=True), [late(""), again], cut=cut_at(at))
    assert asked == ["# A"]
