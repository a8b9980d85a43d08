"""The README's commands work, as they stand there; the changelog knows the version."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

import modegate
from modegate.core.step.texts import REFUSED
from support.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_commands_by_hand(tmp_path: Path) -> None:
    """Serve, set plan mode, ask: the answer holds no call and says what the README says."""
    first, by_hand = blocks("sh")
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make install", "make demo"]
    commands = by_hand.removeprefix("source .venv/bin/activate\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    serve, rest = commands.replace("http://127.0.0.1:8484", url).split(" &\n", 1)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MODEGATE_PORT": str(port),
        "MODEGATE_URL": url,
        "MODEGATE_STATE_DIR": str(tmp_path),
    }
    with subprocess.Popen(f"exec {serve}", shell=True, cwd=ROOT, env=environment) as server:
        try:
            _wait(f"{url}/readyz")
            done = subprocess.run(
                rest,
                shell=True,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            server.terminate()
    shown = json.loads(blocks("json")[0])
    answer = json.loads(next(li for li in done.stdout.splitlines() if li.startswith("{")))
    message = answer["choices"][0]["message"]
    assert message["content"] == shown["content"]
    assert "tool_calls" not in message
    assert "turn/withheld" in done.stdout


def test_the_demo_prints_what_is_shown() -> None:
    """Line by line, but for the spaces at their ends."""
    (shown,) = blocks("console")
    command = [sys.executable, "-m", "modegate", "demo", "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert _masked(shown) in _masked(printed)
    assert "refused write_file" in shown


def _masked(text: str) -> str:
    """Take out what is different in each run: ids, ports, folders and times."""
    for varies in (r"mg-perm-\w+-\d", r"127\.0\.0\.1:\d+", r"/tmp/\S+", r"\d{4}-\d\d-\d\d \S+"):
        text = re.sub(varies, "…", text)
    return text


@pytest.mark.parametrize("script", ["docs/example-script.yaml", "proxy/modegate/demo/script.yaml"])
def test_scripts_wait_for_what_a_refusal_says(script: str) -> None:
    assert REFUSED in (ROOT / script).read_text(encoding="utf-8")


def test_the_agents_named_are_those_that_were_tried() -> None:
    """Each has its section in docs/agents.md, and a version in what was measured."""
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    measured = page.partition("## What was measured")[2]
    named = re.findall(r"\[([^]]+)\]\(docs/agents\.md#([a-z-]+)\)", README)
    for name, anchor in named:
        heading = name if anchor != "what-was-measured" else "What was measured"
        assert f"## {heading}\n" in page
        assert heading.lower().replace(" ", "-") == anchor
        last = name.removesuffix(" CLI").removeprefix("Mistral ")
        assert name == "one table" or re.search(rf"{last} \d+\.\d+", measured), name
    assert len(named) > 10


def _wait(url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)  # there is nothing to wait on but the socket itself
    raise AssertionError("the proxy did not become ready")


def test_the_policy_shown_loads() -> None:
    """The excerpt is a policy file."""
    from support.policies import parse

    excerpt = blocks("yaml")[0]
    assert "plan" in parse(excerpt).modes
    assert yaml.safe_load(excerpt)["modes"]["plan"]["tools"][0] == {"use": "read-only"}


def test_every_make_target_named_exists() -> None:
    """The README and CONTRIBUTING name no target that the Makefile lacks."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for words in re.findall(r"`?make ((?:[a-z]+ ?)+)`?", named):
        for target in words.split():
            if target in ("check", "test", "demo", "install", "agents", "bench", "help", "fmt"):
                assert target in targets


def test_links_lead_somewhere() -> None:
    """Every file that the README links to is there."""
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (ROOT / link).exists(), link


def test_the_changelog_has_the_version() -> None:
    """A release is a version that package, metadata and changelog agree on."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    assert versions[0] == modegate.__version__
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{modegate.__version__}"' in project
