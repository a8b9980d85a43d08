"""Settings: defaults, and every problem reported at once without showing secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modegate.server.settings import BadSettings, Settings, default_policies, shipped_policies


def test_defaults_are_private_to_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8484)
    assert settings.state_dir == tmp_path / "modegate"
    assert settings.log == f"sqlite:{tmp_path / 'modegate' / 'log.db'}"
    assert settings.upstream is settings.control_token is None


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_an_unusable_state_home_is_ignored(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert Settings().state_dir == Path.home() / ".local" / "state" / "modegate"


def test_the_log_follows_the_state_folder(tmp_path: Path) -> None:
    assert Settings(state_dir=tmp_path).log == f"sqlite:{tmp_path / 'log.db'}"
    assert Settings(state_dir=tmp_path, log="redis://h:1/0").log == "redis://h:1/0"


def test_policies_of_the_working_folder_come_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_policies() == shipped_policies()
    (tmp_path / "policies.yaml").touch()
    assert default_policies() == Path("policies.yaml")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"host": ""}, "host: must not be empty"),
        ({"port": 65536}, "port: 65536 is not between"),
        ({"port": -1}, "port: -1 is not between"),
        ({"log": "log.db"}, "log: 'log.db' is none of"),
        ({"log": "sqlite:"}, "log: 'sqlite:' is none of"),
        ({"upstream": "api.example/v1"}, "upstream: 'api.example/v1' is neither"),
        ({"upstream": "ftp://api.example"}, "upstream: 'ftp://api.example' is neither"),
        ({"upstream": "http://h:x/"}, "upstream: not a URL"),
        ({"upstream": "https://api.example/v1?a=b"}, "upstream: must not contain"),
        ({"upstream": "scripted:"}, "upstream: scripted: needs a file"),
        ({"control_token": "two words"}, "control_token: must be"),
        ({"control_token": "a" * 15}, "control_token: must have 16 characters or more"),
        ({"control_token": ""}, "control_token: must have 16 characters or more"),
        ({"control_token": "nön-ascii"}, "control_token: must be"),
        ({"hosts": ("http://a",)}, "hosts: 'http://a' is not a host name"),
        ({"hosts": ("",)}, "hosts: '' is not a host name"),
        ({"log_level": "loud"}, "log_level: 'loud' is none of debug"),
        ({"log_format": "xml"}, "log_format: 'xml' is none of console"),
    ],
)
def test_a_bad_setting_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadSettings) as caught:
        Settings(**given)
    (line,) = caught.value.problems
    assert line.startswith(problem)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(BadSettings) as caught:
        Settings(port=-1, log="x", upstream="y")
    assert [line.partition(":")[0] for line in caught.value.problems] == ["port", "log", "upstream"]


@pytest.mark.parametrize(
    "given",
    [
        {"control_token": "se cret"},
        {"upstream": "https://user:se%20cret@api.example"},
        {"upstream": "ftp://user:se%20cret@api.example"},
        {"upstream": "user:se cret@api.example"},
        {"log": "valkey://:se cret@host/0"},
    ],
)
def test_problems_show_no_secret(given: dict[str, Any]) -> None:
    with pytest.raises(BadSettings) as caught:
        Settings(**given)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "upstream",
    ["https://api.example/v1", "http://127.0.0.1:9/", "http://[::1]:9/v1", "scripted:demo.yaml"],
)
def test_upstreams_that_can_be_used(upstream: str) -> None:
    assert Settings(upstream=upstream).upstream == upstream
