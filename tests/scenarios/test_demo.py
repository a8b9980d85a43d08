"""`modegate demo` tells its whole story, and fails where something of it does not happen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modegate.demo.agent import Agent
from modegate.demo.story import DemoFailed, demo


def test_the_demo(tmp_path: Path) -> None:
    """It exits with 0 after every fact held, and leaves the file that proves it."""
    command = [sys.executable, "-m", "modegate", "demo", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ})
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
