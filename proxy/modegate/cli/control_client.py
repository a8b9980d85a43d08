"""The command line's client of the control API: where the proxy is, the token, and errors in words."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modegate.server.control.token_file import read_token
from modegate.server.printable import printable
from modegate.server.settings import default_state_dir
from modegate.server.upstream.loopback import is_loopback

if TYPE_CHECKING:
    import httpx

UNAUTHORIZED = 401
SERVER_ERROR = 500
RETRY_S = 0.5
MAX_RETRY_S = 10.0
"""Pause before it connects again, doubled each time up to the maximum."""

SILENCE_S = 30.0
"""The proxy sends a comment every 10 s, so a stream that is silent for longer is dead."""


class Lost(click.ClickException):
    """The proxy cannot be reached now; it may come back."""


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that talks to a running proxy, and hand it a `client`."""

    @functools.wraps(command)
    def connected(url: str, state_dir: Path | None, tenant: str, **given: Any) -> None:
        with ControlClient(url, state_dir, tenant) as client:
            command(client=client, **given)

    return with_proxy_options(connected)


def with_proxy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what says which proxy is meant: `url`, `state_dir`, `tenant`."""
    wrapped = command
    for option in (
        click.option("--tenant", default="local", show_default=True, help="Tenant of the session."),
        click.option(
            "--state-dir",
            type=click.Path(path_type=Path),
            envvar="MODEGATE_STATE_DIR",
            show_envvar=True,
            help="Folder in which the proxy keeps its control token.",
        ),
        click.option(
            "--url",
            default="http://127.0.0.1:8484",
            show_default=True,
            envvar="MODEGATE_URL",
            show_envvar=True,
            help="Base URL of the proxy. Its token is MODEGATE_CONTROL_TOKEN, else the state folder's.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def find_token(state_dir: Path | None) -> str | None:
    """Return the token of the environment, else the one that the proxy keeps in its state folder."""
    return os.environ.get("MODEGATE_CONTROL_TOKEN") or read_token(state_dir or default_state_dir())


class ControlClient:
    """Calls to one proxy's control API for one tenant."""

    def __init__(self, url: str, state_dir: Path | None, tenant: str) -> None:
        """Find the token; without one the proxy's own refusal says what is missing."""
        import httpx

        token = find_token(state_dir)
        headers = {"x-modegate-client": "cli"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self._url = url
        with self._errors_in_words():
            # The token never goes through a proxy of the environment on its way to this machine.
            self._http = httpx.Client(
                base_url=url,
                headers=headers,
                params={"tenant": tenant},
                timeout=10.0,
                mounts=_without_proxy(url),
            )

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        return self._call("GET", path, params=params)

    def put(self, path: str, body: object) -> Any:
        return self._call("PUT", path, json=body)

    def post(self, path: str, body: object) -> Any:
        return self._call("POST", path, json=body)

    def _call(self, method: str, path: str, **content: Any) -> Any:
        with self._errors_in_words():
            answer = _checked(self._http.request(method, f"/control/v1{path}", **content))
            return _Answer(answer.json(), self._url)

    def follow(
        self,
        path: str,
        params: Callable[[], Mapping[str, str | int]] = dict,
        *,
        opened: Callable[[], None] = lambda: None,
        pause: float = RETRY_S,
    ) -> Iterator[Any]:
        """Yield each event of a stream as it comes, without end: a proxy that restarts is waited for.

        Args:
            path: of the stream.
            params: gives the query of each connection, since the next one goes on where this one ended.
            opened: called when the stream is open, each time.
            pause: seconds before the first try to connect again.

        Raises:
            click.ClickException: there is no proxy to begin with, or it refuses.
        """
        was_open, wait = False, pause

        def heard() -> None:
            nonlocal was_open, wait
            if was_open:
                click.echo("connected again", err=True)
            was_open, wait = True, pause
            opened()

        while True:
            try:
                yield from self._stream(path, params(), heard)
            except Lost as error:
                if not was_open:
                    raise
                if wait == pause:
                    click.echo(f"{error.format_message()}; trying again", err=True)
            time.sleep(wait)
            wait = min(2 * wait, MAX_RETRY_S)

    def _stream(
        self, path: str, params: Mapping[str, str | int], opened: Callable[[], None]
    ) -> Iterator[Any]:
        """Yield the events of one connection; then raise `Lost`."""

        with (
            self._errors_in_words(),
            self._http.stream(
                "GET",
                f"/control/v1{path}",
                params=dict(params),
                headers={"accept": "text/event-stream"},
                timeout=SILENCE_S,
            ) as answer,
        ):
            if answer.is_error:
                answer.read()
            lines = _checked(answer).iter_lines()
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise ValueError("no stream")
            opened()
            kind = ""
            for line in lines:
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    event = json.loads(value)
                    if kind == "error":
                        raise Lost(printable(event["error"]["message"]))
                    yield event
        raise Lost("the proxy ended the stream")

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.ConnectError as error:
            from modegate.server.process.tls_errors import explain_tls_error

            if trouble := explain_tls_error(self._url, error):
                raise click.ClickException(trouble) from error
            raise Lost(
                f"no proxy answers at {self._url}; start one with `modegate serve`, or give --url"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Lost(f"{self._url}: {str(error) or type(error).__name__}") from error
        except ValueError as error:
            raise _not_modegate(self._url) from error


def _without_proxy(url: str) -> dict[str, None]:
    """Return httpx's `mounts` that lead straight to a proxy on this machine; it sets no other."""
    import httpx

    host = httpx.URL(url).host
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback(host) else {}


class _Answer(dict[str, Any]):
    """An answer's object. If a key is missing, what answers at `url` is no modegate."""

    def __init__(self, answer: object, url: str) -> None:
        self._url = url
        if not isinstance(answer, dict):
            raise _not_modegate(url)
        super().__init__(answer)

    def __missing__(self, key: str) -> Any:
        """Refuse; what may be absent is asked for by `get` or `in`."""
        raise _not_modegate(self._url)


def _not_modegate(url: str) -> click.ClickException:
    return click.ClickException(f"{url} does not speak modegate's control API")


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer

    if answer.status_code == UNAUTHORIZED:
        raise click.ClickException(
            "the proxy does not know this token, or got none; set MODEGATE_CONTROL_TOKEN, or name the "
            "proxy's state folder with --state-dir"
        )
    try:
        message = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {answer.status_code}, not from modegate's control API"
    broken = answer.status_code >= SERVER_ERROR
    raise (Lost if broken else click.ClickException)(printable(message))
