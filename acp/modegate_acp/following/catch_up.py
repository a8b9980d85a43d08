"""What one connection was shown of one session, and what it must be told to catch up. Pure.

A connection is not sent a message for each event: it is brought from the state that it was last shown to
the newest one, whenever it can take messages. A slow client so skips what is no longer true, and a client
that attaches is asked what is open like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from modegate.core.ids import Seq, SessionId
from modegate.core.log.approvals import Approval
from modegate.core.log.fold import State
from modegate.core.log.parents import ALONE, Held
from modegate.core.policy.model import Level, Policy
from modegate_acp.following.permissions import offered
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import Message, write
from modegate_acp.render import sessions as render


@dataclass(frozen=True)
class Out:
    """A message to send, and the question that a person is then shown by it."""

    message: Message
    asks: str | None = None

    @cached_property
    def text(self) -> str:
        """What goes over the wire."""
        return write(self.message)


class Snapshot:
    """A session's state under a policy; what all of its followers are told of it is made once."""

    def __init__(
        self, session: SessionId, state: State, policy: Policy, held: Held = ALONE
    ) -> None:
        """Render nothing yet; `held` says whose mode holds it too."""
        self.session = session
        self.state = state
        self.policy = policy
        self.held = held

    @property
    def age(self) -> tuple[int, int]:
        """Which of two is newer: events of the session, and of those that it follows."""
        return (self.state.seq, self.held.age)

    @cached_property
    def modes(self) -> Message:
        """The mode in force, and those that can be set."""
        return render.modes(self.policy, self.state, self.held)

    @cached_property
    def mode(self) -> Out:
        """The update that tells the mode."""
        return Out(render.mode_update(self.session, self.state, self.held))

    @cached_property
    def options(self) -> Out:
        """The update that tells the mode as an option."""
        return Out(render.option_update(self.session, self.policy, self.state, self.held))


@dataclass(frozen=True, slots=True)
class Perspective:
    """News as one connection may see them, now."""

    news: Snapshot
    peer: Peer
    level: Level
    now_ms: int
    asks: bool = True
    """Whether its person can be asked now."""

    @property
    def session(self) -> SessionId:
        """The session."""
        return self.news.session

    @property
    def state(self) -> State:
        """Its state."""
        return self.news.state


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a connection was asked."""

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


def begin(view: Perspective) -> LastShown:
    """Return what an answer to new, load or resume shows; questions come after it, by `catch_up`."""
    state = view.state
    return LastShown(view.news.age, state.mode_seq, view.news.modes, view.news.held)


def catch_up(
    shown: LastShown, view: Perspective, new_rpc: Callable[[], str]
) -> tuple[LastShown, list[Out]]:
    """Return what is to be sent, and what the connection has been shown then.

    A state that is older than what was shown changes nothing. `new_rpc` gives ids that are never given twice.
    """
    if view.news.age < shown.age:
        return shown, []
    out = [] if shown.commands else [Out(render.commands(view.session))]
    out += _mode(shown, view)
    asked, about = _questions(shown, view, new_rpc)
    return replace(begin(view), asked=asked, commands=True), out + about


def _mode(shown: LastShown, view: Perspective) -> list[Out]:
    news = view.news
    same = news.modes == shown.modes and news.held.by == shown.held.by
    if same and news.state.mode_seq == shown.mode_seq:
        return []
    return [news.mode, news.options] if view.peer.options else [news.mode]


def _questions(
    shown: LastShown, view: Perspective, new_rpc: Callable[[], str]
) -> tuple[dict[str, Asked], list[Out]]:
    is_open = {name: one for name, one in view.state.approvals.items() if _open(one, view.now_ms)}
    out: list[Out] = []
    asked: dict[str, Asked] = {}
    for name, before in shown.asked.items():
        if name in is_open:
            asked[name] = replace(before, expires=is_open[name].ends)
        else:
            out += _over(name, before, view)
    for name, one in is_open.items():
        if name not in asked and view.asks:
            asked[name], about = _ask(one, view, new_rpc)
            out += about
    return asked, out


def _open(approval: Approval, now_ms: int) -> bool:
    return approval.open and now_ms < approval.ends


def _ask(
    approval: Approval, view: Perspective, new_rpc: Callable[[], str]
) -> tuple[Asked, list[Out]]:
    call = render.tool_call(approval)
    out = [Out(render.pending(view.session, call))]
    may = offered(approval.asked, view.level, one_way=view.peer.one_way)
    if not may:
        return Asked(None, (), approval.ends), out
    if view.peer.title_only:
        text = render.question(approval, may, one_way=view.peer.one_way)
        out.append(Out(render.said(view.session, text)))
    rpc = new_rpc()
    request = render.permission(rpc, view.session, call, render.choices(may))
    out.append(Out(request, asks=approval.asked.id))
    return Asked(rpc, tuple(one.id for one in may), approval.ends), out


def _over(name: str, before: Asked, view: Perspective) -> list[Out]:
    ended = view.state.approvals.get(name)
    well = ended is not None and ended.approved
    out = [Out(render.withdrawn(before.rpc))] if before.rpc is not None else []
    return [
        *out,
        Out(render.settled(view.session, name, well=well, how=render.ending(ended))),
    ]


def replied(shown: LastShown, name: str) -> LastShown:
    """Note that the client has answered, so that it is neither asked again nor told to forget it."""
    before = shown.asked.get(name)
    if before is None:
        return shown
    return replace(shown, asked={**shown.asked, name: replace(before, rpc=None)})


def forget(shown: LastShown, *names: str) -> LastShown:
    """Forget that questions were asked, so that they are asked again."""
    return replace(shown, asked={one: a for one, a in shown.asked.items() if one not in names})
