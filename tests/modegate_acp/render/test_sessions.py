"""How states look in ACP: both spellings, a mode that is gone, rows of sessions."""

from __future__ import annotations

from typing import Literal

import pytest

from modegate.core.ids import CallId, Lane, ModeId, Seq, SessionId, StepId, ToolName
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.log.approvals import Approval
from modegate.core.log.fold import State
from modegate.core.policy.gating import Gating
from modegate.core.policy.model import Mode, Policy
from modegate.server.proxy.sessions import SessionSummary
from modegate_acp.messages.clients import Peer, client_named
from modegate_acp.messages.jsonrpc import write
from modegate_acp.render import questions
from modegate_acp.render import sessions as render

MODES = (
    Mode(ModeId("plan"), "Plan", "Look.", "", ()),
    Mode(ModeId("free"), "Free", "", "", ()),
)
POLICY = Policy("p", {mode.id: mode for mode in MODES})
STATE = State(Seq(7), ModeId("plan"), Seq(5))


def test_modes() -> None:
    default = {"id": "default", "name": "Default", "description": render.DEFAULT_DESCRIPTION}
    assert render.modes(POLICY, STATE) == {
        "currentModeId": "plan",
        "availableModes": [
            default,
            {"id": "plan", "name": "Plan", "description": "Look."},
            {"id": "free", "name": "Free"},
        ],
    }


def test_options() -> None:
    (option,) = render.options(POLICY, STATE)
    assert option["currentValue"] == "plan"
    assert option["options"][1:] == [
        {"value": "plan", "name": "Plan", "description": "Look."},
        {"value": "free", "name": "Free"},
    ]


def test_a_mode_that_is_gone_is_still_the_current_one() -> None:
    gone = State(Seq(7), ModeId("old"), Seq(5))
    shown = render.modes(POLICY, gone)
    assert shown["currentModeId"] == "old"
    assert shown["availableModes"][-1]["id"] == "old"


@pytest.mark.parametrize(
    ("client", "has"), [(Peer(), True), (client_named("JetBrains.IDEA", "2026.1"), False)]
)
def test_what_answers_carry(client: Peer, has: bool) -> None:
    shown = render.session(POLICY, STATE, client)
    assert shown["_meta"] == {"modegate/seq": 7}
    assert ("configOptions" in shown) is has


def test_a_call_is_told_from_a_plan() -> None:
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("fetch"))
    call = questions.tool_call(Approval(ApprovalAsked("q", *place, "ask", '{"a":1}', (), 0)))
    plan = questions.tool_call(Approval(ApprovalAsked("q", *place, "exit", "# P", (), 0)))
    assert (call["title"], call["kind"]) == ("Run fetch?", "other")
    assert call["rawInput"] == {"tool": "fetch"}
    assert call["content"][0]["content"]["text"] == '{"a":1}'
    assert (plan["kind"], plan["rawInput"]) == ("switch_mode", {"tool": "fetch"})
    for one in (call, plan):
        assert one["content"][0]["type"] == "content"
        assert one["content"][0]["content"]["type"] == "text"


@pytest.mark.parametrize("purpose", ["exit", "ask"])
def test_a4_a_plan_is_sent_once(purpose: Literal["exit", "ask"]) -> None:
    """250 KB of plan were 1.26 MB, and clients that take 1 MiB were cut off again and again."""
    plan = "# Plan\n" + "x" * 250_000
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    call = questions.tool_call(Approval(ApprovalAsked("q", *place, purpose, plan, (), 0)))
    asked = questions.permission("r", SessionId("s"), call, [])
    for message in (asked, questions.new_tool_call(SessionId("s"), call)):
        text = write(message)
        assert text.count("x" * 1_000) == 250
        assert len(text) < len(plan) + 2_000
    assert asked["params"]["toolCall"]["content"][0]["content"]["text"] == plan
    description = asked["params"]["description"]
    assert plan.startswith(description.removesuffix("…"))
    assert asked["params"]["subject"]["toolCall"]["toolCallId"] == "q"


@pytest.mark.parametrize(
    ("name", "agent", "title"),
    [
        ("my-session", "opencode/1.18 (linux x64)", "opencode: my-session"),
        ("my-session", "", "my-session"),
        ("d-" + "0" * 32, "claude-cli/2.1 (external)", "claude-cli: d-" + "0" * 22 + "…"),
        ("s", "\x1b[2J agent", "\\x1b[2J: s"),
    ],
)
def test_a10_a_title_names_the_agent(name: str, agent: str, title: str) -> None:
    assert render.title(SessionId(name), agent) == title


def test_rows() -> None:
    row = render.session_row(
        SessionId("s"), "/w", "agent/1", 1_700_000_000_123, SessionSummary(STATE, Gating.ON)
    )
    assert row == {
        "sessionId": "s",
        "cwd": "/w",
        "title": "agent: s",
        "updatedAt": "2023-11-14T22:13:20.123Z",
        "_meta": {"modegate/mode": "plan", "modegate/gate": "on", "modegate/seq": 7},
    }
    unknown = render.session_row(
        SessionId("s"), "/w", "", 0, SessionSummary(None, Gating.UNREADABLE)
    )
    assert unknown["title"] == "s"
    assert unknown["_meta"] == {"modegate/mode": None, "modegate/gate": "unreadable"}


def test_a2_what_a_model_wrote_is_quoted_and_steers_nothing() -> None:
    """A terminal shows it as it comes, and lines of a plan may look like ours."""
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    plan = "# Plan\x1b[2J\n\nYes is: Reject\r\n\tstep\u202e"
    options = (Option("approve", "Approve", "approve"), Option("reject", "Reject", "reject"))
    approval = Approval(ApprovalAsked("q", *place, "exit", plan, options, 0))
    assert questions.as_text(approval, options, one_way=True).strip().splitlines() == [
        "Plan: ready to leave the mode?",
        "",
        "> # Plan\\x1b[2J",
        "> ",
        "> Yes is: Reject",
        ">     step\\u202e",
        "",
        "Yes is: Approve",
        "No is: Reject",
    ]
