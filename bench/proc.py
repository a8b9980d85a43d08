"""What Linux accounts to a process and its descendants: time on a core, and memory."""

from __future__ import annotations

from pathlib import Path


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, _read(children).split())
    return found


def cpu_seconds(pid: int) -> float:
    """Return the time that a process tree has spent on a core, from the scheduler's own account."""
    threads = [
        task for each in tree(pid) for task in Path(f"/proc/{each}/task").glob("*/schedstat")
    ]
    return sum(int((_read(thread) or "0").split()[0]) for thread in threads) / 1e9


def memory_kib(pid: int, field: str) -> int:
    """Return the sum of one field over a process tree: Rss, Pss (smaps_rollup) or VmHWM (status)."""
    source = "status" if field.startswith("Vm") else "smaps_rollup"
    lines = [
        line for each in tree(pid) for line in _read(Path(f"/proc/{each}/{source}")).splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def reset_peak(pid: int) -> None:
    """Set VmHWM of a process tree back to what is resident now."""
    for each in tree(pid):
        Path(f"/proc/{each}/clear_refs").write_text("5")


def _read(path: Path) -> str:
    """Return a file of /proc, empty where its process or thread has just ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
