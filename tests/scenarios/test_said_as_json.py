"""With `--log-format json` every line on stderr is an object, from the first to the last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running import TOKEN, policies_file
from support.waiting import PATIENCE


def lines_of(folder: Path, *options: str) -> tuple[list[Any], int]:
    """Run a proxy until it says that it has started, or fails; give all that it says, and its exit code."""
    command = [sys.executable, "-m", "modegate", "serve", "--port", "0", "--log-format", "json"]
    command += ["--policies", str(folder / "policies.yaml"), "--state-dir", str(folder), *options]
    environment = {**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as started:
        assert started.stderr
        first = started.stderr.readline()
        if b"started" in first:
            started.send_signal(signal.SIGTERM)
        lines = [first, *started.stderr]
        return [json.loads(line) for line in lines], started.wait(PATIENCE)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_o14_a_start_is_said_as_json(tmp_path: Path, workers: str) -> None:
    policies_file(tmp_path)
    (started, *_), code = lines_of(tmp_path, "--workers", workers)
    assert code == 0
    assert (started["event"], started["level"]) == ("started", "info")
    assert started["agents"].startswith("http://127.0.0.1:")
    assert TOKEN not in json.dumps(started)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_o14_a_failed_start_is_said_as_json(tmp_path: Path, workers: str) -> None:
    policies_file(tmp_path, "modes: {plan: {tools: [a, a]}}")
    lines, code = lines_of(tmp_path, "--workers", workers)
    assert code == 2
    assert any("policies.yaml:1" in line["message"] for line in lines)
