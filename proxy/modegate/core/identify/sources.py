"""Where a request may say which session it belongs to, and how agents write an id there.

The list is `sessions.identify` or `sessions.parent` of the policy, or a default that was measured on the
wire.
An agent that puts an id into other text (JSON, a prefix) has a reader here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from modegate.core.policy.model import Sessions, Source

DEFAULT_IDENTIFY = (
    "path",
    "header:x-modegate-session",
    "header:x-claude-code-session-id",
    "header:session-id",
    "header:x-codex-turn-metadata",
    "header:x-session-id",
    "header:x-session-affinity",
    "header:x-affinity",
    "body:metadata.user_id",
    "body:metadata.session_id",
    "body:metadata.sessionId",
    "body:client_metadata.session_id",
    "body:prompt_cache_key",
    "body:conversation",
    "body:conversation.id",
)
DEFAULT_PARENT = ("header:x-parent-session-id", "header:x-codex-parent-thread-id")

GIVEN = ("path", "header:x-modegate-session")
"""Sources that are set on purpose: what they hold must be a valid session id."""

PREVIOUS = "previous_response_id"
"""The field that names an earlier answer; read for every policy, as the last resort."""

_OLD_USER_ID = re.compile(r"user_.*_session_([^_]+)\Z", re.DOTALL)


def id_in(source: Source, text: str) -> str | None:
    """Return the id in what a source holds, which is mostly that itself; None if there is none."""
    read = _READERS.get(source.text)
    return read(text) if read else text


@lru_cache(maxsize=64)
def sources(entries: tuple[str, ...]) -> tuple[Source, ...]:
    """Read a whole list; raises ValueError as `Source.parse` does."""
    return tuple(Source.parse(entry) for entry in entries)


def of_session(sessions: Sessions) -> tuple[Source, ...]:
    """Return the places of a session's id, in the order in which they are looked at."""
    return sources(sessions.identify or DEFAULT_IDENTIFY)


def of_parent(sessions: Sessions) -> tuple[Source, ...]:
    return sources(sessions.parent or DEFAULT_PARENT)


def body_names(sessions: Sessions) -> frozenset[str]:
    """Return the top-level fields of a body that have to be decoded for this policy."""
    named = {source.keys[0] for source in of_session(sessions) + of_parent(sessions) if source.keys}
    return frozenset(named | {PREVIOUS})


class _WithSession(msgspec.Struct):
    session_id: str = ""


_decode = msgspec.json.Decoder(_WithSession).decode


def _in_json(text: str) -> str | None:
    """Read `session_id` of JSON text: Codex's turn metadata and, within `metadata`, Claude Code's user id."""
    try:
        return _decode(text).session_id or None
    except (ValueError, RecursionError):
        return None


def _of_user(text: str) -> str | None:
    """Read Claude Code's `metadata.user_id`: JSON text, or the older `user_…_session_…`."""
    old = _OLD_USER_ID.fullmatch(text)
    return old[1] if old else _in_json(text)


def _untitled(text: str) -> str:
    """Read the id of a title writer of the OpenCode family, which names the session it works for."""
    return text.removeprefix("title-")


_READERS: Mapping[str, Callable[[str], str | None]] = {
    "header:x-codex-turn-metadata": _in_json,
    "header:x-session-id": _untitled,
    "header:x-session-affinity": _untitled,
    "body:metadata.user_id": _of_user,
}
