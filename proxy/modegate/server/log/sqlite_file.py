"""The embedded store's file: connections, transactions, and whether it is still the one that was opened."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from modegate.core.errors import AnotherLog
from modegate.server.log import sqlite_schema as schema
from modegate.server.log.common import Failures
from modegate.server.log.trusted_store import TrustedStore

T = TypeVar("T")

_IDENTITY = "select value from store where name = 'identity'"


class SqliteFile:
    """One connection that reads in the event loop's thread, and one that writes in a thread of its own."""

    def __init__(self, path: Path, trusted: TrustedStore) -> None:
        """Open the file, creating it and its folder; `trusted` says which file is trusted.

        Raises:
            LogUnavailable: that cannot be done.
        """
        schema.create(path)
        self.trusted = trusted
        self._path = path
        self.reader = schema.connect(path)
        self.writer = schema.connect(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="modegate-log")
        self._opened = self._inode()
        self._identity = str(value_of(self.reader, _IDENTITY))
        trusted.meet(value_of(self.reader, "select max(id) from feed") or 0)
        self._failures = Failures()

    def adopt(self) -> str:
        """Trust the file as it is from now on; return its identity.

        Raises:
            AnotherLog: it was removed or replaced, or a setting says which one it must be.
        """
        if self._inode() == self._opened:
            self.trusted.keep(self._identity)
        self._require_file()
        return self._identity

    async def close(self) -> None:
        """Finish what is being written and let go of the file."""
        await asyncio.to_thread(self._thread.shutdown)
        self.trusted.note()
        self.reader.close()
        self.writer.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection that reads.

        Raises:
            LogUnavailable: what is read within cannot be read.
        """
        self._require_file()
        try:
            yield self.reader
        except sqlite3.Error as error:
            raise self._failures.error("read", error) from error

    async def write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job as one transaction, durably.

        Raises:
            LogUnavailable: it cannot be written.
        """
        self._require_file()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._transact, job)
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise self._failures.error("written", error, full=full) from error

    def _transact(self, job: Callable[[sqlite3.Connection], T]) -> T:
        db = self.writer
        db.execute("begin immediate")
        try:
            result = job(db)
            db.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):  # a failed commit may have rolled back already
                db.execute("rollback")
            raise
        return result

    def _inode(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def _require_file(self) -> None:
        # Other processes would write to the new file while this one kept reading the old.
        if self._inode() != self._opened:
            raise AnotherLog(
                "the event log was removed or replaced while modegate ran; put it back if you can, then "
                "restart modegate"
            )
        if not self.trusted.is_ours(self._identity):
            self.trusted.keep(self._identity)


def value_of(db: sqlite3.Connection, sql: str, *values: Any) -> Any:
    """Return the first column of the first row; None if there is none."""
    row = db.execute(sql, values).fetchone()
    return row[0] if row else None
