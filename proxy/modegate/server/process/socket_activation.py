"""Sockets that a parent process has opened already, as systemd does (sd_listen_fds(3)).

They stay open while this process is restarted, so a client that connects meanwhile waits and is not refused.
"""

from __future__ import annotations

import socket
from collections.abc import MutableMapping

from modegate.server.jobs import StartFailed

FIRST = 3
"""The number of the first descriptor that is handed over (SD_LISTEN_FDS_START)."""

_NAMES = ("agents", "control")


def inherited_sockets(environ: MutableMapping[str, str], pid: int) -> list[socket.socket]:
    """Return the sockets meant for this process: that for agents, then that for people, if there are two.

    If both have a name (`FileDescriptorName=` of a socket unit), the names tell them apart, else their
    order. The variables are removed, since they are not meant for child processes.

    Raises:
        StartFailed: they are no listening TCP sockets, or more than two.
    """
    found = {name: environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    environ.pop("LISTEN_PIDFDID", None)
    if found["LISTEN_PID"] != str(pid):
        return []
    count = found["LISTEN_FDS"]
    if not (count.isdecimal() and 1 <= int(count) <= len(_NAMES)):
        raise StartFailed(
            f"Error: {count[:20]!r} sockets were passed; modegate takes one, for agents, and a second "
            "for people"
        )
    sockets = [_listening(FIRST + number) for number in range(int(count))]
    names = found["LISTEN_FDNAMES"].split(":")
    return sockets[::-1] if names == ["control", "agents"] else sockets


def _listening(descriptor: int) -> socket.socket:
    try:
        one = socket.socket(fileno=descriptor)
    except OSError as error:
        raise StartFailed(f"Error: descriptor {descriptor} that was passed is no socket") from error
    one.set_inheritable(False)
    tcp = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
    if not (tcp and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        raise StartFailed(
            f"Error: descriptor {descriptor} that was passed is no listening TCP socket"
        )
    return one
