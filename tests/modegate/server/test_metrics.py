"""Metrics: the page, and that two proxies of one process count apart."""

from __future__ import annotations

from modegate.server.metrics import COUNTERS, DURATIONS, MAX_TOOLS, Metrics, Watched


def test_what_was_counted_is_on_the_page() -> None:
    metrics = Metrics()
    metrics.steps.labels("done").inc()
    metrics.hops.inc(2)
    metrics.resent_requests.inc()
    metrics.upstream_cut_answers.inc()
    metrics.judged("plan", "write", "answer")
    metrics.unparsable.labels("frame").inc()
    body, content_type = metrics.page()
    lines = body.decode().splitlines()
    assert content_type.startswith("text/plain; version=0.0.4")
    assert 'modegate_steps_total{outcome="done"} 1.0' in lines
    assert "modegate_hops_total 2.0" in lines
    assert "modegate_resent_requests_total 1.0" in lines
    assert "modegate_upstream_cut_answers_total 1.0" in lines
    assert 'modegate_verdicts_total{mode="plan",tool="write",verdict="answer"} 1.0' in lines
    assert 'modegate_unparsable_total{what="frame"} 1.0' in lines


def test_what_others_count_is_read_with_the_page() -> None:
    metrics, lost = Metrics(), 0
    metrics.watch(
        Watched(
            lost=lambda: lost,
            generation=lambda: 4,
            problems=lambda: 2,
            tasks=lambda: 9,
            held=lambda: 12,
            policy=lambda: "abc",
        )
    )
    lost = 7
    lines = metrics.page()[0].decode().splitlines()
    assert "modegate_recorder_lost_total 7.0" in lines
    assert "modegate_policy_generation 4.0" in lines
    assert 'modegate_policy_info{hash="abc"} 1.0' in lines  # O9
    assert "modegate_policy_problems 2.0" in lines
    assert "modegate_tasks 9.0" in lines
    assert "modegate_held_bytes 12.0" in lines


def test_names_that_models_make_up_do_not_make_the_page_grow() -> None:
    metrics = Metrics()
    for number in range(MAX_TOOLS + 50):
        metrics.judged("plan", f"tool-{number}", "answer")
    lines = [line for line in metrics.page()[0].decode().splitlines() if "verdicts_total{" in line]
    assert len(lines) == MAX_TOOLS + 1
    assert 'modegate_verdicts_total{mode="plan",tool="other",verdict="answer"} 50.0' in lines


def test_h21_names_that_models_make_up_leave_the_labels_to_real_tools() -> None:
    metrics = Metrics()
    for number in range(MAX_TOOLS + 50):
        metrics.judged("plan", f"invented-{number}", "answer", declared=False)
    metrics.judged("plan", "read", "release")
    lines = [line for line in metrics.page()[0].decode().splitlines() if "verdicts_total{" in line]
    assert sorted(lines) == [
        'modegate_verdicts_total{mode="plan",tool="read",verdict="release"} 1.0',
        f'modegate_verdicts_total{{mode="plan",tool="undeclared",verdict="answer"}} {MAX_TOOLS + 50.0}',
    ]


def test_two_proxies_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.hops.inc()
    assert b"modegate_hops_total 0.0" in other.page()[0]


def test_every_counter_is_an_attribute_that_is_declared() -> None:
    assert set(Metrics.__annotations__) == {*COUNTERS, *DURATIONS}
