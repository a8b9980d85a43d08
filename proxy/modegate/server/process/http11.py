"""uvicorn's HTTP/1.1 protocol, mended for requests that offer an upgrade beside their body.

A WebSocket is taken at one path only; everywhere else the wish for one is a request like any, which
the app refuses.

Java's HTTP client, for one, offers `h2c` in its requests. A server may ignore that (RFC 9110, section 7.8),
but httptools stops at the end of such a head and takes the body for what comes after the upgrade: the
request arrives without its body, and the body is read as a request of its own. So the head is
given to the parser again without the offer, and the body then follows as ever.

Trailers are dropped: httptools gives them as header lines, so that what comes behind a body, unseen by
whoever looked at the head, would become the request's (RFC 9110, section 6.5.1 forbids to merge them).

What is not body has a limit, as httptools would collect a head, or trailers, without end. A head that is
whole by then is the app's to refuse, in the format of whoever sent it.

A request that does not arrive, or not to its end, is waited for only so long, and there are only so many
connections (`modegate.server.process.connection_limits`).

At a shutdown uvicorn closes a connection on which nothing has arrived yet, and with it the request that it
was just opened for. Here that request is still served, as the last of its connection.
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
    """Which connections there are; set by the server, in a class of its own."""

    _awaited: float | None = None
    """Since when the rest of a request is waited for, in seconds of the loop; None: for none."""

    _heard = 0.0
    """When its last bytes came."""

    _deaf = False
    """What comes after an upgrade that is refused is for nobody."""

    _ending = False
    """The next request is the last."""

    _in_head = True
    """Whether lines that come are the head's, and no trailers."""

    _bare = 0
    """Bytes that came since the last piece of a body, or since the last request."""

    def shutdown(self) -> None:
        """Begin the end of the server."""
        if self.cycle is None:
            self._ending = True
            self.loop.call_later(NEW_S, self._end_unused)
        else:
            super().shutdown()

    def _end_unused(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, if there is room."""
        super().connection_made(transport)
        self._awaited = self._heard = self.loop.time()
        if not self.connection_limits.admit(self):
            self._deaf = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.connection_limits.forget(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hand over; ACP counts its connections by itself."""
        self.connection_limits.forget(self)
        super().handle_websocket_upgrade()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being served, or one that is no agent's and whose answer nobody reads."""
        if self.cycle is None:
            return True
        if self.cycle.response_complete and not self.pipeline:
            return True
        return self.flow.write_paused and not self.connection_limits.serves_agent(self)

    def evict(self) -> None:
        """End, as others need the room."""
        self._deaf = True
        self.transport.abort()

    def is_overdue(self, now: float) -> bool:
        """Return whether a request takes longer to arrive than it may."""
        if self._awaited is None:
            return False
        if self._in_head:
            if not self.is_idle:
                self._awaited = now  # what follows a request that is being answered has time
            return now - self._awaited > HEAD_S
        if self.flow.read_paused:
            self._heard = now  # it is we who do not read
            return False
        return now - self._heard > SILENT_S or now - self._awaited > BODY_S

    def time_out(self) -> None:
        """End, and say why if nothing else was said."""
        self._deaf = True
        if self._bare and not self._is_answering() and not self.transport.is_closing():
            self.transport.write(_TIMED_OUT)
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
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
        """Take a piece of a body."""
        self._bare = 0
        super().on_body(body)

    def _feed(self, data: bytes) -> bytes:
        """Parse, and give what is to be parsed next."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._is_ignorable():
                head = self._head_without_offer()
                # A parser that has seen `Connection: close` would take nothing more.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                return head + data[upgrade.args[0] :]
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            self._deaf = True
        return b""

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        if self._awaited is None:
            self._awaited = self._heard
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head."""
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
        # It is taken further in a task, so that what is added to its scope now is there in time.
        super().on_headers_complete()
        full = not is_own(self.scope["path"]) and not self.connection_limits.serve_agent(self)
        if full:
            extended: dict[str, object] = self.scope  # type: ignore[assignment]
            extended[FULL] = True
        if last or full:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Be idle, unless another request waits."""
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
