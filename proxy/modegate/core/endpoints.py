"""Which endpoint a request is for, by its method and raw path.

Only what is listed here is known; all else is `other`, which passes in the default mode and is refused
in any other. The path is compared byte by byte and never decoded, so that nothing that merely looks
like a known path (`//v1`, dot segments, encoded letters or slashes, capitals) is taken for it, and the
path that was classified is the path that is forwarded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from modegate.core.errors import DialectName
from modegate.core.ids import SessionId, parse_session_id


class Kind(StrEnum):
    """What an endpoint is to the gate."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    COUNT_TOKENS = "count_tokens"
    """How long a request of Messages would be."""
    INPUT_TOKENS = "input_tokens"
    """The same of Responses."""
    COMPACT = "compact"
    """Makes a history of Responses shorter."""
    STORED = "stored"
    """A stored answer of Responses: fetched, deleted or cancelled."""
    HARMLESS = "harmless"
    """Gives a model no tools; passes in every mode."""
    OTHER = "other"


_DIALECTS: dict[Kind, DialectName] = {
    Kind.CHAT: "chat",
    Kind.RESPONSES: "responses",
    Kind.MESSAGES: "messages",
    Kind.COUNT_TOKENS: "messages",
    Kind.INPUT_TOKENS: "responses",
    Kind.COMPACT: "responses",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a request is for."""

    kind: Kind
    session: SessionId | None
    """The session that the path names, or None."""
    path: bytes
    """The path as it is forwarded: the client's own bytes without the session's prefix."""

    @property
    def gated(self) -> bool:
        """Whether the gate reads requests of this kind."""
        return self.kind in _DIALECTS

    @property
    def counts(self) -> bool:
        """Whether nothing comes of it but a number."""
        return self.kind in (Kind.COUNT_TOKENS, Kind.INPUT_TOKENS)

    @property
    def dialect(self) -> DialectName:
        """The dialect of its bodies and errors; chat where nothing says otherwise."""
        return _DIALECTS.get(self.kind, "chat")


_GATED = {
    b"/chat/completions": Kind.CHAT,
    b"/responses": Kind.RESPONSES,
    b"/messages": Kind.MESSAGES,
    b"/messages/count_tokens": Kind.COUNT_TOKENS,
    b"/responses/input_tokens": Kind.INPUT_TOKENS,
    b"/responses/compact": Kind.COMPACT,
}

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

_STORED = re.compile(
    rb"(?:GET|DELETE) /responses/[A-Za-z0-9_-]+|GET /responses/[A-Za-z0-9_-]+/input_items"
    rb"|POST /responses/[A-Za-z0-9_-]+/cancel"
)

# Asked of the base URL itself, before the first request.
_PROBES = {("HEAD", b"/"), ("HEAD", b"/api/hello"), ("GET", b"/api/hello")}


def classify(method: str, raw_path: bytes) -> Endpoint:
    """Find the endpoint of a request.

    Args:
        method: as it came; methods are case-sensitive (RFC 9110 section 9.1).
        raw_path: the path as it came, without its query.

    Raises:
        BadSession: the path begins with `/s/` and what follows is no session id.
    """
    session, path = _strip_session(raw_path)
    return Endpoint(_kind(method, path), session, path)


def _strip_session(raw_path: bytes) -> tuple[SessionId | None, bytes]:
    if not raw_path.startswith(b"/s/"):
        return None, raw_path
    segment, slash, rest = raw_path.removeprefix(b"/s/").partition(b"/")
    # Clients may encode the colon; whatever else decoding brings up does not fit an id.
    raw = unquote_to_bytes(segment).decode("utf-8", "backslashreplace")
    return parse_session_id(raw), (slash + rest) or b"/"


def advice(path: bytes) -> str:
    """Say what to do about a path that cannot be gated."""
    if path.startswith(b"/v1/v1/"):
        return "the agent adds /v1 to its base URL by itself, so leave that out there"
    return "use /v1/chat/completions, /v1/responses or /v1/messages"


def _kind(method: str, path: bytes) -> Kind:
    if method == "OPTIONS" or (method, path) in _PROBES:
        return Kind.HARMLESS  # OPTIONS: the preflight of browsers
    known = path.removeprefix(b"/v1")  # a client's base URL may be given with or without it
    known = known.removesuffix(b"/")
    if method == "POST" and known in _GATED:
        return _GATED[known]
    if any(method in methods and form.fullmatch(known) for methods, form in _HARMLESS_TABLE):
        return Kind.HARMLESS
    if _STORED.fullmatch(method.encode("latin-1", "replace") + b" " + known):
        return Kind.STORED
    return Kind.OTHER
