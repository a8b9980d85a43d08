"""How many connections there may be, and how long a request may take to arrive.

An agent that opens connections and sends nothing, or half a request, would use up the process's
descriptors. Nobody could then set a mode, and the policy could not be read again. So agents have a limit,
and people some connections beyond it. If even those are taken, the connection that has been idle for the
longest is closed. A client that sends its request at once never loses its connection so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

try:
    import resource
except ImportError:  # pragma: no cover -- Windows has no such limit
    resource = None  # type: ignore[assignment]

FULL = "modegate.full"
"""Key in the scope of an agent's request that is over the limit."""

FOR_PEOPLE = 32
"""Connections beyond those of agents: the control API, ACP, probes."""

OWN_FILES = 64
"""Descriptors for everything else: the log, the policy, listening sockets, pipes."""

MOST = 10_000
"""Connections of agents, even if there are descriptors for more."""

HEAD_S = 30.0
"""Seconds for a head, from its first byte or from the start of the connection; real ones take one packet."""

SILENT_S = 60.0
"""Seconds that a body may pause."""

BODY_S = 900.0
"""Seconds for a whole body: 64 MiB at 600 kbit/s."""


class Connection(Protocol):
    """A connection."""

    @property
    def is_idle(self) -> bool:
        """Whether it may be closed without harm."""

    def evict(self) -> None:
        """Close it to make room."""

    def is_overdue(self, now: float) -> bool:
        """Return whether its request takes longer to arrive than it may."""

    def time_out(self) -> None:
        """Say so to the client, and close it."""


class ConnectionLimits:
    """All connections of a process."""

    def __init__(self, agents: int) -> None:
        self._agents = agents
        self._connections: dict[Connection, None] = {}
        self._busy: set[Connection] = set()

    def admit(self, connection: Connection) -> bool:
        """Admit a new connection; return False if there is no room and none is idle."""
        if len(self._connections) >= self._agents + FOR_PEOPLE:
            idle = next((one for one in self._connections if one.is_idle), None)
            if idle is None:
                return False
            self.forget(idle)
            idle.evict()
        self._connections[connection] = None
        return True

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._busy.discard(connection)

    def serve_agent(self, connection: Connection) -> bool:
        """Count an agent's request; return False if there is no room for it."""
        if connection not in self._busy and len(self._busy) >= self._agents:
            return False
        self._busy.add(connection)
        return True

    def serves_agent(self, connection: Connection) -> bool:
        return connection in self._busy

    def served(self, connection: Connection) -> None:
        """Note that a request was answered: the connection is the latest to become idle."""
        self._busy.discard(connection)
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def sweep(self, now: float) -> None:
        for connection in [one for one in self._connections if one.is_overdue(now)]:
            connection.time_out()


def room_for_agents(chosen: int | None = None) -> int:
    """Raise the limit of descriptors as far as possible; return how many agents' connections that allows.

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
    """Return the limit to ask for: not the highest, as some programs close every descriptor there may be."""
    wanted = 2 * connections + OWN_FILES + FOR_PEOPLE
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return soft if soft == resource.RLIM_INFINITY else max(soft, wanted)
    return max(soft, min(wanted, hard))
