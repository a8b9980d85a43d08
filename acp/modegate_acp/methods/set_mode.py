"""Setting a mode for a client: one transition, whichever method asks for it.

Authorise, append, tell the caller, then answer. A client's wish is no proof of a person's decision, since
clients replay saved modes when they reconnect: so a mode is left only once the person at that same client
has confirmed it, or the client shows that it has seen the mode that it wants to leave.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from modegate.core.ids import ModeId, Seq, SessionId
from modegate.core.levels import follows, words_to_set
from modegate.core.log.fold import State
from modegate.core.log.parents import Held, Holder
from modegate.core.policy.model import Level
from modegate.server.proxy.sessions import held_by
from modegate_acp.connection.connection import Connection
from modegate_acp.following.permissions import Abstained
from modegate_acp.messages import commands
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import mode_named
from modegate_acp.messages.jsonrpc import CANCELLED, Message, Request, RpcError
from modegate_acp.render import sessions as render

CONFIRM_S = 600.0
"""How long a person may think about a dialog; then nothing was confirmed."""


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A mode that a client wants."""

    session: SessionId
    mode: ModeId
    method: str
    seen: int | None
    as_option: bool = False

    @classmethod
    def of(cls, connection: Connection, command: commands.SetMode) -> ModeChange:
        """Read a command by the policy of now.

        Raises:
            RpcError: the policy has no such mode.
        """
        mode = mode_named(connection.shared.policies.current, command)
        return cls(command.session, mode, command.method, command.seen, command.as_option)


Before = tuple[Seq, tuple[Holder, ...]]
"""What a person had before their eyes: where the session's own mode was set, and which parents hold it."""


class _Unconfirmed(Exception):
    def __init__(self, state: State) -> None:
        super().__init__("a person has to confirm this")
        self.state = state


async def set_mode(connection: Connection, wish: ModeChange, request: Request) -> Message | None:
    """Set a mode and give the result; None if a person is asked first, and the answer comes later."""
    # A later wish of the same client takes the place of one that still waits for its person.
    for method in ("session/set_mode", "session/set_config_option"):
        connection.work.stop(wish.session, "a later request", method=method)
    try:
        return await _set(connection, wish, None)
    except _Unconfirmed as unconfirmed:
        state = unconfirmed.state
    peer = connection.peer or Peer()
    if not peer.any_time:
        why = f"a person must confirm it, and {peer.label} asks people only while a prompt runs"
        return await _unset(connection, wish, f"{why}: send it as a prompt, `/mode {wish.mode}`")
    connection.work.later(request, wish.session, lambda: _confirmed(connection, wish, state))
    return None


async def set_now(connection: Connection, wish: ModeChange) -> Message:
    """Set a mode and give the result, and wait for the person if need be."""
    try:
        return await _set(connection, wish, None)
    except _Unconfirmed as unconfirmed:
        return await _confirmed(connection, wish, unconfirmed.state)


async def _confirmed(connection: Connection, wish: ModeChange, state: State) -> Message:
    dialog = f"mg-confirm-{connection.shared.clock.new_id()}"
    held = await _held(connection, wish, state)
    was, parent = held.mode(state.mode), follows(state)
    call, options = render.loosening(dialog, was, wish.mode, parent)
    if (connection.peer or Peer()).title_only:
        text = call["content"][0]["content"]["text"]
        connection.following.send(wish.session, render.said(wish.session, f"{text}\n\n"))
    try:
        async with asyncio.timeout(CONFIRM_S):
            chosen = await connection.following.replies.ask(wish.session, call, options)
    except TimeoutError:
        return await _unset(connection, wish, "nobody confirmed it in time")
    if isinstance(chosen, Abstained):
        return await _unset(connection, wish, chosen.why)
    if chosen.option != render.CONFIRM:
        return await _unset(connection, wish, "it was not confirmed")
    try:
        return await _set(connection, wish, (state.mode_seq, held.by))
    except _Unconfirmed:
        return await _unset(connection, wish, "the mode has changed meanwhile")


async def _unset(connection: Connection, wish: ModeChange, why: str) -> Message:
    """Return the result if the mode is in force by now all the same; else raise, and say which one is."""
    state = await connection.shared.folds.state(connection.key(wish.session))
    # Clients show the new mode before it is theirs: they are told the one in force.
    held = await _held(connection, wish, state)
    connection.following.tell_mode(wish.session, state, held)
    if held.mode(state.mode) == wish.mode:
        return _result(connection, wish, state, held)
    data: Message = {"modeId": held.mode(state.mode)}
    raise RpcError(CANCELLED, f"mode {wish.mode!r} was not set: {why}", data)


async def _set(connection: Connection, wish: ModeChange, confirmed: Before | None) -> Message:
    shared, key = connection.shared, connection.key(wish.session)
    before = await shared.folds.state(key)
    held = await _held(connection, wish, before)
    if held.by and held.mode(before.mode) == wish.mode and wish.method != "prompt":
        # The client was shown its parent's mode as this one's, and clients replay what they were shown.
        return _result(connection, wish, before, held)

    def allow(needed: Level, state: State) -> None:
        if needed is not Level.FULL and state.mode == wish.mode:
            return  # in force already: nothing is appended
        connection.need(needed, words_to_set(state, wish.mode))
        sure = confirmed == (state.mode_seq, held.by) or _sure(connection, wish, state, held)
        if needed is Level.FULL and not sure:
            raise _Unconfirmed(state)

    change = await shared.setter.set_mode(
        key, wish.mode, by=connection.by(wish.method), allow=allow
    )
    held = await _held(connection, wish, change.state)
    connection.following.catch_up(wish.session, change.state, held)
    return _result(connection, wish, change.state, held)


async def _held(connection: Connection, wish: ModeChange, state: State) -> Held:
    return await held_by(connection.shared.folds, connection.key(wish.session), state)


def _result(connection: Connection, wish: ModeChange, state: State, held: Held) -> Message:
    if not wish.as_option:
        return {}
    return {"configOptions": render.options(connection.shared.policies.current, state, held)}


def _sure(connection: Connection, wish: ModeChange, state: State, held: Held) -> bool:
    """Return whether a person decided this with the mode in force before their eyes, unasked."""
    if not connection.shared.policies.current.control.acp.confirm_loosening:
        return True
    if held.by:
        return False  # the number of an event of this session says nothing of its parents
    # What came after the mode was set does not change what the person saw.
    return wish.seen is not None and (
        wish.seen == state.seq or 0 < state.mode_seq <= wish.seen <= state.seq
    )
