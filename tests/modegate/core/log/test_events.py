"""Envelopes: what is written is read back, and what is not understood is never mistaken."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.ids import CallId, Lane, ModeId, Seq, SessionId, StepId, ToolName
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
    ApprovalJoined,
    ClientLeft,
    Option,
)
from modegate.core.log.events import (
    TYPES,
    AnswerMapped,
    CallJudged,
    Event,
    HistoryRefused,
    ModeSet,
    NoticeGiven,
    RequestHeader,
    RequestHeaderDelta,
    Segment,
    SessionOpen,
    TurnWithheld,
    Unknown,
    WithheldHop,
)
from modegate.core.log.records import NAMES, VERSION, Entry, Record, decode, encode, to_json

EXAMPLES: dict[str, tuple[Event, dict[str, Any]]] = {
    "session/open": (
        SessionOpen("agent/1", "/v1/x", "path", SessionId("p"), derived=True, cwd="/w"),
        {
            "agent": "agent/1",
            "path": "/v1/x",
            "how": "path",
            "parent": "p",
            "derived": True,
            "cwd": "/w",
        },
    ),
    "mode/set": (ModeSet(ModeId("plan")), {"mode": "plan"}),
    "request/header": (
        RequestHeader(Lane("l"), "plan", "p1", (ToolName("read"), ToolName("ls")), "00ff"),
        {
            "lane": "l",
            "mode": "plan",
            "policy": "p1",
            "tools": ["read", "ls"],
            "section": "00ff",
            "ungated": "",
            "left_out": [],
        },
    ),
    "request/header-delta": (
        RequestHeaderDelta(Lane("l"), "plan", "p1", (ToolName("a"),), (), "00ff"),
        {
            "lane": "l",
            "mode": "plan",
            "policy": "p1",
            "added": ["a"],
            "removed": [],
            "section": "00ff",
            "ungated": "",
            "left_out": [],
        },
    ),
    "call/judged": (
        CallJudged(
            StepId("s"),
            CallId("c"),
            ToolName("write"),
            "ab",
            "answer",
            "no rule",
            ModeId("plan"),
            Seq(3),
            "p1",
            "why",
        ),
        {
            "step": "s",
            "call": "c",
            "tool": "write",
            "arguments": "ab",
            "verdict": "answer",
            "rule": "no rule",
            "mode": "plan",
            "mode_seq": 3,
            "policy": "p1",
            "reason": "why",
        },
    ),
    "turn/withheld": (
        TurnWithheld(
            StepId("s"),
            "b",
            "a",
            (WithheldHop((Segment("calls", 1, "h", (CallId("c"),)),), "r"),),
            4,
            "m",
        ),
        {
            "step": "s",
            "before": "b",
            "answer": "a",
            "at": 4,
            "model": "m",
            "note": "",
            "hops": [
                {
                    "segments": [{"kind": "calls", "length": 1, "hash": "h", "calls": ["c"]}],
                    "blob": "r",
                }
            ],
        },
    ),
    "answer/mapped": (
        AnswerMapped(StepId("s"), "resp_1", "resp_3", ('{"a":1}',), ("resp_2",), Lane("l")),
        {
            "step": "s",
            "client": "resp_1",
            "last": "resp_3",
            "owed": ['{"a":1}'],
            "hops": ["resp_2"],
            "lane": "l",
        },
    ),
    "approval/asked": (
        ApprovalAsked(
            "mg-perm-1",
            StepId("s"),
            Lane("l"),
            CallId("c"),
            ToolName("exit_plan_mode"),
            "exit",
            "# Plan",
            (
                Option("approve", "Approve", "approve", ModeId("default")),
                Option("reject", "Reject", "reject"),
            ),
            99,
            "3:user:k",
        ),
        {
            "id": "mg-perm-1",
            "step": "s",
            "lane": "l",
            "call": "c",
            "tool": "exit_plan_mode",
            "purpose": "exit",
            "text": "# Plan",
            "options": [
                {"id": "approve", "label": "Approve", "kind": "approve", "to": "default"},
                {"id": "reject", "label": "Reject", "kind": "reject", "to": None},
            ],
            "expires": 99,
            "place": "3:user:k",
        },
    ),
    "approval/delivered": (
        ApprovalDelivered("a", "cli", "cli:1"),
        {"id": "a", "via": "cli", "client": "cli:1"},
    ),
    "client/left": (
        ClientLeft("a", "cli:1", "gone"),
        {"id": "a", "client": "cli:1", "why": "gone"},
    ),
    "approval/detached": (ApprovalDetached("a", "nobody"), {"id": "a", "why": "nobody"}),
    "approval/joined": (ApprovalJoined("a", StepId("t")), {"id": "a", "step": "t"}),
    "approval/dropped": (
        ApprovalDropped("a", StepId("t"), 61_000),
        {"id": "a", "step": "t", "until": 61_000},
    ),
    "approval/answered": (
        ApprovalAnswered("a", "reject", "too long"),
        {"id": "a", "option": "reject", "comment": "too long"},
    ),
    "approval/closed": (ApprovalClosed("a", "abandoned"), {"id": "a", "why": "abandoned"}),
    "notice/given": (
        NoticeGiven(Lane("l"), "default", Seq(4), "b", "i", "The mode was changed."),
        {
            "lane": "l",
            "mode": "default",
            "mode_seq": 4,
            "before": "b",
            "item": "i",
            "text": "The mode was changed.",
            "at": -1,
        },
    ),
    "history/refused": (
        HistoryRefused(StepId("s"), (StepId("t"),), Lane("l"), (Seq(4),)),
        {"step": "s", "turns": ["t"], "lane": "l", "notices": [4]},
    ),
}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(0, 2**53)
TOOLS = st.lists(TEXT.map(ToolName), max_size=3).map(tuple)
LANES = TEXT.map(Lane)
SEGMENTS = st.builds(
    Segment, TEXT, NUMBERS, TEXT, st.lists(TEXT.map(CallId), max_size=2).map(tuple)
)
HOPS = st.builds(WithheldHop, st.lists(SEGMENTS, max_size=2).map(tuple), TEXT)
OPTIONS = st.builds(
    Option,
    TEXT,
    TEXT,
    st.sampled_from(["approve", "allow_once", "reject"]),
    st.none() | TEXT.map(ModeId),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(SessionOpen, TEXT, TEXT, TEXT, st.none() | TEXT.map(SessionId), st.booleans()),
    st.builds(ModeSet, TEXT.map(ModeId)),
    st.builds(RequestHeader, LANES, TEXT, TEXT, TOOLS, TEXT),
    st.builds(RequestHeaderDelta, LANES, TEXT, TEXT, TOOLS, TOOLS, TEXT),
    st.builds(
        CallJudged,
        TEXT.map(StepId),
        TEXT.map(CallId),
        TEXT.map(ToolName),
        TEXT,
        st.sampled_from(["release", "answer", "ask"]),
        TEXT,
        TEXT.map(ModeId),
        NUMBERS.map(Seq),
        TEXT,
        TEXT,
    ),
    st.builds(AnswerMapped, TEXT.map(StepId), TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple)),
    st.builds(TurnWithheld, TEXT.map(StepId), TEXT, TEXT, st.lists(HOPS, max_size=2).map(tuple)),
    st.builds(
        ApprovalAsked,
        TEXT,
        TEXT.map(StepId),
        LANES,
        TEXT.map(CallId),
        TEXT.map(ToolName),
        st.sampled_from(["exit", "ask"]),
        TEXT,
        st.lists(OPTIONS, max_size=3).map(tuple),
        NUMBERS,
    ),
    st.builds(ApprovalDelivered, TEXT, TEXT, TEXT),
    st.builds(ClientLeft, TEXT, TEXT, st.sampled_from(["dismissed", "gone"])),
    st.builds(ApprovalDetached, TEXT, st.sampled_from(["nobody", "timeout", "shutdown"])),
    st.builds(ApprovalJoined, TEXT, TEXT),
    st.builds(ApprovalDropped, TEXT, TEXT, NUMBERS),
    st.builds(ApprovalAnswered, TEXT, TEXT, TEXT),
    st.builds(ApprovalClosed, TEXT, st.sampled_from(["expired", "superseded", "abandoned"])),
    st.builds(
        HistoryRefused,
        TEXT.map(StepId),
        st.lists(TEXT.map(StepId), max_size=3).map(tuple),
        LANES,
        st.lists(NUMBERS.map(Seq), max_size=3).map(tuple),
    ),
    st.builds(NoticeGiven, LANES, TEXT, NUMBERS.map(Seq), TEXT, TEXT, TEXT),
)


def test_every_event_has_a_name() -> None:
    known = set(get_args(Event)) - {Unknown}
    assert set(TYPES.values()) == set(NAMES) == known
    assert set(EXAMPLES) == set(TYPES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_envelope(name: str) -> None:
    event, data = EXAMPLES[name]
    written = encode(Entry(1_700_000_000_000, "gate", event))
    assert json.loads(written) == {
        "v": VERSION,
        "type": name,
        "at": 1_700_000_000_000,
        "by": "gate",
        "data": data,
    }
    record = decode(Seq(7), written)
    assert record == Record(Seq(7), 1_700_000_000_000, "gate", event)
    assert json.loads(json.dumps(to_json(record))) == {
        "seq": 7,
        "type": name,
        "at": 1_700_000_000_000,
        "by": "gate",
        "data": data,
    }


@pytest.mark.parametrize("name", TYPES)
def test_is_described(name: str) -> None:
    text = (Path(__file__).parents[4] / "docs" / "events.md").read_text()
    _, found, rest = text.partition(f"\n### `{name}`\n")
    assert found
    section = rest.partition("\n##")[0]
    missing = [field.name for field in fields(TYPES[name]) if f"`{field.name}`" not in section]
    assert missing == []


@given(EVENTS, NUMBERS, TEXT)
def test_what_is_written_is_read_back(event: Event, at: int, by: str) -> None:
    assert decode(Seq(1), encode(Entry(at, by, event))) == Record(Seq(1), at, by, event)


def envelope(**changes: Any) -> bytes:
    base = {"v": VERSION, "type": "mode/set", "at": 5, "by": "x", "data": {"mode": "plan"}}
    return json.dumps(base | changes).encode()


def test_a_field_that_a_later_version_added_is_passed_over() -> None:
    written = envelope(data={"mode": "plan", "why": "because"}, more=1)
    assert decode(Seq(1), written).event == ModeSet(ModeId("plan"))


NOT_UNDERSTOOD = {
    "a type of later": (envelope(type="mode/clear"), "mode/clear", VERSION),
    "a version of later": (envelope(v=VERSION + 1), "mode/set", VERSION + 1),
    "data of another shape": (envelope(data={"mode": 1}), "mode/set", VERSION + 1),
    "data without the field": (envelope(data={}), "mode/set", VERSION + 1),
    "data that is a list": (envelope(data=[]), "mode/set", VERSION + 1),
    "no type": (b'{"v": 1, "at": 5, "by": "x", "data": {}}', "", VERSION + 1),
    "a time that is text": (envelope(at="5"), "", VERSION + 1),
    "not JSON": (b'{"v": 1', "", VERSION + 1),
    "nothing": (b"", "", VERSION + 1),
    "not UTF-8": (b"\xff", "", VERSION + 1),
}


@pytest.mark.parametrize(
    ("written", "name", "version"), NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD.keys()
)
def test_what_is_not_understood_is_unknown(written: bytes, name: str, version: int) -> None:
    record = decode(Seq(1), written)
    assert record.event == Unknown(name, version)
    assert to_json(record)["type"] == name


@given(st.binary(max_size=60))
def test_no_bytes_raise(written: bytes) -> None:
    assert decode(Seq(1), written).event == Unknown("", VERSION + 1)
