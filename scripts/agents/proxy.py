"""One `modegate serve` for one run: its own log, the shipped policy, a script in place of a model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from install import REPO

MODEGATE = Path(sys.executable).with_name("modegate")
START_S = 60.0
STOP_S = 10.0


class ProxyFailed(Exception):
    """modegate did not start, or a command of it failed."""


class Proxy:
    """A running modegate."""

    def __init__(self, folder: Path, script: dict[str, Any]) -> None:
        """Start it in a folder of its own.

        Raises:
            ProxyFailed: it did not say where it listens.
        """
        folder.mkdir(parents=True)
        # JSON is YAML, and quotes whatever needs quotes.
        (folder / "script.yaml").write_text(json.dumps(script, indent=1), encoding="utf-8")
        self._folder = folder
        self._stderr = folder / "stderr"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    *(str(MODEGATE), "serve", "--port", "0"),
                    *("--policies", str(REPO / "policies.yaml")),
                    *("--state-dir", str(folder / "state")),
                    *("--log", f"sqlite:{folder / 'log.db'}"),
                    *("--upstream", f"scripted:{folder / 'script.yaml'}"),
                ],
                stderr=stderr,
                stdout=stderr,
                env=_clean(),
            )
        try:
            self.url = self._listening()
        except ProxyFailed:
            self.stop()
            raise

    def base_url(self, session: str) -> str:
        """Return what an agent is told."""
        return f"{self.url}/s/{session}/v1"

    def set_mode(self, session: str, mode: str) -> None:
        """Set a session's mode as a person does."""
        self._command("mode", session, mode)

    def watching(self) -> tuple[list[str], dict[str, str]]:
        """Return how a person watches for plans: command and environment."""
        where = ["--url", self.url, "--state-dir", str(self._folder / "state")]
        return [str(MODEGATE), "watch", *where], _clean()

    def mode(self, session: str) -> str:
        """Return the mode in force."""
        return self._command("mode", session).strip()

    def log(self, session: str) -> list[dict[str, Any]]:
        """Return a session's events."""
        lines = self._command("log", session, "--json").splitlines()
        return [json.loads(line) for line in lines]

    def counts(self) -> tuple[int, int]:
        """Return how many steps there were, and how many upstream requests those in a mode took."""
        # A proxy of the environment does not lead to this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{self.url}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        steps, hops = (
            sum(float(number) for number in re.findall(pattern, page, re.MULTILINE))
            for pattern in (r"^modegate_steps_total\{.*\} (\S+)$", r"^modegate_hops_total (\S+)$")
        )
        return int(steps), int(hops)

    def complaints(self) -> list[str]:
        """Return what modegate wrote to stderr as an error."""
        lines = self._stderr.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if re.match(r"\S+ (error|critical):|Error:", line)]

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listening(self) -> str:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._process.poll() is None:
            if found := re.search(r"http://127\.0\.0\.1:\d+", self._stderr.read_text()):
                return found[0]
            time.sleep(0.05)
        raise ProxyFailed(f"modegate serve did not start:\n{self._stderr.read_text()[-2000:]}")

    def _command(self, *words: str) -> str:
        where = ["--url", self.url, "--state-dir", str(self._folder / "state")]
        command = [str(MODEGATE), *words, *where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=_clean())
        if done.returncode:
            raise ProxyFailed(f"modegate {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout


def _clean() -> dict[str, str]:
    """Return the environment without settings of another modegate."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MODEGATE_")}
