"""What the scripted model does to an agent, and what must come of it in default and in plan mode.

Every script counts tool results since the last user message, so it goes on in the same way whether the
agent ran a call or modegate answered it; which of the two it was decides the last line. An agent that needs a
call each turn (mini-swe-agent) has one tool, its shell, and ends by a command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalogue import Agent

SEED = "seed.txt"
SEED_TEXT = "amber-41"
BY_WRITE = "made-by-write.txt"
BY_SHELL = "made-by-shell.txt"
MADE_TEXT = "made"

PROMPT = "Read seed.txt, then make the files."
GO_ON = "GO-ON"
RAN = "FINAL: everything ran"
REFUSED = "FINAL: the refusals were seen"
MADE_IN_TEXT = "made-in-plain-text"
LATE = "FINAL: written after all"
NO_SUCH_TOOL = "launch_rocket"
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


def _script(agent: Agent, answers: Answers) -> Answers:
    """Put what agents ask on the side in front: title writers, and memory writers after the end."""
    aside: Answers = [{"when": {"any": "FINAL:"}, "text": "Nothing more."}]
    if not agent.needs_calls:
        aside.append({"when": {"tools": False}, "text": "A title"})
    return aside + answers


def _final(agent: Agent, text: str, *, plan: bool) -> dict[str, Any]:
    if not agent.needs_calls or plan:
        return {"text": text}
    call = agent.shell(f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{text}'")
    return {"text": text, "calls": [call]}


def _endings(agent: Agent, *, plan: bool, results: int) -> Answers:
    """Tell by the last line whether the model finds refusals in its history."""
    return [
        {"when": {"results": results, "any": WAS_REFUSED}, **_final(agent, REFUSED, plan=plan)},
        {"when": {"results": results}, **_final(agent, RAN, plan=plan)},
        _final(agent, "FINAL: something is missing", plan=plan),
    ]


def _writes(agent: Agent, work: Path) -> list[tuple[str, dict[str, Any]]]:
    shell = agent.shell(f"echo {MADE_TEXT} > {work / BY_SHELL}")
    if agent.write is None:
        return [(BY_SHELL, shell)]
    return [(BY_WRITE, agent.write(work / BY_WRITE, f"{MADE_TEXT}\n")), (BY_SHELL, shell)]


def _verdicts(agent: Agent, *calls: dict[str, Any]) -> tuple[Judged, ...]:
    """Give what plan mode says: an agent's reader is allowed unless it is its shell."""
    shell = agent.shell("")["name"]
    reader = {agent.read(Path())["name"]} - {shell}
    return tuple((c["name"], "release" if c["name"] in reader else "answer") for c in calls)


def steps(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Read, write, run a shell command: one call at a time."""
    writes = _writes(agent, work)
    calls = [agent.read(work / SEED), *(call for _, call in writes)]
    answers: Answers = [
        {"when": {"results": number}, "text": f"Step {number + 1}.", "calls": [call]}
        for number, call in enumerate(calls)
    ]
    return Story(
        "steps",
        _script(agent, answers + _endings(agent, plan=plan, results=len(calls))),
        said=REFUSED if plan else RAN,
        files=frozenset() if plan else frozenset(name for name, _ in writes),
        judged=_verdicts(agent, *calls) if plan else (),
    )


def _two_at_once(agent: Agent, work: Path) -> tuple[str, list[dict[str, Any]]]:
    name, write = _writes(agent, work)[0]
    return name, [agent.read(work / SEED), write]


def parallel(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Read and write in one answer: the read is released, and the write is put back with its refusal."""
    name, calls = _two_at_once(agent, work)
    answers: Answers = [{"when": {"results": 0}, "text": "Both at once.", "calls": calls}]
    return Story(
        "parallel",
        _script(agent, answers + _endings(agent, plan=plan, results=2)),
        said=REFUSED if plan else RAN,
        files=frozenset() if plan else frozenset({name}),
        judged=_verdicts(agent, *calls) if plan else (),
    )


def unoffered(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Call a tool that nobody declared: the agent's affair in default mode, refused in plan mode."""
    del work
    call = {"name": NO_SUCH_TOOL, "arguments": {"to": "the moon"}}
    answers: Answers = [{"when": {"results": 0}, "times": 1, "calls": [call]}]
    endings = [
        {"when": {"results": 1, "any": WAS_REFUSED}, **_final(agent, REFUSED, plan=plan)},
        _final(agent, RAN, plan=plan),
    ]
    return Story(
        "unoffered",
        _script(agent, answers + endings),
        said=REFUSED if plan else RAN,
        judged=_verdicts(agent, call) if plan else (),
    )


def error(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Get a 400 from the model's provider: it is shown, and not asked again without end."""
    del work, plan
    body = {"error": {"message": UPSTREAM_SAYS, "type": "invalid_request_error", "code": None}}
    answers: Answers = [{"status": 400, "body": body}]
    return Story("error", _script(agent, answers), said=UPSTREAM_SAYS, fails=agent.fails_on_400)


def left(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Leave plan mode and resume: the refusal is still in the history, and the write works now."""
    if not plan or agent.resume is None:
        return None
    name, calls = _two_at_once(agent, work)
    first = parallel(agent, work, plan=True)
    resumed: Answers = [
        {"when": {"last": GO_ON, "any": WAS_REFUSED}, "text": "Now.", "calls": [calls[1]]},
        {"when": {"last": GO_ON}, "text": "FINAL: the refusal is not in the history"},
        {"when": {"any": GO_ON, "results": 1}, "text": LATE},
    ]
    return Story(
        "left",
        resumed + first.answers,
        said=LATE,
        files=frozenset({name}),
        judged=first.judged,
        then=f"{GO_ON} and make the file.",
    )


def stubborn(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Call the same again after each refusal: the agent is told, and does not go round and round."""
    if not plan:
        return None
    _, call = _writes(agent, work)[0]
    answers: Answers = [{"text": "I write.", "calls": [call]}]
    return Story("stubborn", _script(agent, answers), CLOSING, judged=_verdicts(agent, call))


def in_text(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Write a file by plain text that the agent takes for a call; refused in plan mode."""
    habit = agent.text
    if habit is None:
        return None
    answers: Answers = [
        {"when": {"any": "FINAL:"}, "text": habit.say("FINAL: nothing more")},
        {"when": {"any": WAS_REFUSED}, "text": habit.say(REFUSED)},
        {"times": 1, "text": habit.write(work / BY_WRITE, MADE_IN_TEXT)},
        {"text": habit.say(RAN)},
    ]
    verdict = "answer" if habit.end_tool == habit.tool else "release"
    ending = ((habit.end_tool, verdict),) if habit.end_tool else ()
    return Story(
        "in_text",
        answers,
        said=REFUSED if plan else habit.ran or RAN,
        files=frozenset() if plan else frozenset({BY_WRITE}),
        judged=((habit.tool, "answer"), *ending) if plan else (),
        hides=(MADE_IN_TEXT,),
    )


STORIES: tuple[Callable[..., Story | None], ...] = (
    *(steps, parallel, unoffered, stubborn, error, left),
)
"""For agents that run calls of the API."""

TEXT_STORIES: tuple[Callable[..., Story | None], ...] = (in_text,)
"""For those that run plain text."""
