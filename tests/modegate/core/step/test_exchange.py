"""A step's life as effects: what is durable before what, whose word counts when, and what fails how."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.errors import LogUnavailable, ModegateError
from modegate.core.ids import ModeId, StepId
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import CallJudged, ModeSet, RequestHeader, TurnWithheld
from modegate.core.policy.conditions import Glob
from modegate.core.policy.model import Effect as RuleEffect
from modegate.core.policy.model import Exit, ExitOption, Limits
from modegate.core.policy.when import When
from modegate.core.step.effects import Append, CallUpstream, Counted, Finish, SendBytes, SendHead
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire.request_body import RequestBody
from support.playbook import (
    DONE,
    JSON,
    STREAM,
    Got,
    Reply,
    Session,
    answer,
    call,
    chunk,
    mode,
    piece,
    policy,
    read_stream,
    request,
    rule,
    said,
    stream,
    text,
    tool_call,
)

REQUEST = request("read", "grep", "write", stream=True)
MODES = policy(
    mode("plan", "read", "grep"),
    mode("strict", "grep"),
    mode("wide", "read", "grep", "write"),
)
READ = stream(call("read", id_="call_r"))
WRITE = stream(call("write", '{"n":1}'))


def verdicts(got: Got) -> list[tuple[str, str, str]]:
    """Return tool, verdict and deciding mode of each judged call."""
    found = [event for event in got.events if isinstance(event, CallJudged)]
    return [(one.tool, one.verdict, one.mode) for one in found]


# L8: whose word counts.


def test_l8_tightening_stops_a_call_that_still_streams() -> None:
    """A person sets a tighter mode while the call streams: it is refused, in that mode's name."""
    session = Session(rules=MODES)
    session.during = lambda: session.set_mode("strict")
    got = session.step(REQUEST, [READ, said("ok")])
    assert verdicts(got) == [("read", "answer", "strict")]
    assert b"call_r" not in got.body
    told = got.upstream
    assert "'strict'" in told["messages"][-1]["content"]
    assert [tool["function"]["name"] for tool in told["tools"]] == ["grep"]


@pytest.mark.parametrize("to", ["default", "wide"])
def test_b021_loosening_waits_for_the_next_step(to: str) -> None:
    """In mid-step nothing gets looser, in no hop; the very next step is."""
    session = Session(rules=MODES)
    session.during = lambda: session.set_mode(to)
    got = session.step(REQUEST, [WRITE, stream(call("write", '{"n":2}')), said("ok")])
    assert [one[:2] for one in verdicts(got)] == [("write", "answer")] * 2
    assert b"write" not in got.body
    assert len(got.upstream["tools"]) == 2
    session.during = None
    again = session.step(REQUEST, [WRITE])
    assert read_stream(again.body)[0]["calls"] == {0: {"name": "write", "arguments": '{"n":1}'}}


def test_tightened_and_loosened_again_within_a_step() -> None:
    """Each hop stands under all that was in force when a call was judged."""
    session = Session(rules=MODES)
    modes = iter(["strict", "plan", "plan", "plan"])
    session.during = lambda: session.set_mode(next(modes))
    got = session.step(REQUEST, [READ, READ, said("ok")])
    assert verdicts(got) == [("read", "answer", "strict"), ("read", "answer", "strict")]


@pytest.mark.parametrize(("tools", "released"), [
    (("grep",), False), (("read", "grep", "write"), True),
], ids=["tighter", "wider"])  # fmt: skip
def test_l8_a_reload_in_mid_step(tools: tuple[str, ...], released: bool) -> None:
    """The policy that a hop was assembled with and the one at its end must both allow."""
    session = Session(rules=MODES)

    def reload() -> None:
        session.policy = policy(mode("plan", *tools))

    session.during = reload
    got = session.step(REQUEST, [READ, said("ok")])
    assert verdicts(got)[0][1] == ("release" if released else "answer")
    assert (b"call_r" in got.body) is released


def test_a_reload_that_widens_does_not_release() -> None:
    """What was refused when the hop was assembled stays refused."""
    session = Session(rules=MODES)

    def reload() -> None:
        session.policy = policy(mode("plan", "read", "write"))

    session.during = reload
    got = session.step(REQUEST, [WRITE, stream(call("write", '{"n":2}')), said()])
    assert [one[1] for one in verdicts(got)] == ["answer", "answer"]


def test_a_mode_that_goes_in_mid_step() -> None:
    """The policy loses the mode: an error that names it, and nothing that was held goes."""
    session = Session(rules=MODES)

    def reload() -> None:
        session.policy = policy(mode("strict", "grep"))

    session.during = reload
    got = session.step(REQUEST, [text("a") + READ, said()])
    assert got.body.startswith(text("a"))
    assert b"mode_gone" in got.body
    assert b"call_r" not in got.body
    assert b"[DONE]" not in got.body


ASKS = policy(mode("plan", "grep", rule("read", None, RuleEffect.ASK)))


def test_l9_a_call_that_nobody_answers_is_refused() -> None:
    """Silence is not approval."""
    got = Session(rules=ASKS).step(REQUEST, [READ, said()])
    assert verdicts(got) == [("read", "ask", "plan")]
    assert [t["function"]["name"] for t in got.upstream["tools"]] == ["read", "grep"]
    assert b"call_r" not in got.body
    assert "nobody answered" in got.upstream["messages"][-1]["content"]


def test_a_call_that_a_person_allows_is_released() -> None:
    """It goes as it came, once it is allowed."""
    session = Session(rules=ASKS)
    session.person = lambda asked: session.settle(asked, "allow_once")
    got = session.step(REQUEST, [READ])
    assert got.body == READ
    assert [one.text for one in got.asked] == ["{}"]


IN_ONE_PLACE: dict[str, list[bytes]] = {
    "one-index": [call("read", '{"p":1}', id_="a"), call("grep", "", id_="b")],
    "one-index-the-other-first": [call("grep", "", id_="b"), call("read", '{"p":1}', id_="a")],
    "one-id": [call("read", '{"p":1}', id_="a"), call("grep", "", at=1, id_="a")],
    "taken-up-again": [
        call("read", '{"p":1', id_="a"), call("grep", "", at=1, id_="b"),
        piece(index=0, function={"arguments": "}"}),
    ],
    "cut": [call("read", '{"p":', id_="a")],
    "no-object": [call("read", "[]", id_="a")],
    "two-names": [call("read", "{}", id_="a"), piece(index=0, function={"name": "grep"})],
    "two-indices": [call("read", "", id_="a"), piece(index=1, function={"arguments": "{}"})],
}  # fmt: skip


@pytest.mark.parametrize("frames", IN_ONE_PLACE.values(), ids=IN_ONE_PLACE)
@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_what_a_person_is_shown_is_what_a_client_runs(frames: list[bytes], finish: str) -> None:
    """A call that some client would read in another way is not released by an approval."""
    session = Session(rules=ASKS)
    session.person = lambda asked: session.settle(asked, "allow_once")
    got = session.step(REQUEST, [stream(*frames, finish=finish), said()])
    assert b'"read"' not in got.body


def test_an_approval_does_not_outweigh_a_tighter_mode() -> None:
    """A person allows the call, and another sets a mode that refuses it."""
    session = Session(rules=policy(*ASKS.modes.values(), mode("strict", "grep")))

    def settle(asked: ApprovalAsked) -> None:
        session.settle(asked, "allow_once")
        session.set_mode("strict")

    session.person = settle
    got = session.step(REQUEST, [READ, said()])
    assert b"call_r" not in got.body
    assert "mode changed meanwhile" in got.upstream["messages"][-1]["content"]


def test_a_plan_is_no_argument_of_another_tool() -> None:
    """The agent's own exit tool, approved, is not released beside a call that shares its place.

    By index and by the last name, a client would run `bash` with what stood beside the plan.
    """
    denied = rule("bash", When({"command": Glob(("rm*",))}, others_any=True), RuleEffect.DENY)
    leave = Exit((ExitOption("Go", ModeId("wide")),))
    rules = policy(mode("plan", denied, "bash", exit=leave), mode("wide", "*"))
    session = Session(rules=rules)
    session.person = session.settle
    plan = {"type": "object", "properties": {"plan": {"type": "string"}}, "required": ["plan"]}
    tools = [{"type": "function", "function": {"name": "ExitPlanMode", "parameters": plan}}]
    body = {**request("bash", stream=True), "tools": [*tools, *request("bash")["tools"]]}
    hidden = json.dumps({"plan": "# Tidy up", "command": "rm -rf /"})
    alone = stream(call("ExitPlanMode", hidden, id_="a"))
    assert session.step(body, [alone]).body == alone
    session = Session(rules=rules)
    session.person = session.settle
    both = stream(call("ExitPlanMode", hidden, id_="a"), call("bash", "", id_="b"))
    got = session.step(body, [both, said()])
    assert len(got.asked) == 1
    assert b"ExitPlanMode" not in got.body
    assert b"rm -rf" not in got.body


# L11 and L12: the log.


def test_l11_what_is_withheld_is_durable_before_the_end() -> None:
    """Bodies, then the event, then the finish and the end of the answer."""
    session = Session()
    mixed = stream(call("read", at=0), call("write", at=1))
    got = session.step(REQUEST, [mixed])
    assert got.order[-5:] == ["StoreBlobs", "Append", "SendBytes", "StopUpstream", "Finish"]
    assert b'finish_reason": "tool_calls"' in got.pieces[-1]
    assert all(b'"tool_calls"}' not in piece for piece in got.pieces[:-1])
    assert isinstance(got.events[-1], TurnWithheld)


def test_l11_a_hop_is_logged_before_the_next_is_asked_for() -> None:
    """What was refused is known before the model is told."""
    got = Session().step(REQUEST, [WRITE, said()])
    at = [n for n, name in enumerate(got.order) if name == "CallUpstream"]
    assert "Append" in got.order[at[0] : at[1]]


@pytest.mark.parametrize("ending", ["gone", "cut", "broken", "unreadable"])
def test_l11_an_aborted_step_withholds_nothing(ending: str) -> None:
    """The agent sends it again, and no half of an exchange stands in its history."""
    session = Session()
    first = call("read", at=0) + call("write", at=1)
    replies = {
        "gone": Reply(first),
        "cut": Reply(first + text("x")),
        "broken": Reply(first, broken=True),
        "unreadable": Reply(first + b"data: {oops\n\n"),
    }
    got = session.step(REQUEST, [replies[ending]])
    assert not [event for event in session.events if isinstance(event, TurnWithheld)]
    assert session.blobs == {}
    assert b"call_" not in got.body


FAILING: dict[str, tuple[list[Reply | bytes], bool]] = {
    "streamed-mixed": ([text("a") + stream(call("read"), call("write", at=1))], True),
    "streamed-hop": ([text("a") + WRITE, said()], True),
    "whole-mixed": (
        [answer({"tool_calls": [tool_call("read"), tool_call("write", "{}", "c1")]})], False,
    ),
    "whole-hop": ([answer({"tool_calls": [tool_call("write")]}), said()], False),
}  # fmt: skip


def test_l12_a_header_that_cannot_be_logged() -> None:
    """The model is not asked."""
    session = Session()
    session.log_fails = LogUnavailable("the log is gone")
    got = session.step(REQUEST, [said()])
    assert got.json["error"]["code"] == "log_unavailable"
    assert got.requests == []


@pytest.mark.parametrize(("replies", "begun"), FAILING.values(), ids=FAILING)
def test_l12_a_log_that_cannot_be_written(replies: list[Reply | bytes], begun: bool) -> None:
    """503 with Retry-After, or an error frame where the answer has begun; no end, no finish."""
    session = Session()
    # The lane's header is in the log already, so that this step begins with nothing to write.
    session.step(REQUEST, [said()])
    session.log_fails = LogUnavailable("the log is gone")
    got = session.step(REQUEST, replies)
    assert got.finish is not None
    assert got.finish.outcome == "log_unavailable"
    assert got.head is not None
    if begun:
        assert got.body.startswith(text("a"))
        assert b"log_unavailable" in got.body
        assert b'"finish_reason": "' not in got.body
        assert b"[DONE]" not in got.body
    else:
        assert got.head.status == 503
        assert dict(got.head.headers)[b"retry-after"] == b"2"
        assert got.json["error"]["code"] == "log_unavailable"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_l12_a_log_that_cannot_be_read_at_the_verdict(streamed: bool) -> None:
    """What the session stands under is not known: nothing is released."""
    session = Session()

    def unreachable() -> None:
        raise LogUnavailable("the log is gone")

    session.during = unreachable
    reply = Reply(READ) if streamed else answer({"tool_calls": [tool_call("read")]})
    got = session.step(REQUEST, [reply])
    assert b"read" not in got.body
    assert b"log_unavailable" in got.body
    assert got.head is not None
    assert got.head.status == (200 if streamed else 503)


def test_an_error_of_our_own_in_the_middle() -> None:
    """It is told in the client's format, once, and a step that is over takes no more."""
    exchange = Exchange(CHAT, _request(REQUEST))
    session = Session()
    exchange.begin(session.in_force())
    exchange.upstream_head(200, list(STREAM))
    exchange.upstream_data(text("a") + call("read"))
    effects = exchange.failed(ModegateError("internal error in step x"), head_sent=True)
    sent = b"".join(effect.data for effect in effects if isinstance(effect, SendBytes))
    assert b"internal_error" in sent
    assert isinstance(effects[-1], Finish)
    assert exchange.upstream_data(b"more") == []
    assert exchange.upstream_end() == []


def _request(body: dict[str, Any] | bytes) -> StepRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return StepRequest(StepId("0" * 20), [(b"content-encoding", b"gzip")], RequestBody(raw))


# The life of a step.


def test_the_first_step_of_a_lane_logs_what_its_model_is_shown() -> None:
    """Durable, in front of the request."""
    exchange = Exchange(CHAT, _request(REQUEST))
    effects = exchange.begin(Session().in_force())
    append, upstream = effects
    assert isinstance(append, Append)
    assert append.durable
    (header,) = append.events
    assert isinstance(header, RequestHeader)
    assert (header.mode, header.tools) == ("plan", ("read", "grep"))
    assert isinstance(upstream, CallUpstream)
    assert dict(upstream.headers) == {b"accept-encoding": b"identity"}


@pytest.mark.parametrize("body", [b"{oops", b"[]", b"{}", b'{"messages":{}}'], ids=repr)
def test_a_request_that_cannot_be_read(body: bytes) -> None:
    """In a mode it is refused in the client's format and never sent."""
    got = Session().step(body, [said()])
    assert got.head is not None
    assert got.head.status == 400
    assert got.json["error"]["code"] == "bad_request"
    assert got.requests == []


def test_the_default_mode_relays_an_answer_that_breaks_off() -> None:
    """The restore path invents neither an error nor an end: the connection is cut as upstream's was."""
    session = Session("default")
    got = session.step(REQUEST, [Reply(text("a"), broken=True)])
    assert got.body == text("a")
    assert got.finish == Finish("cut", broken=True)


def test_the_default_mode_without_an_upstream() -> None:
    """No head has gone yet, so an error can say why."""
    got = Session("default").step(REQUEST, [Reply(b"", status=0)])
    assert got.head is not None
    assert got.head.status == 502


@pytest.mark.parametrize("status", [200, 204, 301, 404, 500])
def test_the_default_mode_relays_every_status(status: int) -> None:
    """Nothing is filtered, also no redirect and no coding that nobody knows."""
    lines = [
        (b"content-type", b"text/event-stream"),
        (b"content-encoding", b"rot13"),
        (b"location", b"/x"),
    ]
    got = Session("default").step(REQUEST, [Reply(b"\x00\xff", lines, status)])
    assert got.head == SendHead(status, lines)
    assert got.body == b"\x00\xff"


def test_a_compressed_stream_is_read() -> None:
    """An upstream that compresses although it was asked not to."""
    lines = [*STREAM, (b"content-encoding", b"gzip"), (b"content-length", b"9")]
    got = Session().step(REQUEST, [Reply(gzip.compress(text("a") + WRITE), lines), said("ok")])
    assert read_stream(got.body)[0]["text"] == "a\n\nok"
    assert got.head is not None
    assert dict(got.head.headers).keys() == {b"content-type", b"x-modegate-mode"}


@pytest.mark.parametrize("coding", [b"rot13", b"gzip, rot13", b"gzip"])
def test_a_coding_that_cannot_be_taken_off(coding: bytes) -> None:
    """Unknown or broken: an error; nothing passes unread."""
    got = Session().step(REQUEST, [Reply(READ, [*STREAM, (b"content-encoding", coding)])])
    assert b"answer_unreadable" in got.body
    assert b"call_r" not in got.body


def test_a_compressed_stream_that_stops_early() -> None:
    """The end of the bytes is not the end that their coding promises."""
    packed = gzip.compress(text("a") + chunk(None, "stop"))
    got = Session().step(REQUEST, [Reply(packed[:-4], [*STREAM, (b"content-encoding", b"gzip")])])
    assert b"answer_unreadable" in got.body


def test_bytes_behind_the_end_are_not_read() -> None:
    """The end of the answer ends the step; the upstream is stopped."""
    got = Session().step(REQUEST, [said("a") + call("write") + text("more")])
    assert got.body == said("a")
    assert got.order[-2:] == ["StopUpstream", "Finish"]


def test_a_hop_that_is_not_needed_any_more_is_stopped() -> None:
    """Before the next one is asked for."""
    got = Session().step(REQUEST, [WRITE, said()])
    assert got.order.index("StopUpstream") < len(got.order) - 1 - got.order[::-1].index(
        "CallUpstream"
    )


def test_a_frame_over_the_limit() -> None:
    """It ends the answer with an error; what came before has gone."""
    rules = policy(mode("plan", "read"), limits=Limits(frame=500))
    got = Session(rules=rules).step(REQUEST, [text("a") + text("x" * 600) + said()])
    assert got.body.startswith(text("a"))
    assert b"too_large" in got.body
    assert b"xxx" not in got.body


def test_calls_over_the_limit() -> None:
    """What is held back is bounded; over it, none of it goes."""
    rules = policy(mode("plan", "read"), limits=Limits(held=1500))
    frames = [call("read", "{}", at=n, id_=f"call_{n}") for n in range(12)]
    got = Session(rules=rules).step(REQUEST, [text("a") + stream(*frames)])
    assert got.body.startswith(text("a"))
    assert b"too_large" in got.body
    assert b"call_" not in got.body


def test_a_text_that_is_too_long_to_be_told_again() -> None:
    """The call is refused in text, without another hop, and nothing is put back."""
    session = Session()
    got = session.step(REQUEST, [stream(*[text("x" * 1024)] * 257, call("write"))])
    end = read_stream(got.body)[0]
    assert end["text"].endswith("sets another mode for this session.")
    assert end["text"].startswith("x" * 257 * 1024)
    assert (end["finish"], end["calls"], len(got.requests)) == ("stop", {}, 1)
    assert not [event for event in session.events if isinstance(event, TurnWithheld)]


def test_unterminated_bytes_and_what_follows() -> None:
    """A last frame without its blank line is closed before anything else is written."""
    session = Session()
    body = call("write", '{"n":1}') + chunk(None, "tool_calls") + text("a").rstrip(b"\n")
    got = session.step(REQUEST, [body, said("b")])
    assert read_stream(got.body)[0]["text"] == "a\n\nb"


def test_events_are_by_the_mode_in_force() -> None:
    """The log says which mode, set where, by which policy, decided."""
    session = Session(rules=MODES)
    session.append([ModeSet(ModeId("strict"))], by="person:test")
    got = session.step(REQUEST, [READ, said()])
    (judged,) = [event for event in got.events if isinstance(event, CallJudged)]
    assert (judged.mode, judged.mode_seq, judged.policy) == ("strict", 2, MODES.hash)
    assert judged.rule == "no rule"
    assert judged.call == "call_r"


def test_a_head_without_a_body_in_a_mode() -> None:
    """A stream of nothing is one that was cut; a body of nothing cannot be read."""
    assert Session().step(REQUEST, [b""]).counts == [Counted.UPSTREAM_CUT]
    assert Session().step(REQUEST, [Reply(b"", list(JSON))]).counts == [Counted.UNREADABLE]


def test_a_stream_without_an_end_ends_in_one_error() -> None:
    """Ours, as SDKs would take what came for a whole answer; unless the upstream has said its own."""
    got = Session().step(REQUEST, [text("a") + call("read")])
    frames = got.body.split(b"\n\n")
    assert got.body.startswith(text("a"))
    assert [b"error" in frame for frame in frames] == [False, True, False]
    assert b"stopped before" in frames[1]
    own = b'data: {"error":{"message":"overloaded"}}\n\n'
    assert Session().step(REQUEST, [text("a") + own]).body == text("a") + own


def test_the_end_alone() -> None:
    """An answer that says nothing is passed on as it is."""
    assert Session().step(REQUEST, [DONE]).body == DONE
