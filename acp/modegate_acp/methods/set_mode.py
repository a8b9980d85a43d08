"""Setting a mode for a client: one transition, whichever method asks for it.

Authorise, append, tell the caller, then answer. That a client asks does not prove that a person decided:
clients replay saved modes when they reconnect. So a mode is left only once the person at that same client has
confirmed it, or the client shows that it has seen the mode that it wants to leave.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from modegate.core.ids import ModeId, Seq, SessionId
from modegate.core.levels import follows, words_to_set
from modegate.core.log.fold import State
from modegate.core.policy.gating import Held, Holder
from modegate.core.policy.model import Level
from modegate_acp.connection.connection import Connection
from modegate_acp.following.catch_up import Snapshot
from modegate_acp.following.session_feed import read_snapshot, snapshot_of
from modegate_acp.messages.commands import SetMode, mode_named
from modegate_acp.messages.jsonrpc import CANCELLED, Message, Request, RpcError
from modegate_acp.render import questions, sessions

CONFIRM_S = 600.0
"""How long a person may think about a dialog; then nothing was confirmed."""


@dataclass(frozen=True, slots=True)
class ModeChange:
    session: SessionId
    mode: ModeId
    method: str
    seen: int | None

    @classmethod
    def of(cls, connection: Connection, command: SetMode) -> ModeChange:
        """Read a command by the policy of now.

        Raises:
            RpcError: the policy has no such mode.
        """
        mode = mode_named(connection.services.policies.current, command)
        return cls(command.session, mode, command.method, command.seen)


Before = tuple[Seq, tuple[Holder, ...]]
"""What a person was shown: the event that set the session's own mode, and which parents hold it."""


class _Unconfirmed(Exception):
    def __init__(self, state: State) -> None:
        super().__init__("a person has to confirm this")
        self.state = state


async def set_mode(connection: Connection, change: ModeChange, request: Request) -> Message | None:
    """Set a mode and return the result; None if a person is asked first, and the answer comes later."""
    # What a client wants now takes the place of what it wanted before and its person has not confirmed yet.
    for method in ("session/set_mode", "session/set_config_option"):
        connection.running.stop(change.session, "a later request", method=method)
    try:
        return await _set(connection, change, None)
    except _Unconfirmed as unconfirmed:
        state = unconfirmed.state
    peer = connection.peer
    if not peer.any_time:
        why = f"a person must confirm it, and {peer.label} asks people only while a prompt runs"
        return await _unset(
            connection, change, f"{why}: send it as a prompt, `/mode {change.mode}`"
        )
    confirmed = partial(_confirmed, connection, change, state)
    connection.running.later(request, change.session, confirmed)
    return None


async def set_now(connection: Connection, change: ModeChange) -> Message:
    """Set a mode and return the result, and wait for the person if need be."""
    try:
        return await _set(connection, change, None)
    except _Unconfirmed as unconfirmed:
        return await _confirmed(connection, change, unconfirmed.state)


async def _confirmed(connection: Connection, change: ModeChange, state: State) -> Message:
    dialog = f"mg-confirm-{connection.services.clock.new_id()}"
    before = await snapshot_of(connection.services, connection.key(change.session), state)
    call, options = questions.confirmation(dialog, before.mode, change.mode, follows(state))
    if connection.peer.title_only:
        text = call["content"][0]["content"]["text"]
        connection.followed.send(
            change.session, sessions.agent_message(change.session, f"{text}\n\n")
        )
    try:
        async with asyncio.timeout(CONFIRM_S):
            chosen = await connection.questions.requests.ask(change.session, call, options)
    except TimeoutError:
        return await _unset(connection, change, "nobody confirmed it in time")
    if isinstance(chosen, questions.Abstained):
        return await _unset(connection, change, chosen.why)
    if chosen.option != questions.CONFIRM:
        return await _unset(connection, change, "it was not confirmed")
    try:
        return await _set(connection, change, (state.mode_seq, before.held.by))
    except _Unconfirmed:
        return await _unset(connection, change, "the mode has changed meanwhile")


async def _unset(connection: Connection, change: ModeChange, why: str) -> Message:
    """Return the result if the mode is in force by now all the same; else raise, and say which one is."""
    now = await read_snapshot(connection.services, connection.key(change.session))
    # Clients show the new mode before it is theirs: they are told the one in force.
    connection.followed.tell_mode(now)
    if now.mode == change.mode:
        return _result(now, change)
    raise RpcError(CANCELLED, f"mode {change.mode!r} was not set: {why}", {"modeId": now.mode})


async def _set(connection: Connection, change: ModeChange, confirmed: Before | None) -> Message:
    services, key = connection.services, connection.key(change.session)
    before = await read_snapshot(services, key)
    if before.held.by and before.mode == change.mode and change.method != "prompt":
        # The client was shown its parent's mode as this one's, and clients replay what they were shown.
        return _result(before, change)

    def allow(needed: Level, state: State) -> None:
        if needed is not Level.FULL and state.mode == change.mode:
            return  # in force already: nothing is appended
        connection.need(needed, words_to_set(state, change.mode))
        held = before.held
        sure = confirmed == (state.mode_seq, held.by) or _sure(connection, change, state, held)
        if needed is Level.FULL and not sure:
            raise _Unconfirmed(state)

    by = connection.by(change.method)
    done = await services.setter.set_mode(key, change.mode, by=by, allow=allow)
    now = await snapshot_of(services, key, done.state)
    connection.followed.catch_up(now)
    return _result(now, change)


def _result(now: Snapshot, change: ModeChange) -> Message:
    return {"configOptions": now.options} if change.method == "set_config_option" else {}


def _sure(connection: Connection, change: ModeChange, state: State, held: Held) -> bool:
    """Return whether a person knew the mode in force when they decided, so that nobody need ask them."""
    if not connection.services.policies.current.control.acp.confirm_loosening:
        return True
    if held.by:
        return False  # the number of an event of this session says nothing of its parents
    # What came after the mode was set does not change what the person saw.
    seen = change.seen
    return seen is not None and (seen == state.seq or 0 < state.mode_seq <= seen <= state.seq)
