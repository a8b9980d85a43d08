"""Loose servers of the Messages API: what has one reading arrives in the API's own form, for every client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Limits
from modegate.core.policy.when import When
from support import judges
from support.message_frames import (
    CLIENTS,
    SECRET,
    WRITE,
    begin,
    call,
    delta,
    end,
    event,
    events,
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
from support.playbook import Got, Reply, Session, at_every_byte, bytewise, mode, policy, rule
from support.speech import Heard
from support.speech_messages import MessagesApi

ASK = request("read", "grep", "write", stream=True)
UNREAD = ("answer_unreadable", "too_large")
BARE = {"type": "text", "text": ""}
P = '{"p":1}'


def block(name: str = "read", id_: Any = "toolu_x_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": {}, **more}


def args(at: Any, *pieces: str) -> bytes:
    return b"".join(delta(at, "input_json_delta", partial_json=one) for one in pieces)


def bare(kind: str, **fields: Any) -> bytes:
    """Return an event without an index."""
    return event(kind, **fields)


START, DELTA, STOP = "content_block_start", "content_block_delta", "content_block_stop"
ONE, TWO = block("read", "toolu_x_1"), block("grep", "toolu_x_2")
WRITES = block("write", "toolu_x_2")
REASON = event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5})
MESSAGE_STOP = event("message_stop")


@dataclass(frozen=True)
class Case:
    """A stream, and what every client is to make of it."""

    body: bytes
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = "calls"


READS = (("read", P),)
BOTH = (("read", P), ("grep", '{"q":2}'))
CASES = {
    "two blocks side by side": Case(
        stream(
            start(0, BARE),
            delta(0, "text_delta", text="A"),
            start(1, ONE),
            args(1, '{"p"'),
            delta(0, "text_delta", text="B"),
            args(1, ":1}"),
            stop(0),
            stop(1),
        ),
        "AB",
        READS,
    ),
    "two calls side by side": Case(
        stream(
            start(0, ONE),
            start(1, TWO),
            args(0, '{"p"'),
            args(1, '{"q"'),
            args(0, ":1}"),
            args(1, ":2}"),
            stop(1),
            stop(0),
        ),
        "",
        BOTH,
    ),
    "no block ends": Case(
        stream(
            start(0, BARE),
            delta(0, "text_delta", text="A"),
            start(1, ONE),
            args(1, P),
            start(2, TWO),
            args(2, '{"q":2}'),
        ),
        "A",
        BOTH,
    ),
    "all blocks end at the end": Case(
        stream(
            start(0, BARE),
            delta(0, "text_delta", text="A"),
            start(1, ONE),
            args(1, P),
            stop(0),
            stop(1),
        ),
        "A",
        READS,
    ),
    "a block that ends twice": Case(
        stream(text(0, "A"), stop(0), use(1, "read", P), stop(1), stop(1)), "A", READS
    ),
    "an end of a block that never was": Case(
        stream(stop(7), text(0, "A"), stop(9), use(1, "read", P)), "A", READS
    ),
    "one index for all": Case(
        stream(text(0, "A"), use(0, "read", P), use(0, "grep", '{"q":2}')), "A", BOTH
    ),
    "one index for all, and no ends": Case(
        stream(
            start(0, BARE),
            delta(0, "text_delta", text="A"),
            start(0, ONE),
            args(0, P),
            start(0, TWO),
            args(0, '{"q":2}'),
        ),
        "A",
        BOTH,
    ),
    "indices that go back": Case(
        stream(text(3, "A"), use(1, "read", P), use(0, "grep", '{"q":2}')), "A", BOTH
    ),
    "no index": Case(
        stream(
            bare(START, content_block=BARE),
            bare(DELTA, delta={"type": "text_delta", "text": "A"}),
            bare(STOP),
            bare(START, content_block=ONE),
            bare(DELTA, delta={"type": "input_json_delta", "partial_json": P}),
            bare(STOP),
        ),
        "A",
        READS,
    ),
    "no index in the pieces": Case(
        stream(
            start(0, BARE),
            bare(DELTA, delta={"type": "text_delta", "text": "A"}),
            stop(0),
            start(1, ONE),
            bare(DELTA, delta={"type": "input_json_delta", "partial_json": P}),
            stop(1),
        ),
        "A",
        READS,
    ),
    "no index in the pieces of text beside a call": Case(
        stream(
            start(0, ONE),
            start(1, BARE),
            bare(DELTA, delta={"type": "text_delta", "text": "A"}),
            bare(DELTA, delta={"type": "input_json_delta", "partial_json": P}),
            stop(0),
            stop(1),
        ),
        "A",
        READS,
    ),
    "text without a beginning": Case(
        stream(
            delta(0, "text_delta", text="A"), delta(0, "text_delta", text="B"), use(1, "read", P)
        ),
        "AB",
        READS,
    ),
    "text behind its end": Case(
        stream(text(0, "A"), delta(0, "text_delta", text="B"), use(1, "read", P)), "A\n\nB", READS
    ),
    "text that begins with text": Case(
        stream(
            start(0, {"type": "text", "text": "A"}),
            delta(0, "text_delta", text="B"),
            stop(0),
            use(1, "read", P),
        ),
        "AB",
        READS,
    ),
    "arguments at the beginning": Case(
        stream(start(0, {**ONE, "input": {"p": 1}}), stop(0)), "", READS
    ),
    "arguments at the beginning and in pieces": Case(
        stream(start(0, {**ONE, "input": {"p": 1}}), args(0, '{ "p"', ":1}"), stop(0)), "", READS
    ),
    "a placeholder": Case(
        stream(start(0, block("", "call_tmp")), stop(0), text(1, "A"), use(2, "read", P)),
        "A",
        READS,
    ),
    "a placeholder alone": Case(
        stream(text(0, "A"), start(1, block("", "")), stop(1), reason="end_turn"), "A", (), "stop"
    ),
    "no id": Case(stream(start(0, block("read", None)), args(0, P), stop(0)), "", READS),
    "an id twice": Case(
        stream(use(0, "read", P, id_="c"), use(1, "grep", '{"q":2}', id_="c")), "", BOTH
    ),
    "the reason twice": Case(stream(text(0, "A"), use(1, "read", P), REASON), "A", READS),
    "two reasons": Case(
        stream(
            use(0, "read", P),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}),
        ),
        "",
        READS,
    ),
    "the reason in front": Case(
        begin() + REASON + text(0, "A") + use(1, "read", P) + MESSAGE_STOP, "A", READS
    ),
    "the reason in front of ends": Case(
        begin() + start(0, ONE) + args(0, P) + REASON + stop(0) + MESSAGE_STOP, "", READS
    ),
    "no end": Case(begin() + text(0, "A") + use(1, "read", P) + REASON, "A", READS),
    "an end of another API": Case(
        begin() + text(0, "A") + use(1, "read", P) + REASON + b"data: [DONE]\n\n", "A", READS
    ),
    "another API's end behind the end": Case(
        stream(use(0, "read", P)) + b"data: [DONE]\n\n", "", READS
    ),
    "another API's end in the middle": Case(
        begin() + text(0, "A") + b"data: [DONE]\n\n" + use(1, "read", P) + end(), "A", READS
    ),
    "names missing in places": Case(
        begin()
        + text(0, "A").replace(b"event: content_block_delta\n", b"")
        + use(1, "read", P)
        + REASON.replace(b"event: message_delta\n", b"")
        + MESSAGE_STOP,
        "A",
        READS,
    ),
    "all events are messages": Case(
        b"".join(
            b"event: message\n" + one.split(b"\n", 1)[1] + b"\n\n"
            for one in stream(text(0, "A"), use(1, "read", P)).split(b"\n\n")[:-1]
        ),
        "A",
        READS,
    ),
    "types by name alone": Case(
        stream(text(0, "A"), b"event: ping\ndata: {}\n\n", use(1, "read", P)).replace(
            b'{"type": "message_stop"}', b"{}"
        ),
        "A",
        READS,
    ),
    "pings everywhere": Case(
        event("ping")
        + event("ping").join(
            one + b"\n\n" for one in stream(text(0, "A"), use(1, "read", P)).split(b"\n\n")[:-1]
        ),
        "A",
        READS,
    ),
    "usage everywhere": Case(
        begin()
        + event("message_delta", delta={}, usage={"output_tokens": 1})
        + start(0, ONE)
        + event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 2})
        + args(0, P)
        + stop(0)
        + event("message_delta", delta={}, usage={"output_tokens": 5})
        + end(),
        "",
        READS,
    ),
}


def heard(got: Got) -> Heard:
    return MessagesApi().heard(got.body, streamed=True)


def shown(found: Heard) -> tuple[tuple[str, str], ...]:
    return tuple(
        (call.name, json.dumps(json.loads(call.arguments), separators=(",", ":")))
        for call in found.calls
    )


def strict(body: bytes) -> None:
    """See that blocks follow one another, each with its beginning and its end, and are counted."""
    at, open_, ids = -1, False, set()
    for one in events(body, named=True):
        kind = one["type"]
        if kind == START:
            at, open_ = at + 1, not open_
            assert open_
            found = one["content_block"]
            assert found.get("text", "") == "" and not found.get("input")  # noqa: PT018 -- one thing
            if found["type"] == "tool_use":
                assert found["id"] not in ids
                ids.add(found["id"])
        elif kind == STOP:
            assert open_
            open_ = False
        if kind in (START, DELTA, STOP):
            assert one["index"] == at
    assert not open_


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_has_one_reading_arrives_in_one_form(case: Case) -> None:
    """However it is cut; read by a strict client, by loose ones and by the official SDK."""
    got = session().step(ASK, [case.body])
    words, told = judges.told("messages", got.body, streamed=True)
    assert words == case.text.replace("\n\n", "")
    assert told == [(name, json.loads(given)) for name, given in case.calls]
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(ASK, [case.body], cut=cut)
        assert len(got.requests) == 1
        strict(got.body)
        found = heard(got)
        assert (found.text, shown(found), found.finish) == (case.text, case.calls, case.finish)
        for client in CLIENTS.values():
            calls = [one for one in client(got.body) if one.kind == "tool_use"]
            assert [(one.name, json.loads(one.arguments)) for one in calls] == [
                (name, json.loads(given)) for name, given in case.calls
            ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_refused_of_it_goes_nowhere(case: Case) -> None:
    """The same server, whose model calls a tool that the mode does not have; then it gives in."""
    body = case.body.replace(b'"read"', b'"write"').replace(
        b'\\"p\\"', b'\\"%b\\"' % SECRET.encode()
    )
    body = body.replace(b'"p": 1', b'"%b": 1' % SECRET.encode()).replace(b'"grep"', b'"write"')
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(ASK, [body, said("so")], cut=cut)
        assert SECRET.encode() not in got.body
        assert b"write" not in got.body
        found = heard(got)
        assert found.calls == ()
        assert len(got.requests) == (2 if case.calls else 1)
        strict(got.body)


@pytest.mark.parametrize(
    "name", ["two calls side by side", "one index for all, and no ends", "no id"]
)
def test_each_cut_gives_the_same(name: str) -> None:
    body = CASES[name].body
    wanted = session().step(ASK, [body]).body
    for cut in at_every_byte():
        assert session().step(ASK, [body], cut=cut).body == wanted


# Calls of which a server could mean two things: refused, and nothing else is.
DOUBTFUL = {
    "one index, and pieces missing": stream(
        start(0, ONE), start(0, TWO), args(0, P), args(0, '{"q":2}')
    ),
    "no index in the pieces of two calls": stream(
        start(0, ONE),
        start(1, TWO),
        bare(DELTA, delta={"type": "input_json_delta", "partial_json": P}),
        bare(DELTA, delta={"type": "input_json_delta", "partial_json": "{}"}),
        stop(0),
        stop(1),
    ),
    "arguments of no block": stream(start(0, ONE), args(5, P), stop(0)),
    "arguments under the index of a text": stream(
        start(0, BARE),
        delta(0, "text_delta", text="A"),
        start(1, ONE),
        args(0, P),
        stop(0),
        stop(1),
    ),
    "arguments behind the end": stream(start(0, ONE), stop(0), args(0, P)),
    "arguments behind the end of a call that waits": stream(
        start(0, TWO), start(1, ONE), args(1, P), stop(1), args(1, P), args(0, '{"q":2}')
    ),
    "other arguments in pieces": stream(start(0, {**ONE, "input": {"p": 2}}), args(0, P), stop(0)),
}


@pytest.mark.parametrize("body", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_call_with_two_readings_is_refused(body: bytes) -> None:
    """Never released with other arguments than some client of that server would have, or with none."""
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(ASK, [body, said("so")], cut=cut)
        found = heard(got)
        assert b'"read"' not in got.body
        assert len(got.requests) == (1 if found.calls else 2)
        strict(got.body)


def test_text_that_is_never_ended_does_not_keep_back_the_text_behind_it() -> None:
    thought = thinking(0, "Hm.").removesuffix(stop(0))
    pieces = [begin(), thought, start(1, BARE), delta(1, "text_delta", text="A")]
    got = session().step(
        ASK, [b"".join(pieces) + end("end_turn")], cut=lambda _: [*pieces, end("end_turn")]
    )
    assert delta(1, "text_delta", text="A") in got.pieces[3]


EDIT = policy(
    mode("plan", "read", rule("edit", When({"command": Equals("view")}, others_any=True)))
)
VIEW = '{"command":"view"}'
CREATE = '{"command":"create"}'
WHEN = {
    "pieces": (stream(use(0, "edit", VIEW)), True),
    "no id": (stream(start(0, block("edit", None)), args(0, VIEW), stop(0)), True),
    "at the beginning": (stream(start(0, block("edit", input={"command": "view"})), stop(0)), True),
    "at the beginning, denied": (
        stream(start(0, block("edit", input={"command": "create"})), stop(0)),
        False,
    ),
    "at the beginning, then others": (
        stream(start(0, block("edit", input={"command": "view"})), args(0, CREATE), stop(0)),
        False,
    ),
    "beside another": (
        stream(
            start(0, block("edit")),
            start(1, block("read", "t2")),
            args(0, '{"command":'),
            args(1, "{}"),
            args(0, '"view"}'),
            stop(0),
            stop(1),
        ),
        True,
    ),
    "put together from both": (
        stream(start(0, block("edit")), start(0, block("read", "t2")), args(0, VIEW), stop(0)),
        False,
    ),
    "behind its end": (stream(start(0, block("edit")), stop(0), args(0, VIEW), stop(0)), False),
}


@pytest.mark.parametrize(("body", "goes"), WHEN.values(), ids=WHEN)
def test_conditions_hold_for_what_every_client_reads_alike(body: bytes, goes: bool) -> None:
    for cut in (bytewise, lambda all_: [all_]):
        got = session(EDIT).step(request("edit", "read", stream=True), [body, said()], cut=cut)
        for client in CLIENTS.values():
            calls = [one.arguments for one in client(got.body) if one.name == "edit"]
            assert [json.loads(one) for one in calls] == ([{"command": "view"}] if goes else [])


ERROR = {"type": "overloaded_error", "message": "Overloaded"}
ERRORS = {
    "as the API has it": (event("error", error=ERROR), True),
    "no type": (event("error", error=ERROR).replace(b'"type": "error", ', b""), False),
    "no name": (event("error", name=None, error=ERROR), False),
    "neither": (
        b'data: {"error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
        False,
    ),
    "words": (b"event: error\ndata: Overloaded\n\n", False),
}


@pytest.mark.parametrize("broken", [True, False], ids=["torn", "closed"])
@pytest.mark.parametrize(
    "behind", [b"", end(), use(2, "read", P) + end(), event("error", error=ERROR)]
)
@pytest.mark.parametrize("held", [b"", use(1, "read", P).removesuffix(stop(1)), start(1, WRITES)])
@pytest.mark.parametrize(("error", "same"), ERRORS.values(), ids=ERRORS)
def test_g2_an_error_ends_the_answer_once(
    error: bytes, same: bool, held: bytes, behind: bytes, broken: bool
) -> None:
    """Whatever form it has: it reaches the client as an error, and nothing of ours follows."""
    for cut in (bytewise, lambda all_: [all_]):
        body = begin() + text(0, "A") + held + error + behind
        got = session().step(ASK, [Reply(body, broken=broken)], cut=cut)
        assert got.body.startswith(begin() + text(0, "A") + b"event: error\n")
        assert got.body.count(b"event: error") == 1
        assert b"Overloaded" in got.body
        if same:
            assert got.body == begin() + text(0, "A") + error
        assert got.finish is not None
        assert (got.finish.outcome, len(got.requests)) == ("upstream_error", 1)


def test_what_waits_beside_others_is_bounded() -> None:
    """The same limit as for calls that are held back."""
    small = policy(mode("plan", "read"), limits=Limits(held=2_000))
    piece = delta(1, "text_delta", text="x" * 100)
    got = session(small).step(ASK, [begin() + start(0, ONE) + start(1, BARE) + piece * 30])
    assert b"limits.held" in got.body
    assert b"xxx" not in got.body


def test_in_a_later_hop_too() -> None:
    """Behind a refused call, where frames are edited."""
    loose = CASES["two calls side by side"].body
    got = session().step(ASK, [stream(text(0, "A"), use(1, "write", WRITE)), loose])
    strict(got.body)
    assert shown(heard(got)) == BOTH
    assert SECRET.encode() not in got.body


WHOLE = {
    "no id": ([call("read", {"p": 1}) | {"id": None}], ["read"]),
    "an id twice": ([call("read", {"p": 1}, "c"), call("grep", {"q": 1}, "c")], ["read", "grep"]),
    "a placeholder": ([call("", {}, ""), {"type": "text", "text": "A"}, call("read")], ["read"]),
    "a placeholder alone": ([{"type": "text", "text": "A"}, call("", {}, "")], []),
}


@pytest.mark.parametrize(("blocks", "names"), WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_has_ids_too(blocks: list[Any], names: list[str]) -> None:
    got = session().step({**ASK, "stream": False}, [whole(*blocks)])
    calls = [one for one in got.json["content"] if one["type"] == "tool_use"]
    assert [one["name"] for one in calls] == names
    assert len({one["id"] for one in calls if one["id"]}) == len(names)
    assert got.json["stop_reason"] == ("tool_use" if names else "end_turn")
    assert len(got.requests) == 1


def test_an_id_of_the_history_is_not_used_again() -> None:
    """Streamed and whole: results are told apart by it."""
    turn = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call("read", {"p": 0}, "call_0")]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "x"}],
        },
    ]
    asked = request("read", messages=turn)
    streamed = session().step({**asked, "stream": True}, [stream(use(0, "read", P, id_="call_0"))])
    (called,) = heard(streamed).calls
    got = session().step(asked, [whole(call("read", {"p": 1}, "call_0"))])
    ids = {called.id, got.json["content"][0]["id"]}
    assert "call_0" not in ids
    assert len(ids) == 1


def test_blocks_that_are_under_way_have_a_limit() -> None:
    """Each could be looked at for each piece, and a server that leaves all open would take all time."""
    held = b"".join(start(at, BARE) for at in range(1, 400))
    body = begin() + start(0, ONE) + held + end("end_turn")
    got = session().step(ASK, [Reply(body)])
    assert got.finish is not None
    assert got.finish.outcome in UNREAD
    assert b"toolu_x_1" not in got.body


def test_what_is_said_of_the_end_counts_as_held_back() -> None:
    rules = policy(mode("plan", rule("read")), limits=Limits(held=2000))
    got = session(rules).step(ASK, [Reply(begin() + text(0, "A") + REASON * 40 + MESSAGE_STOP)])
    assert got.finish is not None
    assert got.finish.outcome in UNREAD
    assert REASON not in got.body


def test_an_end_that_says_its_reason_again_is_said_once() -> None:
    got = session().step(ASK, [Reply(begin() + text(0, "A") + REASON * 3 + MESSAGE_STOP)])
    assert got.body.count(b'stop_reason": "') == 1


def test_h14_blocks_that_the_client_counts_in_another_way_are_cut_off() -> None:
    """What comes behind the switch would else be of another block than the client has open."""
    begun = begin() + start(1, BARE) + delta(1, "text_delta", text="A")
    body = begun + stop(1) + end("end_turn")
    got = Session("default", dialect=MESSAGES).overtaken(
        request("read", stream=True), [Reply(body)], after=len(begun)
    )
    assert b'"index":0' not in got.body.replace(b" ", b"")
