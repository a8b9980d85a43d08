"""What waits for the client: our requests, dialogs that are put to its person alone, and prompts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from modegate.core.ids import SessionId
from modegate_acp.messages.jsonrpc import Message, Reply
from modegate_acp.render import questions as render
from modegate_acp.render.questions import Abstained, Chosen, outcome

logger = logging.getLogger(__name__)


class ClientRequests:
    """Of one connection. Answers are matched by id, and an id is never used twice."""

    def __init__(
        self, send: Callable[[SessionId, Message], None], unique: Callable[[], str]
    ) -> None:
        self._send = send
        self._unique = unique
        self._waiting: dict[str, Callable[[Reply], None]] = {}
        self._dialogs: dict[SessionId, set[asyncio.Future[Reply]]] = {}

    def new_id(self) -> str:
        return f"mg-perm-{self._unique()}"

    def expect(self, rpc: str, heard: Callable[[Reply], None]) -> None:
        self._waiting[rpc] = heard

    def forget(self, rpc: str) -> bool:
        """Wait for no answer to a request any more, and return whether one was waited for."""
        return self._waiting.pop(rpc, None) is not None

    def receive(self, reply: Reply) -> None:
        """Take an answer; one that is late, or to a request of another connection, changes nothing."""
        heard = self._waiting.pop(reply.id, None) if isinstance(reply.id, str) else None
        if heard is None:
            logger.info("an answer came to a request that does not wait for one")
        else:
            heard(reply)

    async def ask(
        self, session: SessionId, call: Message, options: list[Message]
    ) -> Chosen | Abstained:
        """Ask the person at this client and nobody else. If this is cancelled, the question is taken back."""
        rpc = self.new_id()
        heard: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.expect(rpc, lambda reply: None if heard.done() else heard.set_result(reply))
        self._dialogs.setdefault(session, set()).add(heard)
        self._send(session, render.new_tool_call(session, call))
        self._send(session, render.permission(rpc, session, call, options))
        chosen: Chosen | Abstained = Abstained(cancelled=False, why="the mode has changed")
        try:
            # If others cancel the future, this task is not cancelled: a plain await would take it so.
            _ = await asyncio.wait([heard])
            if not heard.cancelled():
                chosen = outcome(heard.result(), [one["optionId"] for one in options])
        finally:
            self._dialogs.get(session, set()).discard(heard)
            if self.forget(rpc):
                self._send(session, render.cancel_request(rpc))
            yes = isinstance(chosen, Chosen) and chosen.option == render.CONFIRM
            how = "Confirmed." if yes else "Not confirmed."
            self._send(
                session, render.tool_call_update(session, call["toolCallId"], well=yes, how=how)
            )
        return chosen

    def cancel_dialogs(self, session: SessionId) -> None:
        """End a session's dialogs: what they ask about is no longer so."""
        for heard in self._dialogs.pop(session, ()):
            heard.cancel()

    def clear(self) -> None:
        self._waiting.clear()


class RunningPrompts:
    """The prompts of one connection that wait until their person has been asked what is open."""

    def __init__(self) -> None:
        self._waiting: dict[SessionId, set[asyncio.Event]] = {}

    def __contains__(self, session: SessionId) -> bool:
        return session in self._waiting

    @contextmanager
    def running(self, session: SessionId) -> Iterator[asyncio.Event]:
        """Have one run. Its event is set whenever something of the session's questions has changed."""
        wake = asyncio.Event()
        waiting = self._waiting.setdefault(session, set())
        waiting.add(wake)
        try:
            yield wake
        finally:
            waiting.discard(wake)
            if not waiting:
                del self._waiting[session]

    def wake(self, session: SessionId) -> None:
        """Have a session's prompts look again whether they still wait for something."""
        for wake in self._waiting.get(session, ()):
            wake.set()
