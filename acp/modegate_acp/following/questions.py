"""What one client's person is asked, and what becomes of each answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from modegate.core.errors import ModegateError, NotOpen
from modegate.core.ids import SessionId, SessionKey
from modegate.core.levels import to_answer
from modegate.core.policy.model import Level
from modegate.server.extension import Services
from modegate_acp.following.catch_up import NOTHING, LastShown, Outgoing, Snapshot, forget, replied
from modegate_acp.following.client_requests import ClientRequests, RunningPrompts
from modegate_acp.following.session_feed import Follower, SessionFeed, read_snapshot
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import Message, Reply, RpcError
from modegate_acp.render import questions as render
from modegate_acp.render.questions import Abstained, Chosen, outcome

logger = logging.getLogger(__name__)

SHOWN_S = 1.0
"""Within this time the clients of every process are shown a question. Who dismisses it sooner, which only a
machine does, must not have said no before others could see it."""


class Viewer(Protocol):
    """The client, and what its token may do."""

    id: str
    """Names the connection, and none of before."""
    peer: Peer

    @property
    def level(self) -> Level | None:
        """What its token may do; None once it is no token any more."""

    def key(self, session: SessionId) -> SessionKey:
        """Return a session's key."""

    def need(self, level: Level, what: str) -> None:
        """Raise unless the token's level covers this one."""

    def by(self, method: str) -> str:
        """Name the person for the log."""


class Display(Follower, Protocol):
    """The sessions that the client is shown."""

    last_shown: dict[SessionId, LastShown]

    def shows_anew(self, session: SessionId) -> bool:
        """Return whether what was asked was taken back, and will be asked again if it is still open."""

    def send(self, session: SessionId | None, message: Message) -> None:
        """Let a message wait for its turn."""

    def catch_up(self, snapshot: Snapshot) -> None:
        """Tell of a state now, in front of what is sent next."""

    def refresh(self, session: SessionId) -> None:
        """Tell what is new of a session."""

    async def reread(self, session: SessionId) -> None:
        """Take a session's newest state, to be told when there is room."""


class Questions:
    """Of one connection; all on the event loop."""

    def __init__(
        self, services: Services, feed: SessionFeed, viewer: Viewer, display: Display
    ) -> None:
        self.requests = ClientRequests(display.send, services.clock.new_id)
        self._services = services
        self._feed = feed
        self._viewer = viewer
        self._display = display
        self._reports: dict[str, asyncio.Task[None]] = {}
        """For each question that its person is shown: the log is being told so, or has been."""
        self._prompts = RunningPrompts()
        self._deciding: set[str] = set()
        """Questions of which an answer is on its way to the log."""

    def _shown(self, session: SessionId) -> LastShown:
        return self._display.last_shown.get(session, NOTHING)

    def can_ask(self, session: SessionId) -> bool:
        return self._viewer.peer.any_time or session in self._prompts

    def may_answer(self, session: SessionId, name: str) -> bool:
        """Return whether its person can still answer a question, or is about to be asked."""
        shown, level = self._display.last_shown.get(session), self._viewer.level
        if shown is None or level is None or not level.covers(Level.TIGHTEN):
            return False
        asked = shown.asked.get(name)
        return self.can_ask(session) if asked is None else asked.rpc is not None

    def update(self, session: SessionId, before: LastShown, now: LastShown) -> None:
        """Wait for answers to the questions that a client is shown now, and to no others."""
        for name, asked in before.asked.items():
            if name not in now.asked:
                self._reports.pop(name, None)
                if asked.rpc is not None:
                    self.requests.forget(asked.rpc)
        for name, asked in now.asked.items():
            if asked.rpc is not None:
                self.requests.expect(asked.rpc, partial(self._answered, session, name))
        changed = (before.mode_seq, before.held.by) != (now.mode_seq, now.held.by)
        if changed and before.mode_seq != NOTHING.mode_seq:
            self.requests.cancel_dialogs(session)
        self._prompts.wake(session)

    async def ask_within_prompt(self, session: SessionId) -> None:
        """Put what is open to a person who sees it only while a prompt runs, and wait until it is over.

        What was dismissed in an earlier prompt is put again. A client that is asked at any time has been.
        """
        if self._viewer.peer.any_time or session not in self._display.last_shown:
            return
        try:
            with self._prompts.running(session) as wake:
                snapshot = await read_snapshot(self._services, self._viewer.key(session))
                shown = self._shown(session)
                again = (
                    name
                    for name, asked in shown.asked.items()
                    if asked.rpc is None and asked.offered and name not in self._deciding
                )
                self._display.last_shown[session] = forget(shown, *again)
                self._display.catch_up(snapshot)
                while self._waits(session):
                    wake.clear()
                    await wake.wait()
        finally:
            if session not in self._prompts:
                self.leave_all(session)

    def _waits(self, session: SessionId) -> bool:
        return self._display.shows_anew(session) or any(
            asked.rpc is not None or name in self._deciding
            for name, asked in self._shown(session).asked.items()
        )

    def sent(self, session: SessionId | None, out: Outgoing) -> None:
        """Hear from the transport that a message is on its way: a person is now shown the question."""
        if out.question is None or session is None:
            return
        asked = self._shown(session).asked.get(out.question)
        # What was withdrawn while it waited for its turn is shown to nobody.
        if asked is not None and asked.rpc is not None:
            self._reports[out.question] = self._feed.spawn(self._delivered(session, out.question))

    @property
    def _client(self) -> str:
        return f"acp:{self._viewer.id}"

    async def _delivered(self, session: SessionId, name: str) -> None:
        via = f"acp:{self._viewer.peer.label}"
        try:
            key = self._viewer.key(session)
            await self._services.approvals.delivered(key, name, via, self._client)
        except ModegateError as error:
            logger.warning("that question %s was shown is not in the log: %s", name, error)

    def _answered(self, session: SessionId, name: str, reply: Reply) -> None:
        shown = self._display.last_shown[session]
        self._display.last_shown[session] = replied(shown, name)
        match outcome(reply, shown.asked[name].offered):
            case Chosen(option):
                self._deciding.add(name)
                self._spawn(self._decide(session, name, option))
            case Abstained(cancelled, why):
                logger.info("question %s was not decided: %s", name, why)
                self._leave(session, name, dismissed=cancelled)
                self._prompts.wake(session)

    async def _decide(self, session: SessionId, name: str, option: str) -> None:
        try:
            await self._answer(session, name, option)
            await self._display.reread(session)
        finally:
            self._deciding.discard(name)
            # What became of it belongs in front of the end of the prompt that waits for it.
            self._display.refresh(session)
            self._prompts.wake(session)

    async def _answer(self, session: SessionId, name: str, option: str) -> None:
        """Append an answer. If that fails, the question is asked again."""
        key, approvals = self._viewer.key(session), self._services.approvals
        try:
            asked = (await approvals.look(key, name)).asked
            kind = next((one.kind for one in asked.options if one.id == option), "")
            self._viewer.need(to_answer(kind), f"answering {option!r}")
            by, modes = self._viewer.by("request_permission"), self._services.policies.current.modes
            await approvals.answer(key, name, option, by=by, modes=modes)
        except NotOpen as error:
            logger.info("an answer to question %s came late: %s", name, error)
        except (ModegateError, RpcError) as error:
            logger.warning("an answer to question %s was not taken: %s", name, error)
            if session in self._display.last_shown:
                self._display.last_shown[session] = forget(self._shown(session), name)

    def withdraw(self, session: SessionId) -> list[str]:
        """Take back what its person was asked in a session, and return which questions those are."""
        names: list[str] = []
        for name, asked in self._shown(session).asked.items():
            if asked.rpc is not None:
                self.requests.forget(asked.rpc)
                self._display.send(session, render.cancel_request(asked.rpc))
                self._display.last_shown[session] = replied(self._shown(session), name)
                names.append(name)
        return names

    def leave_all(self, session: SessionId, *, dismissed: bool = False) -> None:
        """Take back what its person was asked in a session, and leave it to others."""
        for name in self.withdraw(session):
            self._leave(session, name, dismissed=dismissed)

    def gone(self, shown: LastShown) -> None:
        """Forget what was shown of a session that is followed no more."""
        for name in shown.asked:
            self._reports.pop(name, None)

    def end(self) -> None:
        """Leave every question to others; the client is gone."""
        for session, shown in self._display.last_shown.items():
            for name, asked in shown.asked.items():
                if asked.rpc is not None:
                    self._leave(session, name)
        self.requests.clear()

    def _leave(self, session: SessionId, name: str, *, dismissed: bool = False) -> None:
        """Leave a question to others. If there are none and its person has dismissed it, it is a no."""
        level = self._viewer.level
        may = dismissed and level is not None and level.covers(Level.TIGHTEN)
        report = self._reports.pop(name, None)
        # A client may answer before its transport has said that the question is on its way.
        if report is not None or (may and self._is_last(session, name)):
            with suppress(RuntimeError):  # the process ends, and its steps with it
                self._spawn(self._left(session, name, report, may_reject=may))

    def _is_last(self, session: SessionId, name: str) -> bool:
        """Return whether nobody else here can answer, or is about to be asked, which no log knows."""
        return not any(
            one.may_answer(session, name)
            for one in self._feed.followers(self._viewer.key(session))
            if one is not self._display
        )

    async def _left(
        self, session: SessionId, name: str, report: asyncio.Task[None] | None, *, may_reject: bool
    ) -> None:
        if report is not None:
            await asyncio.wait([report])
        key, approvals = self._viewer.key(session), self._services.approvals
        by = self._viewer.by("request_permission")

        def reject() -> bool:
            return may_reject and self._is_last(session, name)

        try:
            if reject():
                asked_at = (await approvals.look(key, name)).asked_at
                so_far = (self._services.clock.now_ms() - asked_at) / 1000
                await asyncio.sleep(min(max(0.0, SHOWN_S - so_far), SHOWN_S))
            await approvals.left(key, name, self._client, by=by, reject=reject)
        except ModegateError as error:
            logger.warning("that question %s is shown no more is not in the log: %s", name, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        _ = self._feed.spawn(work)
