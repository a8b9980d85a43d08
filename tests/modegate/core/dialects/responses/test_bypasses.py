"""Ways around the gate: each is a way in which some client could run what the policy refuses (L4, L5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.step.effects import Counted
from support.playbook import Got, bytewise
from support.responses import (
    CLIENTS,
    added,
    answer,
    begin,
    call,
    custom,
    done,
    end,
    events,
    frame,
    inside,
    item_events,
    kinds,
    last,
    message,
    request,
    session,
    stream,
)

REQUEST = request("read", "grep", "write", stream=True)
READ = call("read", '{"path":"a"}')
WRITE = call("write", '{"path":"SECRET"}')
OTHER = call("grep", '{"for":"SECRET"}', 2)
TEXT = message("Hello")
FINE = answer(message("Fine.", "msg_2"), n=2)


def piece(item: Any, text: str, at: int = 0, **more: Any) -> Any:
    kind = "custom_tool_call_input" if "input" in item else "function_call_arguments"
    place = {"item_id": item["id"], "output_index": at}
    return {"type": f"response.{kind}.delta", **place, "delta": text, **more}


def step(body: bytes) -> Got:
    got = session().step(REQUEST, [body, FINE])
    again = session().step(REQUEST, [body, FINE], cut=bytewise)
    assert again.body == got.body
    return got


def runs(body: bytes) -> set[tuple[str, str]]:
    """Return what any kind of client would run of it."""
    found = {(built.name, built.arguments) for client in CLIENTS.values() for built in client(body)}
    return {one for one in found if one[0] != "x"}


def check(got: Got, *allowed: tuple[str, str]) -> None:
    """No client runs anything but this; an item that is announced has no arguments yet."""
    assert b"SECRET" not in got.body
    assert runs(got.body) <= {*allowed, *((name, "") for name, _ in allowed)}


ALLOWED = ("read", '{"path":"a"}')

ODD: dict[str, list[Any]] = {
    "another name at its end": [added(READ, 0), done(WRITE | {"id": "fc_1"}, 0)],
    "another id at its end": [added(READ, 0), done(READ | {"call_id": "other_call_id"}, 0)],
    "another type at its end": [added(READ, 0), done(custom("read", "SECRET"), 0)],
    "other arguments at its end": [*item_events(READ, 0)[:-1],
                                   done(READ | {"arguments": '{"path":"SECRET"}'}, 0)],
    "other arguments when they are whole": [
        added(READ, 0), *inside(READ, 0)[:-1],
        inside(READ | {"arguments": '{"path":"SECRET"}'}, 0)[-1], done(READ, 0)],
    "other arguments in pieces": [added(READ, 0), piece(READ, '{"path":"SECRET"}'), done(READ, 0)],
    "arguments when it is announced": [
        added(READ, 0) | {"item": READ | {"arguments": '{"path":"SECRET"}'}}, done(READ, 0)],
    "arguments twice": [added(READ, 0) | {"item": READ}, *inside(READ, 0), done(READ, 0)],
    "pieces that its end leaves out": [*item_events(READ, 0)[:-1], done(READ | {"arguments": ""}, 0)],
    "another name where its arguments are whole": [
        added(READ, 0), *inside(READ, 0)[:-1],
        inside(READ, 0)[-1] | {"name": "write"}, done(READ, 0)],
    "a piece of another kind": [added(READ, 0), piece(custom("read") | {"id": "fc_1"}, "SECRET"),
                                done(READ, 0)],
    "a piece of no known kind": [
        added(READ, 0), piece(READ, "SECRET") | {"type": "response.function_call.patch"}, done(READ, 0)],
    "arguments that are an object": [added(READ, 0), done(READ | {"arguments": {"path": "SECRET"}}, 0)],
    "a name that is a list": [added(READ | {"name": ["read"]}, 0), done(READ | {"name": ["read"]}, 0)],
    "a function inside": [added(READ, 0), done(READ | {"function": {"name": "write"}}, 0)],
    "a name of a tool inside": [added(READ, 0), done(READ | {"tool_name": "write"}, 0)],
    "another namespace at its end": [added(READ, 0), done(READ | {"namespace": "other"}, 0)],
    "commands that differ": [
        added({"type": "shell_call", "id": "s", "call_id": "shell_call_1", "action": {"commands": []}}, 0),
        {"type": "response.shell_call_command.done", "output_index": 0, "command_index": 0,
         "command": "SECRET"},
        done({"type": "shell_call", "id": "s", "call_id": "shell_call_1", "action": {"commands": []}}, 0)],
}  # fmt: skip
"""Forms of one call that do not agree: the call is refused and the answer goes on."""


@pytest.mark.parametrize("name", ODD)
def test_forms_that_disagree_are_refused_as_one(name: str) -> None:
    found = [begin(), *ODD[name], end([])]
    got = step(stream(found))
    if kinds(got.body)[-1] == "failed":
        assert name == "another type at its end"
    else:
        assert [item["type"] for item in last(got.body)["output"]] == ["message"]
    check(got)


UNREADABLE: dict[str, list[Any]] = {
    "two items with one id": [*item_events(READ, 0), *item_events(OTHER | {"id": "fc_1"}, 1)],
    "an index that is text": [added(READ, 0) | {"output_index": "0"}],
    "an index below nothing": [added(READ, 0) | {"output_index": -1}],
    "an index that is true": [added(READ, 0) | {"output_index": True}],
    "a piece by one index and another id": [added(READ, 0), added(OTHER, 1), piece(READ, "SECRET", 1)],
    "a piece of nothing": [piece(OTHER, "SECRET", 3)],
    "a piece of an id that is not known": [
        {"type": "response.function_call_arguments.delta", "item_id": "x", "delta": "SECRET"}],
    "a piece after the end": [*item_events(READ, 0), piece(READ, "SECRET")],
    "text that ends as a call": [added(TEXT, 0), done(OTHER | {"id": "msg_1"}, 0)],
    "a call in the content of a message": [added(TEXT, 0), done(TEXT | {"content": [OTHER]}, 0)],
    "a call as a part": [
        added(TEXT, 0), {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                         "content_index": 0, "part": OTHER}],
    "a call in an annotation": [
        added(TEXT, 0), {"type": "response.output_text.annotation.added", "item_id": "msg_1",
                         "output_index": 0, "annotation": OTHER}],
    "a call beside the text": [added(TEXT, 0), inside(TEXT, 0)[1] | {"item": OTHER}],
    "a response beside the text": [added(TEXT, 0), inside(TEXT, 0)[1] | {"response": {"output": [OTHER]}}],
    "an output beside the text": [added(TEXT, 0), inside(TEXT, 0)[1] | {"output": [OTHER]}],
    "calls as chat completions have them": [added(TEXT, 0), inside(TEXT, 0)[1] | {"tool_calls": [OTHER]}],
    "a call inside of a call": [added(READ, 0), done(READ | {"more": OTHER}, 0)],
    "a call in the beginning": [begin() | {"response": begin()["response"] | {"output": [OTHER]}}],
    "a type in capitals": [added(READ, 0) | {"Type": "response.output_item.done"}],
    "an item in capitals": [added(READ, 0) | {"Item": OTHER}],
    "a name in capitals": [added(READ, 0), done(READ | {"Name": "SECRET"}, 0)],
    "a name of another spelling": [added(READ, 0), done(READ | {"callId": "SECRET"}, 0)],
    "a type that is a list": [added(READ, 0) | {"item": OTHER | {"type": ["function_call"]}}],
    "an item without a type": [added(READ, 0) | {"item": {"name": "SECRET"}}],
    "an item that is a list": [added(READ, 0) | {"item": [OTHER]}],
    "no item": [{"type": "response.output_item.done", "output_index": 0}],
    "a message of the user": [added(TEXT, 0) | {"item": TEXT | {"role": "user", "content": []}}],
    "an event that is named otherwise": [
        {**inside(TEXT, 0)[1], "EVENT": "response.output_item.done", "item_id": None}],
    "an event without a type": [{"type": "", "item": OTHER}],
    "a number that is none": [added(TEXT, 0) | {"sequence_number": "x"}],
    "another answer": [{"type": "response.in_progress", "response": {"id": "other", "output": []}}],
    "an end of another answer": [end([], n=7)],
    "an end with a list of text": [{"type": "response.completed", "response": {"output": ["SECRET"]}}],
    "an end with another call": [*item_events(READ, 0), end([READ | {"name": "SECRET"}])],
    "an end with other arguments": [*item_events(READ, 0), end([READ | {"arguments": '{"SECRET":1}'}])],
    "an end with a call twice": [*item_events(READ, 0), end([READ, READ])],
    "an end with a message of the user": [end([TEXT | {"role": "user"}])],
}  # fmt: skip
"""What leaves a doubt about the whole answer: it ends with an error."""


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_leaves_a_doubt_ends_the_answer(name: str) -> None:
    got = step(stream([begin(), *UNREADABLE[name], end([])]))
    assert kinds(got.body)[-1] == "failed"
    assert last(got.body)["error"]["code"] == "server_error"
    assert got.counts == [Counted.UNREADABLE]
    check(got, ALLOWED)


RAW = {
    "a key twice": frame(done(READ, 0)).replace(b'"name":', b'"name": "write", "name":'),
    "a type twice": frame(inside(TEXT, 0)[1]).replace(b'"type":', b'"type": "x", "type":'),
    "an item twice": frame(done(READ, 0)).replace(b'"item":', b'"item": {}, "item":'),
    "no JSON": b"data: {oops\n\n",
    "no object": b"data: []\n\n",
    "two lines of data, cut in a string": frame(done(READ, 0)).replace(b"read", b"re\ndata: ad"),
    "a line that is none": b"event: response.output_item.done\nDATA: {}\n" + frame(begin()),
    "a hidden line end": b"x: \xc2\x85data: {}\n" + frame(begin()),
    "nested deeply": b'data: {"type":"x","tools":' + b"[" * 200 + b"]" * 200 + b',"tool":[]}\n\n',
}


@pytest.mark.parametrize("name", RAW)
def test_frames_that_clients_could_read_differently(name: str) -> None:
    body = frame(begin()) + frame(added(READ, 0)) + RAW[name] + frame(end([]))
    got = step(body)
    if name == "nested deeply":
        assert b"[[[" not in got.body
    elif name == "an item twice":
        assert kinds(got.body)[-1] == "completed"  # the call alone is refused
    else:
        assert kinds(got.body)[-1] == "failed"
    check(got)


def test_g8_one_text_over_two_lines_goes_in_one() -> None:
    two = frame(done(READ, 0)).replace(b'"output_index"', b'\ndata: "output_index"')
    got = step(frame(begin()) + frame(added(READ, 0)) + two + frame(end([])))
    assert kinds(got.body)[-1] == "completed"
    assert all(part.count(b"data:") == 1 for part in got.body.split(b"\n\n") if part)
    check(got, ALLOWED)


def test_an_escaped_type_is_read_as_what_it_is() -> None:
    body = answer(WRITE).replace(b"function_call", b"function\\u005fcall")
    body = body.replace(b"event: response.function\\u005fcall", b"event: response.function_call")
    check(step(body))


NOWHERE: dict[str, list[Any]] = {
    "an unknown event": [{"type": "response.tool_request", "call": {"name": "write", "a": "SECRET"}}],
    "an unknown event of an item": [
        added(TEXT, 0), {"type": "response.message.call", "item_id": "msg_1", "output_index": 0,
                         "a": "SECRET"}, *item_events(TEXT, 0)[1:]],
    "events of other APIs": [{"type": "content_block_start", "content_block": {"x": "SECRET"}}],
    "a call under an unknown type": [*item_events({"type": "tool_run", "id": "x", "n": "SECRET"}, 0)],
    "a call that was not streamed": [end([WRITE])],
    "one of two that was not streamed": [*item_events(READ, 0), end([READ, OTHER | {"name": "write"}])],
    "a call that was refused, and comes as another": [
        *item_events(WRITE, 0), end([READ | {"arguments": '{"SECRET":1}'}])],
    "a call that has no end but stands at the end": [*item_events(WRITE, 0)[:-1], end([WRITE])],
    "a released call beside one of the same id": [
        *item_events(WRITE, 0), *item_events(READ | {"id": "fc_2"}, 1), end([WRITE])],
    "frames after the end": [end([]), *item_events(WRITE, 0), end([WRITE])],
    "an end after an error": [{"type": "error", "message": "x"}, *item_events(WRITE, 0), end([WRITE])],
}  # fmt: skip


@pytest.mark.parametrize("name", NOWHERE)
def test_what_goes_nowhere(name: str) -> None:
    check(step(stream([begin(), *NOWHERE[name], end([])])), ALLOWED)


def test_a_marker_of_another_api_does_not_end_it() -> None:
    body = answer(TEXT, READ)
    at = body.rindex(b"event: ")
    got = step(body[:at] + b"data: [DONE]\n\n" + body[at:])
    assert got.body == body


def test_a_call_that_only_stands_at_the_end_is_judged_as_well() -> None:
    body = stream([begin(), end([READ])])
    assert [call.name for call in CLIENTS["by_ends"](step(body).body)] == ["read"]
    got = step(stream([begin(), end([WRITE])]))
    assert got.upstream["input"][-2] == WRITE
    assert "was refused" in got.upstream["input"][-1]["output"]


def test_arguments_may_be_spelled_in_another_way_at_the_end() -> None:
    body = stream([begin(), *item_events(READ, 0), end([READ | {"arguments": '{ "path" : "a" }'}])])
    assert step(body).body == body


@pytest.mark.parametrize("leave_out", ["deltas", "whole", "both"])
def test_a_call_needs_not_come_in_every_form(leave_out: str) -> None:
    drop = {"deltas": ".delta", "whole": "arguments.done", "both": "arguments"}[leave_out]
    found = [event for event in events(READ) if drop not in event["type"]]
    got = step(stream(found)).body
    assert all([(one.name, one.arguments) for one in client(got)][-1] == ("read", READ["arguments"])
               for client in CLIENTS.values())  # fmt: skip
    refused = [event for event in events(WRITE) if drop not in event["type"]]
    check(step(stream(refused)))


@pytest.mark.parametrize("at", range(8))
def test_a_call_in_every_place_of_an_answer(at: int) -> None:
    found = events(TEXT, READ)
    hidden = {"type": "response.output_item.done", "output_index": 9, "item": WRITE}
    check(step(stream([*found[: at + 1], hidden, *found[at + 1 :]])), ALLOWED)


def test_json_of_a_marker_in_text_is_text() -> None:
    text = json.dumps({"type": "function_call", "name": "write"})
    body = answer(message(text))
    assert step(body).body == body
