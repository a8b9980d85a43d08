"""The phases of a step: each input is taken where the table has it, and the table is that of the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.errors import ModegateError, UpstreamFailed
from modegate.core.ids import StepId
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.step.phase import TABLE, Input, OutOfPhase, Phase
from modegate.core.wire.request_body import RequestBody
from support.playbook import STREAM, Session, call, request, stream, text

DOCS = Path(__file__).parents[4] / "docs" / "architecture.md"


def exchange() -> Exchange:
    body = RequestBody(json.dumps(request("read", "write", stream=True)).encode())
    return Exchange(CHAT, StepRequest(StepId("s"), [], body))


def test_each_input_is_a_method_that_a_phase_takes() -> None:
    assert all(callable(getattr(Exchange, name)) for name in Input)
    assert {name for row in TABLE.values() for name in row} == set(Input)


def test_every_phase_is_led_to_and_every_step_can_end() -> None:
    led = {phase for row in TABLE.values() for leads in row.values() for phase in leads}
    assert led == set(Phase)
    assert set(TABLE) == set(Phase)
    assert all(row[Input.FAILED] == {Phase.OVER} for row in TABLE.values())


def test_the_docs_print_the_table() -> None:
    """A row an input, a column a phase: where it leads, `–` for nowhere, empty where it is not taken."""
    lines = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| (?:input|`\w+`) \|", line) and line.count("|") == len(Phase) + 2
    ]
    head, *rows = (line for line in lines if line[0] == "input" or line[0] in set(Input))
    assert head == ["input", *Phase]

    def cell(leads: frozenset[Phase] | None) -> str:
        if leads is None:
            return ""
        return ", ".join(phase for phase in Phase if phase in leads) or "–"

    assert rows == [[name, *(cell(TABLE[phase].get(name)) for phase in Phase)] for name in Input]


def test_a_step_goes_through_its_phases() -> None:
    one, session = exchange(), Session()
    seen = [one.phase]
    one.begin(session.in_force())
    seen.append(one.phase)
    one.upstream_head(200, list(STREAM))
    seen.append(one.phase)
    one.upstream_data(text("a") + call("write"))
    seen.append(one.phase)
    one.upstream_data(stream(call("write")))
    seen.append(one.phase)
    one.state(session.in_force())
    seen.append(one.phase)
    one.upstream_end(UpstreamFailed("no connection"))
    seen.append(one.phase)
    assert seen == ["opening", "calling", "answering", "answering", "judging", "calling", "over"]


def test_an_input_out_of_phase_is_a_bug() -> None:
    one = exchange()
    with pytest.raises(OutOfPhase, match="upstream_data is not taken while a step is opening"):
        one.upstream_data(b"x")
    one.begin(Session().in_force())
    with pytest.raises(OutOfPhase):
        one.begin(Session().in_force())
    with pytest.raises(OutOfPhase):
        one.state(Session().in_force())


def test_what_comes_too_late_changes_nothing() -> None:
    one, session = exchange(), Session()
    one.begin(session.in_force())
    one.failed(ModegateError("a"), head_sent=False)
    assert one.upstream_data(b"more") == one.upstream_end() == []
    assert one.tightened(session.in_force()) == []
    assert one.keepalive() == b""
