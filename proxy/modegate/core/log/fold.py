"""From a log to a state: `fold(state, record) -> state`, one table, no other way.

The mode in force of a session is `State.mode` and nothing else. A state folded from a checkpoint
equals the state folded from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from modegate.core.ids import DEFAULT_MODE, Lane, ModeId, Seq, StepId, ToolName
from modegate.core.log import approvals
from modegate.core.log.approval_events import APPROVAL_TYPES, ApprovalAsked, ApprovalClosed
from modegate.core.log.events import (
    AnswerMapped,
    CallJudged,
    Event,
    HistoryRefused,
    ModeSet,
    NoticeGiven,
    RequestHeader,
    RequestHeaderDelta,
    SessionOpen,
    TurnWithheld,
    Unknown,
)
from modegate.core.log.records import VERSION, Record

MAX_LANES = 256
"""Lanes kept; a session with more has its oldest forgotten, whose next step writes a header anew."""

MAX_WITHHELD = 1_000
"""Withheld turns kept; agents compact long before."""

MAX_MAPPED = 1_000
"""Stored answers that are known; agents go on from the newest."""

RULE_EVENTS = ("mode/", "approval/", "turn/", "answer/")
"""An unknown event of these kinds could carry a rule, so it makes the session unreadable."""


@dataclass(frozen=True, slots=True)
class Header:
    """The last assembly of a lane."""

    mode: str
    policy: str
    tools: tuple[ToolName, ...]
    section: str
    ungated: str = ""
    """Why the gate does not see what its agent does; empty where it does."""
    left_out: tuple[ToolName, ...] = ()
    """What the mode allows and was not sent all the same."""


@dataclass(frozen=True, slots=True)
class State:
    """All that is known of a session."""

    seq: Seq = Seq(0)
    mode: ModeId = DEFAULT_MODE
    mode_seq: Seq = Seq(0)
    """Where the mode in force was set; 0 if never."""
    set_by_person: bool = False
    """A person has set this session's own mode, so that it no longer follows its parent's."""
    left: Mapping[ModeId, int] = field(default_factory=dict)
    """When each mode other than default was last left, in milliseconds since the epoch."""
    opened: SessionOpen | None = None
    lanes: Mapping[Lane, Header] = field(default_factory=dict)
    withheld: tuple[TurnWithheld, ...] = ()
    refused: tuple[StepId, ...] = ()
    """Steps of which the provider takes nothing back that was withheld."""
    mapped: Mapping[str, AnswerMapped] = field(default_factory=dict)
    """By the id that the client knows."""
    approvals: Mapping[str, approvals.Approval] = field(default_factory=dict)
    """Open questions, and the last settled ones, by id."""
    notices: tuple[NoticeGiven, ...] = ()
    unreadable: str | None = None
    """Why the log cannot be trusted, or None."""

    @property
    def begun(self) -> bool:
        """Whether the log says in which mode the session began: it was opened, or a mode was set."""
        return self.opened is not None or self.mode_seq > 0

    @property
    def ever_gated(self) -> bool:
        """Whether the session was ever in a mode other than default, by its own log."""
        return self.mode != DEFAULT_MODE or bool(self.left) or bool(self.lanes)


def _open(state: State, _record: Record, event: SessionOpen) -> State:
    # The first one counts: a parent is claimed once.
    return state if state.opened else replace(state, opened=event)


def _mode_set(state: State, record: Record, event: ModeSet) -> State:
    # A question is about the mode that it was asked in, so a change of mode closes it.
    closing = [one.asked.id for one in state.approvals.values() if one.status.open]
    for name in closing:
        state = _approval(state, record, ApprovalClosed(name, "superseded"))
    # A step that comes back after the change does not hear an answer from before it.
    heard = {name: replace(one, until=0) for name, one in state.approvals.items()}
    state = replace(state, approvals=approvals.remember(heard))
    left = dict(state.left)
    if state.mode not in (DEFAULT_MODE, event.mode):
        left[state.mode] = record.at
    return replace(
        state,
        mode=event.mode,
        mode_seq=record.seq,
        left=left,
        set_by_person=state.set_by_person or record.by.startswith("person:"),
    )


def _lane(state: State, lane: Lane, header: Header) -> State:
    lanes = {name: kept for name, kept in state.lanes.items() if name != lane}
    lanes[lane] = header
    while len(lanes) > MAX_LANES:
        del lanes[next(iter(lanes))]
    return replace(state, lanes=lanes)


def _header(state: State, _record: Record, event: RequestHeader) -> State:
    header = _shown(event, event.tools)
    return _lane(state, event.lane, header)


def _header_delta(state: State, _record: Record, event: RequestHeaderDelta) -> State:
    last = state.lanes.get(event.lane)
    kept = tuple(t for t in (last.tools if last else ()) if t not in event.removed)
    tools = kept + event.added
    return _lane(state, event.lane, _shown(event, tools))


def _shown(event: RequestHeader | RequestHeaderDelta, tools: tuple[ToolName, ...]) -> Header:
    return Header(event.mode, event.policy, tools, event.section, event.ungated, event.left_out)


def _judged(state: State, _record: Record, _event: CallJudged) -> State:
    return state


def _withheld(state: State, _record: Record, event: TurnWithheld) -> State:
    return replace(state, withheld=(*state.withheld, event)[-MAX_WITHHELD:])


def _mapped(state: State, _record: Record, event: AnswerMapped) -> State:
    mapped = {name: one for name, one in state.mapped.items() if name != event.client}
    mapped[event.client] = event
    while len(mapped) > MAX_MAPPED:
        del mapped[next(iter(mapped))]
    return replace(state, mapped=mapped)


def _asked(state: State, record: Record, event: ApprovalAsked) -> State:
    if event.id in state.approvals:
        return state
    asked = approvals.opened(event, record.at)
    return replace(state, approvals=approvals.remember({**state.approvals, event.id: asked}))


def _approval(state: State, record: Record, event: Event) -> State:
    name = getattr(event, "id", "")
    known = state.approvals.get(name)
    if known is None:
        return state
    # What changed last stands last, so that what was settled just now is not what is forgotten first.
    others = {other: one for other, one in state.approvals.items() if other != name}
    settled = approvals.step(known, event, record.by)
    last = state.lanes.get(known.asked.lane)
    if known.waited_for and settled.approved and settled.to and last:
        # Its step hears the answer itself, so that no notice is owed to the lane.
        state = _lane(state, known.asked.lane, replace(last, mode=settled.to))
    return replace(state, approvals=approvals.remember({**others, name: settled}))


def _notice(state: State, _record: Record, event: NoticeGiven) -> State:
    notices = (*state.notices, event)[-MAX_WITHHELD:]
    last = state.lanes.get(event.lane)
    told = replace(state, notices=notices)
    # The lane has been told: its next step compares with this mode.
    return _lane(told, event.lane, replace(last, mode=event.mode)) if last else told


def _refused(state: State, _record: Record, event: HistoryRefused) -> State:
    refused = (*state.refused, *event.turns)[-MAX_WITHHELD:]
    gone = {(event.lane, seq) for seq in event.notices}
    notices = tuple(one for one in state.notices if (one.lane, one.mode_seq) not in gone)
    return replace(state, refused=refused, notices=notices)


def _unknown(state: State, record: Record, event: Unknown) -> State:
    if event.v <= VERSION and not event.type.startswith(RULE_EVENTS):
        return state
    why = (
        f"event {record.seq} is of type {event.type!r}, version {event.v}, which is not known here"
    )
    return replace(state, unreadable=state.unreadable or why)


TRANSITIONS: dict[type[Any], Callable[[State, Record, Any], State]] = {
    SessionOpen: _open,
    ModeSet: _mode_set,
    RequestHeader: _header,
    RequestHeaderDelta: _header_delta,
    CallJudged: _judged,
    TurnWithheld: _withheld,
    AnswerMapped: _mapped,
    **dict.fromkeys(APPROVAL_TYPES.values(), _approval),
    ApprovalAsked: _asked,
    NoticeGiven: _notice,
    HistoryRefused: _refused,
    Unknown: _unknown,
}


def fold(state: State, record: Record) -> State:
    """Apply one record.

    Raises:
        ValueError: the record does not come after what the state has seen.
    """
    if record.seq <= state.seq:
        raise ValueError(f"record {record.seq} does not come after {state.seq}")
    folded = TRANSITIONS[type(record.event)](state, record, record.event)
    return replace(folded, seq=record.seq)


def fold_all(records: Iterable[Record], state: State | None = None) -> State:
    folded = state or State()
    for record in records:
        folded = fold(folded, record)
    return folded


_decode_state = msgspec.json.Decoder(State).decode
CHECKPOINT_VERSION = 5
"""Part of the key under which a checkpoint is stored, so that a changed `State` folds from the start."""


def dump_state(state: State) -> bytes:
    return msgspec.json.encode(state)


def load_state(checkpoint: bytes) -> State:
    """Read a checkpoint.

    Raises:
        ValueError: it is not one.
    """
    try:
        return _decode_state(checkpoint)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a checkpoint: {error}") from error
