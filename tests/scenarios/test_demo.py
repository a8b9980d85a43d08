"""`modegate demo` tells its whole story, and fails where something of it does not happen."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modegate.demo.agent import Agent
from modegate.demo.story import DemoFailed, demo


def test_the_demo(tmp_path: Path) -> None:
    """It exits with 0 after every fact held, and leaves the file that proves it, past any proxy."""
    command = [sys.executable, "-m", "modegate", "demo", "--folder", str(tmp_path)]
    away = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **away, "NO_PROXY": "", "no_proxy": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "greeting.txt").read_text() == "hello\nworld\nagain\n"
    for part in (
        "was refused",
        "offered: read_file, exit_plan_mode\n",
        "is shown the plan",
        "approval/answered",
    ):
        assert part in done.stdout
    assert done.stdout.rstrip().endswith("All of it happened.")


async def test_the_demo_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent whose tools do nothing is found out."""
    monkeypatch.setattr(Agent, "_act", lambda *_: "wrote nothing")
    with pytest.raises(DemoFailed, match="on disk"):
        await demo(tmp_path)


# ^C at a terminal reaches those that it controls.
AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [
        ("y\n", 0, "All of it happened."),
        ("n\n", 0, "nothing was written: that is how it should be"),
        ("\n", 0, "nothing was written: that is how it should be"),
        ("\x04", 0, "nothing was written: that is how it should be"),
        ("\x03", 1, "Aborted!"),
    ],
    ids=["yes", "no", "Enter", "^D", "^C"],
)
def test_o12_whatever_is_typed_ends_the_demo_in_words(
    tmp_path: Path, typed: str, code: int, told: str
) -> None:
    """At a terminal of its own, as make gives it one; no traceback, and nobody waits."""
    command = [sys.executable, "-c", AT_TERMINAL, sys.executable, "-m", "modegate", "demo"]
    command += ["--folder", str(tmp_path / "work")]
    terminal, theirs = os.openpty()
    started = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    seen, answered = b"", False
    with contextlib.suppress(OSError):  # which is how a terminal says that nobody holds it any more
        while data := os.read(terminal, 65536):
            seen += data
            if not answered and b"Approve it?" in seen:
                os.write(terminal, typed.encode())
                answered = True
    os.close(terminal)
    assert started.wait() == code
    assert answered
    assert told in seen.decode()
    assert "Traceback" not in seen.decode()
