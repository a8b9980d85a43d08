"""An agent looks around in plan mode, with the tools that it has, and cannot write by them.

Whatever each step must find stands in no call, so only a tool that has really run can have told the model.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from agent import Agent, Call
from story import (
    BY_REFUSED,
    MADE_TEXT,
    RAN,
    REFUSED,
    SEED,
    SEED_TEXT,
    WAS_REFUSED,
    Answers,
    Judged,
    Story,
    final,
    script,
)

NOTES = "notes.md"
SOURCE = "src/lantern.py"
BEFORE = {SEED: SEED_TEXT, NOTES: "juniper", SOURCE: "glow = 1  # TODO: tune the cobalt dial"}
AFTER = {NOTES: "juniper\nheather\nbracken"}
COMMITS = {"seed": BEFORE, "light the lantern": AFTER}

LOOKS: dict[str, tuple[str, str]] = {
    "list": ("ls -la src", "lantern.py"),
    "find": ("find . -name '*.py'", "lantern.py"),
    "search": ("grep -rn TODO src", "lantern.py"),  # Cline tells the place alone
    "read": (f"cat {NOTES}", "bracken"),
    "part": (f"sed -n 2,2p {NOTES}", "heather"),
    "log": ("git log --oneline -5", "light the lantern"),
    "diff": ("git diff HEAD~1", "+heather"),
    "pipe": ("cd src && grep -n TODO ./*.py 2>/dev/null | head -5", "cobalt"),
}
"""The steps of exploring: as a command, and what the model must be told."""


def make_folder(work: Path) -> None:
    """Make the git folder in which an agent works."""
    settings = ("user.name=nobody", "user.email=nobody@localhost", "commit.gpgsign=false")
    me = [word for setting in settings for word in ("-c", setting)]
    (work / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True, capture_output=True)
    for message, files in COMMITS.items():
        for name, text in files.items():
            (work / name).write_text(f"{text}\n", encoding="utf-8")
        for words in (["add", "."], [*me, "commit", "-q", "-m", message]):
            subprocess.run(["git", *words], cwd=work, check=True, capture_output=True)


def explore(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """List, find, search, read, look at git's history: each runs, and the model is told what it found."""
    if not (plan and agent.shell_reads):
        return None
    own = agent.looks(work)
    calls = [own.get(name) or agent.shell(command) for name, (command, _) in LOOKS.items()]
    answers: Answers = [
        {"when": when, "text": "I look.", "calls": [call]}
        for when, call in zip(_told(), calls, strict=False)
    ]
    answers += [
        {"when": _told()[-1], **final(agent, RAN)},
        final(agent, "FINAL: nothing was found"),
    ]
    return Story(
        "explore",
        script(agent, answers),
        said=RAN,
        judged=(*((call["name"], "release") for call in calls), *_ended(agent)),
        requests=len(calls),
    )


def _told() -> list[dict[str, Any]]:
    """Return the conditions under which each step comes next, and the end: what the last one found."""
    found = [found for _, found in LOOKS.values()]
    return [{"results": 0}] + [
        {"results": number, "last_result": text} for number, text in enumerate(found, 1)
    ]


def _ended(agent: Agent) -> tuple[Judged, ...]:
    return ((agent.shell("")["name"], "release"),) if agent.needs_calls else ()


def _disguised_writes(file: Path, seed: Path) -> dict[str, str]:
    """Return commands that write or delete, and what the model must read of each, which no command holds."""
    return {
        f"sort -o {file} {seed}": "`sort -o`",
        f"sed -n 'w {file}' {seed}": "`sed`",
        f"find {seed.parent} -name {seed.name} -delete": "`find -delete`",
        f"git diff --output={file}": "`git diff --output`",
        f"echo {MADE_TEXT} > {file}": "read-only commands only",
        f"awk 'BEGIN {{ system(\"touch {file}\") }}'": "`awk`",
        f"echo $(touch {file})": "`$(…)`",
        f"cat {seed} | tee {file}": "`tee`",
    }


def disguised(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Write by commands that look harmless: each is refused with its reason, and nothing has changed."""
    if not (plan and agent.shell_reads):
        return None
    file = work / BY_REFUSED
    shell = _disguised_writes(file, work / SEED)
    refused = [(agent.shell(command), said) for command, said in shell.items()]
    refused += [(call, WAS_REFUSED) for call in agent.disguises(file)]
    shell_name, answers = agent.shell("")["name"], Answers()
    when: dict[str, Any] = {}
    results = 0
    for number, (call, said) in enumerate(refused, 1):
        answers.append({"when": {"results": results, **when}, "text": "I try.", "calls": [call]})
        results, when = results + 1, {"last_result": said}
        # A model that is refused again and again is heard no more, so it looks at something in between.
        if number % 2 == 0:
            # Never the same twice: OpenHands takes that for being stuck, and ends.
            look = agent.shell(f"head -n {10 + number} {NOTES}")
            answers.append({"when": {"results": results, **when}, "text": "Hm.", "calls": [look]})
            results, when = results + 1, {"last_result": LOOKS["read"][1]}
    answers += [
        {"when": {"results": results, **when}, **final(agent, REFUSED)},
        final(agent, "FINAL: it was not told why"),
    ]
    return Story(
        "disguised",
        script(agent, answers),
        said=REFUSED,
        judged=(*_verdicts(refused), (shell_name, "release")),
        hides=(BY_REFUSED,),
        requests=results,
    )


def _verdicts(refused: list[tuple[Call, str]]) -> tuple[Judged, ...]:
    return tuple((call["name"], "answer") for call, _ in refused)


EXPLORING = (explore, disguised)
"""For agents whose shell the shipped policy knows."""
