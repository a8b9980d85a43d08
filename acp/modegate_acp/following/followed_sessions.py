"""The sessions that one connection follows: what it is shown of them, and what its person is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from modegate.core.errors import ModegateError, NotOpen
from modegate.core.ids import Seq, SessionId, SessionKey
from modegate.core.levels import to_answer
from modegate.core.log.fold import State
from modegate.core.log.parents import Held
from modegate.core.policy.model import Level
from modegate.server.extension import Services
from modegate.server.proxy.sessions import held_by
from modegate_acp.following.catch_up import (
    LastShown,
    Out,
    Perspective,
    Snapshot,
    begin,
    catch_up,
    forget,
    replied,
)
from modegate_acp.following.client_requests import Replies
from modegate_acp.following.permissions import Abstained, Chosen, outcome
from modegate_acp.following.running_prompts import Prompts
from modegate_acp.following.send_queue import Outbox
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import INVALID_REQUEST, Message, Reply, RpcError
from modegate_acp.render import sessions as render

logger = logging.getLogger(__name__)

MAX_SESSIONS = 256
"""Sessions that one connection may follow."""

SHOWN_S = 1.0
"""Within this time the clients of every process are shown a question. Who dismisses it sooner, which only a
machine does, must not have said no before others could see it."""

_NOTHING = LastShown((-1, -1), Seq(-1), {})


class Feed(Protocol):
    """Where the news of sessions come from, and what else the process's connections share."""

    def attach(self, key: SessionKey, follower: Following) -> None:
        """Offer the follower what the log brings about a session, from now on."""
        ...

    def detach(self, key: SessionKey, follower: Following) -> None:
        """Offer it no more."""
        ...

    def missed(self, key: SessionKey) -> None:
        """Offer a session's state to its followers again, as soon as it can be read."""
        ...

    def follows(self, key: SessionKey, held: Held) -> None:
        """Offer a session's state also when one of its parents changes."""
        ...

    def followers(self, key: SessionKey) -> frozenset[Following]:
        """Return the session's followers."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something to its end, also if its client goes away meanwhile."""
        ...


class Viewer(Protocol):
    """Whose eyes it is shown to."""

    id: str
    """Names the connection, and none of before."""

    @property
    def peer(self) -> Peer | None:
        """The client."""
        ...

    @property
    def level(self) -> Level | None:
        """What its token may do; None once it is no token any more."""
        ...

    def key(self, session: SessionId) -> SessionKey:
        """Return a session's key."""
        ...

    def need(self, level: Level, what: str) -> None:
        """Raise unless the token's level covers this one."""
        ...

    def by(self, method: str) -> str:
        """Name the person for the log."""
        ...


class Following:
    """One connection's sessions and its questions; all on the event loop."""

    def __init__(self, shared: Services, feed: Feed, viewer: Viewer, *, split: bool) -> None:
        """Follow nothing yet; `split` if each session has a stream of its own."""
        self.outbox = Outbox(self._refresh, split=split)
        self._shared = shared
        self._feed = feed
        self._viewer = viewer
        self._fed: set[SessionId] = set()
        self._shown: dict[SessionId, LastShown] = {}
        self._newest: dict[SessionId, Snapshot] = {}
        self.replies = Replies(self.send, shared.clock.new_id)
        self._telling: dict[str, asyncio.Task[None]] = {}
        """For each question that its person is shown: the log is being told so, or has been."""
        self._prompts = Prompts()
        self._deciding: set[str] = set()
        """Questions of which an answer is on its way to the log."""

    def __contains__(self, session: SessionId) -> bool:
        """Return whether it follows a session."""
        return session in self._shown

    def send(self, session: SessionId | None, message: Message) -> None:
        """Let a message wait for its turn."""
        self.outbox.put(session, Out(message))

    # What is shown.

    def begin(self, session: SessionId) -> None:
        """Be fed from now on: before the state is read, so that nothing falls between.

        Raises:
            RpcError: too many sessions are followed already.
        """
        if session not in self._fed and len(self._fed) >= MAX_SESSIONS:
            raise RpcError(INVALID_REQUEST, f"a connection may follow {MAX_SESSIONS} sessions")
        if self.outbox.closed:
            raise RpcError(INVALID_REQUEST, "this connection is over")
        self._fed.add(session)
        self._feed.attach(self._viewer.key(session), self)

    def show(self, session: SessionId, state: State, held: Held) -> None:
        """Note that an answer shows this state; what it does not show, such as questions, comes after it."""
        self._withdraw(session)
        self._feed.follows(self._viewer.key(session), held)
        news = self.news(session, state, held)
        self._shown[session] = begin(self._view(news))
        self.offer(news)

    def end(self, session: SessionId) -> None:
        """Be fed no more, and leave its questions to others."""
        self._feed.detach(self._viewer.key(session), self)
        self._fed.discard(session)
        for name in self._withdraw(session):
            self._leave(session, name)
        gone = self._shown.pop(session, None)
        for name in gone.asked if gone else ():
            _ = self._telling.pop(name, None)
        self._newest.pop(session, None)
        self.outbox.release(session)

    def end_all(self) -> None:
        """Let go of everything."""
        self.outbox.close()
        for session in self._fed:
            self._feed.detach(self._viewer.key(session), self)
        for session, shown in self._shown.items():
            for name, asked in shown.asked.items():
                if asked.rpc is not None:
                    self._leave(session, name)
        self._fed.clear()
        self._shown.clear()
        self._newest.clear()
        self.replies.clear()

    def news(self, session: SessionId, state: State, held: Held) -> Snapshot:
        """Return a state as news, under the policy of now."""
        return Snapshot(session, state, self._shared.policies.current, held)

    def offer(self, news: Snapshot) -> None:
        """Take the newest of a session, to be told when there is room."""
        known = self._newest.get(news.session)
        if known is None or known.age <= news.age:
            self._newest[news.session] = news
        self.outbox.mark(news.session)

    def catch_up(self, session: SessionId, state: State, held: Held) -> None:
        """Tell of a state now, in front of the answer that follows."""
        self.offer(self.news(session, state, held))
        self._refresh(session)

    def tell_mode(self, session: SessionId, state: State, held: Held) -> None:
        """Tell the mode in force again, to a client that may show another one."""
        before = self._shown.get(session)
        if before is not None:
            self._shown[session] = replace(before, mode_seq=_NOTHING.mode_seq)
            self.catch_up(session, state, held)

    def again(self, session: SessionId) -> None:
        """Tell everything anew: what was sent may be lost, since the session's stream is another one now."""
        if session in self._shown:
            self._withdraw(session)
            self._shown[session] = _NOTHING
            self._start(self._look(session))

    async def _look(self, session: SessionId) -> None:
        key = self._viewer.key(session)
        try:
            state = await self._shared.folds.state(key)
            held = await held_by(self._shared.folds, key, state)
            self.offer(self.news(session, state, held))
        except ModegateError as error:
            logger.info("session %s cannot be shown now: %s", key, error)
            self._feed.missed(key)

    def expired(self, now_ms: int) -> list[SessionId]:
        """Return the sessions in which a question that was asked has expired."""
        return [
            session
            for session, shown in self._shown.items()
            if any(now_ms >= asked.expires for asked in shown.asked.values())
        ]

    @property
    def _peer(self) -> Peer:
        return self._viewer.peer or Peer()

    def _view(self, news: Snapshot) -> Perspective:
        level = self._viewer.level or Level.OBSERVE
        asks = self._asks(news.session)
        return Perspective(news, self._peer, level, self._shared.clock.now_ms(), asks)

    def _refresh(self, session: SessionId) -> None:
        news, before = self._newest.get(session), self._shown.get(session)
        if news is None or before is None or self._viewer.level is None:
            return
        del self._newest[session]
        now, out = catch_up(before, self._view(news), self.replies.new_rpc)
        self._shown[session] = now
        for name, asked in before.asked.items():
            if name not in now.asked:
                _ = self._telling.pop(name, None)
                if asked.rpc is not None:
                    _ = self.replies.forget(asked.rpc)
        for name, asked in now.asked.items():
            if asked.rpc is not None:
                self.replies.expect(asked.rpc, partial(self._answered, session, name))
        for one in out:
            self.outbox.put(session, one)
        changed = (before.mode_seq, before.held.by) != (now.mode_seq, now.held.by)
        if changed and before.mode_seq != _NOTHING.mode_seq:
            self.replies.outdate(session)
        self._prompts.moved(session)

    # What is asked.

    def _asks(self, session: SessionId) -> bool:
        """Return whether its person sees a question that is put now."""
        return self._peer.any_time or session in self._prompts

    async def ask_within_prompt(self, session: SessionId) -> None:
        """Put what is open to a person who sees it only while a prompt runs, and wait until it is over.

        What was dismissed in an earlier prompt is put again. A client that is asked at any time has been.
        """
        if self._peer.any_time or session not in self._shown:
            return
        key, folds = self._viewer.key(session), self._shared.folds
        try:
            with self._prompts.one(session) as moved:
                state = await folds.state(key)
                held = await held_by(folds, key, state)
                shown = self._shown.get(session, _NOTHING)
                again = (
                    name
                    for name, asked in shown.asked.items()
                    if asked.rpc is None and asked.offered and name not in self._deciding
                )
                self._shown[session] = forget(shown, *again)
                self.catch_up(session, state, held)
                while self._waits(session):
                    moved.clear()
                    await moved.wait()
        finally:
            if session not in self._prompts:
                for name in self._withdraw(session):
                    self._leave(session, name)

    def _waits(self, session: SessionId) -> bool:
        shown = self._shown.get(session, _NOTHING)
        return any(
            asked.rpc is not None or name in self._deciding for name, asked in shown.asked.items()
        )

    def sent(self, session: SessionId | None, out: Out) -> None:
        """Hear from the transport that a message is on its way: a person is now shown the question."""
        if out.asks is None or session is None:
            return
        shown = self._shown.get(session)
        asked = shown.asked.get(out.asks) if shown else None
        # What was withdrawn while it waited for its turn is shown to nobody.
        if asked is not None and asked.rpc is not None:
            self._telling[out.asks] = self._feed.spawn(self._delivered(session, out.asks))

    @property
    def _name(self) -> str:
        """The client, as the log names it."""
        return f"acp:{self._viewer.id}"

    async def _delivered(self, session: SessionId, name: str) -> None:
        via = f"acp:{self._peer.label}"
        try:
            key = self._viewer.key(session)
            await self._shared.approvals.delivered(key, name, via, self._name)
        except ModegateError as error:
            logger.warning("that question %s was shown is not in the log: %s", name, error)

    def _answered(self, session: SessionId, name: str, reply: Reply) -> None:
        asked = self._shown[session].asked[name]
        self._shown[session] = replied(self._shown[session], name)
        match outcome(reply, asked.offered):
            case Chosen(option):
                self._deciding.add(name)
                self._start(self._decide(session, name, option))
            case Abstained(cancelled, why):
                logger.info("question %s was not decided: %s", name, why)
                self._leave(session, name, dismissed=cancelled)
                self._prompts.moved(session)

    def abstain(self, session: SessionId) -> None:
        """Count every question of a session that waits at this client as cancelled by it."""
        for name in self._withdraw(session):
            self._leave(session, name, dismissed=True)

    def _leave(self, session: SessionId, name: str, *, dismissed: bool = False) -> None:
        """Leave a question to others; if there are none, and its person has dismissed it, it is a no."""
        others = self._feed.followers(self._viewer.key(session)) - {self}
        # The log knows who shows it on any process; here it is known too who is about to.
        level = self._viewer.level
        may = dismissed and level is not None and level.covers(Level.TIGHTEN)
        reject = may and not any(one.may_answer(session, name) for one in others)
        telling = self._telling.pop(name, None)
        # A client may answer before its transport has said that the question is on its way.
        if telling is not None or reject:
            with suppress(RuntimeError):  # the process ends, and its steps with it
                self._start(self._left(session, name, telling, reject=reject))

    async def _left(
        self, session: SessionId, name: str, telling: asyncio.Task[None] | None, *, reject: bool
    ) -> None:
        if telling is not None:
            await asyncio.wait([telling])
        by = self._viewer.by("request_permission") if reject else "gate"
        key, approvals = self._viewer.key(session), self._shared.approvals
        try:
            if reject:
                asked_at = (await approvals.look(key, name)).asked_at
                so_far = (self._shared.clock.now_ms() - asked_at) / 1000
                await asyncio.sleep(min(max(0.0, SHOWN_S - so_far), SHOWN_S))
            await approvals.left(key, name, self._name, by=by, reject=reject)
        except ModegateError as error:
            logger.warning("that question %s is shown no more is not in the log: %s", name, error)

    def may_answer(self, session: SessionId, name: str) -> bool:
        """Return whether its person can still answer a question, or is about to be asked."""
        shown, level = self._shown.get(session), self._viewer.level
        if shown is None or level is None or not level.covers(Level.TIGHTEN):
            return False
        asked = shown.asked.get(name)
        return self._asks(session) if asked is None else asked.rpc is not None

    async def _decide(self, session: SessionId, name: str, option: str) -> None:
        try:
            await self._answer(session, name, option)
            await self._look(session)
        finally:
            self._deciding.discard(name)
            # What became of it belongs in front of the end of the prompt that waits for it.
            self._refresh(session)
            self._prompts.moved(session)

    async def _answer(self, session: SessionId, name: str, option: str) -> None:
        """Append an answer. If that fails, it is asked again."""
        key, approvals = self._viewer.key(session), self._shared.approvals
        try:
            asked = (await approvals.look(key, name)).asked
            kind = next((one.kind for one in asked.options if one.id == option), "")
            self._viewer.need(to_answer(kind), f"answering {option!r}")
            by, modes = self._viewer.by("request_permission"), self._shared.policies.current.modes
            await approvals.answer(key, name, option, by=by, modes=modes)
        except NotOpen as error:
            logger.info("an answer to question %s came late: %s", name, error)
        except (ModegateError, RpcError) as error:
            logger.warning("an answer to question %s was not taken: %s", name, error)
            if session in self._shown:
                self._shown[session] = forget(self._shown[session], name)

    def _withdraw(self, session: SessionId) -> list[str]:
        """Take back what its person was asked in a session; give the questions."""
        shown = self._shown.get(session)
        names: list[str] = []
        for name, asked in shown.asked.items() if shown else ():
            if asked.rpc is not None:
                _ = self.replies.forget(asked.rpc)
                self.send(session, render.withdrawn(asked.rpc))
                self._shown[session] = replied(self._shown[session], name)
                names.append(name)
        return names

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        _ = self._feed.spawn(work)
