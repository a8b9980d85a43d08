"""Which store is trusted: the one that was met first, until an operator says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modegate.core.errors import AnotherLog
from modegate.server.log.trusted_store import NOTE_EVERY_S, TrustedStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log-id"


def test_the_first_store_is_kept_over_restarts(file: Path) -> None:
    trusted = TrustedStore(file)
    assert not trusted.is_ours("one")
    trusted.keep("one")
    assert TrustedStore(file).is_ours("one")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("found", ["two", None], ids=["another", "empty"])
def test_no_other_is_trusted(file: Path, found: str | None) -> None:
    TrustedStore(file).keep("one")
    for trusted in (TrustedStore(file), TrustedStore(None, "one")):
        with pytest.raises(AnotherLog, match="modegate log adopt"):
            trusted.is_ours(found)


def test_what_another_process_adopted_is_trusted_too(file: Path) -> None:
    TrustedStore(file).keep("one")
    trusted = TrustedStore(file)
    assert trusted.is_ours("one")
    TrustedStore(file).keep("two")
    assert trusted.is_ours("two")
    assert trusted.moved == 1


def test_a_setting_is_not_overruled(file: Path) -> None:
    trusted = TrustedStore(file, "one")
    with pytest.raises(AnotherLog, match="MODEGATE_LOG_ID"):
        trusted.keep("two")
    trusted.keep("one")
    assert not file.exists()


def test_a_file_that_cannot_be_read_trusts_nobody(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(AnotherLog, match="cannot be read"):
        TrustedStore(file)


def test_a_folder_that_cannot_be_written_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process goes on with what it knows, and says what would help."""
    (tmp_path / "state").write_text("")
    trusted = TrustedStore(tmp_path / "none" / "log-id")
    os.symlink(tmp_path / "state", tmp_path / "none")
    trusted.keep("one")
    assert trusted.is_ours("one")
    assert "MODEGATE_LOG_ID=one" in caplog.text


def test_o1_an_older_copy_is_behind_what_was_noted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("modegate.server.log.trusted_store.time.monotonic", lambda: now)
    trusted = TrustedStore(file)
    trusted.meet(10)
    trusted.keep("one")
    trusted.reached(20)
    now = NOTE_EVERY_S / 2
    trusted.reached(30)
    older = TrustedStore(file)
    older.meet(19)
    with pytest.raises(AnotherLog, match="older copy"):
        older.is_ours("one")
    same = TrustedStore(file)
    same.meet(20)
    assert same.is_ours("one")
    trusted.note()
    late = TrustedStore(file)
    late.meet(29)
    with pytest.raises(AnotherLog, match="older copy"):
        late.is_ours("one")
    older.keep("one")
    assert late.is_ours("one"), "another process has adopted it"


def test_nothing_is_noted_of_a_store_that_is_doubted(file: Path) -> None:
    trusted = TrustedStore(file)
    trusted.meet(10)
    trusted.keep("one")
    trusted.doubt()
    trusted.reached(99)
    trusted.note()
    again = TrustedStore(file)
    again.meet(10)
    assert again.is_ours("one")
