"""What a session's log holds: one frozen dataclass for each event type.

An event that this version does not know becomes `Unknown`. The fold decides whether that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from modegate.core.ids import CallId, Lane, ModeId, Seq, SessionId, StepId, ToolName
from modegate.core.log.approval_events import APPROVAL_TYPES, ApprovalEvent

NO_LANE = Lane("")

NO_TOOLS = "no_tools"
RUNS_TEXT = "text"
"""Why the gate does not see what a lane's agent does; empty where it does."""


@dataclass(frozen=True, slots=True)
class SessionOpen:
    """`session/open`: who the agent is and how its session was identified."""

    agent: str
    path: str
    how: str
    parent: SessionId | None = None
    derived: bool = False
    cwd: str = ""
    """The folder that an ACP client opened it for; empty where none did."""


@dataclass(frozen=True, slots=True)
class ModeSet:
    """`mode/set`: the whole value; the last one wins."""

    mode: ModeId


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """`request/header`: what the first step of a lane in a mode showed the model."""

    lane: Lane
    mode: str
    policy: str
    tools: tuple[ToolName, ...]
    section: str
    """First 16 hex digits of the section's SHA-256; empty where none was added."""
    ungated: str = ""
    """`no_tools`, or `text` for an agent that runs calls in text which the mode lets pass."""
    left_out: tuple[ToolName, ...] = ()
    """Tools that the mode allows and that were not sent, since how they are declared leaves a doubt."""


@dataclass(frozen=True, slots=True)
class RequestHeaderDelta:
    """`request/header-delta`: how a step's assembly differs from the lane's last header."""

    lane: Lane
    mode: str
    policy: str
    added: tuple[ToolName, ...]
    removed: tuple[ToolName, ...]
    section: str
    ungated: str = ""
    left_out: tuple[ToolName, ...] = ()


@dataclass(frozen=True, slots=True)
class CallJudged:
    """`call/judged`: one call of a model and its verdict."""

    step: StepId
    call: CallId
    tool: ToolName
    arguments: str
    """First 16 hex digits of the SHA-256 of the arguments; never the arguments."""
    verdict: Literal["release", "answer", "ask"]
    rule: str
    mode: ModeId
    mode_seq: Seq
    policy: str
    reason: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of what the client got of one hop: text, reasoning, or released calls."""

    kind: str
    """`text`, `calls`, or the name of the reasoning field."""
    length: int
    """Characters; for `calls` how many calls."""
    hash: str
    calls: tuple[CallId, ...] = ()


@dataclass(frozen=True, slots=True)
class WithheldHop:
    """One hop of a withheld exchange: what the client got of it, and where its bodies are."""

    segments: tuple[Segment, ...]
    blob: str
    """Reference to the stored bodies; empty for a hop of which nothing was withheld."""


@dataclass(frozen=True, slots=True)
class TurnWithheld:
    """`turn/withheld`: calls and answers that the agent never saw, and where they belong."""

    step: StepId
    before: str
    """Key of the history item in front of the answer."""
    answer: str
    """Key of the answer as the client will send it back."""
    hops: tuple[WithheldHop, ...]
    at: int = -1
    """Index at which the answer will stand in the history; decides where the keys match twice."""
    model: str = ""
    """The model that said it; empty in logs of before 0.2."""
    note: str = ""
    """What the model is told behind the answer of what nobody was shown and no result can speak of."""


@dataclass(frozen=True, slots=True)
class AnswerMapped:
    """`answer/mapped`: what an answer that the provider keeps is called, and what is owed to it."""

    step: StepId
    client: str
    """The id that the client saw, or that of its conversation."""
    last: str
    """The id of the last hop's answer, or the conversation again."""
    owed: tuple[str, ...]
    """Results of refused calls as JSON, to be sent in front of what goes on from there."""
    hops: tuple[str, ...] = ()
    """The ids of the other hops' answers, which the client may come across."""
    lane: Lane = NO_LANE
    """The lane of what goes on from it and declares tools; empty in logs of before 0.2."""


@dataclass(frozen=True, slots=True)
class NoticeGiven:
    """`notice/given`: one sentence that tells the model of a mode change made by a person."""

    lane: Lane
    mode: str
    mode_seq: Seq
    before: str
    """Key of the item in front of the one that it is attached to."""
    item: str
    """Key of the item that it is attached to."""
    text: str
    at: int = -1
    """Index of that item in the history; decides where the keys match twice."""


@dataclass(frozen=True, slots=True)
class HistoryRefused:
    """`history/refused`: the provider took a request only without what modegate had put into its history."""

    step: StepId
    turns: tuple[StepId, ...]
    """Steps of which nothing is put back any more."""
    lane: Lane = NO_LANE
    notices: tuple[Seq, ...] = ()
    """The `mode/set` of which this lane's notices are put in no more."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a type or a version that this version of modegate does not know."""

    type: str
    v: int


Event = (
    SessionOpen
    | ModeSet
    | RequestHeader
    | RequestHeaderDelta
    | CallJudged
    | TurnWithheld
    | AnswerMapped
    | ApprovalEvent
    | NoticeGiven
    | HistoryRefused
    | Unknown
)


TYPES: dict[str, type[Any]] = {
    "session/open": SessionOpen,
    "mode/set": ModeSet,
    "request/header": RequestHeader,
    "request/header-delta": RequestHeaderDelta,
    "call/judged": CallJudged,
    "turn/withheld": TurnWithheld,
    "answer/mapped": AnswerMapped,
    **APPROVAL_TYPES,
    "notice/given": NoticeGiven,
    "history/refused": HistoryRefused,
}
