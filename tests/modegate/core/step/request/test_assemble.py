"""The section a request gets, and the header events that say what a lane's model was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.errors import Refusal
from modegate.core.ids import Lane, ModeId, Seq, SessionId, ToolName
from modegate.core.log.events import Event, ModeSet, RequestHeader, RequestHeaderDelta
from modegate.core.log.fold import State, fold
from modegate.core.log.records import Record
from modegate.core.policy.in_force import modes_in_force
from modegate.core.policy.model import Policy
from modegate.core.step.answer.calls import digest
from modegate.core.step.dialect import Assembled
from modegate.core.step.request.assemble import assemble, section_for
from modegate.core.wire.request_body import RequestBody
from support.playbook import POLICY, SECTION, Got, Session, mode, policy, request, said

OTHER = "OTHER-SECTION"
LANE = Lane("main")


def tools(*names: str) -> tuple[ToolName, ...]:
    return tuple(ToolName(name) for name in names)


def step(session: Session, body: dict[str, Any]) -> Sequence[Event]:
    return session.step(body, [said()]).events


# Header events.


def test_the_first_step_of_a_lane_writes_a_header_before_anything_is_sent() -> None:
    got = Session().step(request("write", "read", "grep"), [said()])
    (header,) = got.events
    assert isinstance(header, RequestHeader)
    assert (header.mode, header.policy) == ("plan", POLICY.hash)
    assert header.tools == tools("read", "grep")
    assert header.section == digest(SECTION)
    assert got.order.index("Append") < got.order.index("CallUpstream")


def test_an_equal_step_writes_nothing() -> None:
    session = Session()
    step(session, request("read", "write"))
    assert step(session, request("read", "write")) == []
    # Nor does one in which only tools differ that are not shown, or their order.
    assert step(session, request("bash", "read")) == []


def test_a_changed_step_writes_what_changed_and_the_fold_knows_the_rest() -> None:
    session = Session()
    lane = step(session, request("read", "write"))[0].lane  # type: ignore[union-attr]
    (delta,) = step(session, request("grep", "write"))
    assert delta == RequestHeaderDelta(
        lane, "plan", POLICY.hash, tools("grep"), tools("read"), digest(SECTION)
    )
    assert session.state.lanes[lane].tools == tools("grep")
    assert step(session, request("grep")) == []


@pytest.mark.parametrize(
    ("other", "added", "section"),
    [
        (policy(mode("plan", "read", "grep", section=OTHER)), (), OTHER),
        (policy(mode("plan", "read", "write", "grep")), ("write",), SECTION),
        (policy(mode("plan", "read", "grep", section="")), (), ""),
    ],
    ids=["section", "tool", "no-section"],
)
def test_a_new_policy_writes_a_delta(other: Policy, added: tuple[str, ...], section: str) -> None:
    session = Session()
    step(session, request("read", "write"))
    session.policy = other
    (delta,) = step(session, request("read", "write"))
    assert isinstance(delta, RequestHeaderDelta)
    assert (delta.added, delta.removed) == (tools(*added), ())
    assert delta.section == (digest(section) if section else "")


def test_a_new_hash_alone_writes_a_delta() -> None:
    session = Session()
    step(session, request("read"))
    session.policy = Policy("other", session.policy.modes)
    (delta,) = step(session, request("read"))
    assert isinstance(delta, RequestHeaderDelta)
    assert (delta.policy, delta.added, delta.removed) == ("other", (), ())


def test_a_new_mode_writes_a_delta_and_default_nothing() -> None:
    rules = replace(policy(mode("plan", "read"), mode("look", "read")), narrate=False)
    session = Session(rules=rules)
    step(session, request("read"))
    session.set_mode("default")
    assert step(session, request("read")) == []
    session.set_mode("look")
    (delta,) = step(session, request("read"))
    assert isinstance(delta, RequestHeaderDelta)
    assert (delta.mode, delta.added) == ("look", ())


def test_each_lane_has_a_header_of_its_own() -> None:
    session = Session()
    title = {"model": "m", "messages": [{"role": "user", "content": "Name this chat"}]}
    (first,) = step(session, request("read"))
    (second,) = step(session, title)
    assert isinstance(first, RequestHeader)
    assert isinstance(second, RequestHeader)
    assert first.lane != second.lane
    assert (second.tools, second.section) == ((), "")
    assert step(session, request("read")) == step(session, title) == []


def test_the_event_says_what_the_dialect_kept() -> None:
    dialect = CHAT
    in_force = Session().in_force()
    body = b'{"messages":[],"tools":[{"type":"function","function":{"name":"read"}}]}'
    assembled, event = assemble(dialect, dialect.read(RequestBody(body)), LANE, in_force)
    assert isinstance(assembled, Assembled)
    assert event == RequestHeader(LANE, "plan", POLICY.hash, tools("read"), digest(SECTION))


# Requests that declare no tools.


def refused(got: Got) -> str:
    assert got.requests == []
    assert got.head is not None
    assert got.head.status == 400
    return str(got.json["error"]["message"])


@pytest.mark.parametrize("empty", [{}, {"tools": []}, {"tools": None}, {"functions": []}])
@pytest.mark.parametrize(("without", "guided"), [("pass", False), ("guide", True)])
def test_b025_without_tools_there_is_no_section_unless_policy_says(
    without: Any, guided: bool, empty: dict[str, Any]
) -> None:
    rules = policy(mode("plan", "read", without_tools=without))
    got = Session(rules=rules).step({**request(), **empty}, [said()])
    assert (SECTION.encode() in got.requests[0]) is guided
    (header,) = got.events
    assert isinstance(header, RequestHeader)
    assert header.section == (digest(SECTION) if guided else "")


@pytest.mark.parametrize("empty", [{}, {"tools": []}, {"tools": None}])
def test_without_tools_a_request_can_be_refused(empty: dict[str, Any]) -> None:
    session = Session(rules=policy(mode("plan", "read", without_tools="refuse")))
    message = refused(session.step({**request(), **empty}, [said()]))
    assert "without_tools: refuse" in message
    assert "'plan'" in message
    # One that declares some is not, though none of them stays.
    got = session.step(request("write"), [said()])
    assert SECTION.encode() in got.requests[0]


@pytest.mark.parametrize(
    ("own", "parents", "section"),
    [
        ("pass", "pass", ""),
        ("guide", "pass", "OWN\n\nPARENTS"),
        ("pass", "guide", "OWN\n\nPARENTS"),
        ("guide", "refuse", None),
        ("refuse", "pass", None),
    ],
)
def test_of_two_modes_the_stricter_wish_counts(own: Any, parents: Any, section: str | None) -> None:
    rules = policy(
        mode("one", "read", section="OWN", without_tools=own),
        mode("two", "read", section="PARENTS", without_tools=parents),
    )
    states = [_in(name) for name in ("one", "two")]
    in_force = modes_in_force(
        rules, list(zip((SessionId("c"), SessionId("p")), states, strict=True))
    )
    asked = CHAT.read(RequestBody(b'{"messages":[]}'))
    if section is None:
        with pytest.raises(Refusal, match=r"without_tools: refuse"):
            section_for(asked, in_force)
    else:
        assert section_for(asked, in_force) == section


def _in(name: str) -> State:
    """A session in a mode that no person set."""
    return fold(State(), Record(Seq(1), 0, "policy", ModeSet(ModeId(name))))


def test_a_child_and_its_parent_offer_what_both_allow() -> None:
    rules = policy(mode("one", "read", "grep", section="A"), mode("two", "read", "ls", section="B"))
    in_force = modes_in_force(rules, [(SessionId("c"), _in("one")), (SessionId("p"), _in("two"))])
    asked = CHAT.read(
        RequestBody(
            b'{"messages":[{"role":"user","content":"x"}],"tools":[{"name":"read"},{"name":"grep"},{"name":"ls"}]}'
        )
    )
    assembled, event = assemble(CHAT, asked, LANE, in_force)
    assert assembled.tools == tools("read")
    assert b'"A\\n\\nB"' in assembled.body
    assert isinstance(event, RequestHeader)
    assert event.mode == "one+two"
