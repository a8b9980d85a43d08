"""R6: the agent's screen says that a plan waits for a person, and its model never finds that."""

from __future__ import annotations

import json

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.model import Effect, Exit, ExitOption
from modegate.core.step import texts as words
from modegate.scripted.model import Answer, Fixed, ScriptedCall, Turn
from support import message_frames, playbook, responses
from support.playbook import Reply, cut_at, mode, policy, rule
from support.speech import Agent, Speech
from support.speeches import SPEECHES

STREAMED = [speech for speech in SPEECHES if speech.streamed]
RULES = policy(
    mode(
        "plan",
        "read",
        rule("fetch", effect=Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)
EXIT = ScriptedCall("exit_plan_mode", json.dumps({"plan": "# P"}))
READ = ScriptedCall("read", '{"path": "a"}')
WRITE = ScriptedCall("write", '{"path": "a"}')
FETCH = ScriptedCall("fetch", '{"url": "u"}')
MINE = "modegate watch"


def planning(speech: Speech, option: str = "approve", *, waits: bool = True) -> Agent:
    """Return an agent in plan mode, and a person who takes their time."""
    agent = Agent(speech, RULES, tools=("read", "fetch", "write"))
    agent.session.person = lambda asked: agent.session.settle(
        asked, option if asked.purpose == "exit" else "allow_once"
    )
    agent.session.waits = waits
    return agent


ENDS: dict[str, tuple[str, tuple[Turn | Answer, ...], str]] = {
    "approved": ("approve", (Turn("My plan.", calls=(EXIT,)), Turn("Done.")), "Done."),
    "approved, and calls": (
        "approve", (Turn("My plan.", "I think.", (EXIT,)), Turn("I write.", calls=(WRITE,))), "I write."),
    "rejected": ("reject", (Turn("My plan.", calls=(EXIT,)), Turn("As you like.")), "As you like."),
    "without a word": ("approve", (Turn("", calls=(EXIT,)), Turn("Done.")), "Done."),
    "beside a refused call": (
        "approve", (Turn("My plan.", calls=(WRITE, EXIT)), Turn("Done.")), "Done."),
    "behind a refused hop": (
        "reject",
        (Turn("I write.", calls=(WRITE,)), Turn("My plan.", calls=(EXIT,)), Turn("Well.")),
        "Well.",
    ),
    "a later hop that fails": (
        "approve", (Turn("My plan.", calls=(EXIT,)), Answer(Fixed(None), status=500)), "[modegate]"),
    "again": (
        "reject", (Turn("A.", calls=(EXIT,)), Turn("B.", calls=(EXIT,)), Turn("I give up.")), "I give up."),
}  # fmt: skip


@pytest.mark.parametrize(("option", "turns", "last"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_r6_the_screen_says_it_once_a_question_and_the_model_never_finds_it(
    speech: Speech, option: str, turns: tuple[Turn | Answer, ...], last: str
) -> None:
    agent = planning(speech, option)
    heard = agent.step(*turns)
    plans = sum(isinstance(one, Turn) and EXIT in one.calls for one in turns)
    assert heard.text.count(words.PLAN_WAITS) == plans
    front, _, behind = heard.text.rpartition(words.PLAN_WAITS)
    assert last in behind
    assert not front or "My plan." in front or "A." in front or "I write." in front
    told = [agent.told(hop) for hop in range(len(agent.got.requests))]
    agent.session.waits = False
    agent.keep(heard)
    agent.user("Go on.")
    agent.step(Turn("Yes."))
    for history in (*told, agent.told()):
        assert MINE not in str(history)
    entries = [one for one in agent.told() if one.kind not in ("system", "thinks")]
    before = [one for one in told[-1] if one.kind not in ("system", "thinks")]
    assert entries[: len(before)] == before


@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_r6_not_a_word_where_somebody_answers_at_once(speech: Speech) -> None:
    heard = planning(speech, waits=False).step(Turn("My plan.", calls=(EXIT,)), Turn("Done."))
    assert heard.text == "My plan.\n\nDone."


QUIET: dict[str, tuple[ScriptedCall, ...]] = {
    "a call of the agent's goes with it": (READ, EXIT),
    "a call is asked about": (FETCH,),
    "both are asked about": (EXIT, FETCH),
}


@pytest.mark.parametrize("calls", QUIET.values(), ids=QUIET)
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_r6_no_text_stands_among_calls_that_the_client_gets(
    speech: Speech, calls: tuple[ScriptedCall, ...]
) -> None:
    heard = planning(speech).step(Turn("All.", calls=calls), Turn("Done."))
    assert heard.calls
    assert MINE not in heard.text


@pytest.mark.parametrize("speech", [one for one in SPEECHES if not one.streamed], ids=str)
def test_r6_a_body_says_nothing_of_a_wait(speech: Speech) -> None:
    heard = planning(speech).step(Turn("My plan.", calls=(EXIT,)), Turn("Done."))
    assert MINE not in heard.text


@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_r6_it_depends_on_no_cut(speech: Speech) -> None:
    turns = (Turn("My plan.", calls=(EXIT,)), Turn("Done."))
    texts = {
        planning(speech).step(*turns, cut=cut_at(*places)).text for places in ((), (9, 99), (300,))
    }
    assert len(texts) == 1


PLAN = json.dumps({"plan": "# P"})
BEHIND: dict[str, tuple[str, bytes]] = {
    "a block": ("messages", message_frames.stream(
        message_frames.text(0, "My plan."),
        message_frames.use(1, "exit_plan_mode", PLAN),
        message_frames.text(2, "Behind it."),
    )),
    "an item": ("responses", responses.answer(
        responses.message("My plan."),
        responses.call("exit_plan_mode", PLAN),
        responses.message("Behind it.", "msg_2"),
    )),
    "in the same frame": ("chat", playbook.frame({"choices": [{
        "index": 0,
        "delta": {"role": "assistant", "content": "My plan.",
                  "tool_calls": [{"index": 0, "id": "c0", "type": "function",
                                  "function": {"name": "exit_plan_mode", "arguments": PLAN}}]},
        "finish_reason": "tool_calls",
    }]}) + playbook.DONE),
}  # fmt: skip
"""Texts that wait until the plan is answered, as they stand behind its call or go with it."""


@pytest.mark.parametrize(("name", "body"), BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize("option", ["approve", "reject"])
def test_r6_no_word_stands_in_front_of_text_that_waits(name: str, body: bytes, option: str) -> None:
    """What was withheld would be found nowhere, and the line stay where the model finds it."""
    speech = next(one for one in STREAMED if one.name == name)
    agent = planning(speech, option)
    heard = agent.step(Reply(body), Turn("Done."))
    assert MINE not in heard.text
    agent.session.waits = False
    agent.keep(heard)
    agent.user("Go on.")
    agent.step(Turn("Yes."))
    told = agent.told()
    assert MINE not in str(told)
    assert [one.name for one in told if one.kind == "call"] == ["exit_plan_mode"]


def _said(name: str, *texts: str) -> list[dict[str, object]]:
    """Return what an agent keeps of an answer that it broke off."""
    if name == "chat":
        return [{"role": "assistant", "content": "\n\n".join(texts)}]
    if name == "messages":
        blocks = [{"type": "text", "text": text} for text in texts]
        return [{"role": "assistant", "content": blocks}]
    return [responses.message(text, f"msg_{at}") for at, text in enumerate(texts)]


BROKEN_OFF: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "behind words": (("My plan.", words.PLAN_WAITS), ["My plan."]),
    "alone": ((words.PLAN_WAITS,), []),
    "in front of a later hop": (("My plan.", words.PLAN_WAITS, "I wri"), ["My plan.", "I wri"]),
}


@pytest.mark.parametrize(("texts", "left"), BROKEN_OFF.values(), ids=BROKEN_OFF)
@pytest.mark.parametrize("now", ["plan", "default"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r6_the_model_finds_it_in_no_answer_that_was_broken_off(
    speech: Speech, now: str, texts: tuple[str, ...], left: list[str]
) -> None:
    """Who presses Esc while the plan waits keeps what is on the screen; nothing is logged of that step."""
    agent = planning(speech, waits=False)
    agent.session.set_mode(now)
    agent.history += _said(speech.name, *texts)
    agent.user(f"What is «{words.PLAN_WAITS}»?")
    agent.step(Turn("Yes."))
    told = agent.told()
    assert "\n\n".join(one.text for one in told if one.kind == "says") == "\n\n".join(left)
    assert [MINE in one.text for one in told if one.kind == "user"] == [False, True]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_l1_a_session_that_never_had_a_mode_keeps_its_bytes(speech: Speech) -> None:
    agent = Agent(speech, RULES, mode="default")
    agent.history += _said(speech.name, "My plan.", words.PLAN_WAITS)
    agent.user("Go on.")
    agent.step(Turn("Yes."))
    assert json.loads(agent.got.requests[0]) == speech.api.request(
        agent.history, agent.tools, streamed=speech.streamed
    )
