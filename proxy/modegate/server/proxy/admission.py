"""What is asked of a request before it is served: its size, its credentials, and in a mode what it is for."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

from modegate.core.endpoints import Apis, Endpoint, Kind
from modegate.core.errors import (
    ControlTokenSent,
    EndpointNotGated,
    HostNotAllowed,
    Overloaded,
    TooLarge,
    UpgradeRequired,
)
from modegate.core.wire import headers as lines
from modegate.core.wire.overrides import BODILESS, override
from modegate.server.access import Access, Sites
from modegate.server.process.connection_limits import FULL
from modegate.server.proxy.client import has_body
from modegate.server.upstream.pool import ChosenUpstream


@dataclass(frozen=True, slots=True)
class Admission:
    """The checks of one request; each raises a `ModegateError` that says what is wrong."""

    scope: Scope
    headers: lines.Headers
    """Names in lower case."""

    def check_connection(self) -> None:
        """Refuse a WebSocket, and what this process has no room for."""
        if lines.is_upgrade(self.headers):
            raise UpgradeRequired("WebSocket is not offered here; use HTTP with streaming")
        if FULL in self.scope:
            raise Overloaded(
                "there are as many requests under way as this process takes; try again"
            )

    def check_size(self, limit: int) -> None:
        """Refuse a head that is too long, and a body that announces more than `limit` bytes."""
        size = len(self.scope["raw_path"]) + len(self.scope["query_string"])
        size += sum(len(name) + len(value) for name, value in self.headers)
        if size > lines.HEAD_LIMIT:
            raise TooLarge(f"the head of the request is over {lines.HEAD_LIMIT} bytes")
        length = lines.get_one(self.headers, b"content-length")
        if length is not None and length.isdigit() and int(length) > limit:
            raise TooLarge(f"the request body is over {limit} bytes (limits.body)")

    def check_credential(self, access: Access) -> None:
        """Send nobody's control token upstream, whatever the path."""
        sent = access.sent_in(self.headers, self.scope["query_string"])
        if sent is not None:
            access.refused(
                self.scope, f"it is a model request and carries control token {sent.name!r}"
            )
            raise ControlTokenSent(
                "this request carries a control token of modegate, which is for people alone and goes to no "
                "upstream; give the agent the key of its provider, and make a new control token, since "
                "whoever can read this one can leave every mode"
            )

    def check_site(self, sites: Sites, upstream: ChosenUpstream) -> None:
        """Let no page that found this proxy, by whatever name, use the credential that it adds."""
        headers = Headers(raw=self.headers)
        if upstream.adds_credential and sites.refusal(headers) is not None:
            raise HostNotAllowed(
                "this upstream is given a credential by modegate, so that requests are only taken under "
                "a name it is known by (see MODEGATE_HOSTS), and from no other site"
            )

    def check_gateable(self, endpoint: Endpoint, apis: Apis, why: str) -> None:
        """In a mode, refuse what the upstream may take for something that the gate does not read.

        `why` says which mode is in force.
        """
        scope, method = self.scope, self.scope["method"]
        path = endpoint.path.decode("latin-1")[:200]
        if endpoint.kind is Kind.OTHER:
            raise EndpointNotGated(
                f"{why}, and modegate cannot gate {method} {path}; {apis.advice(endpoint.path)}, "
                "or set the mode to default"
            )
        other = override(method, scope["raw_path"], scope["query_string"], self.headers)
        if other is not None:
            raise EndpointNotGated(
                f"{why}, and {other[:100]!r} says that {method} {path} is meant for something else"
            )
        if method in BODILESS and has_body(self.headers):
            raise EndpointNotGated(
                f"{why}, and {method} {path} has a body, which that method has no use for"
            )
