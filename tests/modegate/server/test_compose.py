"""The composition root: what stops a start, where requests go, and what the operator is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.server.clock import SystemClock
from modegate.server.compose import compose
from modegate.server.jobs import StartFailed
from modegate.server.policies import Policies
from modegate.server.process.main import banner, facts
from modegate.server.settings import Settings

POLICY = "modes:\n  plan:\n    section: Look only.\n    tools: [read]\n"


def settings_in(folder: Path, policy: str = POLICY, **more: Any) -> Settings:
    path = folder / "policies.yaml"
    path.write_text(policy)
    return Settings(**{"policies": path, "state_dir": folder / "state", **more})


async def failure(settings: Settings) -> StartFailed:
    with pytest.raises(StartFailed) as caught:
        async with compose(settings):
            pass
    return caught.value


async def test_a_bad_policy_stops_the_start_with_all_problems(tmp_path: Path) -> None:
    policy = "modes:\n  plan:\n    tolls: []\nmore: 1\n"
    failed = await failure(settings_in(tmp_path, policy))
    assert failed.exit_code == 2
    assert any(line.startswith(f"{tmp_path / 'policies.yaml'}:3: ") for line in failed.lines)
    assert any(line.startswith(f"{tmp_path / 'policies.yaml'}:4: ") for line in failed.lines)


async def test_a_missing_policy_stops_the_start(tmp_path: Path) -> None:
    failed = await failure(settings_in(tmp_path, policies=tmp_path / "none.yaml"))
    assert failed.exit_code == 2
    assert "none.yaml" in failed.lines[0]


@pytest.mark.parametrize(
    ("script", "line"), [(None, "No such file"), ("answers: 3\n", "script.yaml:1: ")]
)
async def test_a_bad_script_stops_the_start(tmp_path: Path, script: str | None, line: str) -> None:
    path = tmp_path / "script.yaml"
    if script is not None:
        path.write_text(script)
    failed = await failure(settings_in(tmp_path, upstream=f"scripted:{path}"))
    assert failed.exit_code == 2
    assert line in failed.lines[0]


async def test_a_log_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = await failure(settings_in(tmp_path, log=f"sqlite:{tmp_path / 'file' / 'log.db'}"))
    assert failed.exit_code == 1
    assert failed.lines[0].startswith("Error: ")


async def test_a_state_folder_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = await failure(settings_in(tmp_path, state_dir=tmp_path / "file" / "state"))
    assert "MODEGATE_STATE_DIR" in failed.lines[0]


async def test_a_given_token_is_not_stored(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, control_token="given-0123456789")
    async with compose(settings) as composed:
        assert composed.services.access.grant("given-0123456789")
    assert not (tmp_path / "state" / "control-token").exists()


async def test_o13_a_stored_token_that_is_short_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "control-token").write_text("sh0rt\n")
    (tmp_path / "state" / "control-token").chmod(0o600)
    failed = await failure(settings_in(tmp_path))
    assert "16 characters or more" in failed.lines[0]
    assert "sh0rt" not in failed.lines[0]


async def test_the_log_and_all_that_was_built_is_let_go(tmp_path: Path) -> None:
    async with compose(settings_in(tmp_path)) as composed:
        await composed.services.log.ping()
        jobs = [job.name for job in composed.jobs]
    watchers = ["the policy watcher", "the watcher of answers under way"]
    closer = "the questions that nobody comes back for"
    assert jobs == [*watchers, closer, "the recorder", "the upstreams"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "modegate 0.1.0 on http://127.0.0.1:99\n"),
        ({"host": "::1"}, "http://[::1]:99/s/SESSION/v1"),
        ({"host": "0.0.0.0"}, "http://localhost:99/s/SESSION/v1"),
        ({}, "control-token"),
        ({"control_token": "hidden-word-0123456789"}, "token in MODEGATE_CONTROL_TOKEN"),
        ({"log": "redis://:hidden-word@h:1/0"}, "redis://h:1/0"),
        ({"upstream": "http://127.0.0.1:1/v1"}, "http://127.0.0.1:1/v1"),
        ({}, "modes: plan"),
    ],
)
def test_the_operator_is_told_and_secrets_are_not(
    tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    settings = settings_in(tmp_path, **given)
    said = facts(
        settings, (99, 98), Policies.load(settings.policies, SystemClock(), DIALECTS.names)
    )
    assert told in banner(said)
    assert "hidden-word" not in banner(said) + str(said)
