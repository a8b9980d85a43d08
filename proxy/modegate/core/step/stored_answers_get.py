"""Stored answers, fetched later: in a mode only those of the session itself, and never what was refused.

An answer is asked for under the id that the client knows; what the provider is asked for is the last hop's,
and what comes back bears the client's id again.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from modegate.core.endpoints import StoredPaths
from modegate.core.errors import EndpointNotGated
from modegate.core.ids import StepId
from modegate.core.log.events import AnswerMapped
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.gate import Gate, withhold_all
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.dialect import AnyDialect, Fetched
from modegate.core.step.stored_answers import known
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.step.text_calls.rules import TextCalls

_WHOLE = frozenset({b"", b"stream=false"})
"""Queries that leave the answer one body; `include` adds to it and is taken too."""

_IDS = ("call_id", "id", "approval_request_id")
"""Where a result says which call it is of."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """What is asked of the provider, and how its answer is looked at."""

    path: bytes
    """With the id of the last hop."""
    name: str
    """The id that the client knows."""
    mapped: AnswerMapped
    asked: bool = False
    """It is for what the answer was given to: the request's items."""


def name_of(paths: StoredPaths, path: bytes) -> str:
    """Return the id of the answer that a path names; empty for none."""
    match = paths.name.fullmatch(path)
    return match["id"].decode() if match else ""


def plan(paths: StoredPaths, path: bytes, query: bytes, in_force: ModesInForce) -> Fetch | None:
    """Find what a request is for; None where it may pass as it is.

    Raises:
        EndpointNotGated: in a mode, an answer that is not known to be this session's; or a form of an
            answer that cannot be looked at.
    """
    match = paths.name.fullmatch(path)
    name = name_of(paths, path)
    mapped = known(name, in_force.state)
    if match is None or mapped is None:
        if not in_force.gated:
            return None
        raise EndpointNotGated(
            f"in mode {in_force.label!r} only answers can be fetched that were given to this session in a "
            "mode"
        )
    streamed = any(part.startswith((b"stream", b"starting")) for part in _parts(query))
    if streamed:
        raise EndpointNotGated(
            "of an answer that was given in a mode, no stream can be fetched; fetch it whole"
        )
    if match["rest"] == paths.items:
        # What the client asked stands at the hop that it knows: the others were asked by modegate.
        return Fetch(path, name, mapped, asked=True)
    rest = path[match.end("id") :]
    return Fetch(match["base"] + mapped.last.encode() + rest, name, mapped)


def _parts(query: bytes) -> list[bytes]:
    return [part for part in query.lower().split(b"&") if part not in _WHOLE]


def reworded(step: StepId, body: bytes, dialect: AnyDialect, in_force: ModesInForce) -> bytes:
    """Return a stored answer without calls in its plain text, where a mode says that those are refused.

    Which agent asks is not known here, so that nothing else counts.

    Raises:
        AnswerUnreadable: it cannot be read with no doubt left.
    """
    if all(force.mode.text_calls != "refuse" for force in in_force.modes):
        return body
    texts = TextGate(dialect, TextCalls(frozenset()), {}, len(body))
    texts.whole(body)
    calls = texts.to_judge()
    Gate(step, frozenset()).judge(calls, Offer(in_force, (), frozenset()), in_force)
    withhold_all(call for call in calls if not call.released)
    return texts.body()


def judge(step: StepId, fetched: Fetched, fetch: Fetch, in_force: ModesInForce) -> bytes:
    """Return a stored answer without what the mode in force does not allow, and what was refused."""
    offer = Offer(in_force, (), frozenset())
    calls = fetched.calls
    Gate(step, frozenset()).judge(calls, offer, in_force)
    owed = [msgspec.json.decode(o) for m in in_force.state.mapped.values() for o in m.owed]
    refused = frozenset(str(one[key]) for one in owed for key in _IDS if key in one)
    # Nobody is asked about what was decided long ago.
    withhold_all(call for call in calls if not call.released or call.id in refused)
    mapped = fetch.mapped
    own = frozenset((mapped.client, mapped.last, *mapped.hops))
    return fetched.write(fetch.name, refused, own)
