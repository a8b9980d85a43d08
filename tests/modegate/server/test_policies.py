"""The policy in force follows its file however it is written, and a bad file changes nothing."""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.ids import ModeId
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.model import Policy
from modegate.server.policies import Policies
from modegate.server.policy_reader import Content, Reader
from support.waiting import PATIENCE

PLAN = ModeId("plan")
HALF = "modes:\n  plan:\n    tools: [read, "


class CountingClock:
    """Each look at the time is one millisecond later."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        self.now += 1
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def new_id(self) -> str:
        return str(self.now)


def text(*tools: str) -> str:
    return f"modes: {{plan: {{section: s, tools: [{', '.join(tools)}]}}}}\n"


def tools(policies: Policies) -> list[str]:
    return [rule.pattern for rule in policies.current.modes[PLAN].rules]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text(text("read"))
    return path


@pytest.fixture
def policies(file: Path) -> Policies:
    return Policies.load(file, CountingClock(), DIALECTS.names)


def in_place(path: Path, content: str) -> None:
    path.write_text(content)


def renamed(path: Path, content: str) -> None:
    (path.parent / ".p.tmp").write_text(content)
    (path.parent / ".p.tmp").rename(path)


def with_backup(path: Path, content: str) -> None:
    path.rename(path.parent / "policies.yaml~")
    path.write_text(content)


def same_size_and_time(path: Path, content: str) -> None:
    before = path.stat()
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def as_windows_does(path: Path, content: str) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())


def in_coding(path: Path, content: str, coding: str) -> None:
    path.write_bytes(content.encode(coding))


def mapped(path: Path, content: str) -> None:
    """Change it through memory, which no event tells of, with its old size and time stamp."""
    before = path.stat()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        assert len(memory) == len(content)
        memory[:] = content.encode()
        memory.flush()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("write", [as_windows_does, mapped])
async def test_n023_a_file_saved_on_windows_or_changed_without_an_event_is_taken(
    policies: Policies, file: Path, write: Callable[[Path, str], None]
) -> None:
    for name in ("grep", "glob", "view"):
        write(file, text("read").replace("read", name))
        await policies.poll(settle=0)
        assert tools(policies) == [name]
        in_place(file, text("read"))
        await policies.poll(settle=0)


async def test_n023_utf_16_is_refused_and_the_old_policy_stays(
    policies: Policies, file: Path
) -> None:
    good = policies.current
    for coding, problem in (("utf-16", "not UTF-8"), ("utf-16-le", ""), ("utf-16-be", "")):
        in_coding(file, text("write"), coding)
        await policies.poll(settle=0)
        assert policies.current is good
        assert problem in str(policies.status.problems[0])


@pytest.mark.parametrize("write", [in_place, renamed, with_backup, same_size_and_time])
async def test_B145_every_way_of_saving_is_noticed_each_time(
    policies: Policies, file: Path, write: Callable[[Path, str], None]
) -> None:
    for name in ("grep", "glob", "view"):
        write(file, text(name))
        await policies.poll(settle=0)
        assert tools(policies) == [name]
    assert policies.status.generation == 4


async def test_B147_a_config_map_swap_is_noticed_each_time(tmp_path: Path) -> None:
    def version(number: int, name: str) -> None:
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "policies.yaml").write_text(text(name))
        (tmp_path / "..data_tmp").symlink_to(f"..{number}")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        shutil.rmtree(tmp_path / f"..{number - 1}", ignore_errors=True)

    version(1, "read")
    link = tmp_path / "policies.yaml"
    link.symlink_to("..data/policies.yaml")
    policies = Policies.load(link, CountingClock(), DIALECTS.names)
    for number, name in ((2, "grep"), (3, "glob")):
        version(number, name)
        await policies.poll(settle=0)
        assert tools(policies) == [name]


def half_written(path: Path) -> None:
    path.write_text(HALF)


def emptied(path: Path) -> None:
    path.write_text("")


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def without_its_mode(path: Path) -> None:
    path.write_text("modes: {}")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def a_socket(path: Path) -> None:
    path.unlink()
    # A socket's name is short; the folder's may be long.
    name = os.path.relpath(path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(name if len(name) < len(str(path)) else str(path))


def huge(path: Path) -> None:
    os.truncate(path, 2**42)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (half_written, "not valid YAML"),
        (emptied, "the file is empty"),
        (not_text, "not UTF-8"),
        (without_its_mode, "needs at least one mode"),
        (a_pipe, "cannot be read: it is a pipe and no regular file"),
        (a_device, "cannot be read: it is a device and no regular file"),
        (a_socket, "cannot be read: it is a socket and no regular file"),
        (huge, "larger than"),
        (Path.unlink, "cannot be read: No such file"),
        (a_folder, "cannot be read: it is a folder and no regular file"),
    ],
)
async def test_B149_a_bad_file_keeps_the_last_good_policy_and_stops_a_start(
    policies: Policies, file: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    good = policies.current
    failures: list[int] = []
    policies.on_failure.append(lambda problems: failures.append(len(problems)))
    spoil(file)
    await policies.poll(settle=0)
    assert policies.current is good
    status = policies.status
    assert (status.generation, status.hash, status.loaded_at, status.at) == (1, good.hash, 1, 2)
    assert problem in str(status.problems[0])
    assert failures == [1]
    with pytest.raises(PolicyProblems, match=problem):
        Policies.load(file, CountingClock(), DIALECTS.names)


async def test_each_problem_is_logged_once_for_each_content(
    policies: Policies, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_place(file, "version: 2\nmodes: {}\n")
    with caplog.at_level(logging.ERROR):
        await policies.poll(settle=0)
        await policies.poll(settle=0)
    assert [record.getMessage().partition("policies.yaml: ")[2] for record in caplog.records] == [
        "line 1, version: must be 1: this modegate reads no other version (found '2')",
        "line 2, modes: needs at least one mode (found a mapping)",
    ]
    caplog.clear()
    in_place(file, HALF)
    await policies.poll(settle=0)
    assert len(caplog.records) == 1


async def test_warnings_are_logged_once_for_each_content_and_the_file_is_in_force(
    policies: Policies, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_place(file, text("read", "read"))
    await policies.poll(settle=0)
    await policies.poll(settle=0)
    assert [warning.line for warning in policies.current.warnings] == [1]
    assert policies.status.problems == ()
    in_place(file, "\n" + text("read", "read"))  # means the same, and the line is another
    await policies.poll(settle=0)
    assert [warning.line for warning in policies.current.warnings] == [2]
    told = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [f"line {line}, " in one.getMessage() for line, one in enumerate(told, 1)] == [True] * 2
    policies.adopted_by(lambda _policy: None)
    assert len(caplog.records) > len(told), "told at the start, too"


async def test_a_mended_file_clears_the_problems(policies: Policies, file: Path) -> None:
    in_place(file, HALF)
    await policies.poll(settle=0)
    in_place(file, text("read"))
    await policies.poll(settle=0)
    assert (policies.status.problems, policies.status.generation) == ((), 1)


async def test_listeners_hear_of_each_new_meaning_once_it_is_in_force(
    policies: Policies, file: Path
) -> None:
    heard: list[tuple[Policy, bool]] = []
    policies.on_change.append(lambda policy: heard.append((policy, policies.current is policy)))
    first = policies.current
    in_place(file, "# only a comment\n" + text("read"))
    await policies.poll(settle=0)
    assert (heard, policies.current) == ([], first)
    in_place(file, text("grep"))
    await policies.poll(settle=0)
    await policies.poll(settle=0)
    assert heard == [(policies.current, True)]
    assert first is not policies.current


async def test_content_that_does_not_stand_still_is_not_believed(
    policies: Policies, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut before its `when`, an allow-rule is valid and looser."""
    whole = "modes:\n  plan:\n    section: s\n    tools:\n      - allow: edit\n"
    when = "        when: {command: {equals: view}, others: any}\n"
    in_place(file, whole)

    async def writer_goes_on(_seconds: float) -> None:
        in_place(file, whole + when)

    monkeypatch.setattr(asyncio, "sleep", writer_goes_on)
    await policies.poll()
    assert tools(policies) == ["read"]
    await policies.poll()
    assert policies.current.modes[PLAN].rules[0].when is not None


async def test_the_watch_polls_until_it_is_cancelled(policies: Policies, file: Path) -> None:
    changed = asyncio.Event()
    policies.on_change.append(lambda _policy: changed.set())
    in_place(file, text("grep"))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        watch = group.create_task(policies.watch())
        await changed.wait()
        watch.cancel()
    assert tools(policies) == ["grep"]


async def test_s3_a_file_is_read_when_it_is_asked_for(
    policies: Policies,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And it is said how it stands, so that who asked knows."""
    monkeypatch.setattr("modegate.server.policies.POLL", 1e6)
    changed = asyncio.Event()
    policies.on_change.append(lambda _policy: changed.set())
    policies.on_failure.append(lambda _problems: changed.set())
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            watch = group.create_task(policies.watch())
            for content, found in (
                (text("grep"), "is in force"),
                (HALF, "is not in force, for 1 problem"),
            ):
                in_place(file, content)
                policies.reread()
                await changed.wait()
                changed.clear()
                while found not in caplog.text:  # noqa: ASYNC110 -- said after the listeners were told
                    await asyncio.sleep(0)
            watch.cancel()
    assert tools(policies) == ["grep"]


async def test_o11_a_file_that_cannot_be_read_in_time_holds_up_nothing(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good policy stays, it is told once, and what was waited for counts when it comes."""
    monkeypatch.setattr("modegate.server.policy_reader.READ_S", 0.01)
    answered, threads = threading.Event(), []

    def hangs() -> Content:
        threads.append(threading.current_thread())
        answered.wait(20)
        return Content(text("grep").encode())

    reader = Reader(hangs)
    monkeypatch.setattr(policies, "_reader", reader)
    await policies.poll(settle=0)
    await policies.poll(settle=0)
    assert [str(problem) for problem in policies.status.problems] == [
        "the file cannot be read: no answer within 0.01 s"
    ]
    assert tools(policies) == ["read"]
    assert len(threads) == 1
    assert threads[0].daemon
    answered.set()
    monkeypatch.setattr("modegate.server.policy_reader.READ_S", 20)
    await policies.poll(settle=0)
    assert (tools(policies), policies.status.problems) == (["grep"], ())
