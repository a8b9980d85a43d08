"""Which answer a request gets, and in what form."""

from __future__ import annotations

import pytest

from modegate.scripted.model import (
    Answer,
    Asked,
    Fixed,
    Frames,
    Rendered,
    Script,
    ScriptDialect,
    Streamed,
    Turn,
    When,
    choose,
    failed,
    fixed,
    render,
)


def asked(
    *,
    stream: bool = False,
    tools: tuple[str, ...] = ("read", "write"),
    results: tuple[str, ...] = (),
) -> Asked:
    return Asked(
        "m", stream, False, tools, ("be good", "please write", *results), results, "key", 10
    )


NO_MESSAGES = Asked("m", False, False, (), (), (), "key", 2)

DIALECT = ScriptDialect(
    read=lambda _body: asked(),
    whole=lambda turn, _asked: turn.text.encode(),
    frames=lambda turn, _asked: Streamed((turn.text.encode(),), (b"end",)),
    name="messages",
)


@pytest.mark.parametrize(
    ("when", "request_", "holds"),
    [
        (When(), asked(), True),
        (When(), NO_MESSAGES, True),
        (When(tools=True), asked(), True),
        (When(tools=True), asked(tools=()), False),
        (When(tools=False), asked(tools=()), True),
        (When(tools=False), asked(), False),
        (When(offers="write"), asked(), True),
        (When(offers="writ"), asked(), False),
        (When(lacks="write"), asked(), False),
        (When(lacks="bash"), asked(), True),
        (When(results=0), asked(), True),
        (When(results=0), asked(results=("a",)), False),
        (When(results=2), asked(results=("a", "b")), True),
        (When(last="write"), asked(), True),
        (When(last="good"), asked(), False),
        (When(last="write"), asked(results=("a",)), False),
        (When(last="write"), NO_MESSAGES, False),
        (When(any="good"), asked(), True),
        (When(any="bad"), asked(), False),
        (When(last_result="refus"), asked(results=("ok", "refused")), True),
        (When(last_result="ok"), asked(results=("ok", "refused")), False),
        (When(last_result="ok"), asked(), False),
        (When(offers="write", results=1), asked(results=("a",)), True),
        (When(offers="write", results=1), asked(), False),
    ],
)
def test_a_condition_holds_or_not(when: When, request_: Asked, holds: bool) -> None:
    assert when.holds(request_) is holds


def test_the_first_answer_that_fits_is_chosen() -> None:
    script = Script("s", (Answer(Turn(), When(tools=False)), Answer(Turn()), Answer(Turn())))
    assert choose(script, asked(), [0, 0, 0]) == 1
    assert choose(script, asked(tools=()), [9, 9, 9]) == 0


def test_an_answer_is_used_up_after_its_times() -> None:
    script = Script("s", (Answer(Turn(), times=2),))
    assert [choose(script, asked(), [given]) for given in (0, 1, 2)] == [0, 0, None]


EVENTS = (b"content-type", b"text/event-stream")
JSON = (b"content-type", b"application/json")
ERROR = b'{"type":"error","error":{"type":"api_error","message":"the script answers 500"}}'


@pytest.mark.parametrize(
    ("answer", "stream", "expected"),
    [
        (
            Answer(Turn("hello!"), pace_ms=5),
            True,
            Rendered(200, [EVENTS], (b"hello!", b"end"), pace_ms=5),
        ),
        (
            Answer(Turn("hello!"), pace_ms=5),
            False,
            Rendered(200, [JSON, (b"content-length", b"6")], (b"hello!",)),
        ),
        (Answer(Turn("hello!"), cut=True), True, Rendered(200, [EVENTS], (b"hello!",), cut=True)),
        (
            Answer(Turn("hello!"), cut=True),
            False,
            Rendered(200, [JSON, (b"content-length", b"6")], (b"hel",), cut=True),
        ),
        (
            Answer(Frames((b"a", b"b")), cut=True, pace_ms=1),
            False,
            Rendered(200, [EVENTS], (b"a", b"b"), pace_ms=1, cut=True),
        ),
        (
            Answer(Fixed(b"no", json=False), status=503, headers=[(b"retry-after", b"2")]),
            True,
            Rendered(
                503,
                [
                    (b"content-type", b"text/plain"),
                    (b"content-length", b"2"),
                    (b"retry-after", b"2"),
                ],
                (b"no",),
            ),
        ),
        (
            Answer(Fixed(None), status=500),
            False,
            Rendered(500, [JSON, (b"content-length", b"%d" % len(ERROR))], (ERROR,)),
        ),
        (
            Answer(Fixed(b"{}"), headers=[(b"content-type", b"text/html")]),
            False,
            Rendered(200, [(b"content-length", b"2"), (b"content-type", b"text/html")], (b"{}",)),
        ),
    ],
    ids=[
        "streamed",
        "whole",
        "stream cut",
        "whole cut",
        "frames",
        "error",
        "own error",
        "own header",
    ],
)
def test_an_answer_is_rendered_as_asked(answer: Answer, stream: bool, expected: Rendered) -> None:
    assert render(answer, asked(stream=stream), DIALECT) == expected


def test_a_fixed_answer_is_json() -> None:
    rendered = fixed(404, {"a": 1})
    assert (rendered.status, rendered.pieces) == (404, (b'{"a":1}',))


def test_an_error_is_told_in_the_dialects_words() -> None:
    assert failed(404, "no", "messages").pieces == (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}',
    )
    assert failed(404, "no", "chat").pieces == (
        b'{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"scripted"}}',
    )


def test_a_request_is_described_for_the_scripts_author() -> None:
    assert str(asked(results=("a",))) == (
        "3 messages, the last 'a'; tools: read, write; 1 tool results since the last user message"
    )
    assert "0 messages, the last ''; tools: none" in str(NO_MESSAGES)
