"""Which endpoint a request is for, by its method and raw path.

Only what is listed here is known; all else is `other`, which passes in the default mode and is refused
in any other. The path is compared byte by byte and never decoded, so that nothing that merely looks
like a known path (`//v1`, dot segments, encoded letters or slashes, capitals) is taken for it, and the
path that was classified is the path that is forwarded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from urllib.parse import unquote_to_bytes

from modegate.core.errors import DialectName, ErrorBody, openai_error
from modegate.core.ids import SessionId, parse_session_id


@dataclass(frozen=True)
class Operation:
    """One kind of request that the gate reads, by POST."""

    name: str
    """As logs and metrics have it."""
    path: str
    """Behind `/v1`, if that is there, or from a version of its own on (`/v1beta`). `{model}` stands for where
    it names the model."""
    counts: bool = False
    """Nothing comes of it but a number."""

    @cached_property
    def _form(self) -> re.Pattern[bytes]:
        escaped = re.escape(self.path).replace(r"\{model\}", "(?P<model>[^/:]+)")
        return re.compile(escaped.encode())

    def match(self, path: bytes) -> re.Match[bytes] | None:
        """Match a whole path; what it names as the model is the group `model`, if there is one."""
        path = path.removesuffix(b"/")
        # A client's base URL may be given with the version or without it.
        return self._form.fullmatch(path.removeprefix(b"/v1")) or self._form.fullmatch(path)


@dataclass(frozen=True, slots=True)
class StoredPaths:
    """How an API's stored answers are asked for."""

    requests: re.Pattern[bytes]
    """Method, blank and path behind `/v1`."""
    name: re.Pattern[bytes]
    """A whole path: in front of the answer's id is the group `base`, then `id`, and behind it `rest`."""
    items: bytes
    """The `rest` of a request for what the answer was given to."""


@dataclass(frozen=True, slots=True)
class History:
    """Where a request holds what was said."""

    key: str = "messages"
    """A list of messages or items, or the user's text alone."""
    content: str = "content"
    """The member of a message that holds its words: a text, or parts of which one that is text has `text`."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The line in which an API takes its key."""

    header: bytes = b"authorization"
    scheme: bytes = b"Bearer "

    def line(self, key: bytes) -> tuple[bytes, bytes]:
        return self.header, self.scheme + key


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """What an API's requests have in common: facts of a dialect, for those who do not know dialects."""

    name: DialectName
    home: str
    """The base URL of who offers it, for requests that no route fits: without a version where the paths of
    its operations begin with one."""
    operations: tuple[Operation, ...]
    """The first asks for an answer: it is what agents are pointed at, and what can be translated."""
    paths: re.Pattern[bytes] | None = None
    """How further paths begin that belong to it."""
    header: bytes = b""
    """A line that its clients send, and no others."""
    models: re.Pattern[bytes] | None = None
    """How paths begin that are no operation and name a model, which is the group `model`."""
    stored: StoredPaths | None = None
    history: History = field(default_factory=History)
    credential: Credential = field(default_factory=Credential)
    error: ErrorBody = openai_error


class Kind(StrEnum):
    """What an endpoint is to the gate."""

    GATED = "gated"
    """An operation of an API: the gate reads it."""
    STORED = "stored"
    """A stored answer: fetched, deleted or cancelled."""
    HARMLESS = "harmless"
    """Gives a model no tools; passes in every mode."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a request is for."""

    kind: Kind
    session: SessionId | None
    """The session that the path names, or None."""
    path: bytes
    """The path as it is forwarded: the client's own bytes without the session's prefix."""
    api: Api
    """Whose bodies and errors it has: of an operation its own, else the first of all."""
    operation: Operation | None = None
    stores: Api | None = None
    """Whose stored answer it is for."""

    @property
    def gated(self) -> bool:
        return self.kind is Kind.GATED

    @property
    def counts(self) -> bool:
        return self.operation is not None and self.operation.counts

    @property
    def stored_paths(self) -> StoredPaths | None:
        """How stored answers are named, where it is for one."""
        return self.stores.stored if self.stores is not None else None

    @property
    def name(self) -> str:
        """What logs and metrics call it."""
        return self.operation.name if self.operation is not None else self.kind

    @property
    def dialect(self) -> DialectName:
        return self.api.name


_SEGMENT = rb"[A-Za-z0-9_~@+:-](?:[A-Za-z0-9._~@+:-]|%3[Aa]|%40)*"
_HARMLESS = (
    # A model's name may hold slashes, plain or encoded; no part of it begins with a dot.
    ({"GET", "HEAD"}, rb"/models(?:/%b(?:(?:/|%%2[Ff])%b)*)?" % (_SEGMENT, _SEGMENT)),
    ({"POST"}, rb"/embeddings|/moderations|/audio/(?:transcriptions|translations|speech)"),
    ({"GET", "HEAD", "POST"}, rb"/files"),
    ({"GET", "HEAD", "DELETE"}, rb"/files/[A-Za-z0-9_-]+"),
    ({"GET", "HEAD"}, rb"/files/[A-Za-z0-9_-]+/content"),
)
_HARMLESS_TABLE = tuple((methods, re.compile(pattern)) for methods, pattern in _HARMLESS)

# Asked of the base URL itself, before the first request.
_PROBES = {("HEAD", b"/"), ("HEAD", b"/api/hello"), ("GET", b"/api/hello")}


class Apis:
    """The APIs that are known; where nothing says which one is meant, it is the first."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self.all = tuple(apis)
        self.first = self.all[0]

    def classify(self, method: str, raw_path: bytes) -> Endpoint:
        """Find the endpoint of a request.

        Args:
            method: as it came; methods are case-sensitive (RFC 9110 section 9.1).
            raw_path: the path as it came, without its query.

        Raises:
            BadSession: the path begins with `/s/` and what follows is no session id.
        """
        session, path = _strip_session(raw_path)
        if method == "OPTIONS" or (method, path) in _PROBES:  # OPTIONS: the preflight of browsers
            return Endpoint(Kind.HARMLESS, session, path, self.first)
        if method == "POST":
            for api, operation in self._operations:
                if operation.match(path):
                    return Endpoint(Kind.GATED, session, path, api, operation)
        known = path.removeprefix(b"/v1").removesuffix(b"/")
        if any(method in methods and form.fullmatch(known) for methods, form in _HARMLESS_TABLE):
            return Endpoint(Kind.HARMLESS, session, path, self.first)
        asked = method.encode("latin-1", "replace") + b" " + known
        for api in self.all:
            if api.stored is not None and api.stored.requests.fullmatch(asked):
                return Endpoint(Kind.STORED, session, path, self.first, stores=api)
        return Endpoint(Kind.OTHER, session, path, self.first)

    @cached_property
    def _operations(self) -> list[tuple[Api, Operation]]:
        return [(api, operation) for api in self.all for operation in api.operations]

    def advice(self, path: bytes) -> str:
        """Say what to do about a path that cannot be gated."""
        if path.startswith(b"/v1/v1/"):
            return "the agent adds /v1 to its base URL by itself, so leave that out there"
        paths = (api.operations[0].path for api in self.all)
        *most, last = (one if re.match(r"/v\d", one) else f"/v1{one}" for one in paths)
        return f"use {', '.join(most)} or {last}"


def _strip_session(raw_path: bytes) -> tuple[SessionId | None, bytes]:
    if not raw_path.startswith(b"/s/"):
        return None, raw_path
    segment, slash, rest = raw_path.removeprefix(b"/s/").partition(b"/")
    # Clients may encode the colon; whatever else decoding brings up does not fit an id.
    raw = unquote_to_bytes(segment).decode("utf-8", "backslashreplace")
    return parse_session_id(raw), (slash + rest) or b"/"
