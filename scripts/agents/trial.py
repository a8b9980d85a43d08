"""One run of one agent through one modegate, and the checks on what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import Agent, Place
from exploring import make_folder
from person import Leaver, Person
from proxy import Proxy
from story import PROMPT, Story

CHECKS = ("ended", "said", "hidden", "files", "log", "plan", "requests", "proxy")
"""How it ended, what it showed, what it must not have got, the folder, the session's log, what a person
was shown, how often it asked, and modegate's own errors."""


@dataclass(frozen=True)
class Ended:
    """How an agent's process ended."""

    code: int | None
    """None: it had to be killed."""
    output: str


@dataclass(frozen=True)
class Result:
    """What became of a run."""

    agent: str
    mode: str
    story: str
    problems: dict[str, str]
    """By check; a check without a problem is not in it."""
    steps: int
    """Requests of the agent."""
    hops: int
    """Requests to the scripted model made for steps in a mode."""
    seconds: float


def run(
    agent: Agent, mode: str, story: Story, folder: Path, timeout: float, reads: float = 0
) -> Result:
    """Run an agent and check everything; `reads` is how many seconds a person takes over a plan."""
    began = time.monotonic()
    session = f"{agent.name}-{mode}-{story.name}"
    work = folder / "work"
    make_folder(work)
    proxy = Proxy(folder / "modegate", {"answers": story.answers})
    try:
        place = Place(folder / "home", work, proxy.base_url(session))
        if mode != "default":
            proxy.set_mode(session, mode)
        person = Person(*proxy.watching(), reads) if story.plan else None
        leaver = Leaver(proxy, session) if story.leaves else None
        try:
            ended = _start(agent.command(place, PROMPT), place, agent, timeout + reads)
        finally:
            shown = person.leave() if person else ""
            if leaver:
                leaver.end()
        hidden = _hidden(mode, story, place.home)
        if story.then and agent.resume and ended.code == 0:
            proxy.set_mode(session, "default")
            ended = _start(agent.resume(place, story.then), place, agent, timeout)
        steps, hops = proxy.counts()
        problems = {
            "ended": _ended(story, ended),
            "said": "" if story.said in ended.output else f"{story.said!r} is not in its output",
            "hidden": hidden,
            "files": _files(story, work),
            "log": _log(agent, mode, story, proxy.log(session), proxy.mode(session)),
            "plan": "" if story.plan in shown else f"a person was shown {shown[-300:]!r}",
            "requests": _requests(agent.limit + story.requests, steps, hops),
        }
    finally:
        proxy.stop()
    problems["proxy"] = "; ".join(proxy.complaints()[:3])
    found = {check: problem for check, problem in problems.items() if problem}
    return Result(agent.name, mode, story.name, found, steps, hops, time.monotonic() - began)


def _start(command: list[str], place: Place, agent: Agent, timeout: float) -> Ended:
    """Run an agent to its end, and end all that it started."""
    place.home.mkdir(exist_ok=True)
    environment = agent.prepare(place)
    output = place.home / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=place.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
            _end_others(place.home)
    files = [output, *(place.home.glob(agent.transcript) if agent.transcript else ())]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.exists()]
    return Ended(code, "\n".join(texts))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        # It was started in a session of its own, so the group is all that it left behind.
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _end_others(home: Path) -> None:
    """End what an agent has put in the background, as Cline does: it has this HOME."""
    mine = f"HOME={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mine in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is somebody else's


def _ended(story: Story, ended: Ended) -> str:
    if ended.code is None:
        return "it had to be killed"
    if (ended.code != 0) != story.fails:
        return f"exit code {ended.code}: {ended.output[-300:]!r}"
    return ""


def _hidden(mode: str, story: Story, home: Path) -> str:
    """Look for the arguments of refused calls in all that an agent printed and kept."""
    if mode == "default":
        return ""
    names = [word.encode() for word in story.hides]
    found = [
        str(file.relative_to(home))
        for file in home.rglob("*")
        if file.is_file() and any(name in file.read_bytes() for name in names)
    ]
    return f"a refused call reached {', '.join(found[:5])}" if found else ""


def _files(story: Story, work: Path) -> str:
    status = ["git", "status", "--porcelain", "--untracked-files=all", "--ignored"]
    done = subprocess.run(status, cwd=work, check=True, capture_output=True, text=True)
    found = sorted(line[3:] for line in done.stdout.splitlines())
    return (
        ""
        if found == sorted(story.files)
        else f"changed on disk: {found}, not {sorted(story.files)}"
    )


def _requests(limit: int, steps: int, hops: int) -> str:
    if 0 < max(steps, hops) <= limit:
        return ""
    return f"{steps} requests and {hops} to the model, where 1 to {limit} are expected"


def _log(agent: Agent, mode: str, story: Story, events: list[dict[str, Any]], mode_now: str) -> str:
    if mode == "default":
        return f"{len(events)} events in a session without a mode" if events else ""
    expected = "default" if story.ends_in_default else mode
    if mode_now != expected:
        return f"mode is {mode_now}, not {expected}"
    data = [event["data"] for event in events if event["type"] == "call/judged"]
    judged = {(call["tool"], call["verdict"]) for call in data}
    if judged != set(story.judged):
        return f"judged: {sorted(judged)}, not {sorted(set(story.judged))}"
    return _headers(agent, events) if agent.declares else ""


def _headers(agent: Agent, events: list[dict[str, Any]]) -> str:
    headers = [event["data"]["tools"] for event in events if event["type"] == "request/header"]
    if not headers:
        return "no request/header: what the model was offered is not in the log"
    shell, reader = agent.shell("")["name"], agent.read(Path())["name"]
    writer = agent.write(Path(), "")["name"] if agent.write else ""
    offered = {reader, shell} if agent.shell_reads else {reader} - {shell}
    hidden = {writer, shell} - offered - {""}
    if wrong := hidden & {name for tools in headers for name in tools}:
        return f"the model was offered {sorted(wrong)}"
    if lacking := offered - set().union(*headers):
        return f"the model was not offered {sorted(lacking)}"
    return ""
