"""Which session a request belongs to, which one it was started from, and which lane it is in.

The places to look are a list, `sessions.identify` of the policy or `DEFAULT_IDENTIFY`: `path`,
`header:NAME` or `body:dotted.path`; the first that gives an id wins. An id that somebody gave on purpose
must be valid; one that an agent happens to send is hashed where it does not fit. Where nothing is
found, an id is derived from the first user message.

Most requests are identified by their head alone: `from_head` first, then `identify` with the body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import msgspec

from modegate.core.endpoints import Endpoint, Kind
from modegate.core.errors import BadSession, DialectName
from modegate.core.headers import Headers, get_one
from modegate.core.ids import (
    Lane,
    SessionId,
    SessionKey,
    Tenant,
    fits_session_id,
    parse_session_id,
)
from modegate.core.policy import Sessions
from modegate.core.reminders import plain, plain_parts

DEFAULT_IDENTIFY = (
    "path",
    "header:x-modegate-session",
    "header:x-claude-code-session-id",
    "header:session-id",
    "header:x-session-id",
    "header:x-session-affinity",
    "header:x-affinity",
    "body:metadata.user_id",
    "body:metadata.session_id",
    "body:metadata.sessionId",
    "body:prompt_cache_key",
    "body:conversation",
    "body:conversation.id",
)
DEFAULT_PARENT = ("header:x-parent-session-id", "header:x-codex-parent-thread-id")

GIVEN = ("path", "header:x-modegate-session")
"""Sources that are set on purpose: what they hold must be a valid session id."""

AGENT_LIMIT = 120
"""Characters kept of a `user-agent`; the longest measured has 95."""

# A title writer of the OpenCode family names the session it works for.
_TITLE = "title-"
_TITLED = ("header:x-session-id", "header:x-session-affinity")

_THREADS = (b"x-claude-code-agent-id", b"thread-id")

_OLD_USER_ID = re.compile(r"user_.*_session_([^_]+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    endpoint: Endpoint
    headers: Headers


@dataclass(frozen=True, slots=True)
class BodyFields:
    """What of a body tells one session from another."""

    top: Mapping[str, Any] = field(default_factory=dict)
    """Those top-level fields that a source names, decoded."""
    first_user_text: str = ""
    """The first user message's own words, see `modegate.core.reminders`."""
    unread: str = ""
    """SHA-256 of a body that is no JSON object, so that it is taken for no other conversation; else empty."""


@dataclass(frozen=True, slots=True)
class Identified:
    """The session of a request and how it was found."""

    key: SessionKey
    how: str
    """The source, as in the list, or `derived`."""
    given: bool
    derived: bool
    parent: SessionId | None
    agent: str
    disagree: tuple[str, ...] = ()
    """Further sources that were looked at and name another session; worth a line in the log."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place where an id may be."""

    text: str
    kind: Literal["path", "header", "body"]
    name: bytes = b""
    """Of a header, in lower case."""
    keys: tuple[str, ...] = ()
    """Of a body field, from the top level inwards."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read an entry of `sessions.identify` or `sessions.parent`.

        Raises:
            ValueError: it is none of `path`, `header:NAME` and `body:dotted.path`.
        """
        kind, _, name = text.partition(":")
        if text == "path":
            return cls(text, "path")
        if kind == "header" and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            return cls(f"header:{name.lower()}", "header", name=name.lower().encode())
        if kind == "body" and all(keys := tuple(name.split("."))):
            return cls(text, "body", keys=keys)
        raise ValueError(f"{text!r} is not `path`, `header:NAME` or `body:dotted.path`")


@lru_cache(maxsize=64)
def sources(entries: tuple[str, ...]) -> tuple[Source, ...]:
    """Read a whole list; raises ValueError as `Source.parse` does."""
    return tuple(Source.parse(entry) for entry in entries)


def from_head(head: Head, sessions: Sessions, tenant: Tenant) -> Identified | None:
    """Identify a request before its body is read, or give None: ask `identify`, with the body.

    Raises:
        BadSession: an id that was given is malformed, or the header that names the session disagrees
            with itself.
    """
    if any(source.kind == "body" for source in sources(sessions.parent or DEFAULT_PARENT)):
        return None  # a parent that is overlooked would be a way out of its mode
    seen = _Seen.of(head, None)
    found = _find(seen, sources(sessions.identify or DEFAULT_IDENTIFY))
    return _identified(seen, sessions, tenant, found) if found else None


def identify(head: Head, body: BodyFields, sessions: Sessions, tenant: Tenant) -> Identified:
    """Identify a request by its head and its body; derive an id where neither has one.

    Raises:
        BadSession: as `from_head`; or there is no id and the policy rejects such requests.
    """
    seen = _Seen.of(head, body)
    found = _find(seen, sources(sessions.identify or DEFAULT_IDENTIFY))
    if found is None and sessions.when_missing == "reject" and head.endpoint.kind != Kind.HARMLESS:
        raise BadSession(
            "this request names no session and the policy rejects such requests: put the session into "
            "the base URL, /s/SESSION/v1, or send the header x-modegate-session"
        )
    return _identified(seen, sessions, tenant, found or _derive(head, body, tenant))


def body_names(sessions: Sessions) -> frozenset[str]:
    """Give the top-level fields that `body_fields` has to decode for this policy."""
    entries = (sessions.identify or DEFAULT_IDENTIFY) + (sessions.parent or DEFAULT_PARENT)
    return frozenset(source.keys[0] for source in sources(entries) if source.keys)


def lane(dialect: DialectName, has_tools: bool, first_user_text: str, headers: Headers) -> Lane:
    """Name the stream of like requests that a request belongs to.

    That is the agent's own agent or thread id where it sends one, else 16 hex digits.
    """
    for name in _THREADS:
        if thread := _text(get_one(headers, name) or b""):
            return Lane(_fitting(thread))
    basis = "\0".join((dialect, "tools" if has_tools else "", plain(first_user_text)))
    return Lane(_hash(basis)[:16])


# Finding -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    session: SessionId
    how: str
    disagree: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of a request can be looked at; its lines by name, since each is looked for by several."""

    path: SessionId | None
    lines: Mapping[bytes, Sequence[bytes]]
    body: BodyFields | None

    @classmethod
    def of(cls, head: Head, body: BodyFields | None) -> _Seen:
        lines: dict[bytes, list[bytes]] = {}
        for name, value in head.headers:
            lines.setdefault(name, []).append(value)
        return cls(head.endpoint.session, lines, body)


def _find(seen: _Seen, places: Sequence[Source]) -> _Found | None:
    """Give the first id in the order of the sources; None also if the body would have come first."""
    first: _Found | None = None
    disagree: list[str] = []
    for source in places:
        if source.kind == "body" and seen.body is None:
            if first is None:
                return None
            continue
        ids = _ids(seen, source)
        if not ids:
            continue
        if first is None:
            if len(ids) > 1:
                raise BadSession(f"two values of {source.text} name different sessions")
            first = _Found(ids[0], source.text)
        elif ids != [first.session]:
            disagree.append(source.text)
    return first and _Found(first.session, first.how, tuple(disagree))


def _ids(seen: _Seen, source: Source) -> list[SessionId]:
    """Give the different ids that one source holds, checked or made to fit."""
    raw = _raw(seen, source)
    if not raw:
        return []
    if source.text in GIVEN:
        return list(dict.fromkeys(parse_session_id(text) for text in raw))
    return list(dict.fromkeys(_fitting(text) for text in raw if text.strip()))


def _raw(seen: _Seen, source: Source) -> list[str]:
    if source.kind == "header":
        values = [_text(value) for value in seen.lines.get(source.name, ())]
        if values and source.text in _TITLED:
            values = [value.removeprefix(_TITLE) for value in values]
        return values
    if source.kind == "path":
        return [seen.path] if seen.path is not None else []
    value = _look_up(seen.body.top, source.keys) if seen.body else None
    return [value] if value is not None else []


def _look_up(top: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    value: Any = top
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, str):
        return None
    return _session_of_user_id(value) if keys == ("metadata", "user_id") else value


def _session_of_user_id(user_id: str) -> str | None:
    """Read Claude Code's `metadata.user_id`: JSON text with `session_id`, or the older `user_…_session_…`."""
    old = _OLD_USER_ID.fullmatch(user_id)
    if old:
        return old[1]
    try:
        fields = msgspec.json.decode(user_id)
    except (ValueError, RecursionError):
        return None
    session = fields.get("session_id") if isinstance(fields, dict) else None
    return session if isinstance(session, str) else None


def _derive(head: Head, body: BodyFields, tenant: Tenant) -> _Found:
    """Name a conversation by how it begins; never by system text or tools, which change with the mode."""
    # By dialect, not by kind: a look-alike path must not be a way to another session.
    words = body.unread or plain(body.first_user_text)
    basis = "\0".join((tenant, head.endpoint.dialect, words))
    return _Found(SessionId(f"d-{_hash(basis)[:32]}"), "derived")


def _identified(seen: _Seen, sessions: Sessions, tenant: Tenant, found: _Found) -> Identified:
    return Identified(
        key=SessionKey(tenant, found.session),
        how=found.how,
        given=found.how in GIVEN,
        derived=found.how == "derived",
        parent=_parent(seen, sessions, found.session),
        agent=_agent(seen),
        disagree=found.disagree,
    )


def _parent(seen: _Seen, sessions: Sessions, own: SessionId) -> SessionId | None:
    for source in sources(sessions.parent or DEFAULT_PARENT):
        for parent in _ids(seen, source):
            if parent != own:
                return parent
    return None


def _agent(seen: _Seen) -> str:
    """Give who the client says it is, safe to print."""
    text = b", ".join(seen.lines.get(b"user-agent", ())).decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(c for c in text if c.isprintable())
    return text[:AGENT_LIMIT]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _fitting(raw: str) -> SessionId:
    return SessionId(raw if fits_session_id(raw) else f"h-{_hash(raw)[:40]}")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Reading a body ----------------------------------------------------------------------------------

_UNREADABLE = (ValueError, RecursionError)
_DEFAULT_NAMES = body_names(Sessions())

_decode_top = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def body_fields(body: bytes, names: frozenset[str] = _DEFAULT_NAMES) -> BodyFields:
    """Read of a chat completions body what `identify` and `lane` need, and no more.

    Never raises: a body may be malformed and is still passed on in the default mode. What cannot be
    read counts as absent.
    """
    for read in (_read_raw, _read_whole):
        try:
            return read(body, names)
        except _UNREADABLE:
            continue
    return BodyFields(unread=sha256(body).hexdigest())


def _read_raw(body: bytes, names: frozenset[str]) -> BodyFields:
    """Decode little: a long history is scanned, not built."""
    top = _decode_top(body)
    fields = {name: msgspec.json.decode(top[name]) for name in names if name in top}
    messages = _decode_list(top.get("messages", b"[]"))
    return BodyFields(fields, _first_user_text(msgspec.json.decode(raw) for raw in messages))


def _read_whole(body: bytes, names: frozenset[str]) -> BodyFields:
    """Read what msgspec refuses and upstreams may accept, such as half a surrogate pair or a NaN."""
    top = json.loads(body)
    if not isinstance(top, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 -- unreadable, like all else here
    fields = {name: top[name] for name in names if name in top}
    messages = top.get("messages")
    return BodyFields(fields, _first_user_text(messages if isinstance(messages, list) else []))


def _first_user_text(messages: Iterable[Any]) -> str:
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user":
            return _words(message.get("content"))
    return ""


def _words(content: Any) -> str:
    if isinstance(content, str):
        return plain(content)
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return plain_parts(text for text in texts if isinstance(text, str))
