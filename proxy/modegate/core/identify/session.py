"""Which session a request belongs to, which one it was started from, and which lane it is in.

The first source of a list that gives an id wins (`sources`). An id that somebody gave on purpose must be
valid. An id that an agent happens to send is hashed if it does not fit. If no source gives one, an id is
derived from the first user message.

Most requests are identified by their head alone: ask `from_head` first, then `identify` with what `body`
read of the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from modegate.core.endpoints import Endpoint, Kind
from modegate.core.errors import BadSession, DialectName
from modegate.core.identify.body import BodyFields, plain
from modegate.core.identify.sources import GIVEN, PREVIOUS, id_in, of_parent, of_session
from modegate.core.ids import Lane, SessionId, SessionKey, Tenant, fits_session_id, parse_session_id
from modegate.core.policy.model import Sessions, Source
from modegate.core.wire.headers import Headers, get_one

AGENT_LIMIT = 120
"""Characters kept of a `user-agent`; the longest measured has 95."""

PREVIOUS_LIMIT = 256
"""Characters of a response's id; those of providers have some 55."""

_THREADS = (b"x-claude-code-agent-id", b"thread-id")
"""Where an agent names the part of it that asks: the main loop, a sub-agent."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    endpoint: Endpoint
    headers: Headers


DERIVED_PREFIX = "d-"
"""Begins each session id that is made from a first message."""


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
    previous: str | None = None
    """If the id is derived: the earlier answer (`previous_response_id`) that the request continues. If the
    session of that answer is known, it is the better one."""


def from_head(head: Head, sessions: Sessions, tenant: Tenant) -> Identified | None:
    """Identify a request before its body is read; None if that takes the body (`identify`).

    Raises:
        BadSession: an id that was given is malformed, or the header that names the session disagrees
            with itself.
    """
    if any(source.kind == "body" for source in of_parent(sessions)):
        return None  # a parent that is overlooked would be a way out of its mode
    seen = _Seen.of(head, None)
    found = _find(seen, of_session(sessions))
    return _identified(seen, sessions, tenant, found) if found else None


def identify(head: Head, body: BodyFields, sessions: Sessions, tenant: Tenant) -> Identified:
    """Identify a request by its head and its body; derive an id if neither has one.

    Raises:
        BadSession: as `from_head`; or there is no id and the policy rejects such requests.
    """
    seen = _Seen.of(head, body)
    found = _find(seen, of_session(sessions))
    if found is not None:
        return _identified(seen, sessions, tenant, found)
    if sessions.when_missing == "reject" and head.endpoint.kind != Kind.HARMLESS:
        raise BadSession(
            "this request names no session and the policy rejects such requests: put the session into "
            "the base URL, /s/SESSION/v1, or send the header x-modegate-session"
        )
    derived = _identified(seen, sessions, tenant, _derive(head, body, tenant))
    return replace(derived, previous=_previous(body))


def lane(
    dialect: DialectName,
    has_tools: bool,
    first_user_text: str,
    headers: Headers,
    goes_on_from: Lane | None = None,
) -> Lane:
    """Return the lane of a request: the agent's own agent or thread id if it sends one, else 16 hex digits.

    Args:
        dialect: the API.
        has_tools: whether it declares any tool.
        first_user_text: of the history that it holds.
        headers: the client's.
        goes_on_from: if the provider holds the history, the lane (with tools) of the answer that the request
            continues. The first message that such a request itself holds is the newest of all.
    """
    for name in _THREADS:
        if thread := _text(get_one(headers, name) or b""):
            return Lane(_fitting(thread))
    if goes_on_from is not None:
        return goes_on_from if has_tools else Lane(_hash(f"{goes_on_from}\0")[:16])
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


def _find(seen: _Seen, sources: Sequence[Source]) -> _Found | None:
    """Return the first id in the order of the sources; None also if the unread body comes before it."""
    first: _Found | None = None
    disagree: list[str] = []
    for source in sources:
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
    """Return the different ids that one source holds, checked or made to fit."""
    raw = _raw(seen, source)
    if not raw:
        return []
    if source.text in GIVEN:
        return list(dict.fromkeys(parse_session_id(text) for text in raw))
    found = (id_in(source, text) for text in raw)
    return list(dict.fromkeys(_fitting(text) for text in found if text and text.strip()))


def _raw(seen: _Seen, source: Source) -> list[str]:
    if source.kind == "header":
        return [_text(value) for value in seen.lines.get(source.name, ())]
    if source.kind == "path":
        return [seen.path] if seen.path is not None else []
    value = _look_up(seen.body.top, source.keys) if seen.body else None
    return [value] if value is not None else []


def _look_up(top: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    value: Any = top
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _previous(body: BodyFields) -> str | None:
    value = body.top.get(PREVIOUS)
    return value if isinstance(value, str) and 0 < len(value) <= PREVIOUS_LIMIT else None


def _derive(head: Head, body: BodyFields, tenant: Tenant) -> _Found:
    """Name a conversation by how it begins; never by system text or tools, which change with the mode."""
    # By dialect, not by kind: a look-alike path must not be a way to another session.
    words = body.unread or plain(body.first_user_text)
    basis = "\0".join((tenant, head.endpoint.dialect, words))
    return _Found(SessionId(f"{DERIVED_PREFIX}{_hash(basis)[:32]}"), "derived")


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
    for source in of_parent(sessions):
        for parent in _ids(seen, source):
            if parent != own:
                return parent
    return None


def _agent(seen: _Seen) -> str:
    """Return who the client says it is, safe to print."""
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
