"""Lives through steps without a server: an exchange's effects are performed on lists and a fold.

A hop's answer is a `Reply`; its body can be cut into pieces at any place, which must change nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.errors import ModegateError, UpstreamFailed
from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionId, StepId
from modegate.core.log.approval_events import ApprovalAsked, ApprovalDetached, ApprovalJoined
from modegate.core.log.approvals import Approval
from modegate.core.log.events import Event, ModeSet
from modegate.core.log.fold import State, fold
from modegate.core.log.open_questions import answer as person_answers
from modegate.core.log.open_questions import joinable, kept, replaced
from modegate.core.log.records import Record
from modegate.core.policy.in_force import ModesInForce, modes_in_force
from modegate.core.policy.model import Effect as RuleEffect
from modegate.core.policy.model import Limits, Mode, Policy, Rule
from modegate.core.policy.waiting import abandoned
from modegate.core.policy.when import When
from modegate.core.step.answer.relayed import Passed
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import (
    Abandon,
    Append,
    AskPerson,
    CallUpstream,
    Count,
    Counted,
    Effect,
    Finish,
    Headers,
    KeepOpen,
    Learned,
    ReadBlobs,
    ReadState,
    SendBytes,
    SendHead,
    StopUpstream,
    StoreBlobs,
)
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.request_body import RequestBody

STREAM: Headers = [(b"content-type", b"text/event-stream")]
JSON: Headers = [(b"content-type", b"application/json")]
PLAN = ModeId("plan")
SECTION = "PLAN-SECTION"


def mode(name: str, *tools: str | Rule, section: str = SECTION, **more: Any) -> Mode:
    """Make a mode of rules, and of tools that it allows."""
    rules = tuple(tool if isinstance(tool, Rule) else rule(tool) for tool in tools)
    return Mode(ModeId(name), name.title(), "", section, rules, **more)


def rule(tool: str, when: When | None = None, effect: RuleEffect = RuleEffect.ALLOW) -> Rule:
    """Make a rule."""
    return Rule(effect, tool, when)


def policy(*modes: Mode, limits: Limits | None = None) -> Policy:
    """Make a policy of these modes."""
    return Policy("h" * 16, {one.id: one for one in modes}, limits=limits or Limits())


POLICY = policy(mode("plan", "read", "grep"))


@dataclass(frozen=True)
class Reply:
    """One hop's answer of the upstream."""

    body: bytes
    headers: Headers = field(default_factory=lambda: list(STREAM))
    status: int = 200
    broken: bool = False
    """It breaks off after the body."""


Answers = Reply | bytes | Callable[[bytes], Reply]
"""An answer of the upstream, or what makes one of the request that it is asked."""


@dataclass
class Got:
    """What came of a step."""

    head: SendHead | None = None
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    upstream_headers: list[Headers] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)
    finish: Finish | None = None
    asked: list[ApprovalAsked] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    kept_alive: int = 0

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def upstream(self) -> Any:
        """The last hop's request, decoded."""
        return json.loads(self.requests[-1])


Cut = Callable[[bytes], Iterable[bytes]]


def whole(body: bytes) -> Iterable[bytes]:
    """Return a body in one piece."""
    return [body] if body else []


def bytewise(body: bytes) -> Iterable[bytes]:
    """Return a body byte by byte."""
    return (body[i : i + 1] for i in range(len(body)))


def pieces_of(size: int) -> Cut:
    """Return a body in pieces of so many bytes."""
    return lambda body: (body[i : i + size] for i in range(0, len(body), size))


def at_every_byte(apart: int = 32) -> list[Cut]:
    """Return ways to cut a body that between them cut it at every byte, each at places so many bytes apart.

    One way for each byte would feed a body as many times as it has bytes.
    """

    def cut_from(first: int) -> Cut:
        return lambda body: cut_at(*range(first, len(body), apart))(body)

    return [cut_from(first) for first in range(1, apart + 1)]


def cut_at(*places: int) -> Cut:
    """Return a body in pieces that end at these places."""

    def cut(body: bytes) -> Iterable[bytes]:
        ends = [0, *sorted(p for p in places if 0 < p < len(body)), len(body)]
        return [body[a:b] for a, b in pairwise(ends)]

    return cut


class Session:
    """A session whose log is a list."""

    def __init__(
        self, mode_id: str = "plan", rules: Policy = POLICY, dialect: AnyDialect | None = None
    ) -> None:
        self.policy = rules
        self.dialect = dialect or CHAT
        self.state = State()
        self.blobs: dict[str, bytes] = {}
        self.events: list[Event] = []
        self.person: Callable[[ApprovalAsked], None] | None = None
        """What a person does who is asked, such as `settle`."""
        self.during: Callable[[], None] | None = None
        """Done when a call is about to be judged, as a person might."""
        self.waits = False
        """Whatever the step waits for takes so long that the client is kept alive."""
        self.log_fails: ModegateError | None = None
        """Raised by every durable append."""
        self.breaks: type | None = None
        """The kind of effect that cannot be performed, once, after `performs` of them were."""
        self.performs = 0
        self.learned: dict[str, Manner] = {}
        """What its upstream was found to take."""
        self._steps = 0
        if mode_id != DEFAULT_MODE:
            self.set_mode(mode_id)

    def set_mode(self, name: str) -> None:
        """Do what a person does."""
        self.append([ModeSet(ModeId(name))], by="person:test")

    def append(self, events: Iterable[Event], by: str = "agent") -> None:
        """Log and fold."""
        for event in events:
            record = Record(Seq(self.state.seq + 1), 0, by, event)
            self.state = fold(self.state, record)
            self.events.append(event)

    def ask(self, asked: ApprovalAsked) -> Approval:
        """Ask this session's person; without one the question is detached, as nobody is there."""
        joined = joinable(self.state.approvals, asked, 0)
        asked = replace(asked, expires=1)
        if joined is None:
            self.append([*replaced(self.state.approvals, asked), asked], by="gate")
        else:
            self.append([ApprovalJoined(joined, asked.step)], by="gate")
        name = joined or asked.id
        if self.person is not None:
            self.person(asked)
        if self.state.approvals[name].waited_for:
            self.append([ApprovalDetached(name, "nobody")], by="gate")
        return self.state.approvals[name]

    def settle(self, asked: ApprovalAsked, option: str = "approve", comment: str = "") -> None:
        """Answer a question as a person does."""
        events = person_answers(
            self.state.approvals,
            asked.id,
            option,
            comment=comment,
            now_ms=0,
            modes=self.policy.modes,
        )
        self.append(events, by="person:test")

    @property
    def newest(self) -> StepId:
        """The step that began last."""
        return StepId(f"{self._steps:020x}")

    def in_force(self) -> ModesInForce:
        """Return what the session stands under."""
        return modes_in_force(self.policy, [(SessionId("s"), self.state)])

    def overtaken(
        self,
        body: dict[str, Any],
        replies: Sequence[Answers],
        *,
        after: int | None,
        cut: Cut = whole,
    ) -> Got:
        """Live through a step that passes raw until so many bytes have gone and a person sets plan.

        With None, that comes before the answer's head.
        """
        raw = json.dumps(body).encode()
        self._steps += 1
        exchange = Exchange(self.dialect, StepRequest(self.newest, [], RequestBody(raw)))
        return _Run(self, exchange, list(replies), cut).overtaken(raw, after)

    def step(
        self,
        body: bytes | dict[str, Any],
        replies: Sequence[Answers],
        *,
        cut: Cut = whole,
        headers: Headers | None = None,
        tighten_after: int | None = -1,
    ) -> Got:
        """Live through one step; the last reply is given again if there are more hops.

        A reply can be made from the request that it answers. A person may set plan once so many bytes have
        gone to the client (None: before the answer's head).
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._steps += 1
        request = StepRequest(self.newest, headers or [], RequestBody(raw), learned=self.learned)
        exchange = Exchange(self.dialect, request)
        return _Run(self, exchange, list(replies), cut, tighten_after).run()


class _Run:
    def __init__(
        self,
        session: Session,
        exchange: Exchange,
        replies: list[Answers],
        cut: Cut,
        tighten_after: int | None = -1,
    ) -> None:
        self.tighten_after = tighten_after
        self.session = session
        self.exchange = exchange
        self.replies = replies
        self.cut = cut
        self.got = Got()
        self.hop: Reply | None = None
        self.pieces: deque[bytes] = deque()

    def run(self) -> Got:
        self.perform(self.exchange.begin(self.session.in_force()))
        return self.go_on()

    def overtaken(self, asked: bytes, after: int | None) -> Got:
        before = self.session.in_force()
        hop = self.reply_to(asked)
        self.session.set_mode("plan")
        passed = None
        if after is not None:
            self.got.head = SendHead(hop.status, hop.headers)
            self.got.body = hop.body[:after]
            passed = Passed()
            for piece in self.cut(hop.body[:after]):
                passed.add(piece)
        self.pieces = deque(self.cut(hop.body[after or 0 :]))
        now = self.session.in_force()
        self.perform(self.exchange.overtake(before, now, hop.status, hop.headers, passed))
        return self.go_on()

    def go_on(self) -> Got:
        while self.got.finish is None:
            if self.hop is None:
                raise AssertionError("the exchange waits for nothing")
            self.silence()
            if len(self.got.body) == self.tighten_after:
                self.tighten()
            elif self.pieces:
                self.perform(self.exchange.upstream_data(self.pieces.popleft()))
            else:
                error = UpstreamFailed("it broke off") if self.hop.broken else None
                self.perform(self.exchange.upstream_end(error))
        return self.got

    def silence(self) -> None:
        """Let so much time go by that the client must hear something."""
        if self.session.waits:
            kept = self.exchange.keepalive()
            self.got.body += kept
            self.got.kept_alive += bool(kept)

    def perform(self, effects: list[Effect]) -> None:
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            self.got.order.append(type(effect).__name__)
            try:
                pending.extend(self.one(effect))
            except ModegateError as error:
                pending.clear()
                if self.got.finish is None:
                    head_sent = self.got.head is not None
                    pending += self.exchange.failed(error, head_sent=head_sent)

    def one(self, effect: Effect) -> list[Effect]:  # noqa: PLR0912 -- one branch an effect
        got, session = self.got, self.session
        if session.breaks is type(effect):
            session.performs -= 1
            if session.performs == -1:
                raise ModegateError("it cannot be done")
        match effect:
            case Append():
                if effect.durable and session.log_fails is not None:
                    raise session.log_fails
                got.events += effect.events
                session.append(effect.events)
            case StoreBlobs():
                session.blobs.update(effect.blobs)
            case ReadBlobs():
                found = {ref: session.blobs[ref] for ref in effect.refs if ref in session.blobs}
                return self.exchange.blobs(found)
            case ReadState():
                if session.during is not None:
                    session.during()
                return self.exchange.state(session.in_force())
            case AskPerson():
                got.asked.append(effect.asked)
                self.silence()
                return self.exchange.approval(session.ask(effect.asked), session.in_force())
            case Abandon():
                session.append(abandoned(session.state.approvals, effect.ids, 0))
            case KeepOpen():
                until = 1_000_000
                session.append(kept(session.state.approvals, session.newest, effect.ids, 0, until))
            case CallUpstream():
                return self.call(effect)
            case StopUpstream():
                self.pieces.clear()
            case SendHead():
                assert got.head is None, "two heads"
                got.head = effect
            case SendBytes():
                assert got.finish is None, "bytes after the end"
                got.body += effect.data
                got.pieces.append(effect.data)
            case Count():
                got.counts.append(effect.what)
            case Learned():
                session.learned[effect.model] = effect.manner
            case Finish():
                assert got.finish is None, "two ends"
                got.finish = effect
        return []

    def tighten(self) -> None:
        self.tighten_after = -1
        self.session.set_mode("plan")
        self.perform(self.exchange.tightened(self.session.in_force()))

    def reply_to(self, asked: bytes) -> Reply:
        self.got.requests.append(asked)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        reply = reply if isinstance(reply, Reply | bytes) else reply(asked)
        self.hop = reply if isinstance(reply, Reply) else Reply(reply)
        return self.hop

    def call(self, effect: CallUpstream) -> list[Effect]:
        self.got.upstream_headers.append(effect.headers)
        hop = self.reply_to(effect.body)
        if hop.status == 0:
            return self.exchange.upstream_end(UpstreamFailed("no connection"))
        self.pieces = deque(self.cut(hop.body))
        if self.tighten_after is None:
            self.tighten()
        self.silence()
        return self.exchange.upstream_head(hop.status, hop.headers)


# What upstreams send, in short.


def chunk(delta: dict[str, Any] | None, finish: str | None = None, index: int = 0) -> bytes:
    """Return one frame."""
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    return frame({"choices": [choice]})


def frame(value: dict[str, Any], n: int = 1) -> bytes:
    """Return one frame of any chunk."""
    head = {"id": f"chatcmpl-{n}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, **value}).encode() + b"\n\n"


def text(said: str) -> bytes:
    """Return a frame of text."""
    return chunk({"content": said})


def call(name: str, arguments: str = "{}", *, at: int = 0, id_: str | None = None) -> bytes:
    """Return a frame that is a whole call."""
    function = {"name": name, "arguments": arguments}
    one = {"index": at, "id": id_ or f"c{at}", "type": "function", "function": function}
    return chunk({"tool_calls": [one]})


def piece(**fields: Any) -> bytes:
    """Return a frame with one piece of a call."""
    return chunk({"tool_calls": [fields]})


DONE = b"data: [DONE]\n\n"
USAGE = frame(
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
)


def stream(*frames: bytes, finish: str | None = "tool_calls", done: bool = True) -> bytes:
    """Return a whole stream of frames, with its finish and end."""
    end = chunk(None, finish) if finish else b""
    return b"".join(frames) + end + (DONE if done else b"")


def said(words: str = "ok") -> bytes:
    """Return a stream that is only text."""
    return stream(text(words), finish="stop")


def answer(message: dict[str, Any], finish: str = "tool_calls", **more: Any) -> Reply:
    """Return a whole answer of one choice."""
    body = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "message": body, "finish_reason": finish}
    value = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "choices": [choice]}
    return Reply(json.dumps({**value, **more}).encode(), list(JSON))


def tool_call(name: str, arguments: str = "{}", id_: str = "c0") -> dict[str, Any]:
    """Return a call as a whole message holds it."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name: str) -> dict[str, Any]:
    """Return a tool definition."""
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def request(*tools: str, messages: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a request that declares these tools."""
    said_ = messages or [{"role": "user", "content": "rename foo"}]
    body: dict[str, Any] = {"model": "m", "messages": said_, **more}
    if tools:
        body["tools"] = [tool(name) for name in tools]
    return body


def read_stream(body: bytes) -> dict[int, dict[str, Any]]:
    """Put a stream together as a client that goes by index does: text, calls, finish for each choice."""
    choices: dict[int, dict[str, Any]] = {}
    for value in frames(body):
        for one in value.get("choices", ()):
            into = choices.setdefault(one["index"], {"text": "", "calls": {}, "finish": None})
            delta = one.get("delta") or {}
            into["text"] += delta.get("content") or ""
            into["finish"] = one.get("finish_reason") or into["finish"]
            for at, part in enumerate(delta.get("tool_calls") or ()):
                slot = into["calls"].setdefault(
                    part.get("index", at), {"name": "", "arguments": ""}
                )
                inner = part.get("function") or part.get("custom") or {}
                slot["name"] = inner.get("name") or slot["name"]
                more = inner.get("arguments", inner.get("input"))
                more = "" if more is None else more
                slot["arguments"] += more if isinstance(more, str) else json.dumps(more)
            if delta.get("function_call"):
                slot = into["calls"].setdefault("legacy", {"name": "", "arguments": ""})
                slot["name"] += delta["function_call"].get("name") or ""
                slot["arguments"] += delta["function_call"].get("arguments") or ""
    return choices


def frames(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON of every frame of a stream."""
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    data = [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]
    return [json.loads(one) for one in data if one and one != b"[DONE]"]
