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

    @property
    def ends_in_default(self) -> bool:
        """Return whether a person has ended the mode by the end."""
        return bool(self.then or self.plan or self.leaves)


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


def _verdicts(agent: Agent, work: Path, *calls: dict[str, Any]) -> tuple[Judged, ...]:
    """Return what plan mode says: an agent's reader is allowed unless it is its shell."""
    shell, read = agent.shell("")["name"], agent.read(work / SEED)
    return tuple(
        (call["name"], "release" if call == read and call["name"] != shell else "answer")
        for call in calls
    )


def steps(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Read, write, run a shell command, one call at a time, in default mode."""
    return None if plan else _one_by_one("steps", agent, work, plan=False)


def plan(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """The same in plan mode: the read passes, the rest is stopped, and the model is told."""
    return _one_by_one("plan", agent, work, plan=True) if plan else None


def _one_by_one(name: str, agent: Agent, work: Path, *, plan: bool) -> Story:
    writes = _writes(agent, work)
    calls = [agent.read(work / SEED), *(call for _, call in writes)]
    answers: Answers = [
        {"when": {"results": number}, "text": f"Step {number + 1}.", "calls": [call]}
        for number, call in enumerate(calls)
    ]
    return Story(
        name,
        _script(agent, answers + _endings(agent, plan=plan, results=len(calls))),
        said=REFUSED if plan else RAN,
        files=frozenset() if plan else frozenset(file for file, _ in writes),
        judged=_verdicts(agent, work, *calls) if plan else (),
    )


def approve(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Submit a plan: a person reads and approves it, and the write of the same turn works."""
    if not plan:
        return None
    name, write = _writes(agent, work)[0]
    early = agent.shell(f"echo {MADE_TEXT} > {work / BY_REFUSED}")
    calls = [agent.read(work / SEED), early]
    leave = {"name": EXIT_TOOL, "arguments": {"plan": PLAN}}
    answers: Answers = [
        {"when": {"results": 0}, "text": "I look.", "calls": calls[:1]},
        {"when": {"results": 1}, "text": "I try.", "calls": calls[1:]},
        {"when": {"results": 2, "offers": EXIT_TOOL}, "text": "I plan.", "calls": [leave]},
        {"when": {"results": 3, "any": APPROVED}, "text": "Now.", "calls": [write]},
        {"when": {"results": 4, "any": APPROVED}, **_final(agent, LATE, plan=False)},
        _final(agent, "FINAL: something is missing", plan=False),
    ]
    return Story(
        "approve",
        _script(agent, answers),
        said=LATE,
        files=frozenset({name}),
        judged=(*_verdicts(agent, work, *calls), (EXIT_TOOL, "ask")),
        hides=(BY_REFUSED,),
        plan=PLAN,
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
        judged=_verdicts(agent, work, *calls) if plan else (),
    )


def unoffered(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Call a tool that nobody declared: the agent's affair in default mode, refused in plan mode."""
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
        judged=_verdicts(agent, work, call) if plan else (),
    )


def error(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Get a 400 from the model's provider: it is shown, and not asked again without end."""
    del work, plan
    body = {"error": {"message": UPSTREAM_SAYS, "type": "invalid_request_error", "code": None}}
    answers: Answers = [{"status": 400, "body": body}]
    return Story("error", _script(agent, answers), said=UPSTREAM_SAYS, fails=agent.fails_on_400)


def left(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Leave plan mode: the model is told, finds its refusal in the history, and its write works now."""
    if not plan or agent.needs_calls:
        return None
    if agent.resume is None:
        return _left_within_a_turn(agent, work)
    name, calls = _two_at_once(agent, work)
    first = parallel(agent, work, plan=True)
    resumed: Answers = [
        {"when": {"last": GO_ON, "any": WAS_REFUSED}, "text": "Now.", "calls": [calls[1]]},
        {"when": {"last": GO_ON}, "text": "FINAL: the refusal is not in the history"},
        {"when": {"any": CHANGED, "results": 1}, "text": LATE},
        {"when": {"any": GO_ON, "results": 1}, "text": "FINAL: the model was not told"},
    ]
    return Story(
        "left",
        resumed + first.answers,
        said=LATE,
        files=frozenset({name}),
        judged=first.judged,
        then=f"{GO_ON} and make the file.",
    )


def _left_within_a_turn(agent: Agent, work: Path) -> Story:
    """A person sets default mode while the model still speaks; its next request is in default."""
    (name, write), read = _writes(agent, work)[0], agent.read(work / SEED)
    early = agent.shell(f"echo {MADE_TEXT} > {work / BY_REFUSED}")
    slowly = {"text": "I go on. " * 20, "calls": [read], "chunk": 12, "pace": "500ms"}
    answers: Answers = [
        {"when": {"results": 0}, "text": "Both at once.", "calls": [read, early]},
        {"when": {"results": 2, "any": WAS_REFUSED}, **slowly},
        {"when": {"results": 3, "any": CHANGED}, "text": "Now.", "calls": [write]},
        {"when": {"results": 4, "any": CHANGED}, "text": LATE},
        {"text": "FINAL: the model was not told"},
    ]
    return Story(
        "left",
        _script(agent, answers),
        said=LATE,
        files=frozenset({name}),
        judged=_verdicts(agent, work, read, early),
        hides=(BY_REFUSED,),
        leaves=True,
    )


def stubborn(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Call the same again after each refusal: the agent is told, and does not go round and round."""
    if not plan:
        return None
    _, call = _writes(agent, work)[0]
    answers: Answers = [{"text": "I write.", "calls": [call]}]
    return Story("stubborn", _script(agent, answers), CLOSING, judged=_verdicts(agent, work, call))


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


def left_in_text(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Leave plan mode and resume: the same plain text writes the file now."""
    habit = agent.text
    if habit is None or agent.resume is None or not plan:
        return None
    first = in_text(agent, work, plan=True)
    # A lane without tools is given no notice, as it could be a title writer's.
    heard = CHANGED if agent.declares else WAS_REFUSED
    write = habit.write(work / BY_WRITE, MADE_IN_TEXT)
    resumed: Answers = [
        {"when": {"last": GO_ON, "any": heard}, "text": write},
        {"when": {"last": GO_ON}, "text": habit.say("FINAL: it is not in the history")},
        {"when": {"any": GO_ON}, "text": habit.say(LATE)},
    ]
    return Story(
        "left_in_text",
        resumed + (first.answers if first else []),
        said=LATE,
        files=frozenset({BY_WRITE}),
        judged=((habit.tool, "answer"),),
        hides=(MADE_IN_TEXT,),
        then=f"{GO_ON} and make the file.",
    )


STORIES: tuple[Callable[..., Story | None], ...] = (
    *(steps, plan, approve, left, parallel, unoffered, stubborn, error),
)
"""For agents that run calls of the API."""

TEXT_STORIES: tuple[Callable[..., Story | None], ...] = (in_text, left_in_text)
"""For those that run plain text."""
