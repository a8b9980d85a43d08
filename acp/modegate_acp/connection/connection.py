"""One client's connection: who it is, what it sends in order, and what it is answered.

It knows nothing of its transport, which takes messages from `send_queue` and gives what it reads to
`receive`. What each method does is in `methods`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum

from modegate.core.errors import LevelNeeded, ModegateError
from modegate.core.ids import SessionId, SessionKey, Tenant
from modegate.core.policy.model import OWN_TOKEN, Level
from modegate.server.access import Grant
from modegate.server.extension import Services
from modegate_acp.connection.running_requests import CANCEL_REQUEST, RunningRequests
from modegate_acp.following.catch_up import Outgoing
from modegate_acp.following.followed_sessions import FollowedSessions
from modegate_acp.following.send_queue import StreamQueue
from modegate_acp.following.session_feed import SessionFeed
from modegate_acp.messages import jsonrpc
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import CancelRequest, Command
from modegate_acp.messages.jsonrpc import Incoming, Message, Notification, Reply, Request, RpcError
from modegate_acp.messages.params import read_command, session_named

logger = logging.getLogger(__name__)

ON_MAIN = frozenset({"initialize", "session/new", "session/load", "session/resume", "session/list"})
"""Methods that are answered on the connection's own stream."""


class CloseCode(IntEnum):
    """Of a WebSocket (RFC 6455, and the registry that it begins)."""

    NORMAL = 1000
    NOT_TEXT = 1003
    NOT_ALLOWED = 1008
    """The token is no longer one, or the client does nothing."""
    TOO_BIG = 1009
    RESTARTING = 1012
    """This process shuts down; the client is to connect again."""
    TRY_AGAIN = 1013
    """The client does not read what it is sent."""


@dataclass(frozen=True, slots=True)
class Caller:
    token: str = field(repr=False)
    name: str
    """The token's name."""
    tenant: Tenant
    base: str
    """The proxy's base URL, as the client reached it."""


Handle = Callable[["Connection", Command, Request], Awaitable[Message | None]]
"""Does what a command asks for; None if the answer comes later."""


class Connection:
    def __init__(
        self, services: Services, feed: SessionFeed, caller: Caller, handle: Handle, *, split: bool
    ) -> None:
        """Begin before `initialize`; `split` if each session has a stream of its own."""
        self.services = services
        self.caller = caller
        self.id = services.clock.new_id()
        self.peer = Peer()
        self.initialized = False
        self._close_code = CloseCode.NORMAL
        self.split = split
        self.streams = 0
        """Open streams, where it has streams of its own."""
        self.followed = FollowedSessions(services, feed, self, split=split)
        self.questions = self.followed.questions
        self.send_queue = self.followed.send_queue
        self.running = RunningRequests(self, feed.spawn)
        self._handle = handle
        self._order = asyncio.Lock()
        self._granted: tuple[str, Grant | None] = ("", None)

    @property
    def grant(self) -> Grant | None:
        """What the token may do under the policy of now; None once it may do nothing here."""
        policy = self.services.policies.current.hash
        if self._granted[0] != policy:
            self._granted = (policy, self.services.access.grant(self.caller.token))
        found = self._granted[1]
        return found if found is not None and found.sees(self.caller.tenant) else None

    @property
    def level(self) -> Level | None:
        grant = self.grant
        return grant.level if grant else None

    def need(self, level: Level, what: str) -> None:
        grant = self.grant
        if grant is None:
            raise RpcError(jsonrpc.AUTH_REQUIRED, "the token is no longer accepted")
        if not grant.level.covers(level):
            raise LevelNeeded(what, level, grant.name, grant.level)

    def by(self, method: str) -> str:
        token = "" if self.caller.name == OWN_TOKEN else f"/{self.caller.name}"
        return f"person:acp{token} {self.peer.label} {method} {self.id}"

    def key(self, session: SessionId) -> SessionKey:
        return SessionKey(self.caller.tenant, session)

    async def receive(self, message: Incoming) -> None:
        """Do what a message asks for: answers and cancellations at once, everything else in its order."""
        match message:
            case Reply():
                self.questions.requests.receive(message)
            case Notification() if message.method == CANCEL_REQUEST:
                asked = read_command(message, initialized=self.initialized)
                if isinstance(asked, CancelRequest):
                    self.running.cancel(asked.request)
            case Request() | Notification():
                async with self._order:
                    await self._perform(message)

    async def _perform(self, message: Request | Notification) -> None:
        request = message if isinstance(message, Request) else None
        session = session_named(message)
        try:
            self._admit(request)
            asked = read_command(message, initialized=self.initialized)
            result = await self._handle(self, asked, request or Request("", message.method))
        except Exception as error:
            if not isinstance(error, RpcError | ModegateError):
                logger.exception("%s of a client failed", message.method[:100])
            if request is not None:
                self.fail(request, session, error)
        else:
            if result is not None and request is not None:
                self.answer(request, session, result)

    def _admit(self, request: Request | None) -> None:
        self.need(Level.OBSERVE, "speaking ACP")
        if request is not None and request.id in self.running:
            raise RpcError(jsonrpc.INVALID_REQUEST, "a request with this id is under way")

    def refuse(self, error: RpcError) -> None:
        self._put(None, jsonrpc.failure(error.request, error))

    def answer(self, request: Request, session: SessionId | None, result: Message) -> None:
        self._put(session, jsonrpc.result(request.id, result), request.method)

    def fail(self, request: Request, session: SessionId | None, error: Exception) -> None:
        self._put(session, jsonrpc.failure(request.id, jsonrpc.as_rpc(error)), request.method)

    def _put(self, session: SessionId | None, message: Message, method: str = "") -> None:
        self.send_queue.put(None if method in ON_MAIN else session, Outgoing(message))

    def open_stream(self, session: SessionId | None, reader: object) -> StreamQueue:
        """Give a reader its stream; the second one of a session is told everything anew."""
        stream = self.send_queue.main if session is None else self.send_queue.open(session)
        if self.send_queue.hold(stream, reader) and session is not None:
            self.followed.again(session)
        return stream

    def close_stream(self, session: SessionId | None, reader: object) -> None:
        """Note that a stream has ended; what comes now waits for the next one."""
        stream = self.send_queue.stream(session)
        if stream.reader is reader:
            stream.reader = None
            if session is not None and session not in self.followed:
                self.send_queue.release(session)

    @property
    def close_code(self) -> CloseCode:
        """The code with which the transport closes, once nothing more is sent."""
        return CloseCode.TRY_AGAIN if self.send_queue.overflowed else self._close_code

    def close(self, code: CloseCode) -> None:
        """Send nothing more; the transport then closes with this code."""
        self._close_code = code
        self.send_queue.close()

    def end(self) -> None:
        """Let go of everything; the transport is gone."""
        self.running.end()
        self.followed.end_all()
