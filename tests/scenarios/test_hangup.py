"""SIGHUP has the policies file read, by one process and by several, and ends nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.running import POLICIES, Process, policies_file, process
from support.waiting import PATIENCE


class Lines:
    """What a process says on stderr, read beside the test so that it never waits for us."""

    def __init__(self, said: Process) -> None:
        self.all: list[str] = []
        assert said.process.stderr is not None
        self._pipe = said.process.stderr
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._pipe:
            self.all.append(line.decode())

    def count(self, words: str) -> int:
        return sum(words in line for line in self.all)


def until(true: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    """Do something again and again until it shows."""
    end = time.monotonic() + 2 * PATIENCE
    while not true():
        assert time.monotonic() < end
        meanwhile()
        time.sleep(0.001)


def children(process: subprocess.Popen[bytes]) -> set[int]:
    """Return the workers of a process, and what else it has started."""
    return {
        int(word)
        for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    }


def takes_hangups(pid: int) -> bool:
    """Return whether SIGHUP reaches a handler of the process: neither its default nor waiting."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = {name: int(mask, 16) for name, _, mask in (line.partition(":\t") for line in status.splitlines())
             if name in ("SigCgt", "SigBlk")}  # fmt: skip
    return bool(masks["SigCgt"] & 1) and not masks["SigBlk"] & 1


@pytest.mark.parametrize("workers", [1, 2])
def test_s3_sighup_reads_the_policy_and_ends_nothing(tmp_path: Path, workers: int) -> None:
    with process(tmp_path, "http://127.0.0.1:9", "--workers", str(workers)) as started:
        said = Lines(started)
        for content, found in (
            (f"{POLICIES}limits: {{hops: 3}}\n", "was read as asked: it is in force"),
            ("modes: {", "was read as asked: it is not in force"),
        ):
            policies_file(tmp_path, content)
            # Who is still starting is asked for nothing, so they are asked until each has said it.
            until(
                lambda found=found: said.count(found) >= workers,  # type: ignore[misc]
                lambda: started.process.send_signal(signal.SIGHUP),
            )
        assert started.process.poll() is None
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(PATIENCE) == 0
    assert said.count("ended with exit code") == 0


def test_s3_sighup_does_not_end_a_worker_that_is_just_starting(tmp_path: Path) -> None:
    with process(tmp_path, "http://127.0.0.1:9", "--workers", "2") as started:
        said = Lines(started)
        until(lambda: sum(map(takes_hangups, children(started.process))) >= 2, lambda: None)
        before = children(started.process)
        os.kill(next(pid for pid in before if takes_hangups(pid)), signal.SIGKILL)
        until(
            lambda: any(takes_hangups(pid) for pid in children(started.process) - before),
            lambda: started.process.send_signal(signal.SIGHUP),
        )
        assert started.process.poll() is None
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(PATIENCE) == 0
    assert said.count("ended with exit code -9") == 1
    assert said.count("ended with exit code") == 1
