"""What is told of a step: one line with names and numbers, and the metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from modegate.core.ids import CallId, ModeId, Seq, StepId, ToolName
from modegate.core.log.events import CallJudged
from modegate.server.logs import ConsoleFormatter, JsonFormatter
from modegate.server.metrics import Metrics
from modegate.server.proxy.step_log import GATED, StepLog


class Clock:
    """Half a second passes at every look."""

    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        self.at += 0.5
        return self.at

    def new_id(self) -> str:
        return "id"


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    found: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger, handler = logging.getLogger("modegate.step"), Handler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(before)


def judged(verdict: Literal["release", "answer"]) -> CallJudged:
    step, call, tool, mode = StepId("st"), CallId("c"), ToolName("write"), ModeId("plan")
    return CallJudged(step, call, tool, "h", verdict, "r", mode, Seq(1), "p", "why")


def test_a_step_in_a_mode(records: list[logging.LogRecord]) -> None:
    metrics = Metrics()
    report = StepLog(StepId("st"), Clock(), metrics, session="s", mode="plan", how=GATED)
    report.sent()
    report.answered()
    report.head_sent(200)
    report.holding(now=True)
    report.holding(now=True)
    report.judged(judged("answer"), declared=True)
    report.holding(now=False)
    report.sent()
    report.over("answered")
    (record,) = records
    line = json.loads(JsonFormatter().format(record))
    del line["time"]
    assert line == {
        "level": "info", "logger": "modegate.step", "step": "st", "session": "s", "mode": "plan",
        "how": "gated", "outcome": "answered", "status": 200, "hops": 2, "verdicts": {"answer": 1},
        "ms": 2000.0, "added_ms": 500.0, "held_ms": 500.0,
    }  # fmt: skip
    console = ConsoleFormatter().format(record)
    assert "session=s mode=plan" in console
    assert console.endswith("answer=1 step=st [modegate.step]")
    page = metrics.page()[0].decode()
    assert 'modegate_steps_total{outcome="answered"} 1.0' in page
    assert "modegate_hold_seconds_sum 0.5" in page
    assert "modegate_added_seconds_sum 0.5" in page


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.at

    def new_id(self) -> str:
        return "id"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_o8_what_others_take_is_not_what_modegate_adds(streamed: bool) -> None:
    """The client's body, the upstream at each hop, and a person; before the first byte and after it."""
    metrics, clock = Metrics(), Hand()
    report = StepLog(StepId("st"), clock, metrics)

    def others(seconds: float) -> None:
        with report.elsewhere():
            clock.at += seconds

    clock.at += 1
    others(10)  # the body
    report.sent()
    others(20)  # the upstream
    report.answered()
    clock.at += 2
    if streamed:
        report.head_sent(200)
    others(600)  # a person
    report.sent()
    others(30)
    report.answered()
    clock.at += 4
    report.head_sent(200)
    report.over("answered")
    added = 3.0 if streamed else 7.0
    assert f"modegate_added_seconds_sum {added}" in metrics.page()[0].decode()


def test_o8_a_first_byte_in_the_midst_of_waiting_ends_what_is_counted() -> None:
    metrics, clock = Metrics(), Hand()
    report = StepLog(StepId("st"), clock, metrics)
    report.sent()
    report.answered()
    clock.at += 1
    with report.elsewhere():
        with report.elsewhere():
            clock.at += 5
        report.head_sent(200)
        clock.at += 5
    report.over("answered")
    assert "modegate_added_seconds_sum 1.0" in metrics.page()[0].decode()


def test_a_step_that_got_nowhere(records: list[logging.LogRecord]) -> None:
    """What is not known is left out."""
    metrics = Metrics()
    StepLog(StepId("st"), Clock(), metrics).over("bad_session")
    line = json.loads(JsonFormatter().format(records[0]))
    assert set(line) == {"time", "level", "logger", "step", "outcome", "ms"}
    assert "modegate_added_seconds_count 0.0" in metrics.page()[0].decode()


def test_a_call_that_is_still_held_at_the_end_was_held_until_then() -> None:
    metrics = Metrics()
    report = StepLog(StepId("st"), Clock(), metrics)
    report.holding(now=True)
    report.over("gone")
    assert "modegate_hold_seconds_count 1.0" in metrics.page()[0].decode()


def test_nothing_is_made_of_a_line_that_nobody_reads(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING, logger="modegate.step"):
        report = StepLog(StepId("st"), Clock(), Metrics())
        monkeypatch.setattr(StepLog, "_fields", None)
        report.over("passed")
    assert caplog.records == []
