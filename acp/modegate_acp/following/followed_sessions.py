"""The sessions that one connection follows, and what it is told of each."""

from __future__ import annotations

import logging
from dataclasses import replace

from modegate.core.errors import ModegateError
from modegate.core.ids import SessionId
from modegate.core.policy.model import Level
from modegate.server.extension import Services
from modegate_acp.following.catch_up import (
    NOTHING,
    LastShown,
    Outgoing,
    Perspective,
    Snapshot,
    begin,
    catch_up,
)
from modegate_acp.following.questions import Questions, Viewer
from modegate_acp.following.send_queue import SendQueue
from modegate_acp.following.session_feed import SessionFeed, read_snapshot
from modegate_acp.messages.jsonrpc import INVALID_REQUEST, Message, RpcError

logger = logging.getLogger(__name__)

MAX_SESSIONS = 256
"""Sessions that one connection may follow."""


class FollowedSessions:
    """One connection's sessions; all on the event loop."""

    def __init__(
        self, services: Services, feed: SessionFeed, viewer: Viewer, *, split: bool
    ) -> None:
        """Follow nothing yet; `split` if each session has a stream of its own."""
        self.send_queue = SendQueue(self.refresh, split=split)
        self.questions = Questions(services, feed, viewer, self)
        self.last_shown: dict[SessionId, LastShown] = {}
        self._services = services
        self._feed = feed
        self._viewer = viewer
        self._attached: set[SessionId] = set()
        self._newest: dict[SessionId, Snapshot] = {}
        self._anew: set[SessionId] = set()
        """Sessions whose questions were taken back, until those that are open are asked again."""

    def __contains__(self, session: SessionId) -> bool:
        return session in self.last_shown

    def shows_anew(self, session: SessionId) -> bool:
        return session in self._anew

    def send(self, session: SessionId | None, message: Message) -> None:
        self.send_queue.put(session, Outgoing(message))

    def begin(self, session: SessionId) -> None:
        """Be fed from now on: before the state is read, so that nothing falls between.

        Raises:
            RpcError: too many sessions are followed already.
        """
        if session not in self._attached and len(self._attached) >= MAX_SESSIONS:
            raise RpcError(INVALID_REQUEST, f"a connection may follow {MAX_SESSIONS} sessions")
        if self.send_queue.closed:
            raise RpcError(INVALID_REQUEST, "this connection is over")
        self._attached.add(session)
        self._feed.attach(self._viewer.key(session), self)

    def show(self, snapshot: Snapshot) -> None:
        """Note that an answer shows this state; what it does not show, such as questions, comes after it."""
        session = snapshot.session
        self.questions.withdraw(session)
        self._anew.add(session)
        self._feed.follow_parents(self._viewer.key(session), snapshot.held)
        self.last_shown[session] = begin(self._perspective(snapshot))
        self.offer(snapshot)

    def end(self, session: SessionId) -> None:
        """Be fed no more, and leave its questions to others."""
        self._feed.detach(self._viewer.key(session), self)
        self._attached.discard(session)
        self.questions.leave_all(session)
        self.questions.gone(self.last_shown.pop(session, NOTHING))
        self._newest.pop(session, None)
        self._anew.discard(session)
        self.send_queue.release(session)

    def end_all(self) -> None:
        self.send_queue.close()
        for session in self._attached:
            self._feed.detach(self._viewer.key(session), self)
        self.questions.end()
        self._attached.clear()
        self.last_shown.clear()
        self._newest.clear()
        self._anew.clear()

    def offer(self, snapshot: Snapshot) -> None:
        known = self._newest.get(snapshot.session)
        if known is None or known.age <= snapshot.age:
            self._newest[snapshot.session] = snapshot
        self.send_queue.mark(snapshot.session)

    def catch_up(self, snapshot: Snapshot) -> None:
        self.offer(snapshot)
        self.refresh(snapshot.session)

    def tell_mode(self, snapshot: Snapshot) -> None:
        """Tell the mode in force again, to a client that may show another one."""
        before = self.last_shown.get(snapshot.session)
        if before is not None:
            self.last_shown[snapshot.session] = replace(before, mode_seq=NOTHING.mode_seq)
            self.catch_up(snapshot)

    def again(self, session: SessionId) -> None:
        """Tell everything anew: what was sent may be lost, since the session's stream is another one now."""
        if session in self:
            self.questions.withdraw(session)
            self._anew.add(session)
            self.last_shown[session] = NOTHING
            _ = self._feed.spawn(self.reread(session))

    async def reread(self, session: SessionId) -> None:
        key = self._viewer.key(session)
        try:
            self.offer(await read_snapshot(self._services, key))
        except ModegateError as error:
            logger.info("session %s cannot be shown now: %s", key, error)
            self._feed.retry(key)

    def expired(self, now_ms: int) -> list[SessionId]:
        return [
            session
            for session, shown in self.last_shown.items()
            if any(now_ms >= asked.expires for asked in shown.asked.values())
        ]

    def may_answer(self, session: SessionId, name: str) -> bool:
        return self.questions.may_answer(session, name)

    def _perspective(self, snapshot: Snapshot) -> Perspective:
        level = self._viewer.level or Level.OBSERVE
        can_ask = self.questions.can_ask(snapshot.session)
        now_ms = self._services.clock.now_ms()
        return Perspective(snapshot, self._viewer.peer, level, now_ms, can_ask)

    def refresh(self, session: SessionId) -> None:
        newest, before = self._newest.get(session), self.last_shown.get(session)
        if newest is None or before is None or self._viewer.level is None:
            return
        del self._newest[session]
        new_id = self.questions.requests.new_id
        now, out = catch_up(before, self._perspective(newest), new_id)
        self.last_shown[session] = now
        for one in out:
            self.send_queue.put(session, one)
        self._anew.discard(session)
        self.questions.update(session, before, now)
