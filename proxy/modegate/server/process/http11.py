"""uvicorn's HTTP/1.1 protocol, with its faults corrected and limits added.

Upgrades. A WebSocket is taken at one path only. At any other path, the request for one goes to the app,
which refuses it. Other offers are ignored, as RFC 9110, section 7.8 allows: Java's HTTP client offers `h2c`
in every request. httptools stops at the end of such a head and takes the body for data behind the upgrade,
so the body would be read as a request of its own. So the parser gets the head once more without the offer,
and then the body.

Trailers are dropped. httptools reports them as header lines, so they would become part of a head that was
already checked (RFC 9110, section 6.5.1 forbids to merge them).

Limits. httptools would collect a head, or trailers, without end. A head that is complete but too long is
refused by the app, in the client's own format. Slow requests and the number of connections are limited too
(`modegate.server.process.connection_limits`).

Shutdown. uvicorn closes a connection on which nothing has arrived yet, and loses the request that it was
just opened for. Here that request is still served, as the last of its connection.
"""

from __future__ import annotations

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modegate.core.wire.headers import HEAD_LIMIT, is_upgrade
from modegate.core.wire.own_paths import is_own
from modegate.server.process.connection_limits import (
    BODY_S,
    FULL,
    HEAD_S,
    SILENT_S,
    ConnectionLimits,
)

WEBSOCKET_PATH = "/acp"

NEW_S = 1.0
"""What a new connection gets at a shutdown to send the request that it was opened for."""

_TIMED_OUT = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 37\r\n"
    b"content-type: text/plain; charset=utf-8\r\n\r\nThe request took too long to arrive.\n"
)

_OFFER = frozenset({b"upgrade", b"http2-settings"})


class Http11Protocol(HttpToolsProtocol):
    """One connection."""

    connection_limits: ConnectionLimits
    """Set by the server, in a subclass."""

    _awaited: float | None = None
    """The loop's time at which the request under way began to arrive; None if none is awaited."""

    _heard = 0.0
    """When its last bytes came."""

    _deaf = False
    """Whatever else arrives is dropped: the connection is being closed."""

    _ending = False
    """The next request is the last."""

    _in_head = True
    """Whether header lines belong to the head; behind the body they are trailers."""

    _bare = 0
    """Bytes that came since the last piece of a body, or since the last request."""

    def shutdown(self) -> None:
        if self.cycle is None:
            self._ending = True
            self.loop.call_later(NEW_S, self._end_unused)
        else:
            super().shutdown()

    def _end_unused(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited = self._heard = self.loop.time()
        if not self.connection_limits.admit(self):
            self._deaf = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection_limits.forget(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; ACP counts its own."""
        self.connection_limits.forget(self)
        super().handle_websocket_upgrade()

    @property
    def is_idle(self) -> bool:
        """Whether it serves no request, or only one that is not an agent's and whose answer nobody reads."""
        if self.cycle is None:
            return True
        if self.cycle.response_complete and not self.pipeline:
            return True
        return self.flow.write_paused and not self.connection_limits.serves_agent(self)

    def evict(self) -> None:
        self._deaf = True
        self.transport.abort()

    def is_overdue(self, now: float) -> bool:
        if self._awaited is None:
            return False
        if self._in_head:
            if not self.is_idle:
                self._awaited = now  # behind a request that is being answered, the next has time
            return now - self._awaited > HEAD_S
        if self.flow.read_paused:
            self._heard = now  # the client is not slow: reading is paused here
            return False
        return now - self._heard > SILENT_S or now - self._awaited > BODY_S

    def time_out(self) -> None:
        """Close the connection, with a 408 if no answer has begun."""
        self._deaf = True
        if self._bare and not self._is_answering() and not self.transport.is_closing():
            self.transport.write(_TIMED_OUT)
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._heard = self.loop.time()
        if self._awaited is None:
            self._awaited = self._heard
        self._bare += len(data)
        try:
            while data and not self._deaf:
                data = self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._bare > HEAD_LIMIT and not self._deaf:
            self._refuse_endless()

    def _refuse_endless(self) -> None:
        self._deaf = True
        if self._is_answering():
            self.transport.close()
        else:
            self.send_400_response(f"The head of the request is over {HEAD_LIMIT} bytes.")

    def _is_answering(self) -> bool:
        if self.cycle is None:
            return False
        return self.cycle.response_started and not self.cycle.response_complete

    def on_body(self, body: bytes) -> None:
        self._bare = 0
        super().on_body(body)

    def _feed(self, data: bytes) -> bytes:
        """Parse, and return what is to be parsed next."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._is_ignorable():
                head = self._head_without_offer()
                # A parser that has seen `Connection: close` would accept nothing more.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                return head + data[upgrade.args[0] :]
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            self._deaf = True
        return b""

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._awaited is None:
            self._awaited = self._heard
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request, unless its head will come again."""
        self._in_head = False
        if not self.parser.should_upgrade():
            self._begin_request(last=self._ending)
        elif not self._is_ignorable():
            if self._should_upgrade():
                super().on_headers_complete()
            else:
                self._begin_request(last=True)

    def _begin_request(self, *, last: bool) -> None:
        # The app runs in a task, so it will see what is added to the scope here.
        super().on_headers_complete()
        full = not is_own(self.scope["path"]) and not self.connection_limits.serve_agent(self)
        if full:
            extended: dict[str, object] = self.scope  # type: ignore[assignment]
            extended[FULL] = True
        if last or full:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self.connection_limits.served(self)
        super().on_response_complete()

    def on_message_complete(self) -> None:
        """End the request, unless its head will come again."""
        self._bare = 0
        if not (self.parser.should_upgrade() and self._is_ignorable()):
            self._awaited = None
            self._in_head = True
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        wanted = self.parser.get_method() == b"GET" and is_upgrade(self.headers)
        at = self.url.partition(b"?")[0] == WEBSOCKET_PATH.encode()
        return wanted and at and super()._should_upgrade()

    def _is_ignorable(self) -> bool:
        return self.parser.get_method() != b"CONNECT" and not is_upgrade(self.headers)

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % line for line in _without_offer(self.headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n"


def _without_offer(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    kept = []
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(t for t in tokens if t.lower() not in _OFFER)
        if name not in _OFFER:
            kept.append((name, value))
    return kept
