"""A control address of its own, and several worker processes, as an operator starts them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.redis_server import free_port
from support.running import TOKEN, Process, process
from support.waiting import PATIENCE

AUTH = {"authorization": f"Bearer {TOKEN}"}
SCRIPT = "answers:\n  - text: hello\n"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT, encoding="utf-8")
    return f"scripted:{path}"


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False, timeout=PATIENCE)


def ask(base: str) -> Any:
    answer = httpx.post(f"{base}/chat/completions", json=ASKED, trust_env=False, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


# A control address.


@pytest.fixture
def apart(tmp_path: Path, script: str) -> Iterator[tuple[str, str]]:
    """Yield the address of agents and that of people."""
    port = free_port()
    with process(tmp_path, script, "--control-port", str(port)) as started:
        yield started.running.url, f"http://127.0.0.1:{port}"


def test_each_address_serves_its_own(apart: tuple[str, str]) -> None:
    """Agents reach no control surface, not by any spelling, and people's address serves no agent."""
    agents, people = apart
    assert ask(f"{agents}/s/one/v1") == "hello"
    for path in ("/control/v1/sessions", "//control/v1/sessions", "/acp", "/metrics", "///metrics"):
        assert get(agents + path, **AUTH).status_code == 404, path
    assert get(f"{people}/control/v1/sessions", **AUTH).json()["sessions"][0]["id"] == "one"
    assert get(f"{people}/control/v1/sessions").status_code == 401
    assert get(f"{people}/metrics").status_code == 200
    for path in ("/s/one/v1/models", "/v1/models", "/"):
        assert get(people + path, **AUTH).status_code == 404, path
    for base in apart:
        assert get(f"{base}/healthz").text == "ok\n"
        assert get(f"{base}/readyz").json()["ready"] is True


@pytest.mark.parametrize("path", ["/acp", "/v1/responses"])
def test_a_websocket_is_taken_only_for_acp_and_only_there(
    apart: tuple[str, str], path: str
) -> None:
    """Everywhere else it is refused without a tunnel."""
    upgrade = {
        **AUTH,
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    agents, people = apart
    assert get(agents + path, **upgrade).status_code in (404, 426)
    statuses = {"/acp": {101}, "/v1/responses": {404, 426}}[path]
    with httpx.stream("GET", people + path, headers=upgrade, trust_env=False) as answer:
        assert answer.status_code in statuses


# Workers.


def workers_of(started: Process) -> set[int]:
    """Return the worker processes, which are this process's children but for the resource tracker."""
    listed = ["ps", "-ww", "--ppid", str(started.process.pid), "-o", "pid=,args="]
    lines = subprocess.run(listed, capture_output=True, text=True, check=False).stdout.splitlines()
    return {int(line.split()[0]) for line in lines if "spawn_main" in line}


def test_workers_share_one_truth_and_are_replaced(tmp_path: Path, script: str) -> None:
    """Any of them obeys the mode that another was told; one that is killed is started again."""
    with process(tmp_path, script, "--workers", "2") as started:
        base = started.running.url
        put = httpx.put(
            f"{base}/control/v1/sessions/s/mode",
            headers=AUTH,
            json={"mode": "plan"},
            trust_env=False,
        )
        assert put.status_code == 200
        before = workers_of(started)
        assert len(before) == 2
        for _ in range(10):
            answer = httpx.post(f"{base}/s/s/v1/chat/completions", json=ASKED, trust_env=False)
            assert answer.headers["x-modegate-mode"] == "plan"
        page = get(f"{base}/metrics").text
        assert (
            sum(map(float, re.findall(r"^modegate_steps_total\{.*\} (\S+)$", page, re.MULTILINE)))
            == 10
        )
        subprocess.run(["kill", "-9", str(min(before))], check=True)
        while len(now := workers_of(started)) < 2 or now == before:
            assert started.process.poll() is None
        assert ask(f"{base}/s/other/v1") == "hello"
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(20) == 0
        assert workers_of(started) == set()


def test_what_every_worker_would_find_wrong_is_said_once(tmp_path: Path, script: str) -> None:
    """By the process that would have started them."""
    (tmp_path / "policies.yaml").write_text("modes: 7\n", encoding="utf-8")
    command = ["serve", "--port", "0", "--workers", "2", "--upstream", script]
    command += ["--policies", str(tmp_path / "policies.yaml"), "--state-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "modegate", *command], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.count("policies.yaml:1") == 1
