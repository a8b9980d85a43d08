"""The gate on whole chat completions answers: what a streamed answer is held to, one body is held to."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.errors import TooLarge
from modegate.core.log.events import CallJudged, TurnWithheld
from modegate.core.policy.model import Limits
from modegate.core.step.answer.whole import Whole
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import Counted
from support import message_frames as messages
from support import responses
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
    frame,
    mode,
    policy,
    read_stream,
    request,
    said,
    stream,
    text,
    tool_call,
)

REQUEST = request("read", "grep", "write")
SECRET = "S3CRET-ARGUMENT"
WRITE = json.dumps({"path": SECRET})
FINE = answer({"content": "fine"}, "stop")


@dataclass(frozen=True)
class Case:
    """A first hop's message; what of it the client may see."""

    message: dict[str, Any]
    finish: str = "tool_calls"
    calls: tuple[str, ...] = ()
    verbatim: bool = False
    hops: int = 2
    ends: str = "stop"
    refused: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


def calls(*found: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a message that holds these calls."""
    return {"tool_calls": list(found), **more}


def custom(name: str, text_: str) -> dict[str, Any]:
    """Return a call of a custom tool."""
    return {"id": "c0", "type": "custom", "custom": {"name": name, "input": text_}}


SIGNED = {**tool_call("read"), "extra_content": {"google": {"thought_signature": "SIG=="}}}
OBJECT = {"id": "c0", "type": "function", "function": {"name": "read", "arguments": {"p": 1}}}
NAMES = ["Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"]

CASES = {
    "B001-write": Case(calls(tool_call("write", WRITE)), refused=("write",)),
    "B001-read": Case(calls(tool_call("read")), "tool_calls", ("read",), True, 1, "tool_calls"),
    "B015-name-beside-the-function": Case(
        calls({"id": "c", "name": "read", "function": {"name": "write", "arguments": WRITE}}),
        refused=("write",),
    ),
    "B015-name-behind-the-function": Case(
        calls({"id": "c", "function": {"name": "write", "arguments": WRITE}, "name": "read"}),
        refused=("write",),
    ),
    "B017-custom-tool": Case(calls(custom("mcp__x__del", SECRET)), refused=("mcp__x__del",)),
    "B019-name-variants": Case(
        calls(*(tool_call(name, WRITE, f"c{n}") for n, name in enumerate(NAMES))),
        refused=tuple(NAMES),
    ),
    "B031-switch-mode": Case(
        calls(tool_call("switch_mode", '{"mode":"default"}'), tool_call("set_mode", "{}", "c1")),
        refused=("switch_mode", "set_mode"),
    ),
    "B033-no-index": Case(
        calls(tool_call("read"), tool_call("write", WRITE, "c1")), calls=("read",), hops=1,
        ends="tool_calls", refused=("write",),
    ),
    "B040-no-name": Case(calls(tool_call("", WRITE)), refused=("",)),
    "B045-finish-stop-write": Case(calls(tool_call("write", WRITE)), "stop", refused=("write",)),
    "B045-finish-stop-read": Case(calls(tool_call("read")), "stop", ("read",), True, 1, "stop"),
    "B048-length-read": Case(
        calls(tool_call("read", '{"p":"/a')), "length", ("read",), True, 1, "length"
    ),
    "B048-length-write": Case(
        calls(tool_call("write", '{"p":"' + SECRET)), "length", (), False, 1, "length", ("write",)
    ),
    "content-filter-write": Case(
        calls(tool_call("write", WRITE)), "content_filter", (), False, 1, "content_filter", ("write",)
    ),
    "B052-arguments-are-an-object-read": Case(
        calls(OBJECT), "tool_calls", ("read",), True, 1, "tool_calls"
    ),
    "B052-arguments-are-an-object-write": Case(
        calls({"id": "c", "function": {"name": "write", "arguments": {"p": SECRET}}}),
        refused=("write",),
    ),
    "B055-legacy-write": Case(
        {"function_call": {"name": "write", "arguments": WRITE}}, "function_call", refused=("write",)
    ),
    "B055-legacy-read": Case(
        {"function_call": {"name": "read", "arguments": "{}"}}, "function_call", ("read",), True, 1,
        "function_call",
    ),
    "B056-custom-write": Case(calls(custom("apply_patch", SECRET)), refused=("apply_patch",)),
    "B056-custom-read": Case(
        calls(custom("read", "x")), "tool_calls", ("read",), True, 1, "tool_calls"
    ),
    "B072-text": Case({"content": "2+2=4"}, "stop", (), True, 1, "stop"),
    "B076-unknown-siblings": Case(
        calls(SIGNED, reasoning_content="hm", reasoning_details=[{"type": "x"}]),
        "tool_calls", ("read",), True, 1, "tool_calls",
    ),
    "finish-without-a-call": Case({"content": "a"}, "tool_calls", (), False, 1, "stop"),
    "refused-first": Case(
        calls(tool_call("write", WRITE), tool_call("read", "{}", "c1"), tool_call("write", WRITE, "c2")),
        calls=("read",), hops=1, ends="tool_calls", refused=("write", "write"),
    ),
    "both-kinds": Case(
        calls(tool_call("read"), function_call={"name": "write", "arguments": WRITE}),
        calls=("read",), hops=1, ends="tool_calls", refused=("write",),
    ),
}  # fmt: skip


def held(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a message holds of calls."""
    message = choice["message"]
    found = [one.get("function") or one["custom"] for one in message.get("tool_calls") or ()]
    return [*found, *([message["function_call"]] if message.get("function_call") else ())]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whole(case: Case) -> None:
    """What may go goes as it came, and of what may not no byte goes."""
    first = answer(case.message, case.finish, **case.more)
    got = Session().step(REQUEST, [first, FINE])
    assert SECRET.encode() not in got.body
    assert got.head is not None
    assert got.head.status == 200
    if case.verbatim:
        assert got.body == first.body
    (choice,) = got.json["choices"]
    assert tuple(one["name"] for one in held(choice)) == case.calls
    assert choice["finish_reason"] == case.ends
    assert len(got.requests) == case.hops
    judged = [event for event in got.events if isinstance(event, CallJudged)]
    assert tuple(one.tool for one in judged if one.verdict != "release") == case.refused
    assert not any("tool_calls" in one and not one["tool_calls"] for one in [choice["message"]])


@pytest.mark.parametrize("reply", [
    stream(call("write", WRITE)),
    Reply(answer(calls(tool_call("write", WRITE))).body, [(b"content-type", b"application/json; x=y")]),
    Reply(stream(call("write", WRITE)), [(b"content-type", b"Text/Event-Stream; charset=utf-8")]),
], ids=["SSE", "JSON", "SSE-in-capitals"])  # fmt: skip
@pytest.mark.parametrize("flag", [False, True, "true", 1, None, "absent"], ids=str)
def test_b073_the_content_type_decides(reply: Reply | bytes, flag: Any) -> None:
    """Whatever the request asked for, the answer is read as what it says that it is."""
    body = {**REQUEST, **({} if flag == "absent" else {"stream": flag})}
    head = reply.headers if isinstance(reply, Reply) else list(STREAM)
    end = Reply(said("fine"), list(STREAM)) if b"vent" in head[0][1].lower() else FINE
    got = Session().step(body, [reply, end])
    assert SECRET.encode() not in got.body
    assert b"fine" in got.body
    assert len(got.requests) == 2


@pytest.mark.parametrize("hops", [0, 1])
def test_b108_the_length_is_that_of_the_body(hops: int) -> None:
    """Content-Length is what is sent, and nothing says that the body is still compressed."""
    lines = [
        *JSON,
        (b"content-length", b"1"),
        (b"content-encoding", b"gzip"),
        (b"x-request-id", b"7"),
    ]
    first = answer(calls(tool_call("write" if hops else "read", WRITE)))
    replies = [Reply(gzip.compress(one.body), list(lines)) for one in (first, FINE)]
    got = Session().step(REQUEST, replies)
    assert got.head is not None
    head = dict(got.head.headers)
    assert len(got.head.headers) == len(head)
    assert head[b"content-length"] == str(len(got.body)).encode()
    assert b"content-encoding" not in head
    assert head[b"x-request-id"] == b"7"
    assert head[b"x-modegate-mode"] == b"plan"
    assert (b"accept-encoding", b"identity") in got.upstream_headers[0]


def test_hops_become_one_answer() -> None:
    """Texts are joined, reasoning too, and the usage counts the completions of all hops."""
    one = answer(
        calls(tool_call("write", WRITE), content="I write.", reasoning_content="r1"),
        usage={"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    )
    two = answer(
        calls(tool_call("write", "{}"), content=""),
        usage={"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11},
    )
    three = answer(
        {"content": "The plan.", "reasoning_content": "r3"},
        "stop",
        usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "x": {"y": 1}},
    )
    got = Session().step(REQUEST, [one, two, three])
    (choice,) = got.json["choices"]
    assert choice["message"]["content"] == "I write.\n\nThe plan."
    assert choice["message"]["reasoning_content"] == "r1r3"
    assert got.json["usage"] == {
        "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18, "x": {"y": 1},
    }  # fmt: skip


def test_b026_repeating_ends_early_and_hops_have_a_limit() -> None:
    """The model that does not give in gets the last word in text, with a normal stop."""
    got = Session().step(REQUEST, [answer(calls(tool_call("write", WRITE)))])
    assert len(got.requests) == 2
    (choice,) = got.json["choices"]
    assert choice["finish_reason"] == "stop"
    assert "'plan'" in choice["message"]["content"]
    assert "`write`" in choice["message"]["content"]
    others = [answer(calls(tool_call("write", json.dumps({"n": n})))) for n in range(50)]
    got = Session(rules=policy(mode("plan", "read"), limits=Limits(hops=3))).step(REQUEST, others)
    assert len(got.requests) == 3


def test_b053_choices_are_kept_apart() -> None:
    """Each choice has its own calls; a refused one ends in text, without another hop."""
    body = {
        "id": "x",
        "choices": [
            {
                "index": 1,
                "message": calls(tool_call("write", WRITE)),
                "finish_reason": "tool_calls",
            },
            {"index": 0, "message": calls(tool_call("read")), "finish_reason": "tool_calls"},
        ],
    }
    got = Session().step({**REQUEST, "n": 2}, [Reply(json.dumps(body).encode(), list(JSON))])
    one, zero = got.json["choices"]
    assert SECRET.encode() not in got.body
    assert zero == body["choices"][1]
    assert "tool_calls" not in one["message"]
    assert "`write`" in one["message"]["content"]
    assert one["finish_reason"] == "stop"
    assert len(got.requests) == 1


MERGES = {
    "absent": {"role": "assistant"},
    "null": {"role": "assistant", "content": None},
    "empty": {"role": "assistant", "content": ""},
    "string": {"role": "assistant", "content": "own"},
    "parts": {"role": "assistant", "content": [{"type": "text", "text": "own"}]},
    "no-parts": {"role": "assistant", "content": []},
    "nothing-at-all": {},
}


@pytest.mark.parametrize("message", MERGES.values(), ids=MERGES)
def test_text_finds_its_place_in_any_content(message: dict[str, Any]) -> None:
    """Earlier hops' text and the closing text go into whatever content the last hop has."""
    body = {"choices": [{"message": {**message, **calls(tool_call("write", "{}"))}}]}
    last = Reply(json.dumps(body).encode(), list(JSON))
    got = Session().step(REQUEST, [answer(calls(tool_call("write", "{}"), content="first")), last])
    content = got.json["choices"][0]["message"]["content"]
    shown = content if isinstance(content, str) else "|".join(part["text"] for part in content)
    assert shown.startswith("first")
    assert "[modegate]" in shown
    assert ("own" in shown) == ("own" in json.dumps(message))


UNREADABLE = {
    "html": b"<html>502 Bad Gateway</html>",
    "empty": b"",
    "text": b"ok",
    "list": b"[]",
    "two-objects": b"{}{}",
    "cut": answer(calls(tool_call("write", WRITE))).body[:-9],
    "duplicate-key": b'{"choices":[{"message":{"content":"a"},"message":{"content":"b"}}]}',
    "duplicate-choices": b'{"choices":[],"choices":[{"message":{"content":"b"}}]}',
    "other-case": b'{"choices":[{"message":{"Tool_Calls":[{"function":{"name":"write"}}]}}]}',
    "calls-in-the-choice": b'{"choices":[{"message":{},"tool_calls":[{"function":{"name":"write"}}]}]}',
    "calls-at-the-top": b'{"choices":[],"function_call":{"name":"write"}}',
    "delta-beside-the-message": json.dumps(
        {"choices": [{"message": calls(tool_call("read")), "delta": calls(tool_call("write"))}]}
    ).encode(),
    "one-choice-twice": json.dumps(
        {"choices": [{"index": 0, "message": calls(tool_call(n))} for n in ("read", "write")]}
    ).encode(),
    "choice-without-a-message": b'{"choices":[{"index":0,"finish_reason":"stop"}]}',
    "message-is-a-list": b'{"choices":[{"message":[{"tool_calls":[]}]}]}',
    "finish-is-a-list": b'{"choices":[{"message":{"content":"x"},"finish_reason":["tool_calls"]}]}',
    "calls-in-content": json.dumps(
        {
            "choices": [
                {"message": {"content": [{"type": "tool_use", "name": "write", "input": {}}]}}
            ]
        }
    ).encode(),
    "item-of-another-api": b'{"choices":[],"output":[{"type":"function_call","name":"write"}]}',
    "deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "deeper": b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}",
    "utf-16": json.dumps({"choices": []}).encode("utf-16"),
    "too-many-calls": answer(calls(*(tool_call("read", "{}", f"c{n}") for n in range(129)))).body,
    "too-many-choices": json.dumps(
        {"choices": [{"index": n, "message": {"content": "x"}} for n in range(129)]}
    ).encode(),
    "huge-number": b'{"choices":[],"call":' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_does_not_pass(body: bytes) -> None:
    """In a mode a body that leaves a doubt is an error in the client's format, and is counted."""
    got = Session().step(REQUEST, [Reply(body, list(JSON))])
    assert got.head is not None
    assert got.head.status == 502
    assert got.json["error"]["code"] == "answer_unreadable"
    assert got.counts == [Counted.UNREADABLE]
    assert dict(got.head.headers)[b"content-length"] == str(len(got.body)).encode()


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_later_hop_that_cannot_be_read_ends_in_text(body: bytes) -> None:
    """The first hop's text and the closing text make the answer, instead of an error to be retried."""
    got = Session().step(
        REQUEST, [answer(calls(tool_call("write", WRITE), content="a")), Reply(body, JSON)]
    )
    (choice,) = got.json["choices"]
    assert choice["message"]["content"].startswith("a\n\n[modegate]")
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]


LATER = {
    "status": Reply(b'{"error":{}}', list(JSON), 500),
    "no-connection": Reply(b"", list(JSON), 0),
    "breaks-off": Reply(b'{"choices"', list(JSON), broken=True),
    "stream-instead": Reply(said()),
    "redirect": Reply(b"", [(b"location", b"https://elsewhere.example")], 307),
    "no-choice": Reply(b'{"choices":[]}', list(JSON)),
    "another-choice": Reply(b'{"choices":[{"index":1,"message":{"content":"x"}}]}', list(JSON)),
    "bad-gzip": Reply(b"nope", [*JSON, (b"content-encoding", b"gzip")]),
    "unknown-coding": Reply(b"nope", [*JSON, (b"content-encoding", b"rot13")]),
}


@pytest.mark.parametrize("reply", LATER.values(), ids=LATER)
def test_a_later_hop_that_fails_ends_in_text(reply: Reply) -> None:
    """Whatever goes wrong behind the first hop: its text, the closing text, a normal stop."""
    session = Session()
    got = session.step(REQUEST, [answer(calls(tool_call("write", WRITE), content="a")), reply])
    (choice,) = got.json["choices"]
    assert choice["message"]["content"].startswith("a\n\n[modegate]")
    assert choice["finish_reason"] == "stop"
    assert SECRET.encode() not in got.body
    assert got.finish is not None
    assert got.finish.outcome == "later_hop_failed"
    assert [event for event in session.events if isinstance(event, TurnWithheld)]


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
def test_a_redirect_is_not_passed_on(status: int) -> None:
    """A client that follows it would speak to a model without the gate."""
    got = Session().step(
        REQUEST, [Reply(b"", [(b"location", b"https://elsewhere.example")], status)]
    )
    assert got.head is not None
    assert got.head.status == 502
    assert b"location" not in dict(got.head.headers)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 529])
def test_upstream_errors_pass_unchanged(status: int) -> None:
    """Status, headers and body as upstream sent them, the coding too."""
    lines = [*JSON, (b"retry-after", b"17"), (b"content-encoding", b"gzip")]
    got = Session().step(REQUEST, [Reply(b"\x1f\x8b", lines, status)])
    assert got.head is not None
    assert (got.head.status, got.head.headers) == (status, lines)
    assert got.body == b"\x1f\x8b"


def test_a_body_over_the_limit() -> None:
    """It is refused while it comes, also where a few bytes stand for many."""
    rules = policy(mode("plan", "read"), limits=Limits(body=1000))
    big = json.dumps({"choices": [{"message": {"content": "x" * 2000}}]}).encode()
    packed = Reply(gzip.compress(big), [*JSON, (b"content-encoding", b"gzip")])
    for reply in (Reply(big, list(JSON)), packed):
        got = Session(rules=rules).step(REQUEST, [reply])
        assert got.json["error"]["code"] == "too_large"


# L7: the same answer streamed and whole.

answers = st.lists(
    st.tuples(
        st.sampled_from(["read", "grep", "write", "edit", ""]),
        st.sampled_from(["{}", '{"a":1}', '{"b":', ""]),
    ),
    max_size=3,
)
hops_ = st.lists(
    st.tuples(
        st.sampled_from(["", "one", "two\n", " three "]),
        answers,
        st.sampled_from(["tool_calls", "stop", "length"]),
    ),
    min_size=1,
    max_size=4,
)


def _streamed(said_: str, made: list[tuple[str, str]], finish: str) -> bytes:
    found = [call(name, args, at=n, id_=f"id{n}") for n, (name, args) in enumerate(made)]
    return stream(chunk({"role": "assistant", "content": said_}), *found, finish=finish)


def _whole(said_: str, made: list[tuple[str, str]], finish: str) -> Reply:
    message: dict[str, Any] = {"content": said_}
    if made:
        found = [tool_call(name, args, f"id{n}") for n, (name, args) in enumerate(made)]
        message["tool_calls"] = found
    return answer(message, finish)


def _seen(got: Got, *, streamed: bool) -> dict[str, Any]:
    if streamed:
        one = read_stream(got.body)[0]
        return {**one, "calls": [(c["name"], c["arguments"]) for c in one["calls"].values()]}
    (choice,) = got.json["choices"]
    found = [(c["name"], c["arguments"]) for c in held(choice)]
    return {
        "text": choice["message"]["content"] or "", "calls": found, "finish": choice["finish_reason"],
    }  # fmt: skip


@given(hops_)
def test_l7_streamed_and_whole_are_the_same(
    hops: list[tuple[str, list[tuple[str, str]], str]],
) -> None:
    """Text, calls, finish, hops and log are the same, however the answer comes."""
    streams = Session().step(REQUEST, [_streamed(*hop) for hop in hops])
    bodies = Session().step(REQUEST, [_whole(*hop) for hop in hops])
    assert _seen(streams, streamed=True) == _seen(bodies, streamed=False)
    assert streams.requests == bodies.requests
    assert streams.events == bodies.events


def test_the_error_of_an_upstream_in_a_200_passes() -> None:
    """Some gateways answer 200 with an error object, streamed or not: no call, nothing to hold."""
    body = b'{"error":{"message":"overloaded","code":529}}'
    assert Session().step(REQUEST, [Reply(body, list(JSON))]).body == body
    framed = b"data: " + body + b"\n\n"
    assert Session().step(REQUEST, [framed]).body == framed


def test_first_chunk_without_choices_does_not_name_the_answer() -> None:
    """Azure's first chunk has an empty id; later hops take that of the first real one."""
    azure = b'data: {"choices":[],"created":0,"id":"","model":"","prompt_filter_results":[]}\n\n'
    got = Session().step(REQUEST, [azure + stream(text("a"), call("write", WRITE)), said("b")])
    ids = [json.loads(line[6:])["id"] for line in got.body.split(b"\n\n") if b'"id"' in line]
    assert ids[0] == ""
    assert set(ids[1:]) == {"chatcmpl-1"}


def test_usage_goes_once() -> None:
    """A frame of which a part goes early does not say twice what the answer cost."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    delta = {"content": "a", "tool_calls": [
        {"index": 0, "id": "r", "function": {"name": "read", "arguments": "{}"}},
        {"index": 1, "id": "w", "function": {"name": "write", "arguments": WRITE}},
    ]}  # fmt: skip
    choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls"}
    got = Session().step(REQUEST, [frame({"choices": [choice], "usage": usage}) + DONE])
    assert got.body.count(b'"usage"') == 1
    assert read_stream(got.body)[0]["calls"] == {0: {"name": "read", "arguments": "{}"}}


HELD = 2_000


@pytest.mark.parametrize("size", [HELD - 100, HELD + 1])
@pytest.mark.parametrize("name", ["chat", "messages", "responses"])
def test_s8_what_is_held_of_a_whole_answer_is_bounded_too(name: str, size: int) -> None:
    """In each API, by what its calls say; the limit is that of streams."""
    arguments = {"path": "x" * (size - len('{"path": ""}'))}
    packed = json.dumps(arguments)
    made: dict[str, tuple[AnyDialect, bytes]] = {
        "chat": (CHAT, answer(calls(tool_call("read", packed))).body),
        "messages": (MESSAGES, messages.whole(messages.call("read", arguments)).body),
        "responses": (RESPONSES, responses.whole(responses.call("read", packed)).body),
    }
    dialect, body = made[name]
    hop = Whole(dialect, Limits(held=HELD))
    hop.feed(body)
    hop.end()
    if size > HELD:
        assert isinstance(hop.failure, TooLarge)
        assert "limits.held" in str(hop.failure)
    else:
        assert hop.failure is None
        assert [one.name for one in hop.to_judge()] == ["read"]


def test_s8_both_kinds_of_answer_end_with_the_same_refusal() -> None:
    small = policy(mode("plan", "read"), limits=Limits(held=HELD))
    big = json.dumps({"path": "x" * HELD})
    whole = Session(rules=small).step(REQUEST, [answer(calls(tool_call("read", big)))])
    streamed = Session(rules=small).step(REQUEST, [Reply(stream(call("read", big)), list(STREAM))])
    assert whole.finish is not None
    assert streamed.finish is not None
    assert whole.finish.outcome == streamed.finish.outcome == "too_large"
    assert whole.json["error"]["message"] in streamed.body.decode()
