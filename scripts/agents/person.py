"""Persons: one at `modegate watch`, who reads each plan and approves it, and one who sets default mode."""

from __future__ import annotations

import os
import pty
import subprocess
import threading

from proxy import Proxy

QUESTION = b"Your answer: "
"""How `modegate watch` asks for one."""

CHUNK = 65_536
LOOK_S = 0.2
WIDTH = {"COLUMNS": "200", "TERM": "dumb"}


class Person:
    """Somebody who sits at `modegate watch` in a terminal of their own."""

    def __init__(self, command: list[str], environment: dict[str, str], reads: float) -> None:
        """Sit down. `reads` is how many seconds they take over each plan before they approve it."""
        self._reads = reads
        self._terminal, inner = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment | WIDTH,
            start_new_session=True,
        )
        os.close(inner)
        self._shown = bytearray()
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._sit, daemon=True)
        self._thread.start()

    def leave(self) -> str:
        """Get up; gives all that was shown."""
        self._gone.set()
        # Not ^C: who was started in the background of a shell does not hear it.
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        os.close(self._terminal)
        return self._shown.decode("utf-8", "replace")

    def _sit(self) -> None:
        answered = 0
        while True:
            try:
                piece = os.read(self._terminal, CHUNK)
            except OSError:
                return  # the terminal is closed: the program has ended
            if not piece:
                return
            self._shown += piece
            asked = self._shown.count(QUESTION)
            if asked > answered:
                answered = asked
                if self._gone.wait(self._reads):
                    return
                os.write(self._terminal, b"y\n")


class Leaver:
    """Somebody who sets default mode as soon as a call was refused, while the agent is at work."""

    def __init__(self, proxy: Proxy, session: str) -> None:
        """Begin to look at the session's log."""
        self._proxy, self._session = proxy, session
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._gone.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._gone.wait(LOOK_S):
            if any(event["type"] == "turn/withheld" for event in self._proxy.log(self._session)):
                self._proxy.set_mode(self._session, "default")
                return
