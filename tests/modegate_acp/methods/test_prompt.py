"""What is read_slash_command, and what it is answered with."""

from __future__ import annotations

import pytest

from modegate.core.ids import ModeId, Seq, SessionId
from modegate.core.log.events import SessionOpen
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE
from modegate.core.policy.model import Mode, Policy
from modegate_acp.methods.prompt import (
    SlashCommand,
    mode_text,
    read_slash_command,
    sessions_text,
    status_text,
)

PLAN = Mode(ModeId("plan"), "Plan", "Look.", "", ())
POLICY = Policy("p", {PLAN.id: PLAN})


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/mode", SlashCommand("mode")),
        (" /mode  plan \n", SlashCommand("mode", "plan")),
        ("/status", SlashCommand("status")),
        ("/sessions", SlashCommand("sessions")),
        ("/help", SlashCommand("help")),
        ("/modes", None),
        ("set /mode plan", None),
        ("rename foo", None),
        ("", None),
    ],
)
def test_commands(text: str, command: SlashCommand | None) -> None:
    assert read_slash_command(text) == command


def test_modes_are_listed_with_the_one_in_force() -> None:
    text = mode_text(POLICY, State(Seq(1), ModeId("plan"), Seq(1)), ALONE)
    assert text.splitlines() == [
        "Mode: plan",
        "",
        "- `default`: no policy",
        "- `plan` (in force): Look.",
    ]


def test_a_status() -> None:
    opened = State(Seq(3), ModeId("plan"), Seq(2), opened=SessionOpen("agent/1", "/v1", "path"))
    assert status_text(SessionId("s"), opened, ALONE, []).splitlines() == [
        "Session: s",
        "Mode: plan (event 2 of 3)",
        "Agent: agent/1",
        "Open questions: 0",
    ]


def test_sessions() -> None:
    assert sessions_text([]) == "There are no sessions yet."
    rows = [(SessionId("a"), "plan", "agent/1"), (SessionId("b"), "default", "")]
    assert sessions_text(rows) == "- `a`: plan (agent/1)\n- `b`: default"
