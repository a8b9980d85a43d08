"""What a story is, and the pieces that stories are made of.

Every script counts tool results since the last user message, so it goes on in the same way whether the
agent ran a call or modegate answered it; which of the two it was decides the last line. An agent that needs a
call each turn (mini-swe-agent) has one tool, its shell, and ends by a command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import Agent, Call

SEED = "seed.txt"
SEED_TEXT = "amber-41"
BY_WRITE = "made-by-write.txt"
BY_SHELL = "made-by-shell.txt"
BY_REFUSED = "made-too-early.txt"
MADE_TEXT = "made"

PROMPT = "Read seed.txt, then make the files."
GO_ON = "GO-ON"
RAN = "FINAL: everything ran"
REFUSED = "FINAL: the refusals were seen"
MADE_IN_TEXT = "made-in-plain-text"
LATE = "FINAL: written after all"
PLAN = "1. Make the file. 2. Look at it."
APPROVED = "The user approved the plan"
CHANGED = "The user changed the mode from"
"""What modegate says to the model of an approval, and of a mode that a person left."""
NO_SUCH_TOOL = "launch_rocket"
EXIT_TOOL = "exit_plan_mode"
UPSTREAM_SAYS = "quota-17 says no"
WAS_REFUSED = "was refused"
"""In every refusal of modegate, and in nothing that an agent says by itself."""
CLOSING = "[modegate] Refused in mode"
"""What modegate says to the user where the model did not give in."""

Answers = list[dict[str, Any]]
Judged = tuple[str, str]
"""A tool and the verdict on a call of it."""


@dataclass(frozen=True)
class Story:
    """One run of an agent."""

    name: str
    answers: Answers
    said: str
    """What the agent must have shown."""
    files: frozenset[str] = frozenset()
    """What must have been made, and nothing else."""
    judged: tuple[Judged, ...] = ()
    """What the log must hold; nothing at all where the session never had a mode."""
    fails: bool = False
    """The agent is to end with an error."""
    hides: tuple[str, ...] = (BY_WRITE, BY_SHELL)
    """What no file below HOME may hold in a mode: arguments of refused calls."""
    then: str | None = None
    """A second prompt, in the same conversation, after a person has set default mode."""
    plan: str = ""
    """A plan that a person is to be shown, and approves."""
    leaves: bool = False
    """A person sets default mode as soon as a call was refused."""
    requests: int = 0
    """How many more requests it takes than an agent's limit allows for."""

    @property
    def ends_in_default(self) -> bool:
        """Return whether a person has ended the mode by the end."""
        return bool(self.then or self.plan or self.leaves)


def script(agent: Agent, answers: Answers) -> Answers:
    """Put what agents ask on the side in front: title writers, and memory writers after the end."""
    aside: Answers = [{"when": {"any": "FINAL:"}, "text": "Nothing more."}]
    if not agent.needs_calls:
        aside.append({"when": {"tools": False}, "text": "A title"})
    return aside + answers


def final(agent: Agent, text: str) -> dict[str, Any]:
    """Make what ends a run."""
    if not agent.needs_calls:
        return {"text": text}
    call = agent.shell(f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{text}'")
    return {"text": text, "calls": [call]}


def endings(agent: Agent, *, results: int) -> Answers:
    """Tell by the last line whether the model finds refusals in its history."""
    return [
        {"when": {"results": results, "any": WAS_REFUSED}, **final(agent, REFUSED)},
        {"when": {"results": results}, **final(agent, RAN)},
        final(agent, "FINAL: something is missing"),
    ]


def by_shell(agent: Agent, file: Path) -> Call:
    """Make a call that writes a file by a command."""
    return agent.shell(f"echo {MADE_TEXT} > {file}")


def writes(agent: Agent, work: Path) -> list[tuple[str, Call]]:
    """Return the calls by which an agent writes, each with the name of its file."""
    shell = (BY_SHELL, by_shell(agent, work / BY_SHELL))
    if agent.write is None:
        return [shell]
    return [(BY_WRITE, agent.write(work / BY_WRITE, f"{MADE_TEXT}\n")), shell]


def verdicts(agent: Agent, work: Path, *calls: Call, ends: bool = True) -> tuple[Judged, ...]:
    """Return what plan mode says of calls; reads are allowed, by the shell too if its commands are known.

    `ends` if the run ends in plan mode, which some agents do by a call.
    """
    shell = agent.shell("")["name"]
    reads = agent.read(work / SEED)
    allowed = agent.shell_reads or reads["name"] != shell
    judged = [(one["name"], "release" if one == reads and allowed else "answer") for one in calls]
    if agent.needs_calls and ends:
        judged.append((shell, "release"))
    return tuple(judged)
