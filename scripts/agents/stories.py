"""What the scripted model does to an agent, and what must come of it in default and in plan mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import Agent
from story import (
    APPROVED,
    BY_REFUSED,
    BY_WRITE,
    CHANGED,
    CLOSING,
    EXIT_TOOL,
    GO_ON,
    LATE,
    MADE_IN_TEXT,
    NO_SUCH_TOOL,
    PLAN,
    RAN,
    REFUSED,
    SEED,
    UPSTREAM_SAYS,
    WAS_REFUSED,
    Answers,
    Story,
    by_shell,
    endings,
    final,
    script,
    verdicts,
    writes,
)


def steps(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Read, write, run a shell command, one call at a time, in default mode."""
    return None if plan else _one_by_one("steps", agent, work, plan=False)


def plan(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """The same in plan mode: the read passes, the rest is stopped, and the model is told."""
    return _one_by_one("plan", agent, work, plan=True) if plan else None


def _one_by_one(name: str, agent: Agent, work: Path, *, plan: bool) -> Story:
    made = writes(agent, work)
    calls = [agent.read(work / SEED), *(call for _, call in made)]
    answers: Answers = [
        {"when": {"results": number}, "text": f"Step {number + 1}.", "calls": [call]}
        for number, call in enumerate(calls)
    ]
    return Story(
        name,
        script(agent, answers + endings(agent, results=len(calls))),
        said=REFUSED if plan else RAN,
        files=frozenset() if plan else frozenset(file for file, _ in made),
        judged=verdicts(agent, work, *calls) if plan else (),
    )


def approve(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Submit a plan: a person reads and approves it, and the write of the same turn works."""
    if not plan:
        return None
    name, write = writes(agent, work)[0]
    calls = [agent.read(work / SEED), by_shell(agent, work / BY_REFUSED)]
    leave = {"name": EXIT_TOOL, "arguments": {"plan": PLAN}}
    answers: Answers = [
        {"when": {"results": 0}, "text": "I look.", "calls": calls[:1]},
        {"when": {"results": 1}, "text": "I try.", "calls": calls[1:]},
        {"when": {"results": 2, "offers": EXIT_TOOL}, "text": "I plan.", "calls": [leave]},
        {"when": {"results": 3, "any": APPROVED}, "text": "Now.", "calls": [write]},
        {"when": {"results": 4, "any": APPROVED}, **final(agent, LATE)},
        final(agent, "FINAL: something is missing"),
    ]
    return Story(
        "approve",
        script(agent, answers),
        said=LATE,
        files=frozenset({name}),
        judged=(*verdicts(agent, work, *calls, ends=False), (EXIT_TOOL, "ask")),
        hides=(BY_REFUSED,),
        plan=PLAN,
    )


def _two_at_once(agent: Agent, work: Path) -> tuple[str, list[dict[str, Any]]]:
    name, write = writes(agent, work)[0]
    return name, [agent.read(work / SEED), write]


def parallel(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Read and write in one answer: the read is released, and the write is put back with its refusal."""
    name, calls = _two_at_once(agent, work)
    answers: Answers = [{"when": {"results": 0}, "text": "Both at once.", "calls": calls}]
    return Story(
        "parallel",
        script(agent, answers + endings(agent, results=2)),
        said=REFUSED if plan else RAN,
        files=frozenset() if plan else frozenset({name}),
        judged=verdicts(agent, work, *calls) if plan else (),
    )


def unoffered(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Call a tool that nobody declared: the agent's affair in default mode, refused in plan mode."""
    call = {"name": NO_SUCH_TOOL, "arguments": {"to": "the moon"}}
    answers: Answers = [{"when": {"results": 0}, "times": 1, "calls": [call]}]
    answers += [
        {"when": {"results": 1, "any": WAS_REFUSED}, **final(agent, REFUSED)},
        final(agent, RAN),
    ]
    return Story(
        "unoffered",
        script(agent, answers),
        said=REFUSED if plan else RAN,
        judged=verdicts(agent, work, call) if plan else (),
    )


def error(agent: Agent, work: Path, *, plan: bool) -> Story:
    """Get a 400 from the model's provider: it is shown, and not asked again without end."""
    del work, plan
    body = {"error": {"message": UPSTREAM_SAYS, "type": "invalid_request_error", "code": None}}
    answers: Answers = [{"status": 400, "body": body}]
    return Story("error", script(agent, answers), said=UPSTREAM_SAYS, fails=agent.fails_on_400)


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
    (name, write), read = writes(agent, work)[0], agent.read(work / SEED)
    early = by_shell(agent, work / BY_REFUSED)
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
        script(agent, answers),
        said=LATE,
        files=frozenset({name}),
        judged=verdicts(agent, work, read, early),
        hides=(BY_REFUSED,),
        leaves=True,
    )


def stubborn(agent: Agent, work: Path, *, plan: bool) -> Story | None:
    """Call the same again after each refusal: the agent is told, and does not go round and round."""
    if not plan:
        return None
    _, call = writes(agent, work)[0]
    answers: Answers = [{"text": "I write.", "calls": [call]}]
    judged = verdicts(agent, work, call, ends=False)
    return Story("stubborn", script(agent, answers), CLOSING, judged=judged)


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
