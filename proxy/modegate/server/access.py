"""Who may use the control API and ACP: bearer tokens with levels, and the checks on Host and Origin.

A page in a person's browser can send requests to loopback. By DNS rebinding, it can do so under a name of
its own. So Host must be a name that this proxy is known by. If the browser sends an Origin, it must be the
proxy itself.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from modegate.core.ids import Tenant
from modegate.core.policy.model import OWN_TOKEN, Control, Level, Token
from modegate.server.clock import Clock, SystemClock
from modegate.server.control.token_file import weakness

GRANT = "modegate.grant"
"""Where a scope holds the `Grant` of its request, once the guard let it through."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- compared with, not bound to

_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Headers in which agents send their key."""

REFUSALS_S = 1.0
"""Seconds between two log lines of refused requests."""

logger = logging.getLogger(__name__)


def problem(status: int, code: str, message: str, /, **more: object) -> JSONResponse:
    """Return an error of the control API: `{"error": {"code", "message", …}}`."""
    return JSONResponse({"error": {"code": code, "message": message, **more}}, status)


def host_name(host: str) -> str:
    """Return the name in a Host header or a URL's authority, without its port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


@dataclass(frozen=True, slots=True)
class Grant:
    """What the bearer of a token may do."""

    name: str
    """The token's, as the log and people know it; never its secret."""
    level: Level
    tenants: frozenset[Tenant] | None
    """None: all."""

    def sees(self, tenant: Tenant) -> bool:
        return self.tenants is None or tenant in self.tenants

    def may(self, level: Level, tenant: Tenant) -> bool:
        """Return whether the bearer may do what needs this level, for this tenant."""
        return self.sees(tenant) and self.level.covers(level)


class _Policy(Protocol):
    @property
    def control(self) -> Control: ...


class _Policies(Protocol):
    @property
    def current(self) -> _Policy: ...


class Access:
    """Which token may do what: the process's own, and those of the policy as it is now."""

    def __init__(
        self,
        token: str,
        policies: _Policies,
        environ: Mapping[str, str],
        *,
        clock: Clock | None = None,
    ) -> None:
        """Take the process's own token, which may do everything, and where the others' secrets are."""
        self._clock = clock or SystemClock()
        self._told_at = -math.inf
        self._untold = 0
        self._own = _digest(token)
        self._policies = policies
        self._environ = environ

    def grant(self, token: str) -> Grant | None:
        """Return what the bearer of this token may do now; None for a token that nobody has.

        Ask again for clients that stay connected: a reload of the policy can change or remove a token. Every
        token is compared, each in constant time, so the time reveals nothing.
        """
        given = _digest(token)
        found = None
        if hmac.compare_digest(given, self._own):
            found = Grant(OWN_TOKEN, Level.FULL, None)
        for one, secret in self._usable():
            if hmac.compare_digest(given, secret):
                found = Grant(one.name, one.level, frozenset(one.tenants))
        return found

    def sent_in(self, headers: Sequence[tuple[bytes, bytes]], query: bytes) -> Grant | None:
        """Return whose control token a model request carries, in any place for a credential, if any.

        Args:
            headers: names in lower case.
            query: as it came.
        """
        found = [value.split()[-1:] for name, value in headers if name in _CREDENTIALS]
        given = [value.decode("latin-1") for values in found for value in values]
        if query:
            given += [value for _, value in parse_qsl(query.decode("latin-1"))]
        return next((grant for token in given if (grant := self.grant(token))), None)

    def warnings(self) -> list[str]:
        """Return which tokens of the policy cannot be used, and why, without a secret or a variable's
        name."""
        return [
            f"control token {token.name!r} cannot be used: {why}"
            for token, _, why in self._judged()
            if why
        ]

    def refused(self, scope: Scope, why: str) -> None:
        """Log a warning of a refused request; at most one a second, so that nobody fills a disk."""
        now = self._clock.monotonic()
        if now - self._told_at < REFUSALS_S:
            self._untold += 1
            return
        more = f"; {self._untold} more since the last such line" if self._untold else ""
        client = (scope.get("client") or ("unknown",))[0]
        logger.warning("refused %s from %s: %s%s", scope["path"][:100], client, why, more)
        self._told_at, self._untold = now, 0

    def report(self) -> None:
        """Log the warnings; called at the start and for each new policy."""
        for warning in self.warnings():
            logger.warning("%s", warning)

    def _usable(self) -> Iterator[tuple[Token, bytes]]:
        return ((token, secret) for token, secret, why in self._judged() if not why)

    def _judged(self) -> list[tuple[Token, bytes, str]]:
        tokens = self._policies.current.control.tokens
        if not tokens:  # the usual case, and each model request comes here
            return []
        secrets_ = [self._environ.get(token.env, "") for token in tokens]
        digests = [_digest(secret) for secret in secrets_]
        taken = [self._own, *digests]
        return [
            (token, digest, _unusable(secret, shared=taken.count(digest) > 1))
            for token, secret, digest in zip(tokens, secrets_, digests, strict=True)
        ]


def _unusable(secret: str, *, shared: bool) -> str:
    if not secret:
        return "its variable is not set"
    if why := weakness(secret):
        return f"its secret {why}"
    return "another token has the same secret" if shared else ""


def _digest(secret: str) -> bytes:
    # All of one length: a comparison of unequal lengths ends early.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def bearer(headers: Headers) -> str:
    """Return the token of an `Authorization: Bearer` header; empty if there is none (RFC 6750)."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class Sites:
    """Which names this proxy is known by, and which sites may call it from a browser."""

    def __init__(self, *, hosts: tuple[str, ...], bound: str) -> None:
        """Take further names, each `NAME` or `NAME:PORT`, and the address listened on.

        That address counts as a name unless it is a wildcard.
        """
        self._listed = frozenset(host.lower() for host in hosts)
        self._own = LOOPBACK_NAMES | ({bound.lower()} - WILDCARDS)

    def refusal(self, headers: Headers, *, addresses: bool = False) -> JSONResponse | None:
        """Return the 403 for a request under another name or from another site, else None.

        With `addresses`, every IP address is accepted too. A page can make a name of its own lead here, but
        not an address.
        """
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            # A proxy in front of us may have looked at either (RFC 9112, section 3.2).
            return problem(400, "bad_request", "more than one Host header")
        host = hosts[0].lower() if hosts else ""
        known = host_name(host) in self._own or self._is_listed(host)
        if not known and not (addresses and _is_address(host_name(host))):
            return problem(
                403, "host_not_allowed", f"not known here as {host[:200]!r}; see MODEGATE_HOSTS"
            )
        origin = headers.get("origin")
        if origin is not None and not self._origin_allowed(origin, host):
            return problem(403, "origin_not_allowed", f"origin {origin[:200]!r} is another site")
        return None

    def _is_listed(self, host: str) -> bool:
        return host in self._listed or host_name(host) in self._listed

    def _origin_allowed(self, origin: str, host: str) -> bool:
        authority = urlsplit(origin.lower()).netloc
        # Another port of loopback is another program, so only the very same authority is accepted.
        return bool(authority) and (authority == host or self._is_listed(authority))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def unauthorized() -> JSONResponse:
    """Return the 401 for a request without a token that somebody has."""
    answer = problem(
        401,
        "unauthorized",
        "this wants `Authorization: Bearer TOKEN`, with the token of MODEGATE_CONTROL_TOKEN, of the "
        "state folder's control-token file, or of the policy's control.tokens",
    )
    answer.headers["www-authenticate"] = "Bearer"  # RFC 9110, section 15.5.2
    return answer


class Guard:
    """Lets a request through with its grant, or answers it with 401 or 403, and says so in the log."""

    def __init__(self, app: ASGIApp, *, access: Access, sites: Sites) -> None:
        self._app = app
        self._access = access
        self._sites = sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check where the request was sent, where it came from, and the token, in this order."""
        headers = Headers(scope=scope)
        refusal = self._sites.refusal(headers)
        why = "under another name, or by another site"
        token = bearer(headers)
        grant = self._access.grant(token)
        if refusal is None and grant is None:
            refusal = unauthorized()
            why = "a token that nobody has" if token else "no token"
        if refusal is not None:
            self._access.refused(scope, why)
            await refusal(scope, receive, send)
        else:
            await self._app({**scope, GRANT: grant}, receive, send)
