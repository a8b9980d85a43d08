"""How many connections there are, how long a request may take to arrive, and that people always get in.

An agent that opens connections and says nothing, or half a request, would take all descriptors of the
process: nobody could set a mode any more, and the policy could not be read again. So agents have so many and
no more, some beyond that are for people, and where there are more still, the one goes that has been idle for
the longest: whoever sends a request at once is never that one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

try:
    import resource
except ImportError:  # pragma: no cover -- Windows has no such limit
    resource = None  # type: ignore[assignment]

FULL = "modegate.full"
"""In the scope of an agent's request for which there is no room."""

FOR_PEOPLE = 32
"""Connections beyond those of agents: the control API, ACP, probes."""

OWN_FILES = 64
"""Descriptors for all that is no connection: the log, the policy, sockets, pipes."""

MOST = 10_000
"""Connections of agents, where descriptors would do for more."""

HEAD_S = 30.0
"""What a head may take from its first byte, or from the connection's beginning; real ones take one packet."""

SILENT_S = 60.0
"""How long a body may pause while it is waited for."""

BODY_S = 900.0
"""What a body may take in all: 64 MiB at 600 kbit/s."""


class Connection(Protocol):
    """A connection."""

    @property
    def is_idle(self) -> bool:
        """Whether it keeps nobody from ending it."""
        ...

    def evict(self) -> None:
        """End it."""
        ...

    def is_overdue(self, now: float) -> bool:
        """Return whether it keeps waiting for longer than it may."""
        ...

    def time_out(self) -> None:
        """Tell it so, and end it."""
        ...


class ConnectionLimits:
    """All connections of a process."""

    def __init__(self, agents: int) -> None:
        """Take so many connections with requests of agents, and some more for people."""
        self._agents = agents
        self._connections: dict[Connection, None] = {}
        self._busy: set[Connection] = set()

    def admit(self, connection: Connection) -> bool:
        """Take a new connection; False where there is no room at all, and nobody idle to make some."""
        if len(self._connections) >= self._agents + FOR_PEOPLE:
            idle = next((one for one in self._connections if one.is_idle), None)
            if idle is None:
                return False
            self.forget(idle)
            idle.evict()
        self._connections[connection] = None
        return True

    def forget(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.pop(connection, None)
        self._busy.discard(connection)

    def serve_agent(self, connection: Connection) -> bool:
        """Take a request of an agent; False where there is no room for it."""
        if connection not in self._busy and len(self._busy) >= self._agents:
            return False
        self._busy.add(connection)
        return True

    def serves_agent(self, connection: Connection) -> bool:
        """Return whether a connection is one of those with requests of agents."""
        return connection in self._busy

    def served(self, connection: Connection) -> None:
        """A request has been answered; the connection counts as idle from here on, as the latest."""
        self._busy.discard(connection)
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def sweep(self, now: float) -> None:
        """End the connections that keep waiting for what does not come."""
        for connection in [one for one in self._connections if one.is_overdue(now)]:
            connection.time_out()


def room_for_agents(chosen: int | None = None) -> int:
    """Raise the limit of descriptors as far as it goes; give how many connections of agents that allows.

    Each can need a second descriptor, towards its upstream.
    """
    most = chosen or MOST
    if resource is None:  # pragma: no cover
        return most
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems take less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (_enough(hard, most), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, (soft - OWN_FILES - FOR_PEOPLE) // 2))


def _enough(hard: int, connections: int) -> int:
    """Return what to ask for: not all there is, as some programs close each descriptor."""
    wanted = 2 * connections + OWN_FILES + FOR_PEOPLE
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return soft if soft == resource.RLIM_INFINITY else max(soft, wanted)
    return max(soft, min(wanted, hard))
