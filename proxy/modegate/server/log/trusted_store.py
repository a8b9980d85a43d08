"""Which store this process trusts: a store that is gone, or another one, must not open the gate.

A store gets an identity when it is first used. A process that trusts none yet takes the identity of the store
it meets first, and keeps it beside the control token. From then on it trusts no other: an empty store, or one
of another identity, says nothing about the modes that were set. With `adopt`, an operator who has looked says
that a store is the right one.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from modegate.core.errors import AnotherLog

IDENTITY_FILE = "log-id"
REACHED_FILE = "log-reached"
"""Beside it: how far the feed of the store had come when that was last noted."""

NOTE_EVERY_S = 5.0

logger = logging.getLogger(__name__)


class TrustedStore:
    """The identity of the one store that is trusted, in memory and in a file."""

    def __init__(self, path: Path | None = None, given: str | None = None) -> None:
        """Remember where the identity is kept; without a path it lasts as long as the process.

        With `given`, the identity that the store must have by a setting, no file is read or written.
        """
        self.moved = 0
        """How often another store was trusted than before, since operators adopted it."""
        self._path = None if given else path
        self.given = given
        self.identity = given or self._read()
        """Of the store that is trusted; None: whichever is met first."""
        self._reached_file = self._path and self._path.with_name(REACHED_FILE)
        self._met: int | None = None
        self._older = False
        self._doubted = True
        self._last = 0
        self._noted_at = -NOTE_EVERY_S

    @property
    def met(self) -> bool:
        """Whether the store was asked who it is and how far it has come."""
        return self._met is not None and self.identity is not None

    def meet(self, end: int) -> None:
        """Take how far the store's feed has come when it is first asked: an older copy is behind."""
        self._met = end
        self._older = end < self._reached()

    def doubt(self) -> None:
        """Note nothing of the store until it was found to be the right one again."""
        self._doubted = True

    def reached(self, end: int) -> None:
        """Note now and then how far the feed has come: an older copy of the store ends before that."""
        if self._doubted:
            return
        self._last = end
        now = time.monotonic()
        if now - self._noted_at >= NOTE_EVERY_S:
            self._noted_at = now
            self.note()

    def note(self) -> None:
        """Note it at once."""
        if self._reached_file is None or self._doubted or self._last <= self._reached():
            return
        with suppress(OSError):  # it only helps
            _write(self._reached_file, str(self._last), sync=False)

    def _reached(self) -> int:
        if self._reached_file is None:
            return 0
        try:
            return int(self._reached_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def is_ours(self, found: str | None) -> bool:
        """Return whether a store of this identity is trusted; False if none was met yet, so it is to be kept.

        Raises:
            AnotherLog: another store is trusted, or this one has lost its identity.
        """
        if self._older:
            # Unless another process of the same folder has adopted it.
            self._older = (self._met or 0) < self._reached()
        if self._older:
            self._doubted = True
            raise another(
                "it ends before what it held already: an older copy, or its last events are lost"
            )
        if found is not None and found == self.identity:
            self._doubted = False
            return True
        self._doubted = True
        if self.given is None:
            # Another process of the same folder may have adopted it, or have been the first.
            self._take(self._read() or self.identity)
        if self.identity is None:
            return False
        if found == self.identity:
            self._doubted = False
            return True
        what = f"another one ({found})" if found else "empty, or has lost what it was called"
        raise another(f"this proxy belongs to {self.identity}, and the one it finds is {what}")

    def keep(self, identity: str) -> None:
        """Trust this store from now on.

        Raises:
            AnotherLog: a setting says which store it must be.
        """
        if self.given not in (None, identity):
            raise AnotherLog(
                f"the event log is {identity}, and MODEGATE_LOG_ID says {self.given}: change the setting"
            )
        self._take(identity)
        self._older = self._doubted = False
        if self._path is None or self._reached_file is None:
            return
        try:
            _write(self._path, identity)
            _write(self._reached_file, str(self._met or 0))
        except OSError as error:
            logger.warning(
                "the identity of the event log, %s, cannot be kept in %s (%s): after a restart another or an "
                "empty one would not be noticed; set MODEGATE_LOG_ID=%s", identity, self._path,
                error.strerror or error, identity,
            )  # fmt: skip

    def _take(self, identity: str | None) -> None:
        self.moved += self.identity not in (None, identity)
        self.identity = identity

    def _read(self) -> str | None:
        if self._path is None:
            return None
        try:
            return self._path.read_text(encoding="ascii").strip()[:100] or None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            # Not None: that would be to trust whatever comes.
            why = f"which one is the right one cannot be read from {self._path.name}"
            raise another(why) from error


def another(why: str) -> AnotherLog:
    """Return the error for a store that is not the right one, or lost a part of itself."""
    return AnotherLog(
        f"the event log is not the one it was: {why}. Modes that people set may be gone with it, so no "
        "request is served until an operator has looked and runs: modegate log adopt"
    )


def _write(path: Path, text: str, *, sync: bool = True) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
