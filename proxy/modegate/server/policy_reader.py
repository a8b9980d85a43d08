"""How the policies file is read: within bounds of size and time, whatever stands under its name.

A name can lead to a pipe, where opening waits for a writer, to a device, or to a server that does not answer.
Neither may stop the process from looking again, or from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modegate.core.errors import DialectName
from modegate.core.policy.file.policy import parse
from modegate.core.policy.file.problems import PolicyProblems, Problem
from modegate.core.policy.file.yaml_nodes import MAX_BYTES
from modegate.core.policy.model import Policy
from modegate.server.packs import shipped_packs

READ_S = 5.0
"""Seconds within which the file is read."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Content:
    """What a look at the file found: its bytes, or why there are none."""

    data: bytes
    error: str = ""

    def digest(self) -> str:
        """Return what differs if anything does."""
        return hashlib.sha256(self.data).hexdigest() + self.error

    def policy(self, dialects: Sequence[DialectName]) -> Policy:
        """Read the policy.

        Raises:
            PolicyProblems: there is nothing to read, or it is not valid.
        """
        if self.error:
            raise PolicyProblems([Problem("", 0, f"the file cannot be read: {self.error}")])
        return parse(self.data, dialects, shipped_packs())


def look(path: Path) -> Content:
    """Read the file that stands under this name now."""
    try:
        # Asked first, since opening a device can do something; and again, since it may be another by then.
        if other := _other_kind(os.stat(path)):
            return Content(b"", other)
        with open(os.open(path, _FLAGS), "rb") as file:
            if other := _other_kind(os.fstat(file.fileno())):
                return Content(b"", other)
            # One byte more than may be in it is enough to refuse it.
            return Content(file.read(MAX_BYTES + 1))
    except OSError as error:
        return Content(b"", error.strerror or str(error))


def _other_kind(found: os.stat_result) -> str:
    kind = stat.S_IFMT(found.st_mode)
    return (
        ""
        if stat.S_ISREG(kind)
        else f"it is {_KINDS.get(kind, 'something else')} and no regular file"
    )


class Reader:
    """Reads the file beside the event loop; a look that does not come back holds up nothing."""

    def __init__(self, read: Callable[[], Content]) -> None:
        self._read = read
        self._looking: asyncio.Future[Content] | None = None

    async def look(self) -> Content:
        """Read the file; one that cannot be read in time is an error until it can."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_future()
            # No thread of a pool, for which the process would wait at its end.
            threading.Thread(target=self._work, args=(self._looking,), daemon=True).start()
        looking = self._looking
        await asyncio.wait([looking], timeout=READ_S)
        if not looking.done():
            return Content(b"", f"no answer within {READ_S:g} s")
        self._looking = None
        return looking.result()

    def _work(self, looking: asyncio.Future[Content]) -> None:
        content = self._read()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            looking.get_loop().call_soon_threadsafe(_settle, looking, content)


def _settle(looking: asyncio.Future[Content], content: Content) -> None:
    if not looking.done():
        looking.set_result(content)
