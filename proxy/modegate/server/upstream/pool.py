"""All upstreams of the policy in force, and the choice between them for each request.

A new policy brings its upstreams and routes with it. One that stays as it was keeps its connections; one
that is gone is closed when the last step on it has ended.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from modegate.core.dialects.registered import Dialects
from modegate.core.endpoints import Api
from modegate.core.errors import DialectName, UpstreamFailed
from modegate.core.policy.file.problems import PolicyProblems, Problem
from modegate.core.policy.model import Policy
from modegate.core.policy.routes import choose, wants_model
from modegate.core.policy.upstreams import (
    Base,
    Injected,
    Route,
    UpstreamSpec,
    Value,
    added,
    missing,
    with_injected,
)
from modegate.core.step.request.request_form import Manner
from modegate.server.upstream.connections import Wiring
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.litellm import Library, LitellmUpstream
from modegate.server.upstream.litellm_request import AMBIENT
from modegate.server.upstream.protocol import Upstream, UpstreamAnswer, UpstreamRequest

logger = logging.getLogger(__name__)

Default = Callable[[Api], Upstream]
"""Who answers what no route fits."""


@dataclass(slots=True)
class _Client:
    """An upstream in use: whom it was made for, and how many steps are on it."""

    spec: UpstreamSpec
    upstream: Upstream
    added: Injected
    learned: dict[DialectName, dict[str, Manner]] = field(default_factory=dict)
    steps: int = 0
    retired: bool = False


MAX_LEARNED = 256
"""Models of one upstream and API of which is known what it takes; the oldest is forgotten at last."""


@dataclass(frozen=True, slots=True)
class ChosenUpstream:
    """The upstream of one request, with what modegate adds for it."""

    upstream: Upstream
    api: Api
    added: Injected
    learned: dict[str, Manner]
    """By model, how it takes what modegate puts in, as far as that was found out."""
    stores: bool = True
    """Whether an answer can be stored there, for later requests to refer to."""

    @property
    def adds_credential(self) -> bool:
        """Whether modegate stands in with a credential of its own."""
        return self.added.credential

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Send a request, dressed; raises as the upstream does."""
        headers = with_injected(request.headers, self.api.credential, self.added)
        return await self.upstream.send(
            UpstreamRequest(request.method, request.target, headers, request.body)
        )

    def learn(self, model: str, manner: Manner) -> None:
        """Remember what it takes, for requests that come later."""
        self.learned.pop(model, None)
        self.learned[model] = manner
        while len(self.learned) > MAX_LEARNED:
            del self.learned[next(iter(self.learned))]

    async def close(self) -> None:
        """Do nothing: the connections belong to the pool."""


@dataclass(slots=True)
class Upstreams:
    """The upstreams of the policy in force, and those whose steps are not over yet."""

    default: Default
    environment: Mapping[str, str]
    dialects: Dialects
    library: Library = field(default_factory=Library)
    _learned: dict[DialectName, dict[str, Manner]] = field(default_factory=dict)
    """Of what no route fits."""
    _routes: tuple[Route, ...] = ()
    _clients: dict[str, _Client] = field(default_factory=dict)
    _retired: list[_Client] = field(default_factory=list)
    _untidy: asyncio.Event = field(default_factory=asyncio.Event)

    def adopt(self, policy: Policy) -> None:
        """Take a policy's upstreams and routes from here on, all of them or none.

        Raises:
            PolicyProblems: something that the policy names is not there: a variable, a file, a package.
        """
        problems = [
            Problem(place, 0, f"the environment variable {name} is not set")
            for place, name in missing(policy.upstreams.values(), self.environment)
        ]
        if problems:
            raise PolicyProblems(problems)
        clients: dict[str, _Client] = {}
        for name, spec in policy.upstreams.items():
            client = self._clients.get(name)
            if client is None or client.spec != spec:
                client = self._made(spec, problems)
            if client is not None:
                clients[name] = client
        if problems:
            raise PolicyProblems(problems)
        gone = [one for name, one in self._clients.items() if clients.get(name) is not one]
        self._clients, self._routes = clients, policy.routes
        for client in gone:
            client.retired = True
            self._retired.append(client)
        self._untidy.set()

    def wants_model(self, dialect: DialectName) -> bool:
        return wants_model(self._routes, dialect)

    @contextmanager
    def pick(self, api: Api, model: str | None) -> Iterator[ChosenUpstream]:
        """Yield the upstream for a request, and keep it open meanwhile."""
        name = choose(self._routes, api.name, model)
        if name is None:
            learned = self._learned.setdefault(api.name, {})
            yield ChosenUpstream(self.default(api), api, Injected(), learned)
            return
        client = self._clients[name]
        client.steps += 1
        try:
            stores = not client.spec.litellm
            learned = client.learned.setdefault(api.name, {})
            yield ChosenUpstream(client.upstream, api, client.added, learned, stores=stores)
        finally:
            client.steps -= 1
            if client.retired:
                self._untidy.set()

    async def tidy(self) -> None:
        """Close what is no longer used, and load what is going to be, until cancelled."""
        while True:
            await self._untidy.wait()
            self._untidy.clear()
            if any(client.spec.litellm for client in self._clients.values()):
                # Now rather than at the first request, which would wait for seconds.
                try:
                    await self.library.load()
                except UpstreamFailed as error:
                    logger.warning("%s", error)
            over = [client for client in self._retired if not client.steps]
            self._retired = [client for client in self._retired if client.steps]
            for client in over:
                await client.upstream.close()

    async def close(self) -> None:
        for client in [*self._clients.values(), *self._retired]:
            await client.upstream.close()
        await self.library.close()

    def _made(self, spec: UpstreamSpec, problems: list[Problem]) -> _Client | None:
        try:
            given = added(spec, self.environment)
            if not spec.key and spec.litellm.partition("/")[0] in AMBIENT:
                given = replace(given, secret=True)
            upstream = self._litellm(spec) if spec.litellm else self._http(spec)
        except ValueError as error:
            problems.append(Problem(f"upstreams.{spec.name}", 0, str(error)))
            return None
        return _Client(spec, upstream, given)

    def _http(self, spec: UpstreamSpec) -> Upstream:
        return HttpUpstream(
            Base.parse(spec.url, strip_v1=spec.strip_v1, query=spec.query),
            wiring=Wiring(
                size=spec.pool.size,
                keep_alive=spec.pool.keep_alive,
                proxy=self._proxy(spec.proxy),
                tls=_trusting(spec.ca) if spec.ca else None,
            ),
            connect_timeout=spec.timeouts.connect,
            read_timeout=spec.timeouts.read,
        )

    def _proxy(self, given: Value | Literal["none"] | None) -> str | None:
        if isinstance(given, Value):
            return self.environment[given.env] if given.env else given.text
        return given

    def _litellm(self, spec: UpstreamSpec) -> Upstream:
        if importlib.util.find_spec("litellm") is None:
            raise ValueError(
                "needs the package litellm: pip install '.[litellm]' in modegate's checkout"
            )
        provider = spec.litellm.partition("/")[0]
        native = {
            dialect.name: self._http(replace(spec, url=spec.url or dialect.api.home))
            for dialect in self.dialects
            if dialect.translation is not None and dialect.translation.native == provider
        }
        return LitellmUpstream(spec, self.library, self.dialects, native)


def _trusting(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # an ssl.SSLError, too
        raise ValueError(f"ca: {path}: {error.strerror or 'unreadable'}") from error
