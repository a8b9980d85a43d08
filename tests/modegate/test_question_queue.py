"""The questions that lie in front of one person: one at a time, and none that is over."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.cli.question_queue import (
    ANSWER,
    REASON,
    TOO_SOON_S,
    Ask,
    Leave,
    QuestionQueue,
    Say,
    Settle,
    Show,
    how_it_ended,
)

Json = dict[str, Any]
EXIT = [
    {"id": "approve", "label": "Approve", "kind": "approve", "mode": "default"},
    {"id": "reject", "label": "Reject", "kind": "reject"},
]
TWO = [EXIT[0], {"id": "approve-2", "label": "Review", "kind": "approve"}, EXIT[1]]


def asked(name: str, options: list[Json] = EXIT, **more: Any) -> Json:
    text = {"purpose": "exit", "text": f"# Do {name}"}
    return {"id": name, "open": True, "status": "asked", "options": options, **text, **more}


def over(name: str) -> Json:
    how = {"open": False, "status": "answered", "option": "reject", "by": "person:acp"}
    return {**asked(name), **how}


ELSEWHERE = Say("settled elsewhere: answered with 'reject' by person:acp", dropped=True)
A, B = asked("a"), asked("b")


def test_o5_one_after_the_other_is_shown() -> None:
    """Only what lies in front of the person is shown, so only that is waited for."""
    queue = QuestionQueue()
    assert queue.opened([], 0.0) == []
    assert queue.changed(A, 0.0) == [Show(A)]
    assert queue.changed(B, 0.0) == []
    seen = {**A, "status": "delivered"}
    assert queue.changed(seen, 0.0) == []
    assert queue.line("y\n", 0.0) == [Settle(seen, "approve"), Show(B)]
    assert queue.changed(over("a"), 0.0) == []
    assert queue.line("n\n", 0.0) == [Ask(REASON)]
    assert queue.line("keep it\n", 0.0) == [Settle(B, "reject", "keep it")]
    assert queue.line("y\n", 0.0) == []


def test_o5_what_waits_is_listed_at_the_start() -> None:
    queue = QuestionQueue()
    assert queue.opened([A, B], 0.0) == [
        Say("2 questions wait:"),
        Say("  a  plan: Do a"),
        Say("  b  plan: Do b"),
        Show(A),
    ]


def test_o5_what_was_settled_elsewhere_goes_away() -> None:
    """The prompt is dropped with all that was typed, and what comes next is not answered by accident."""
    queue = QuestionQueue()
    queue.opened([A, B], 0.0)
    assert queue.changed(over("a"), 5.0) == [ELSEWHERE, Show(B)]
    said, ask = queue.line("y\n", 5.0 + TOO_SOON_S - 0.01)
    assert isinstance(said, Say)
    assert "too soon" in said.text
    assert ask == Ask(ANSWER)
    assert queue.line("y\n", 5.0 + TOO_SOON_S) == [Settle(B, "approve")]


def test_o5_what_is_settled_while_it_waits_is_never_shown() -> None:
    queue = QuestionQueue()
    queue.opened([A, B], 0.0)
    assert queue.changed(over("b"), 0.0) == []
    assert queue.line("y", 0.0) == [Settle(A, "approve")]


def test_a_reason_is_for_its_own_question() -> None:
    queue = QuestionQueue()
    queue.opened([A, B], 0.0)
    queue.line("n", 0.0)
    assert queue.changed(over("a"), 0.0) == [ELSEWHERE, Show(B)]
    assert queue.line("n", 9.0) == [Ask(REASON)]


def test_what_was_left_open_is_not_shown_again() -> None:
    queue = QuestionQueue()
    queue.changed(A, 0.0)
    assert queue.line("s", 0.0) == [Leave(A), Say("left open: modegate approve a")]
    assert queue.changed({**A, "status": "detached"}, 0.0) == []
    assert queue.opened([A], 0.0) == []


OLD = {**B, "status": "detached"}
ASIDE = [Say("set aside: an agent waits for the next one", dropped=True), Leave(OLD)]


def test_whom_an_agent_waits_for_comes_first() -> None:
    queue = QuestionQueue()
    assert queue.opened([OLD, A], 0.0)[-1] == Show(A)
    assert queue.line("y", 0.0) == [Settle(A, "approve"), Show(OLD)]


def test_a_question_for_which_nobody_waits_gives_way() -> None:
    """An unanswered plan of yesterday must not let those of today go on unasked."""
    queue = QuestionQueue()
    assert queue.opened([OLD], 0.0) == [Show(OLD)]
    assert queue.changed(A, 0.0) == [*ASIDE, Show(A)]
    assert queue.line("y", 0.5)[-1] == Ask(ANSWER)
    assert queue.line("y", TOO_SOON_S) == [Settle(A, "approve"), Show(OLD)]
    assert queue.line("y", 9.0) == [Settle(OLD, "approve")]


def test_one_that_is_detached_in_front_of_the_person_gives_way_too() -> None:
    queue = QuestionQueue()
    assert queue.opened([B], 0.0) == [Show(B)]
    assert queue.changed(A, 0.0) == []
    assert queue.changed(OLD, 0.0) == [*ASIDE, Show(A)]


def test_who_writes_a_reason_is_not_interrupted() -> None:
    queue = QuestionQueue()
    queue.opened([OLD], 0.0)
    queue.line("n", 0.0)
    assert queue.changed(A, 0.0) == []
    assert queue.line("not so", 0.0) == [Settle(OLD, "reject", "not so"), Show(A)]


@pytest.mark.parametrize("line", ["", " ", "yes", "Y", "1", "S", "\x04"])
def test_no_other_line_answers(line: str) -> None:
    queue = QuestionQueue()
    queue.changed(A, 0.0)
    (told, again) = queue.line(line, 0.0)
    assert isinstance(told, Say)
    assert "is not one of y, n, s" in told.text
    assert again == Ask(ANSWER)


def test_each_way_to_approve_has_a_number() -> None:
    queue = QuestionQueue()
    one = asked("a", TWO)
    queue.changed(one, 0.0)
    assert queue.line("y", 0.0)[-1] == Ask(ANSWER)
    assert queue.line("2", 0.0) == [Settle(one, "approve-2")]


def test_o5_another_connection_is_told_what_lies_here() -> None:
    """The proxy of before is gone, and the new one must know that the question is still being read."""
    queue = QuestionQueue()
    queue.opened([A], 0.0)
    assert queue.opened([A, B], 0.0) == [Show(A, fresh=False)]
    assert queue.opened([B], 0.0) == [Say("settled elsewhere: it is over", dropped=True), Show(B)]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (over("a"), "answered with 'reject' by person:acp"),
        ({"status": "closed", "why": "expired"}, "closed: expired"),
        ({"status": "closed"}, "closed"),
    ],
)
def test_how_it_ended(question: Json, words: str) -> None:
    assert how_it_ended(question) == words
