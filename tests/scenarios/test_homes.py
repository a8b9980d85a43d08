"""N022: a home that cannot be written: it says what to set, and starts once that is set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.redis_server import free_port
from support.running import TOKEN, policies_file

HOMES = ["/proc", "/etc/hostname"]
COMMAND = [sys.executable, "-m", "modegate", "serve", "--upstream", "http://127.0.0.1:9"]


def environment(home: str) -> dict[str, str]:
    """Return an environment in which nothing but the home says where things are kept."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MODEGATE_", "XDG_"))
    }
    return {**kept, "HOME": home}


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize(
    ("token", "named"), [("", "MODEGATE_CONTROL_TOKEN"), (TOKEN, "MODEGATE_LOG")]
)
def test_n022_it_ends_in_words_that_name_what_to_set(
    tmp_path: Path, home: str, token: str, named: str
) -> None:
    command = [*COMMAND, "--port", "0", "--policies", str(policies_file(tmp_path))]
    environ = environment(home) | ({"MODEGATE_CONTROL_TOKEN": token} if token else {})
    ended = subprocess.run(command, env=environ, capture_output=True, timeout=60)
    said = ended.stderr.decode()
    assert ended.returncode == 1
    assert said.startswith("Error: ")
    assert named in said
    assert "Traceback" not in said


@pytest.mark.parametrize("home", HOMES)
def test_n022_with_a_log_and_a_token_it_starts(tmp_path: Path, home: str) -> None:
    port = free_port()
    command = [*COMMAND, "--port", str(port), "--policies", str(policies_file(tmp_path))]
    command += ["--log", f"sqlite:{tmp_path / 'log.db'}"]
    environ = {**environment(home), "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE) as started:
        assert started.stderr is not None
        try:
            first = started.stderr.readline().decode()
            assert first.rstrip().endswith(f"http://127.0.0.1:{port}"), first
            mode = [sys.executable, "-m", "modegate", "mode", "s", "plan"]
            url = {"MODEGATE_URL": f"http://127.0.0.1:{port}"}
            set_ = subprocess.run(mode, env=environ | url, capture_output=True, timeout=60)
            assert set_.returncode == 0, set_.stderr
        finally:
            started.terminate()
            started.wait(30)
