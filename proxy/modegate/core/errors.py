"""Every error that a client can be told of, with its HTTP status and its body in each dialect.

    ModegateError                 500  internal_error
    ├── Refusal                   400  refused            a policy or a limit of the gate says no
    │   ├── BadRequest                 bad_request        the gate cannot read the request
    │   ├── BadSession                 bad_session        session id malformed, conflicting or rejected
    │   ├── ControlTokenSent           control_token_sent a control token came as an agent's credential
    │   ├── EndpointNotGated           endpoint_not_gated the gate cannot read this endpoint
    │   ├── HostNotAllowed             host_not_allowed   for a credential of ours, by another name or site
    │   ├── ModeGone                   mode_gone          the session's mode is no longer in the policy
    │   └── SessionUnreadable          session_unreadable its log holds what this version cannot read
    ├── TooLarge                  413  too_large          a body, a frame or a header over its limit
    ├── UnknownMode               422  unknown_mode       the policy does not have it
    ├── UnknownTenant             422  unknown_tenant     no agent can be of it
    ├── Conflict                  409  conflict           somebody else appended first
    │   └── NotOpen                    not_open           a question settled, expired or not known
    ├── BadOption                 422  bad_option         an answer that was not offered
    ├── LevelNeeded               403  level_needed       the token may not do this
    ├── UpgradeRequired           426  upgrade_required   a WebSocket could not be gated
    ├── Drained                   503  drained            the process ends before the answer
    ├── LogUnavailable            503  log_unavailable    it cannot be read or written: no mode is known
    │   └── AnotherLog                 another_log        not the log that it was, or a part is lost
    ├── Overloaded                503  overloaded         all steps together hold what they may
    ├── Tightened                 503  tightened          a person set a mode while the answer was under way
    └── UpstreamFailed            502  upstream_failed    no answer, or one that broke off
        ├── UpstreamTimeout       504  upstream_timeout   it took longer than its limit
        └── AnswerUnreadable      502  answer_unreadable  an answer that the gate cannot read

Refusals are 400 on purpose: it is the only status whose message all measured agents show and hardly
any retries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

DialectName = str
"""What an API is called in policies, logs and metrics."""


class ModegateError(Exception):
    """Base of everything that is reported to a client; `str()` is the message shown to it."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_after: ClassVar[int | None] = None
    """Seconds, sent as `Retry-After` where a retry can help."""


class Refusal(ModegateError):
    status = 400
    code = "refused"


class BadRequest(Refusal):
    code = "bad_request"


class BadSession(Refusal):
    code = "bad_session"


class ControlTokenSent(Refusal):
    code = "control_token_sent"


class EndpointNotGated(Refusal):
    code = "endpoint_not_gated"


class HostNotAllowed(Refusal):
    code = "host_not_allowed"


class ModeGone(Refusal):
    code = "mode_gone"


class SessionUnreadable(Refusal):
    code = "session_unreadable"


class TooLarge(ModegateError):
    status = 413
    code = "too_large"


class UnknownMode(ModegateError):
    """A mode that the policy does not have; `available` names those it has."""

    status = 422
    code = "unknown_mode"

    def __init__(self, mode: str, available: tuple[str, ...]) -> None:
        super().__init__(f"unknown mode {mode!r}; available: {', '.join(available)}")
        self.available = available


class UnknownTenant(ModegateError):
    status = 422
    code = "unknown_tenant"


class Conflict(ModegateError):
    status = 409
    code = "conflict"


class NotOpen(Conflict):
    code = "not_open"


class BadOption(ModegateError):
    status = 422
    code = "bad_option"


class LevelNeeded(ModegateError):
    """What was asked for needs a token of a higher level, which `needed` names."""

    status = 403
    code = "level_needed"

    def __init__(self, what: str, needed: str, token: str, level: str) -> None:
        super().__init__(
            # As plain text: levels are members of an enumeration.
            f"{what} needs a token of level '{needed}'; the token {token!r} has level '{level}'"
        )
        self.needed = needed


class UpgradeRequired(ModegateError):
    status = 426
    code = "upgrade_required"


class Drained(ModegateError):
    status = 503
    code = "drained"
    retry_after = 2


class LogUnavailable(ModegateError):
    status = 503
    code = "log_unavailable"
    retry_after = 2


class Overloaded(ModegateError):
    status = 503
    code = "overloaded"
    retry_after = 5


class Tightened(ModegateError):
    """A person set a mode while an answer passed unread that cannot be read from its middle on (L8).

    Agents send the request again, and then it is assembled and judged under the mode.
    """

    status = 503
    code = "tightened"


class AnotherLog(LogUnavailable):
    code = "another_log"


class UpstreamFailed(ModegateError):
    status = 502
    code = "upstream_failed"


class UpstreamTimeout(UpstreamFailed):
    status = 504
    code = "upstream_timeout"


class AnswerUnreadable(UpstreamFailed):
    code = "answer_unreadable"


def bare(error: ModegateError) -> ModegateError:
    """Return an error that can be kept: without the frames it came through, and all that these hold."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def error_head(error: ModegateError, body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the header lines of an answer that is only this error; `Retry-After` where a retry can help."""
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.retry_after is not None:
        head.append((b"retry-after", str(error.retry_after).encode()))
    return head


ErrorBody = Callable[[str, int, str], bytes]
"""Writes an error as an API's clients expect it: from its message, HTTP status and code."""


def openai_error(message: str, status: int, code: str) -> bytes:
    """Return the error object of the OpenAI API, which clients of no certain API get too."""
    kind = "invalid_request_error" if status < 500 else "api_error"
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return msgspec.json.encode(body)


def error_json(error: ModegateError, body: ErrorBody = openai_error) -> bytes:
    return body(str(error), error.status, error.code)
