"""Who may use the control API: the bearer token, and the checks on Host and Origin.

A page in a person's browser can send requests to loopback, and by DNS rebinding it can do so under a
name of its own; so Host must be a name that this proxy is known by, and an Origin, where the browser
sends one, must be the proxy itself.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_FILE = "control-token"  # noqa: S105 -- a file's name
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- compared with, not bound to


def read_token(state_dir: Path) -> str | None:
    """Give the stored token, or None if there is none or if others can read it."""
    path = state_dir / TOKEN_FILE
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(1024).strip()
    except FileNotFoundError:
        return None
    shared = os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO)
    return token if token and not shared else None


def ensure_token(state_dir: Path) -> str:
    """Give the stored token; make one (mode 0600, complete or not at all) where there is none.

    It is kept over restarts, so that several processes of one machine share it.

    Raises:
        OSError: the folder cannot be written.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = state_dir / TOKEN_FILE
    if target.exists():
        if token := read_token(state_dir):
            return token
        target.unlink()  # empty, or others could have read it
    handle, name = tempfile.mkstemp(dir=state_dir, prefix=f".{TOKEN_FILE}.")  # created 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):  # another process was faster: its token counts
            os.link(name, target)
    finally:
        os.unlink(name)
    token = read_token(state_dir)
    if token is None:
        raise OSError(f"{target} cannot be kept readable by its owner only")
    return token


def problem(status: int, code: str, message: str, /, **more: object) -> JSONResponse:
    """Give an error of the control API: `{"error": {"code", "message", …}}`."""
    return JSONResponse({"error": {"code": code, "message": message, **more}}, status)


def host_name(host: str) -> str:
    """Give the name in a Host header or a URL's authority, without its port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


class Guard:
    """Lets a request through to the control API, or answers it with 401 or 403."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: tuple[str, ...], bound: str) -> None:
        """Wrap `app`.

        Args:
            app: what is protected.
            token: the one bearer token.
            hosts: further names, each `NAME` or `NAME:PORT`.
            bound: the address listened on; it counts as a name unless it is a wildcard.
        """
        self._app = app
        self._token = token.encode()
        self._listed = frozenset(host.lower() for host in hosts)
        self._own = LOOPBACK_NAMES | ({bound.lower()} - WILDCARDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check where the request was sent, where it came from, and the token, in this order."""
        answer = self._refusal(Headers(scope=scope)) or self._app
        await answer(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "").lower()
        if not (host_name(host) in self._own or self._is_listed(host)):
            return problem(
                403, "host_not_allowed", f"not known here as {host[:200]!r}; see MODEGATE_HOSTS"
            )
        origin = headers.get("origin")
        if origin is not None and not self._origin_allowed(origin, host):
            return problem(403, "origin_not_allowed", f"origin {origin[:200]!r} is another site")
        if not self._authorized(headers.get("authorization", "")):
            answer = problem(
                401,
                "unauthorized",
                "the control API wants `Authorization: Bearer TOKEN`, with the token of "
                "MODEGATE_CONTROL_TOKEN or of the state folder's control-token file",
            )
            answer.headers["www-authenticate"] = "Bearer"  # RFC 9110, section 15.5.2
            return answer
        return None

    def _is_listed(self, host: str) -> bool:
        return host in self._listed or host_name(host) in self._listed

    def _origin_allowed(self, origin: str, host: str) -> bool:
        authority = urlsplit(origin.lower()).netloc
        # Another port of loopback is another program, so that only the very same authority will do.
        return bool(authority) and (authority == host or self._is_listed(authority))

    def _authorized(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)
