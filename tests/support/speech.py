"""One way to tell a story in every dialect, streamed and whole: what is asked, what is heard, what is kept.

A `Speech` is a dialect and a form. Upstream's answers are `Turn`s, written by the scripted model. What
the client got and what the model was shown is read by strict readers (`speech_chat` and the like), which know
nothing of the code under test and raise where an answer or a history is not what its API allows. An `Agent`
keeps its history as agents do: the answer as it came, and a result for each call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from modegate.core.errors import DialectName
from modegate.core.policy.model import Policy
from modegate.core.step.dialect import AnyDialect
from modegate.scripted.model import Answer, ScriptDialect, Turn, render
from support.playbook import POLICY, Cut, Got, Reply, Session, whole

Json = dict[str, Any]
History = list[Json]


@dataclass(frozen=True)
class Called:
    """A call that a client got."""

    name: str
    arguments: str
    id: str
    custom: bool = False


@dataclass(frozen=True)
class Heard:
    """What a client makes of an answer."""

    id: str = ""
    text: str = ""
    """Texts that are told apart are joined by a blank line."""
    reasoning: str = ""
    calls: tuple[Called, ...] = ()
    finish: str = ""
    """`stop`, `calls`, `length` or `filter`; empty if the answer has no end."""
    usage: tuple[int, int] | None = None
    """Tokens of the prompt, and of the answer."""
    error: str = ""
    kept: tuple[Json, ...] = ()
    """The answer as it goes back into the history."""

    @property
    def names(self) -> list[str]:
        """The names of its calls."""
        return [call.name for call in self.calls]


@dataclass(frozen=True)
class Entry:
    """One thing that a request tells its model."""

    kind: str
    """`system`, `user`, `says`, `thinks`, `call` or `result`."""
    text: str = ""
    """Of a call: its arguments."""
    name: str = ""
    id: str = ""


class Api(Protocol):
    """What tells one API from another."""

    script: ScriptDialect

    def dialect(self) -> AnyDialect:
        """Return the dialect under test."""
        ...

    def request(self, history: History, tools: Sequence[str], *, streamed: bool) -> Json:
        """Return a request, with this system text: `SYSTEM`."""
        ...

    def user(self, text: str) -> Json:
        """Return a user's message."""
        ...

    def results(self, results: Sequence[tuple[Called, str]]) -> History:
        """Return the results of calls as they go into the history."""
        ...

    def heard(self, body: bytes, *, streamed: bool) -> Heard:
        """Read an answer; raises AssertionError if it is not what the API allows."""
        ...

    def told(self, request: Json) -> list[Entry]:
        """Read a request; raises AssertionError if the API would not take its history."""
        ...

    def tools(self, request: Json) -> list[str]:
        """Return the names of the tools that a request declares."""
        ...

    def without_reasoning(self, kept: Sequence[Json]) -> History:
        """Return an answer as agents keep it that send no reasoning back."""
        ...


SYSTEM = "You are an agent."

Say = Turn | Answer | Reply
"""An answer of the upstream: what the model says, or how an answer goes wrong."""


@dataclass(frozen=True)
class Speech:
    """A dialect in one form."""

    name: DialectName
    api: Api
    streamed: bool

    def __str__(self) -> str:
        """Name it in a test's id."""
        return f"{self.name}-{'streamed' if self.streamed else 'whole'}"

    def reply(self, say: Say, asked: bytes) -> Reply:
        """Return the upstream's answer to what it was asked."""
        if isinstance(say, Reply):
            return say
        answer = say if isinstance(say, Answer) else Answer(say)
        done = render(answer, self.api.script.read(asked), self.api.script)
        return Reply(b"".join(done.pieces), list(done.headers), done.status, done.cut)

    def heard(self, got: Got) -> Heard:
        """Read what the client got."""
        assert got.head is not None
        if got.head.status >= 400:
            return Heard(error=error_of(got.json))
        return self.api.heard(got.body, streamed=self.streamed)

    def told(self, got: Got, hop: int = -1) -> list[Entry]:
        """Read what the model was told in a hop."""
        return self.api.told(json.loads(got.requests[hop]))

    def tools(self, got: Got, hop: int = -1) -> list[str]:
        """Return the tools that the model was shown in a hop."""
        return self.api.tools(json.loads(got.requests[hop]))


@dataclass
class Agent:
    """An agent that speaks one dialect."""

    speech: Speech
    rules: Policy = POLICY
    mode: str = "plan"
    tools: tuple[str, ...] = ("read", "grep", "write")
    history: History = field(default_factory=list)
    session: Session = field(init=False)
    got: Got = field(init=False)
    """What came of the last step."""

    def __post_init__(self) -> None:
        """Begin a session."""
        self.session = Session(self.mode, self.rules, self.speech.api.dialect())
        self.history = self.history or [self.speech.api.user("rename foo")]

    def step(self, *says: Say, cut: Cut = whole) -> Heard:
        """Send the history; the model's hops answer so, the last of them again and again."""
        api = self.speech.api
        body = api.request(self.history, self.tools, streamed=self.speech.streamed)
        replies = [self._replier(say) for say in says]
        self.got = self.session.step(body, replies, cut=cut)
        return self.speech.heard(self.got)

    def _replier(self, say: Say) -> Callable[[bytes], Reply]:
        return lambda asked: self.speech.reply(say, asked)

    def keep(self, heard: Heard, *, reasoning: bool = True) -> None:
        """Put an answer into the history, and the results of its calls."""
        kept = list(heard.kept)
        self.history += kept if reasoning else self.speech.api.without_reasoning(kept)
        if heard.calls:
            results = [(call, f"ran {call.name}") for call in heard.calls]
            self.history += self.speech.api.results(results)

    def user(self, text: str) -> None:
        """Say something more."""
        self.history.append(self.speech.api.user(text))

    def told(self, hop: int = -1) -> list[Entry]:
        """Return what the model was told in a hop of the last step."""
        return self.speech.told(self.got, hop)

    def shown(self, hop: int = -1) -> list[str]:
        """Return the tools that the model was shown in a hop of the last step."""
        return self.speech.tools(self.got, hop)


def error_of(body: Any) -> str:
    """Read an error's body, which all three APIs put under `error`."""
    message = body["error"]["message"]
    assert isinstance(message, str)
    return message


def data_frames(body: bytes) -> Iterable[tuple[str, str]]:
    """Yield the name and data of each whole event of a stream; comments are passed over."""
    *blocks, rest = body.decode().split("\n\n")
    assert not rest, "the stream ends within a frame"
    for block in blocks:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        fields = [line.partition(": ") for line in lines]
        assert {name for name, _, _ in fields} <= {"event", "data"}, block
        (data,) = [value for name, _, value in fields if name == "data"]
        named = [value for name, _, value in fields if name == "event"]
        yield (named or [""])[0], data


def named_events(body: bytes) -> list[Json]:
    """Return the events of a stream in which each is named by its type."""
    events = []
    for name, data in data_frames(body):
        event = json.loads(data)
        assert event["type"] == name
        events.append(event)
    return events


def pairs(calls: Sequence[Entry], results: Mapping[str, str]) -> list[Entry]:
    """Check that each call has its one result; give the results in the order of the calls."""
    ids = [call.id for call in calls]
    assert len(set(ids)) == len(ids), "two calls with one id"
    assert sorted(ids) == sorted(results), "calls and results do not belong together"
    return [Entry("result", results[one], id=one) for one in ids]
