"""Real shells in a folder of traps: what did a command change there, and which programs did it run?

The shells run with a `PATH` of one folder. In it, programs of the table are real, and all others are
a stub that writes down its name and does nothing. As root, the shells run as a user of no rights, so that
what should never have been let through can reach only what is watched.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.shells import folder as laid

Seen = dict[str, tuple[object, ...]]
SHELLS = ("bash", "dash", "zsh")
NOBODY = (
    61_234  # nobody's number: what this user owns in folders of all users was left by a command
)
IDENTITY: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
# Run by programs of the table: `zcat`, `zgrep` and `git submodule` are scripts, `tar -tz` runs one.
INNER = ("gzip", "bzip2", "xz", "gettext.sh", "gettext", "envsubst")
DANGEROUS = (
    "stub",
    *("rm", "mv", "cp", "ln", "touch", "mkdir", "rmdir", "chmod", "chown", "tee", "dd", "truncate"),
    *("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "python", "python3", "perl", "ruby"),
    *("curl", "wget", "nc", "ssh", "scp", "rsync", "xargs", "parallel", "watch", "sudo", "nohup"),
    *("less", "more", "man", "vi", "vim", "ed", "patch", "install", "make", "script", "gpg"),
)
# One write for each run, so that the records of several at a time do not mix.
STUB = """#!/bin/sh
printf '%s\\0' $(($# + 1)) "$0" "$@" >> {log}
"""
SECONDS = 5


@dataclass(frozen=True)
class Place:
    """A folder of traps, a home, the folder that is the `PATH`, and the log of the stubs."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "work"

    @property
    def untouched(self) -> Path:
        return self.root / "untouched"

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    @property
    def log(self) -> Path:
        return self.root / "log"

    def renew(self) -> None:
        """Lay the folder and the home as they were at first, for the user that runs commands."""
        for each in (self.folder, self.root / "home", self.root / "tmp"):
            shutil.rmtree(each, ignore_errors=True)
        shutil.copytree(self.untouched, self.folder, symlinks=True)
        for each in (self.root / "home", self.root / "tmp"):
            each.mkdir()
        for top in (self.folder, self.root / "home", self.root / "tmp") if IDENTITY else ():
            for path in (top, *top.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        # Without this, the first `git status` would note in its index that it has looked.
        self.run("bash", "git update-index -q --refresh")
        os.truncate(self.log, 0)

    def ran(self) -> list[list[str]]:
        """Return which stubs ran, each with its arguments, and forget it."""
        fields = self.log.read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
        os.truncate(self.log, 0)
        found: list[list[str]] = []
        while fields:
            count = int(fields[0])
            found.append([os.path.basename(fields[1]), *fields[2 : count + 1]])
            del fields[: count + 1]
        return found

    def seen(self) -> Seen:
        """Return all that a command could change: kinds, rights, times, contents, what is left elsewhere."""
        found: Seen = {}
        for top in (self.folder, self.root / "home", self.root / "tmp"):
            for path in (top, *top.rglob("*")):
                stat = path.lstat()
                # `git status` takes and leaves a lock in it, also where its index has nothing new.
                time = 0 if path.name == ".git" else stat.st_mtime_ns
                parts = (stat.st_mode, stat.st_size, time, stat.st_uid, stat.st_nlink)
                found[str(path.relative_to(self.root))] = (*parts, digest(path))
        for shared in ("/tmp", "/var/tmp", "/dev/shm"):
            with os.scandir(shared) as entries:
                found |= {entry.path: () for entry in entries if left_by_nobody(entry)}
        return found

    def run(self, shell: str, command: str) -> None:
        """Have a shell run a command, as agents do, for a few seconds at most."""
        environment = {
            "PATH": str(self.programs),
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LC_ALL": "C.UTF-8",
        }
        # The shell is found on the PATH of the tests, as the command's own has stubs for all shells.
        binary = shutil.which(shell)
        assert binary, f"these tests need {shell} on the PATH"
        process = subprocess.Popen(
            [binary, "-c", command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **IDENTITY,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def left_by_nobody(entry: os.DirEntry[str]) -> bool:
    """Tell whether a command, run as a user of no rights, made this."""
    try:
        return entry.stat(follow_symlinks=False).st_uid == NOBODY and "modegate-" not in entry.name
    except FileNotFoundError:  # another test's
        return False


def digest(path: Path) -> str:
    """Return what a file holds, or where a link leads, in few letters."""
    if path.is_symlink():
        return os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@contextmanager
def place(real: Collection[str], stubs: Collection[str] = ()) -> Iterator[Place]:
    """Lay a place in which the programs of these names are real, and these and all others are stubs."""
    with tempfile.TemporaryDirectory(prefix="modegate-shells-") as name:
        root = Path(name)
        root.chmod(0o755)
        made = Place(root)
        made.programs.mkdir()
        stub = made.programs / ".stub"
        stub.write_text(STUB.format(log=made.log), encoding="utf-8")
        stub.chmod(0o755)
        made.log.touch()
        made.log.chmod(0o666)
        fill(made.programs, stub, real, stubs)
        made.untouched.mkdir()
        laid.lay(made.untouched, stub)
        made.renew()
        yield made


def fill(programs: Path, stub: Path, real: Collection[str], stubs: Collection[str]) -> None:
    """Link the real programs, and the stub under every other name that there is."""
    others = {name for path in SYSTEM if os.path.isdir(path) for name in os.listdir(path)}
    for name in {*real, *INNER}:
        binary = shutil.which(name, path=":".join(SYSTEM))
        if binary:
            (programs / name).symlink_to(binary)
    for name in (others | {*DANGEROUS, *stubs}) - {*real, *INNER}:
        (programs / name).symlink_to(stub)


class Watch:
    """A place that is laid anew after something changed in it."""

    def __init__(self, made: Place) -> None:
        self._place = made
        self._before = made.seen()

    def effects(self, shell: str, commands: Iterable[str]) -> list[str]:
        """Run commands, some at a time; return what changed and which stubs ran."""
        made = self._place
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda command: made.run(shell, command), commands))
        after = made.seen()
        changed = [name for name, was in self._before.items() if after.get(name) != was]
        found = [*changed, *(after.keys() - self._before.keys()), *map(shlex.join, made.ran())]
        if found:
            made.renew()
            self._before = made.seen()
        return sorted(found)

    def guilty(self, shell: str, commands: Sequence[str]) -> dict[str, list[str]]:
        """Return a command of these that changed something or ran what it should not, with what it did."""
        found = self.effects(shell, commands)
        if not found or len(commands) == 1:
            return {commands[0]: found} if found else {}
        half = len(commands) // 2
        one = self.guilty(shell, commands[:half]) or self.guilty(shell, commands[half:])
        return one or {" then ".join(commands): found}
