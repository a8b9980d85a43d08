"""The gate on streamed chat completions: every way in which servers spell a call, cut at every byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from modegate.core.log.events import CallJudged
from modegate.core.step.effects import Counted
from support.playbook import (
    DONE,
    USAGE,
    Got,
    Reply,
    Session,
    at_every_byte,
    bytewise,
    call,
    chunk,
    cut_at,
    frame,
    piece,
    read_stream,
    request,
    said,
    stream,
    text,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
SECRET = "S3CRET-ARGUMENT"


@dataclass(frozen=True)
class Case:
    """A first hop; what of it the client may see."""

    body: bytes
    calls: dict[str, str] = field(default_factory=dict)
    """Name to arguments of the calls that are released."""
    verbatim: bool = False
    """The client gets the upstream's own bytes."""
    hops: int = 2
    finish: str | None = "stop"
    text: str | None = None
    refused: tuple[str, ...] = ()
    """Names that the log says were refused."""


WRITE_ARGS = json.dumps({"path": SECRET})

CASES = {
    "B001-write": Case(stream(call("write", WRITE_ARGS)), refused=("write",)),
    "B001-read": Case(
        stream(call("read", '{"p":1}')), {"read": '{"p":1}'}, True, 1, "tool_calls"
    ),
    "B033-no-index-write": Case(
        stream(piece(id="c1", type="function", function={"name": "write", "arguments": WRITE_ARGS})),
        refused=("write",),
    ),
    "B033-no-index-read": Case(
        stream(piece(id="c1", type="function", function={"name": "read", "arguments": "{}"})),
        {"read": "{}"}, True, 1, "tool_calls",
    ),
    "B035-index-from-1": Case(
        stream(call("read", "{}", at=1)), {"read": "{}"}, True, 1, "tool_calls"
    ),
    "B035-index-1-and-3": Case(
        stream(call("write", WRITE_ARGS, at=1), call("read", "{}", at=3)),
        {"read": "{}"}, hops=1, finish="tool_calls", refused=("write",),
    ),
    "B037-second-head-under-first-index": Case(
        stream(
            piece(index=0, id="c1", function={"name": "read", "arguments": '{"a":1}'}),
            piece(index=0, id="c2", function={"name": "write", "arguments": ""}),
            piece(index=1, function={"arguments": WRITE_ARGS}),
        ),
        {"read": '{"a":1}'}, hops=1, finish="tool_calls", refused=("write",),
    ),
    "B039-two-entries-one-index-write": Case(
        stream(
            chunk({"tool_calls": [
                {"index": 0, "id": "c1", "type": "function", "function": {"name": "write"}},
                {"index": 0, "function": {"arguments": ' {"'}},
            ]}),
            piece(index=0, function={"arguments": f'p":"{SECRET}"}}'}),
        ),
        refused=("write",),
    ),
    "B039-two-entries-one-index-read": Case(
        stream(
            chunk({"tool_calls": [
                {"index": 0, "id": "c1", "type": "function", "function": {"name": "read"}},
                {"index": 0, "function": {"arguments": ' {"'}},
            ]}),
            piece(index=0, function={"arguments": 'p":1}'}),
        ),
        {"read": ' {"p":1}'}, True, 1, "tool_calls",
    ),
    "B040-empty-name-later": Case(
        stream(
            piece(index=0, id="c1", function={"name": "write", "arguments": ""}),
            piece(index=0, id="", function={"name": "", "arguments": WRITE_ARGS}),
        ),
        refused=("write",),
    ),
    "B040-no-name-at-all": Case(
        stream(piece(index=0, id="c1", function={"name": "", "arguments": WRITE_ARGS})),
        refused=("",),
    ),
    "B042-name-repeated": Case(
        stream(
            piece(index=0, id="c1", function={"name": "read", "arguments": "{"}),
            piece(index=0, function={"name": "read", "arguments": "}"}),
        ),
        {"read": "{}"}, False, 1, "tool_calls",
    ),
    "name-in-pieces-that-a-client-joins": Case(
        stream(
            piece(index=0, id="c1", function={"name": "read", "arguments": ""}),
            piece(index=0, function={"name": "_and_write", "arguments": WRITE_ARGS}),
        ),
        refused=("read",),
    ),
    "B044-interleaved": Case(
        stream(
            piece(index=0, function={"name": "read", "arguments": "{"}),
            piece(index=1, function={"name": "write", "arguments": "{"}),
            piece(index=0, function={"arguments": '"a":1}'}),
            piece(index=1, function={"arguments": f'"b":"{SECRET}"}}'}),
            piece(index=2, function={"name": "grep", "arguments": "{}"}),
        ),
        {"read": '{"a":1}', "grep": "{}"}, hops=1, finish="tool_calls", refused=("write",),
    ),
    "B045-finish-stop-write": Case(
        stream(call("write", WRITE_ARGS), finish="stop"), refused=("write",)
    ),
    "B045-finish-stop-read": Case(
        stream(call("read"), finish="stop"), {"read": "{}"}, True, 1, "stop"
    ),
    "B047-calls-after-a-finish": Case(
        chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "read", "arguments": "{}"}}]},
              "tool_calls")
        + call("write", WRITE_ARGS, at=1) + text("done") + DONE,
        {"read": "{}"}, hops=1, finish="tool_calls", text="done", refused=("write",),
    ),
    "arguments-after-the-verdict": Case(
        stream(call("read", '{"a":1}'))[: -len(DONE)]
        + piece(index=0, function={"arguments": SECRET}) + DONE,
        {"read": '{"a":1}'}, hops=1, finish="tool_calls",
    ),
    "B048-length-read": Case(
        stream(call("read", '{"p":"/a'), finish="length"), {"read": '{"p":"/a'}, True, 1, "length"
    ),
    "B048-length-write": Case(
        stream(call("write", '{"p":"' + SECRET), finish="length"),
        hops=1, finish="length", refused=("write",),
    ),
    "B049-read-then-done": Case(
        stream(call("read"), finish=None), {"read": "{}"}, True, 1, None
    ),
    "B049-write-then-done": Case(stream(call("write", WRITE_ARGS), finish=None), refused=("write",)),
    "B049-read-then-nothing": Case(
        stream(call("read"), finish=None, done=False), hops=1, finish=None
    ),
    "B050-usage-after-finish": Case(
        text("hi") + chunk(None, "stop") + USAGE + DONE, verbatim=True, hops=1, text="hi"
    ),
    "B052-arguments-are-an-object-write": Case(
        stream(piece(index=0, id="c1", function={"name": "write", "arguments": {"p": SECRET}})),
        refused=("write",),
    ),
    "B052-arguments-are-an-object-read": Case(
        stream(piece(index=0, id="c1", function={"name": "read", "arguments": {"p": 1}})),
        {"read": '{"p": 1}'}, True, 1, "tool_calls",
    ),
    "B055-legacy-write": Case(
        stream(
            chunk({"function_call": {"name": "write", "arguments": ""}}),
            chunk({"function_call": {"arguments": WRITE_ARGS}}),
            finish="function_call",
        ),
        refused=("write",),
    ),
    "B055-legacy-read": Case(
        stream(
            chunk({"function_call": {"name": "read", "arguments": ""}}),
            chunk({"function_call": {"arguments": "{}"}}),
            finish="function_call",
        ),
        {"read": "{}"}, True, 1, "function_call",
    ),
    "B056-custom-write": Case(
        stream(piece(index=0, id="c1", type="custom", custom={"name": "write", "input": SECRET})),
        refused=("write",),
    ),
    "B056-custom-read": Case(
        stream(piece(index=0, id="c1", type="custom", custom={"name": "read", "input": "x"})),
        {"read": "x"}, True, 1, "tool_calls",
    ),
    "B061-comments": Case(
        b": OPENROUTER PROCESSING\n\n" * 3 + text("a") + b": again\n\n" + stream(call("read")),
        {"read": "{}"}, hops=1, finish="tool_calls", text="a",
    ),
    "B063-no-space-write": Case(
        stream(call("write", WRITE_ARGS)).replace(b"data: ", b"data:"), refused=("write",)
    ),
    "B063-no-space-read": Case(
        stream(call("read")).replace(b"data: ", b"data:"), {"read": "{}"}, True, 1, "tool_calls"
    ),
    "B064-crlf-write": Case(
        stream(text("a"), call("write", WRITE_ARGS)).replace(b"\n", b"\r\n"), refused=("write",)
    ),
    "B064-crlf-read": Case(
        stream(text("a"), call("read")).replace(b"\n", b"\r\n"),
        {"read": "{}"}, True, 1, "tool_calls", "a",
    ),
    "cr-read": Case(
        stream(call("read")).replace(b"\n", b"\r"), verbatim=True, hops=1, finish="tool_calls"
    ),
    "B066-utf8": Case(
        b"data: "
        + json.dumps({"choices": [{"index": 0, "delta": {"content": "你好🌍"}}]}, ensure_ascii=False).encode()
        + b"\n\n" + chunk(None, "stop") + DONE,
        verbatim=True, hops=1, text="你好🌍",
    ),
    "B068-cut-after-a-call": Case(
        call("write", WRITE_ARGS).rstrip(b"\n"), hops=1, finish=None
    ),
    "B068-done-without-newline": Case(
        (text("a") + chunk(None, "stop") + DONE).rstrip(b"\n"), verbatim=True, hops=1, text="a"
    ),
    "B070-text-then-write": Case(
        stream(text("one "), text("two"), call("write", WRITE_ARGS)), refused=("write",)
    ),
    "B072-text": Case(
        stream(text("2+2"), text("=4"), finish="stop"), verbatim=True, hops=1, text="2+2=4"
    ),
    "B076-unknown-siblings": Case(
        stream(
            chunk({"reasoning_content": "hm", "reasoning_details": [{"type": "x"}]}),
            piece(
                index=0, id="c1", type="function", function={"name": "read", "arguments": "{}"},
                extra_content={"google": {"thought_signature": "SIG=="}},
            ),
        ),
        {"read": "{}"}, True, 1, "tool_calls",
    ),
    "finish-without-a-call": Case(
        stream(text("a"), finish="tool_calls"), hops=1, finish="stop", text="a"
    ),
    "text-call-and-finish-in-one-frame": Case(
        chunk({"content": "a", "tool_calls": [
            {"index": 0, "id": "c1", "function": {"name": "read", "arguments": "{}"}}]}, "tool_calls")
        + DONE,
        {"read": "{}"}, True, 1, "tool_calls", "a",
    ),
    "text-and-refused-call-in-one-frame": Case(
        chunk({"content": "a", "tool_calls": [
            {"index": 0, "id": "c1", "function": {"name": "write", "arguments": WRITE_ARGS}}]})
        + chunk(None, "tool_calls") + DONE,
        refused=("write",),
    ),
    "call-that-is-escaped": Case(
        stream(call("write", WRITE_ARGS))
        .replace(b"tool_calls\":", b"\\u0074ool_calls\":").replace(b'"write"', b'"\\u0077rite"'),
        refused=("write",),
    ),
    "B019-name-variants": Case(
        stream(*(
            call(name, WRITE_ARGS, at=at)
            for at, name in enumerate(["Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"])
        )),
        refused=("Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"),
    ),
}  # fmt: skip


def _check(case: Case, got: Got) -> None:
    assert SECRET.encode() not in got.body
    assert got.finish is not None
    assert got.head is not None
    assert got.head.status == 200
    if case.verbatim:
        assert got.body == case.body
    choices = read_stream(got.body)
    calls = choices.get(0, {"calls": {}})["calls"].values()
    assert {one["name"]: one["arguments"] for one in calls if one["name"]} == case.calls
    assert not [one for one in calls if not one["name"]]
    assert len(got.requests) == case.hops
    assert choices.get(0, {"finish": None})["finish"] == case.finish
    if case.text is not None:
        assert case.text in choices[0]["text"]
    judged = [event for event in got.events if isinstance(event, CallJudged)]
    refused = [event.tool for event in judged if event.verdict != "release"]
    assert tuple(refused) == case.refused


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_stream(case: Case, cut: Callable[[bytes], list[bytes]]) -> None:
    """What may go goes as it came, and of what may not no byte goes."""
    got = Session().step(REQUEST, [case.body, said("fine")], cut=cut)
    if b"\r\r" in case.body:
        assert got.body == case.body
        return
    _check(case, got)


@pytest.mark.parametrize("name", ["B001-write", "B044-interleaved", "B064-crlf-write", "B053"])
def test_cut_at_every_byte(name: str) -> None:
    """Wherever the stream is cut, what the client gets is the same."""
    body = N2 if name == "B053" else CASES[name].body
    wanted = Session().step(REQUEST, [body, said("fine")]).body
    for cut in at_every_byte():
        got = Session().step(REQUEST, [body, said("fine")], cut=cut)
        assert got.body == wanted


N2 = b"".join([
    chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read"}}]}, index=0),
    chunk({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "write"}}]}, index=1),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"b"'}}]}, index=1),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}, index=0),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": f':"{SECRET}"}}'}}]}, index=1),
    frame({"choices": [
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
        {"index": 1, "delta": {}, "finish_reason": "tool_calls"},
    ]}),
    DONE,
])  # fmt: skip


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
def test_b053_choices_are_kept_apart(cut: Callable[[bytes], list[bytes]]) -> None:
    """Each choice has its own calls; a refused one ends in text, without another hop."""
    got = Session().step({**REQUEST, "n": 2}, [N2], cut=cut)
    choices = read_stream(got.body)
    assert SECRET.encode() not in got.body
    assert choices[0] == {
        "text": "", "calls": {0: {"name": "read", "arguments": '{"a":1}'}}, "finish": "tool_calls",
    }  # fmt: skip
    assert choices[1]["calls"] == {}
    assert choices[1]["finish"] == "stop"
    assert "`write`" in choices[1]["text"]
    assert "'plan'" in choices[1]["text"]
    assert len(got.requests) == 1


UNREADABLE = {
    "not-json": b"data: {oops\n\n",
    "not-an-object": b'data: ["x"]\n\n',
    "number": b"data: 1\n\n",
    "nan": b'data: {"choices":[],"x":NaN}\n\n',
    "duplicate-key": b'data: {"choices":[{"index":0,"delta":{"tool_calls":[]},"delta":{}}]}\n\n',
    "other-case": b'data: {"choices":[{"index":0,"delta":{"Tool_Calls":[]}}]}\n\n',
    "camel-case": b'data: {"choices":[{"delta":{"toolCalls":[{"function":{"name":"write"}}]}}]}\n\n',
    "calls-beside-the-delta": b'data: {"choices":[{"index":0,"delta":{},"message":{"tool_calls":[{}]}}]}\n\n',
    "calls-at-the-top": b'data: {"choices":[],"tool_calls":[{"function":{"name":"write"}}]}\n\n',
    "calls-no-list": b'data: {"choices":[{"index":0,"delta":{"tool_calls":{"a":1}}}]}\n\n',
    "choices-no-list": b'data: {"choices":{"0":{"delta":{"tool_calls":[]}}}}\n\n',
    "many-data-lines": b'data: {"x":\ndata: {"choices":[{"delta":{"tool_calls":[]}}]}\ndata: }\n\n',
    "unknown-field": b'DATA: {"choices":[{"delta":{"tool_calls":[]}}]}\n\n',
    "hidden-line-end": b'x: \xe2\x80\xa8data: {"choices":[{"delta":{"tool_calls":[]}}]}\n\n',
    "bom-in-the-middle": b'\xef\xbb\xbfdata: {"choices":[{"delta":{"tool_calls":[]}}]}\n\n',
    "deep": b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n",
}


@pytest.mark.parametrize("bad", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
def test_what_cannot_be_read_does_not_pass(bad: bytes, cut: Callable[[bytes], list[bytes]]) -> None:
    """A frame that does not parse ends the stream with an error; what came before has gone out."""
    got = Session().step(REQUEST, [text("before") + bad + said()], cut=cut)
    assert bad.strip() not in got.body
    assert got.body.startswith(text("before"))
    assert b'data: {"error":' in got.body
    assert b"[DONE]" not in got.body
    assert b'tool_calls":' not in got.body.lower()
    assert Counted.UNREADABLE in got.counts


def test_the_model_corrects_itself() -> None:
    """The refused call comes back to the model with an answer that names mode, tool and what is allowed."""
    first = stream(text("I'll write."), call("write", WRITE_ARGS))
    got = Session().step(REQUEST, [first, said("The plan.")])
    turn, result = got.upstream["messages"][-2:]
    assert turn["content"] == "I'll write."
    assert turn["tool_calls"][0]["function"] == {"name": "write", "arguments": WRITE_ARGS}
    assert result["tool_call_id"] == turn["tool_calls"][0]["id"]
    for named in ("'plan'", "`write`", "`read`", "person"):
        assert named in result["content"]
    assert read_stream(got.body)[0]["text"] == "I'll write.\n\nThe plan."


def test_one_continuous_answer() -> None:
    """Later hops bear the first one's id and date, its role comes once, usage counts all hops."""
    first = (
        chunk({"role": "assistant", "content": ""})
        + stream(call("write"))[: -len(DONE)]
        + USAGE
        + DONE
    )
    second = b"".join([
        frame({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}}]}, n=2)
        .replace(b'"created": 1', b'"created": 2'),
        frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, n=2),
        frame({"choices": [], "usage": {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}, n=2),
        DONE,
    ])  # fmt: skip
    got = Session().step(REQUEST, [first, second])
    sent = [json.loads(line[6:]) for line in got.body.split(b"\n\n") if line.startswith(b"data: {")]
    assert {one["id"] for one in sent} == {"chatcmpl-1"}
    assert {one["created"] for one in sent} == {1}
    roles = [c["delta"].get("role") for one in sent for c in one["choices"]]
    assert [role for role in roles if role] == ["assistant"]
    assert [one["usage"] for one in sent if "usage" in one] == [
        {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}
    ]


def test_b026_repeating_ends_early_and_hops_have_a_limit() -> None:
    """The same call again ends the step at once; other calls go on to the limit of hops."""
    got = Session().step(REQUEST, [stream(call("write", WRITE_ARGS))])
    assert len(got.requests) == 2
    end = read_stream(got.body)[0]
    assert end["finish"] == "stop"
    assert "[modegate]" in end["text"]
    others = [stream(call("write", json.dumps({"n": n}))) for n in range(50)]
    got = Session().step(REQUEST, others)
    assert len(got.requests) == 4
    assert read_stream(got.body)[0]["finish"] == "stop"
    assert got.body.endswith(DONE)


LATER = {
    "status": Reply(b'{"error":{}}', status=500),
    "no-connection": Reply(b"", status=0),
    "breaks-off": Reply(text("half"), broken=True),
    "stops": Reply(text("half")),
    "other-kind": Reply(b"{}", [(b"content-type", b"application/json")]),
}


@pytest.mark.parametrize("reply", LATER.values(), ids=LATER)
def test_a_later_hop_that_fails_ends_in_text(reply: Reply) -> None:
    """Text is out, so that an error would make agents send again: a closing text and a normal stop."""
    got = Session().step(REQUEST, [stream(text("a"), call("write", WRITE_ARGS)), reply])
    end = read_stream(got.body)[0]
    assert end["finish"] == "stop"
    assert "[modegate]" in end["text"]
    assert got.body.endswith(DONE)
    assert b"error" not in got.body
    assert SECRET.encode() not in got.body


def test_first_hop_that_breaks_off_drops_held_calls() -> None:
    """Cut in mid-stream: the held call goes nowhere, an error frame says so, and no end is invented."""
    got = Session().step(REQUEST, [Reply(text("a") + call("read"), broken=True)])
    assert got.body.startswith(text("a"))
    assert b'"error"' in got.body
    assert b"tool_calls" not in got.body
    assert b"[DONE]" not in got.body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 529])
def test_upstream_errors_pass_unchanged(status: int) -> None:
    """Status, headers and body as upstream sent them."""
    lines = [(b"content-type", b"application/json"), (b"retry-after", b"17")]
    got = Session().step(REQUEST, [Reply(b'{"error": {"message": "no"}}', lines, status)])
    assert got.head is not None
    assert (got.head.status, got.head.headers) == (status, lines)
    assert got.body == b'{"error": {"message": "no"}}'


def test_text_is_not_held_while_a_call_is() -> None:
    """A text delta leaves with the piece that brought it, also behind a call that is held."""
    pieces = [text("a"), call("write"), text("b"), chunk(None, "tool_calls"), DONE]
    body = b"".join(pieces)
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    got = Session().step(REQUEST, [body, said()], cut=cut_at(*ends))
    assert got.pieces[:2] == [text("a"), text("b")]
