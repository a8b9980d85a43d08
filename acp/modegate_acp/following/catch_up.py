"""From what a client was last shown of a session to its newest state: the messages that tell it. Pure.

A client is not sent a message for each event. Whenever it can take messages, it is brought from the state
that it was last shown to the newest one. So a slow client skips what is no longer true, and a client that
attaches is asked what is open like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from modegate.core.ids import ModeId, Seq, SessionId
from modegate.core.log.approvals import Approval
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE, Held
from modegate.core.policy.model import Level, Policy
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import Message, write
from modegate_acp.render import questions, sessions


@dataclass(frozen=True)
class Outgoing:
    message: Message
    question: str | None = None
    """Id of the question that a person is shown by it."""

    @cached_property
    def text(self) -> str:
        return write(self.message)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A session's state under a policy; what all of its followers are told of it is made once."""

    session: SessionId
    state: State
    policy: Policy
    held: Held = ALONE
    """Whose mode holds it too."""

    @property
    def age(self) -> tuple[int, int]:
        """Which of two is newer: events of the session, and of those that it follows."""
        return (self.state.seq, self.held.age)

    @property
    def mode(self) -> ModeId:
        """The mode in force: the session's own, or its parent's."""
        return self.held.mode(self.state.mode)

    @cached_property
    def modes(self) -> Message:
        return sessions.modes(self.policy, self.state, self.held)

    @property
    def options(self) -> list[Message]:
        return sessions.options(self.policy, self.state, self.held)

    @cached_property
    def mode_update(self) -> Outgoing:
        return Outgoing(sessions.mode_update(self.session, self.state, self.held))

    @cached_property
    def option_update(self) -> Outgoing:
        return Outgoing(sessions.option_update(self.session, self.policy, self.state, self.held))


@dataclass(frozen=True, slots=True)
class Perspective:
    """A snapshot as one client may see it, now."""

    snapshot: Snapshot
    peer: Peer
    level: Level
    now_ms: int
    can_ask: bool = True
    """Whether its person can be asked now."""


@dataclass(frozen=True, slots=True)
class Asked:
    rpc: str | None
    """Id of the request that asked; None where it was only shown, or where the client has replied."""
    offered: tuple[str, ...]
    expires: int


@dataclass(frozen=True, slots=True)
class LastShown:
    """What a connection was shown of a session."""

    age: tuple[int, int]
    mode_seq: Seq
    modes: Message
    held: Held = ALONE
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """By the question's id."""
    commands: bool = False
    """It was told what can be typed as a prompt."""


NOTHING = LastShown((-1, -1), Seq(-1), {})


def begin(now: Perspective) -> LastShown:
    """Return what an answer to new, load or resume shows; questions come after it, by `catch_up`."""
    shown = now.snapshot
    return LastShown(shown.age, shown.state.mode_seq, shown.modes, shown.held)


def catch_up(
    before: LastShown, now: Perspective, new_id: Callable[[], str]
) -> tuple[LastShown, list[Outgoing]]:
    """Return what the client has been shown then, and what is to be sent for it.

    A state that is older than what was shown changes nothing. `new_id` gives ids that are never given twice.
    """
    if now.snapshot.age < before.age:
        return before, []
    out = [] if before.commands else [Outgoing(sessions.commands(now.snapshot.session))]
    out += _mode(before, now.snapshot, options=now.peer.options)
    asked, about = _questions(before, now, new_id)
    return replace(begin(now), asked=asked, commands=True), out + about


def _mode(before: LastShown, now: Snapshot, *, options: bool) -> list[Outgoing]:
    same = now.modes == before.modes and now.held.by == before.held.by
    if same and now.state.mode_seq == before.mode_seq:
        return []
    return [now.mode_update, now.option_update] if options else [now.mode_update]


def _questions(
    before: LastShown, now: Perspective, new_id: Callable[[], str]
) -> tuple[dict[str, Asked], list[Outgoing]]:
    is_open = {
        name: one for name, one in now.snapshot.state.approvals.items() if _open(one, now.now_ms)
    }
    out: list[Outgoing] = []
    asked: dict[str, Asked] = {}
    for name, known in before.asked.items():
        if name in is_open:
            asked[name] = replace(known, expires=is_open[name].ends)
        else:
            out += _over(name, known, now.snapshot)
    for name, one in is_open.items():
        if name not in asked and now.can_ask:
            asked[name], about = _ask(one, now, new_id)
            out += about
    return asked, out


def _open(approval: Approval, now_ms: int) -> bool:
    return approval.open and now_ms < approval.ends


def _ask(
    approval: Approval, now: Perspective, new_id: Callable[[], str]
) -> tuple[Asked, list[Outgoing]]:
    session, call = now.snapshot.session, questions.tool_call(approval)
    out = [Outgoing(questions.new_tool_call(session, call))]
    may = questions.may_choose(approval.asked, now.level, one_way=now.peer.one_way)
    if not may:
        return Asked(None, (), approval.ends), out
    if now.peer.title_only:
        text = questions.as_text(approval, may, one_way=now.peer.one_way)
        out.append(Outgoing(sessions.agent_message(session, text)))
    rpc = new_id()
    request = questions.permission(rpc, session, call, questions.choices(may))
    out.append(Outgoing(request, question=approval.asked.id))
    return Asked(rpc, tuple(one.id for one in may), approval.ends), out


def _over(name: str, before: Asked, now: Snapshot) -> list[Outgoing]:
    ended = now.state.approvals.get(name)
    well = ended is not None and ended.approved
    out = [Outgoing(questions.cancel_request(before.rpc))] if before.rpc is not None else []
    settled = questions.tool_call_update(
        now.session, name, well=well, how=questions.how_it_ended(ended)
    )
    return [*out, Outgoing(settled)]


def replied(shown: LastShown, name: str) -> LastShown:
    """Note that the client has answered: it is neither asked again nor told to forget the question."""
    before = shown.asked.get(name)
    if before is None:
        return shown
    return replace(shown, asked={**shown.asked, name: replace(before, rpc=None)})


def forget(shown: LastShown, *names: str) -> LastShown:
    """Forget that questions were asked: they are then asked again."""
    return replace(shown, asked={one: a for one, a in shown.asked.items() if one not in names})
