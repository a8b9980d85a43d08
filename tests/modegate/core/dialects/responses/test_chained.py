"""Requests whose history the provider holds: which lane they are in, and what is told in it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.approvals import Status
from modegate.core.log.events import NoticeGiven, RequestHeader, RequestHeaderDelta
from modegate.core.policy.model import Exit, ExitOption
from support.playbook import Got, Reply, Session, mode, policy
from support.responses import answer, call, message, session, tool, whole

Json = dict[str, Any]
EXIT = Exit((ExitOption("Approve", DEFAULT_MODE),))
RULES = policy(
    mode("plan", "read", "exit_plan_mode", exit=EXIT),
    mode("review", "read", "exit_plan_mode", section="REVIEW", exit=EXIT),
)
READ = call("read", '{"path":"a"}')


def submit(plan: str) -> Json:
    return call("exit_plan_mode", json.dumps({"plan": plan}))


@dataclass
class Agent:
    """A client that sends only what is new, and lets the provider keep the rest."""

    way: str
    streamed: bool = True
    session: Session = field(default_factory=lambda: session(rules=RULES))
    last: str = ""
    answers: int = 0

    def send(self, given: Any, *answers: list[Json], **more: Any) -> Got:
        body: Json = {"model": "m", "input": given, "tools": [tool("read"), tool("write")]}
        if self.streamed:
            body["stream"] = True
        if self.way == "conversation":
            body["conversation"] = "conv_1"
        elif self.way == "conversation object":
            body["conversation"] = {"id": "conv_1"}
        elif self.last:
            body["previous_response_id"] = self.last
        replies = [self._reply(items) for items in answers]
        got = self.session.step({**body, **more}, replies)
        found = re.search(rb'"(resp_\d+)"', got.body)
        self.last = found[1].decode() if found else self.last
        return got

    def _reply(self, items: list[Json]) -> Reply | bytes:
        self.answers += 1
        return (answer if self.streamed else whole)(*items, n=self.answers)

    @property
    def questions(self) -> list[tuple[str, str]]:
        return [
            (one.asked.text or one.why, one.status) for one in self.session.state.approvals.values()
        ]


WAYS = ["previous_response_id", "conversation", "conversation object"]


@pytest.fixture(params=[(way, s) for way in WAYS for s in (True, False)], ids=str)
def agent(request: pytest.FixtureRequest) -> Agent:
    way, streamed = request.param
    return Agent(way, streamed)


def test_g1_a_new_plan_takes_the_place_of_the_old_one(agent: Agent) -> None:
    """The user answered the first plan with words; the model submits another: only that one is open."""
    agent.send("first", [submit("A")], [message("nobody was there")])
    assert agent.questions == [("A", Status.DETACHED)]
    agent.send("no, never do that", [submit("B")], [message("nobody again")])
    assert agent.questions == [("abandoned", Status.CLOSED), ("B", Status.DETACHED)]


def test_g1_a_new_message_closes_the_question(agent: Agent) -> None:
    agent.send("first", [submit("A")], [message("nobody was there")])
    agent.send("what about b.py?", [message("hm")])
    assert agent.questions == [("abandoned", Status.CLOSED)]


def test_g1_the_same_words_again_are_a_new_message(agent: Agent) -> None:
    """`go on` behind another answer is another message, though the request holds the same item."""
    agent.send("go on", [message("well")])
    agent.send("go on", [submit("A")], [message("nobody was there")])
    agent.send("go on", [message("hm")])
    assert agent.questions == [("abandoned", Status.CLOSED)]


def test_g1_a_plan_within_a_turn_supersedes(agent: Agent) -> None:
    """Tool results are no message of the user, so the question stays until the new plan comes."""
    agent.send("first", [submit("A")], [message("nobody"), READ])
    result = {"type": "function_call_output", "call_id": READ["call_id"], "output": "1"}
    agent.send([result], [submit("B")], [message("nobody again")])
    assert agent.questions == [("superseded", Status.CLOSED), ("B", Status.DETACHED)]


def test_g1_an_answer_is_known_before_its_end(agent: Agent) -> None:
    """The next request may come at once; in the default mode nothing depends on it."""
    agent.send("first", [message("a")])
    agent.session.log_fails = LogUnavailable("full")
    failed = agent.send("second", [message("b")])
    assert failed.finish is not None
    assert failed.finish.outcome == "log_unavailable"
    agent.session.log_fails = None
    agent.session.set_mode("default")
    agent.send("told of it", [message("c")])
    agent.session.log_fails = LogUnavailable("full")
    passed = agent.send("third", [message("d")])
    assert passed.finish is not None
    assert passed.finish.outcome == "answered"


def test_g1_one_header_and_deltas(agent: Agent) -> None:
    """One conversation is one lane: its header is logged once, a change of mode as a delta, with a notice."""
    agent.send("first", [message("a")])
    agent.send("second", [message("b")])
    agent.session.set_mode("review")
    third = agent.send("third", [message("c")])
    fourth = agent.send("fourth", [message("d")])
    events = agent.session.events
    assert len([one for one in events if isinstance(one, RequestHeader)]) == 1
    (delta,) = [one for one in events if isinstance(one, RequestHeaderDelta)]
    assert delta.mode == "review"
    assert len([one for one in events if isinstance(one, NoticeGiven)]) == 1
    assert third.upstream["input"] != "third"
    assert fourth.upstream["input"] == "fourth"


def test_g1_a_notice_is_given_once(agent: Agent) -> None:
    """The provider keeps it, so that it must not come again where the same words come again."""
    agent.send("go on", [message("a")])
    agent.session.set_mode("review")
    told = agent.send("go on", [message("b")])
    (notice,) = [one for one in agent.session.events if isinstance(one, NoticeGiven)]
    text = json.dumps(notice.text).encode()[1:-1]
    assert text in told.requests[0]
    assert text not in agent.send("go on", [message("c")]).requests[0]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_g1_the_same_request_again_is_told_the_same(*, streamed: bool) -> None:
    """A request that is sent again has the notice at the same place, and closes nothing."""
    agent = Agent("previous_response_id", streamed)
    agent.send("first", [message("a")])
    agent.session.set_mode("review")
    last = agent.last
    first = agent.send("second", [submit("A")], [message("nobody")])
    agent.last = last
    again = agent.send("second", [message("b")])
    assert first.requests[0] == again.requests[0]
    assert agent.questions == [("A", Status.DETACHED)]


def test_g1_a_request_without_tools_does_not_take_the_notice(agent: Agent) -> None:
    """What asks for a title within the chain is a lane of its own, and what goes on from it is not."""
    agent.send("first", [message("a")])
    agent.session.set_mode("review")
    agent.send("title?", [message("T")], tools=[])
    agent.send("second", [message("b")])
    (notice,) = [one for one in agent.session.events if isinstance(one, NoticeGiven)]
    headers = [one for one in agent.session.events if isinstance(one, RequestHeader)]
    assert notice.lane == headers[0].lane
    assert len(headers) == 2
    assert headers[1].lane != headers[0].lane


SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}


def said_by(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": text}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("history", "closes"),
    [
        ([SEALED, said_by("user", "no, never do that")], True),
        ([said_by("developer", "d"), SEALED, said_by("user", "no")], True),
        # Another conversation of the session, such as a sub-agent's.
        ([said_by("user", "look at b.py")], False),
        ([said_by("user", "look"), SEALED, said_by("user", "on")], False),
    ],
    ids=["compacted", "behind instructions", "another lane", "compacted later"],
)
def test_g1_a_history_that_was_compacted_away_leaves_no_stale_plan(
    history: list[Json], closes: bool, *, streamed: bool
) -> None:
    agent = Agent("previous_response_id", streamed)
    agent.send("first", [submit("A")], [message("nobody was there")])
    agent.last = ""
    agent.send(history, [message("hm")])
    assert agent.questions == [("abandoned", Status.CLOSED) if closes else ("A", Status.DETACHED)]
