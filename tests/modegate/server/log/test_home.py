"""Which store is trusted: the one that was met first, until an operator says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modegate.core.errors import AnotherLog
from modegate.server.log.home import NOTE_EVERY_S, Home


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log-id"


def test_the_first_store_is_kept_over_restarts(file: Path) -> None:
    home = Home(file)
    assert not home.is_ours("one")
    home.keep("one")
    assert Home(file).is_ours("one")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("found", ["two", None], ids=["another", "empty"])
def test_no_other_is_trusted(file: Path, found: str | None) -> None:
    Home(file).keep("one")
    for home in (Home(file), Home(None, "one")):
        with pytest.raises(AnotherLog, match="modegate log adopt"):
            home.is_ours(found)


def test_what_another_process_adopted_is_trusted_too(file: Path) -> None:
    Home(file).keep("one")
    home = Home(file)
    assert home.is_ours("one")
    Home(file).keep("two")
    assert home.is_ours("two")
    assert home.moved == 1


def test_a_setting_is_not_overruled(file: Path) -> None:
    home = Home(file, "one")
    with pytest.raises(AnotherLog, match="MODEGATE_LOG_ID"):
        home.keep("two")
    home.keep("one")
    assert not file.exists()


def test_a_file_that_cannot_be_read_trusts_nobody(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(AnotherLog, match="cannot be read"):
        Home(file)


def test_a_folder_that_cannot_be_written_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process goes on with what it knows, and says what would help."""
    (tmp_path / "state").write_text("")
    home = Home(tmp_path / "none" / "log-id")
    os.symlink(tmp_path / "state", tmp_path / "none")
    home.keep("one")
    assert home.is_ours("one")
    assert "MODEGATE_LOG_ID=one" in caplog.text


def test_o1_an_older_copy_is_behind_what_was_noted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("modegate.server.log.home.time.monotonic", lambda: now)
    home = Home(file)
    home.meet(10)
    home.keep("one")
    home.reached(20)
    now = NOTE_EVERY_S / 2
    home.reached(30)
    older = Home(file)
    older.meet(19)
    with pytest.raises(AnotherLog, match="older copy"):
        older.is_ours("one")
    same = Home(file)
    same.meet(20)
    assert same.is_ours("one")
    home.note()
    late = Home(file)
    late.meet(29)
    with pytest.raises(AnotherLog, match="older copy"):
        late.is_ours("one")
    older.keep("one")
    assert late.is_ours("one"), "another process has adopted it"


def test_nothing_is_noted_of_a_store_that_is_doubted(file: Path) -> None:
    home = Home(file)
    home.meet(10)
    home.keep("one")
    home.doubt()
    home.reached(99)
    home.note()
    again = Home(file)
    again.meet(10)
    assert again.is_ours("one")
