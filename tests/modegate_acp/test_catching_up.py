"""Whatever the log brings and whenever a client has room, it ends up where the session is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from modegate.core.ids import (
    DEFAULT_MODE,
    CallId,
    Lane,
    ModeId,
    Seq,
    SessionId,
    StepId,
    ToolName,
)
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
    ApprovalJoined,
    Option,
)
from modegate.core.log.events import Event, ModeSet
from modegate.core.log.fold import State, fold
from modegate.core.log.records import Record
from modegate.core.policy.model import Level, Mode, Policy
from modegate_acp.following.catch_up import Perspective, Snapshot, begin, catch_up
from modegate_acp.messages.clients import Peer
from support.acp import Json, updated

POLICY = Policy(
    "p", {ModeId(name): Mode(ModeId(name), name, "", "", ()) for name in ("plan", "review")}
)
OPTIONS = (Option("approve", "Approve", "approve", DEFAULT_MODE), Option("reject", "No", "reject"))
NAMES = st.sampled_from(["q1", "q2", "q3"])


def asked(name: str) -> Event:
    place = (StepId("s"), Lane(name), CallId("c"), ToolName("exit_plan_mode"))
    return ApprovalAsked(name, *place, "exit", "# Plan", OPTIONS, 1 << 50)


EVENTS = st.one_of(
    st.sampled_from(["default", "plan", "review"]).map(lambda mode: ModeSet(ModeId(mode))),
    NAMES.map(asked),
    st.builds(ApprovalDelivered, NAMES, st.just("acp")),
    st.builds(ApprovalDetached, NAMES, st.just("timeout")),
    st.builds(ApprovalJoined, NAMES, st.sampled_from(["s", "t"])),
    st.builds(ApprovalDropped, NAMES, st.sampled_from(["s", "t"]), st.integers(0, 2**40)),
    st.builds(ApprovalAnswered, NAMES, st.sampled_from(["approve", "reject"])),
    st.builds(ApprovalClosed, NAMES, st.just("abandoned")),
)


@dataclass
class Screen:
    """What a client's person sees."""

    mode: str = "default"
    option: str = "default"
    seqs: list[int] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    """Questions by the id of the request that asks."""
    calls: dict[str, str] = field(default_factory=dict)
    """Status of each tool call."""

    def show(self, message: Json) -> None:
        update = updated(message)
        match update.get("sessionUpdate") or message["method"]:
            case "current_mode_update":
                self.mode = update["currentModeId"]
                self.seqs.append(message["params"]["_meta"]["modegate/seq"])
            case "config_option_update":
                self.option = update["configOptions"][0]["currentValue"]
            case "tool_call":
                assert update["toolCallId"] not in self.calls
                self.calls[update["toolCallId"]] = update["status"]
            case "tool_call_update":
                assert self.calls[update["toolCallId"]] == "pending"
                self.calls[update["toolCallId"]] = update["status"]
            case "session/request_permission":
                assert message["id"] not in self.asked
                self.asked[message["id"]] = message["params"]["toolCall"]["toolCallId"]
            case "$/cancel_request":
                del self.asked[message["params"]["requestId"]]
            case other:
                assert other == "available_commands_update"


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=30), st.integers(0, 5))
def test_a_client_ends_up_where_the_session_is(
    log: list[tuple[Event, bool]], attached: int
) -> None:
    """The modes in the log's order, every question once, and none left that is over."""
    numbers = itertools.count()
    state, screen = State(), Screen()
    shown = None

    def look() -> Perspective:
        return Perspective(Snapshot(SessionId("s"), state, POLICY), Peer(), Level.FULL, 0)

    for at, (event, room) in enumerate([*log, (ModeSet(ModeId("plan")), True)]):
        state = fold(state, Record(Seq(at + 1), at, "person:cli", event))
        if shown is None and at >= min(attached, len(log)):
            shown = begin(look())
            screen.mode = screen.option = state.mode
        if shown is not None and room:
            shown, out = catch_up(shown, look(), lambda: f"r{next(numbers)}")
            for one in out:
                screen.show(one.message)
    is_open = {name for name, one in state.approvals.items() if one.open}
    assert screen.mode == screen.option == state.mode
    assert screen.seqs == sorted(set(screen.seqs))
    assert set(screen.asked.values()) == is_open
    assert {name for name, status in screen.calls.items() if status == "pending"} == is_open
