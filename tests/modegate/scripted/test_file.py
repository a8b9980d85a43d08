"""A script's file: what each key becomes, and every problem at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from modegate.core.policy.file.problems import PolicyProblems
from modegate.scripted.file import ANSWER_KEYS, CALL_KEYS, WHEN_KEYS, parse
from modegate.scripted.model import Answer, Fixed, Frames, ScriptedCall, Turn, When

DOCS = Path(__file__).parents[3] / "docs" / "scripted.md"


def one(text: str) -> Answer:
    (answer,) = parse(f"answers:\n  - {text}\n", "s").answers
    return answer


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("{text: hi}", Turn("hi")),
        ("{text: ''}", Turn("")),
        (
            "{reasoning: hm, chunk: 3, finish: length}",
            Turn(reasoning="hm", chunk=3, finish="length"),
        ),
        ("{text: a, usage: {prompt_tokens: 1}}", Turn("a", usage={"prompt_tokens": 1})),
        ("{calls: [{name: ls}]}", Turn(calls=(ScriptedCall("ls", "{}"),))),
        (
            "{calls: [{name: w, arguments: {a: [1, x, null, []], b: {c: -1.5}}}], fragments: 3}",
            Turn(calls=(ScriptedCall("w", '{"a":[1,"x",null,[]],"b":{"c":-1.5}}'),), fragments=3),
        ),
        (
            "{calls: [{name: w, arguments: '{\"a', id: c0, index: 2}], legacy: true}",
            Turn(calls=(ScriptedCall("w", '{"a', "c0", index=2),), legacy=True),
        ),
        (
            "{calls: [{name: p, type: custom, arguments: '', namespace: n}]}",
            Turn(calls=(ScriptedCall("p", "", custom=True, namespace="n"),)),
        ),
        ('{frames: ["data: x", "a\\n", ""]}', Frames((b"data: x\n\n", b"a\n", b"\n\n"))),
        ("{body: {a: 1}}", Fixed(b'{"a":1}')),
        ("{body: [1]}", Fixed(b"[1]")),
        ("{status: 500, body: down}", Fixed(b"down", json=False)),
        ("{status: 500}", Fixed(None)),
    ],
)
def test_what_is_answered(text: str, content: Turn | Frames | Fixed) -> None:
    assert one(text).content == content


def test_what_every_answer_can_have() -> None:
    text = '{status: 429, times: 2, cut: true, pace: 20ms, headers: {Retry-After: "2", X: ""}}'
    answer = one(text)
    assert (answer.status, answer.times, answer.cut, answer.pace_ms) == (429, 2, True, 20)
    assert answer.headers == [(b"retry-after", b"2"), (b"x", b"")]


@pytest.mark.parametrize(
    ("text", "pace"), [("0.5s", 500), ('"0.5s"', 500), ("1s", 1000), ("1.5ms", 2), ("0ms", 0)]
)
def test_pace(text: str, pace: int) -> None:
    assert one(f"{{text: a, pace: {text}}}").pace_ms == pace


def test_conditions() -> None:
    text = "{text: a, when: {tools: true, offers: a, lacks: b, results: 1, last: c, any: d, last_result: e}}"
    assert one(text).when == When(True, "a", "b", 1, "c", "d", "e")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "says nothing"),
        ("{when: {tools: true}}", "says nothing"),
        ("{text: a, frames: [b]}", "mixes text or calls and frames"),
        ("{text: a, status: 500}", "mixes text or calls and status or body"),
        ("{texts: a}", "did you mean 'text'"),
        ("{text: yes}", "quote it"),
        ("{text: [a]}", "must be a string"),
        ("{text: a, when: {tool: true}}", "did you mean 'tools'"),
        ("{text: a, when: {results: -1}}", "whole number"),
        ("{text: a, times: 0}", "at least 1"),
        ("{text: a, chunk: 0}", "at least 1"),
        ("{text: a, pace: 20}", "a time such as"),
        ("{text: a, pace: [1]}", "a time such as"),
        ("{text: a, cut: 1}", "true or false"),
        ("{text: a, usage: 1}", "must be a mapping"),
        ("{status: 99}", "from 200 to 599"),
        ("{status: ok}", "whole number"),
        ("{text: a, headers: {'a b': c}}", "no header name"),
        ("{text: a, headers: {a: 'ü'}}", "printable ASCII"),
        ("{text: a, headers: {a: 1}}", "quote it"),
        ("{calls: [{arguments: {}}]}", "needs a name"),
        ("{calls: [{name: a, type: x}]}", "must be function or custom"),
        ("{calls: [{name: a, arguments: [1]}]}", "must be a string"),
        ("{calls: [{name: a, arguments: {b: yes}}]}", "quote it"),
        ("{calls: []}", "must not be empty"),
        ("{calls: [{name: a}, {name: b}], legacy: true}", "exactly one call"),
        ("{calls: [{name: a, type: custom}], legacy: true}", "exactly one call"),
        ("{text: a, legacy: true}", "exactly one call"),
        ("{frames: a}", "must be a list"),
        ("{frames: [[a]]}", "must be a string"),
        ('{frames: ["\\ud800"]}', "not valid Unicode"),
        ("{text: a, text: b}", "duplicate key"),
    ],
)
def test_a_problem_names_its_line(text: str, message: str) -> None:
    with pytest.raises(PolicyProblems, match=message) as caught:
        one(text)
    assert all(problem.line == 2 for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("{}", "has no answers"),
        ("answer: []", "did you mean 'answers'"),
        ("answers: {}", "must be a list"),
        ("[]", "must be a mapping"),
        ("answers: [", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_script(text: str, message: str) -> None:
    with pytest.raises(PolicyProblems, match=message):
        parse(text, "s")


def test_all_problems_are_told_at_once() -> None:
    text = "answers:\n  - text: yes\n  - status: 1\n  - pace: x\n    text: a\n"
    with pytest.raises(PolicyProblems) as caught:
        parse(text, "s")
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]


@pytest.mark.parametrize("key", sorted({*ANSWER_KEYS, *WHEN_KEYS, *CALL_KEYS, "answers"}))
def test_every_key_is_documented(key: str) -> None:
    text = DOCS.read_text()
    assert f"| `{key}` |" in text or f"{key}:" in text
