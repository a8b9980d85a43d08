"""The proxy's own token: made once, readable by its owner only."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modegate.server.control.token_file import ensure_token, read_token


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    token = ensure_token(state)
    assert len(token) >= 32
    assert ensure_token(state) == read_token(state) == token
    assert stat.S_IMODE((state / "control-token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [path.name for path in state.iterdir()] == ["control-token"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_could_read_is_replaced(tmp_path: Path, mode: int) -> None:
    token = ensure_token(tmp_path)
    (tmp_path / "control-token").chmod(mode)
    assert read_token(tmp_path) is None
    assert ensure_token(tmp_path) not in (token, None)


def test_an_empty_token_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control-token"
    path.touch(mode=0o600)
    assert read_token(tmp_path) is None
    assert ensure_token(tmp_path)


def test_no_token_before_the_first_start(tmp_path: Path) -> None:
    assert read_token(tmp_path / "nowhere") is None


def test_starting_together_ends_with_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: ensure_token(tmp_path), range(32)))
    assert len(tokens) == 1
