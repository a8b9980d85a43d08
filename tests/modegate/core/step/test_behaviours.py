"""What modegate does, told once: the same stories hold in every dialect, streamed and whole (L7)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import CallJudged, NoticeGiven, TurnWithheld
from modegate.core.policy.model import Effect, Exit, ExitOption
from modegate.scripted.model import Answer, Fixed, ScriptedCall, Turn
from support import judges
from support.playbook import Cut, Got, bytewise, cut_at, mode, policy, rule, whole
from support.speech import Agent, Entry, Heard, Speech
from support.speeches import SPEECHES

SECRET = "S3CRET"
READ = ScriptedCall("read", '{"path": "a"}')
GREP = ScriptedCall("grep", '{"for": "b"}')
WRITE = ScriptedCall("write", json.dumps({"path": SECRET}))
EXIT = ScriptedCall("exit_plan_mode", json.dumps({"plan": "# Rename foo"}))
FETCH = ScriptedCall("fetch", '{"url": "u"}')
ASKING = policy(
    mode(
        "plan",
        "read",
        rule("fetch", effect=Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)


def write(at: int) -> ScriptedCall:
    """Return a call that is refused, another for each number."""
    return ScriptedCall("write", json.dumps({"path": f"{SECRET}{at}"}))


@pytest.fixture(params=SPEECHES, ids=str)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Return an agent in plan mode; it has the tools `read`, `grep` and `write`."""
    return Agent(request.param)


@pytest.fixture(params=SPEECHES, ids=str)
def asking(request: pytest.FixtureRequest) -> Agent:
    """Return an agent in a mode that can be left, and in which a person decides on `fetch`."""
    return Agent(request.param, ASKING, tools=("read", "fetch", "write"))


def leaks(got: Got) -> bool:
    """Return whether anything of a refused call is in the answer."""
    return SECRET.encode() in got.body or b'"write"' in got.body


def kinds(entries: list[Entry]) -> list[str]:
    """Return a history in short, without what stands before the user's first message."""
    return [e.kind + (f" {e.name}" if e.name else "") for e in entries if e.kind != "system"]


def results(entries: list[Entry]) -> dict[str, str]:
    """Return the results by the name of their call."""
    names = {entry.id: entry.name for entry in entries if entry.kind == "call"}
    return {names[entry.id]: entry.text for entry in entries if entry.kind == "result"}


def approve(agent: Agent, option: str = "approve") -> None:
    """Let a person decide, in these words."""
    agent.session.person = lambda asked: agent.session.settle(asked, option, "My words.")


# What is shown to the model ----------------------------------------------------------------------


def test_the_model_is_shown_what_the_mode_allows(asking: Agent) -> None:
    asking.step(Turn("Hello"))
    assert asking.shown() == ["read", "fetch", "exit_plan_mode"]
    (system,) = [entry.text for entry in asking.told() if entry.kind == "system"]
    assert system.startswith("You are an agent.")
    assert "PLAN-SECTION" in system


def test_without_tools_nothing_is_added(asking: Agent) -> None:
    asking.tools = ()
    asking.step(Turn("A title"))
    assert asking.shown() == []
    assert b"PLAN-SECTION" not in asking.got.requests[0]


def test_in_default_mode_nothing_changes(agent: Agent) -> None:
    agent.session.set_mode("default")
    heard = agent.step(Turn("t", "r", (WRITE,)))
    assert agent.shown() == ["read", "grep", "write"]
    assert heard.names == ["write"]


# Released and refused ----------------------------------------------------------------------------


def test_what_is_released_passes_as_it_came(agent: Agent) -> None:
    heard = agent.step(Turn("I look.", "Where?", (READ, GREP)))
    assert (heard.text, heard.reasoning, heard.finish) == ("I look.", "Where?", "calls")
    assert [(call.name, json.loads(call.arguments)) for call in heard.calls] == [
        ("read", {"path": "a"}),
        ("grep", {"for": "b"}),
    ]
    assert len(agent.got.requests) == 1
    assert (
        agent.got.body
        == agent.speech.reply(Turn("I look.", "Where?", (READ, GREP)), agent.got.requests[0]).body
    )


def test_text_alone_passes_as_it_came(agent: Agent) -> None:
    heard = agent.step(Turn("Hello", "Hm", finish="length"))
    assert (heard.text, heard.reasoning, heard.finish) == ("Hello", "Hm", "length")
    assert (
        agent.got.body
        == agent.speech.reply(Turn("Hello", "Hm", finish="length"), agent.got.requests[0]).body
    )


def test_a_refused_call_is_answered_and_the_model_gives_in(agent: Agent) -> None:
    heard = agent.step(Turn("I write.", calls=(WRITE,)), Turn("I only read.", calls=(READ,)))
    assert (heard.text, heard.names, heard.finish) == (
        "I write.\n\nI only read.",
        ["read"],
        "calls",
    )
    assert not leaks(agent.got)
    assert kinds(agent.told()) == ["user", "says", "call write", "result"]
    (result,) = results(agent.told()).values()
    assert "was refused and did not run" in result
    assert "`read`" in result
    judged = [(e.tool, e.verdict) for e in agent.got.events if isinstance(e, CallJudged)]
    assert judged == [("write", "answer"), ("read", "release")]


def test_text_in_front_of_a_refused_call_goes_out_before_the_verdict(agent: Agent) -> None:
    agent.step(Turn("I write.", calls=(WRITE,)), Turn("No."))
    order = agent.got.order
    streamed = agent.speech.streamed
    assert ("SendBytes" in order[: order.index("ReadState")]) is streamed


def test_a_model_that_does_not_give_in_is_stopped(agent: Agent) -> None:
    heard = agent.step(*(Turn(f"Try {at}.", calls=(write(at),)) for at in range(9)))
    assert len(agent.got.requests) == agent.rules.limits.hops
    assert (heard.names, heard.finish) == ([], "stop")
    *tries, closing = heard.text.split("\n\n")
    assert tries == ["Try 0.", "Try 1.", "Try 2.", "Try 3."]
    assert closing.startswith("[modegate] Refused in mode 'plan'")
    assert not leaks(agent.got)


def test_the_same_call_twice_in_a_row_ends_it(agent: Agent) -> None:
    heard = agent.step(Turn("Now.", calls=(WRITE,)))
    assert len(agent.got.requests) == 2
    assert (heard.names, heard.finish) == ([], "stop")
    assert "[modegate] Refused" in heard.text


def test_a_tool_that_nobody_declared_is_refused(agent: Agent) -> None:
    heard = agent.step(Turn(calls=(ScriptedCall("format_disk", "{}"),)), Turn("Fine."))
    assert (heard.text, heard.names) == ("Fine.", [])
    assert b"format_disk" not in agent.got.body


@pytest.mark.parametrize("arguments", ['{"path', "[1]", "no"])
def test_arguments_that_cannot_be_read_are_refused(agent: Agent, arguments: str) -> None:
    heard = agent.step(Turn(calls=(ScriptedCall("read", arguments),)), Turn("Fine."))
    assert (heard.text, heard.names, heard.finish) == ("Fine.", [], "stop")
    (call,) = [entry for entry in agent.told() if entry.kind == "call"]
    assert (call.name, call.text) == ("read", "{}")


def test_arguments_with_a_key_twice_run_nowhere(agent: Agent) -> None:
    """Where arguments are a part of the answer's JSON, it is the whole answer that cannot be read."""
    call = ScriptedCall("read", '{"path": 1, "path": 2}')
    heard = agent.step(Turn(calls=(call,)), Turn("Fine."))
    assert heard.names == []
    assert (heard.text == "Fine.") is not bool(heard.error)
    assert b"path" not in agent.got.body


def test_a_finish_that_tells_of_calls_needs_one(agent: Agent) -> None:
    heard = agent.step(Turn("Hello", finish="tool_calls"))
    assert (heard.text, heard.names, heard.finish) == ("Hello", [], "stop")


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_refused_call_of_an_answer_that_was_cut_short_ends_it(agent: Agent, finish: str) -> None:
    heard = agent.step(Turn("Long.", calls=(WRITE,), finish=finish))
    assert len(agent.got.requests) == 1
    assert (heard.names, heard.finish) == ([], {"length": "length"}.get(finish, "filter"))
    assert not leaks(agent.got)


# Put back ----------------------------------------------------------------------------------------


def mixed(agent: Agent) -> Heard:
    """Let a model make three calls of which one is released, and its agent go on."""
    heard = agent.step(Turn("All of it.", "Hm.", (write(1), READ, write(2))))
    agent.keep(heard)
    return heard


def test_what_was_withheld_is_put_back(agent: Agent) -> None:
    heard = mixed(agent)
    assert (heard.text, heard.names, heard.finish) == ("All of it.", ["read"], "calls")
    assert not leaks(agent.got)
    assert sum(isinstance(event, TurnWithheld) for event in agent.got.events) == 1
    agent.step(Turn("Done."))
    told = agent.told()
    assert [kind for kind in kinds(told) if kind not in ("thinks", "result")] == [
        "user",
        "says",
        "call write",
        "call read",
        "call write",
    ]
    calls = [entry for entry in told if entry.kind == "call"]
    assert [json.loads(call.text) for call in calls] == [
        {"path": f"{SECRET}1"},
        {"path": "a"},
        {"path": f"{SECRET}2"},
    ]
    answers = {entry.id: entry.text for entry in told if entry.kind == "result"}
    assert answers[calls[1].id] == "ran read"
    assert "was refused" in answers[calls[0].id]
    assert "was refused" in answers[calls[2].id]


def test_what_was_put_back_stays_as_it_is(agent: Agent) -> None:
    mixed(agent)
    requests: list[list[Entry]] = []
    for more in ("one", "two"):
        heard = agent.step(Turn(f"Done {more}."))
        requests.append(agent.told())
        again = agent.step(Turn(f"Done {more}."))
        assert again == heard
        assert agent.told() == requests[-1], "the same request twice is the same twice"
        agent.keep(heard)
        agent.user(more)
    for before, after in pairwise(requests):
        assert after[: len(before)] == before
    assert not [e for e in agent.got.events if isinstance(e, TurnWithheld)]


def test_hops_are_told_apart_again(agent: Agent) -> None:
    heard = agent.step(
        Turn("I write.", calls=(write(1),)),
        Turn("Again.", calls=(write(2),)),
        Turn("I read.", calls=(READ,)),
    )
    agent.keep(heard)
    agent.step(Turn("Done."))
    assert kinds(agent.told()) == [
        "user",
        *("says", "call write", "result"),
        *("says", "call write", "result"),
        *("says", "call read", "result"),
    ]
    assert [e.text for e in agent.told() if e.kind == "says"] == ["I write.", "Again.", "I read."]


def test_a_closing_text_stands_behind_what_was_refused(agent: Agent) -> None:
    heard = agent.step(Turn("Now.", calls=(WRITE,)))
    agent.keep(heard)
    agent.user("Go on.")
    agent.step(Turn("Yes."))
    told = agent.told()
    assert [kind for kind in kinds(told) if kind != "thinks"] == [
        "user",
        *("says", "call write", "result") * 2,
        "says",
        "user",
    ]
    assert told[-2].text.startswith("[modegate] Refused")
    assert not agent.got.events, "nothing new is withheld"


def test_reasoning_is_kept_and_goes_back_to_its_hop(agent: Agent) -> None:
    heard = agent.step(
        Turn("I write.", "First thought.", (WRITE,)), Turn("I read.", "Second thought.", (READ,))
    )
    assert heard.reasoning.startswith("First thought.")
    assert heard.reasoning.endswith("Second thought.")
    agent.keep(heard)
    agent.step(Turn("Done."))
    told = agent.told()
    thoughts = [entry for entry in told if entry.kind == "thinks"]
    assert [entry.text for entry in thoughts] == ["First thought.", "Second thought."]
    assert len({entry.id for entry in thoughts}) == (2 if thoughts[0].id else 1)
    assert [kind for kind in kinds(told) if kind != "result"] == [
        "user",
        *("thinks", "says", "call write"),
        *("thinks", "says", "call read"),
    ]


def test_reasoning_that_is_not_sent_back_stays_away(agent: Agent) -> None:
    heard = agent.step(
        Turn("I write.", "First thought.", (WRITE,)), Turn("I read.", "Second thought.", (READ,))
    )
    agent.keep(heard, reasoning=False)
    agent.step(Turn("Done."))
    assert [kind for kind in kinds(agent.told()) if kind != "result"] == [
        "user",
        *("says", "call write"),
        *("says", "call read"),
    ]


def test_ids_that_come_again_stay_apart(agent: Agent) -> None:
    first = Turn("One.", calls=(replace(WRITE, id="call_0"), replace(READ, id="call_1")))
    agent.keep(agent.step(first))
    agent.keep(agent.step(Turn("Two.", calls=(replace(GREP, id="call_0"),))))
    agent.step(Turn("Done."))
    ids = [entry.id for entry in agent.told() if entry.kind == "call"]
    assert len(set(ids)) == 3
    assert ids[1:] == ["call_1", "call_0"]


def test_free_text_calls_are_put_back_as_they_were(agent: Agent) -> None:
    patch = ScriptedCall("patch", f"*** {SECRET}", custom=True)
    heard = agent.step(Turn("I patch.", calls=(patch, READ)))
    assert heard.names == ["read"]
    assert SECRET.encode() not in agent.got.body
    agent.keep(heard)
    agent.step(Turn("Done."))
    (call, _) = [entry for entry in agent.told() if entry.kind == "call"]
    assert (call.name, patch.arguments in call.text) == ("patch", True)


def test_free_text_calls_are_released_as_they_came(agent: Agent) -> None:
    agent = Agent(agent.speech, policy(mode("plan", "patch")), tools=("patch",))
    turn = Turn("I patch.", calls=(ScriptedCall("patch", "*** a", custom=True),))
    heard = agent.step(turn)
    assert heard.names == ["patch"]
    assert agent.got.body == agent.speech.reply(turn, agent.got.requests[0]).body


def test_what_was_edited_gets_nothing_back(agent: Agent) -> None:
    mixed(agent)
    agent.history = [agent.speech.api.user("A summary of what was.")]
    agent.step(Turn("Done."))
    assert kinds(agent.told()) == ["user"]


def test_default_mode_puts_back_and_filters_nothing(agent: Agent) -> None:
    mixed(agent)
    agent.session.set_mode("default")
    heard = agent.step(Turn(calls=(WRITE,)))
    assert agent.shown() == ["read", "grep", "write"]
    assert b"PLAN-SECTION" not in agent.got.requests[0]
    calls = [kind for kind in kinds(agent.told()) if kind.startswith("call")]
    assert calls == ["call write", "call read", "call write"]
    assert heard.names == ["write"]


def test_a_stray_exit_call_in_default_mode_is_answered(asking: Agent) -> None:
    asking.session.set_mode("default")
    heard = asking.step(Turn("Plan.", calls=(EXIT,)), Turn("I see.", calls=(WRITE,)))
    assert (heard.text, heard.names) == ("Plan.\n\nI see.", ["write"])
    (result,) = results(asking.told()).values()
    assert "not in a mode" in result
    assert not asking.got.asked


# Notices -----------------------------------------------------------------------------------------

NOTICE = "[modegate] The user changed the mode from 'plan' to 'default'."


def test_a_notice_is_given_once_and_stays(agent: Agent) -> None:
    agent.keep(agent.step(Turn("Hello")))
    agent.session.set_mode("default")
    agent.user("And now?")
    seen: list[list[Entry]] = []
    for more in ("one", "two"):
        heard = agent.step(Turn(f"Answer {more}."))
        seen.append(agent.told())
        agent.keep(heard)
        agent.user(more)
    for told in seen:
        (at,) = [at for at, entry in enumerate(told) if NOTICE in entry.text]
        assert told[at].kind == "user"
        users = [entry.text for entry in told[: at + 1] if entry.kind == "user"]
        assert users[1].startswith("And now?")
    assert seen[1][: len(seen[0])] == seen[0]
    assert sum(isinstance(event, NoticeGiven) for event in agent.session.events) == 1


def test_n007_a_notice_stands_in_the_newest_result(agent: Agent) -> None:
    """Behind results many templates take nothing but the model's next message, now and later."""
    agent.keep(agent.step(Turn("I look.", calls=(READ, GREP))))
    agent.session.set_mode("default")
    agent.keep(agent.step(Turn("Found.", calls=(READ,))))
    told = agent.told()
    assert kinds(told)[-2:] == ["result", "result"]
    assert NOTICE in told[-1].text
    agent.step(Turn("Done."))
    assert agent.told()[: len(told)] == told
    assert NOTICE not in str(agent.told()[len(told) :])


# People ------------------------------------------------------------------------------------------


def test_an_approved_exit_goes_on_with_all_tools(asking: Agent) -> None:
    approve(asking)
    heard = asking.step(Turn("My plan.", calls=(EXIT,)), Turn("I write.", calls=(WRITE,)))
    assert [asked.text for asked in asking.got.asked] == ["# Rename foo"]
    assert (heard.text, heard.names) == ("My plan.\n\nI write.", ["write"])
    assert b"# Rename foo" not in asking.got.body
    assert asking.shown(0) == ["read", "fetch", "exit_plan_mode"]
    assert asking.shown(1) == ["read", "fetch", "write"]
    assert b"PLAN-SECTION" not in asking.got.requests[1]
    (told,) = results(asking.told()).values()
    assert "approved the plan" in told
    assert "My words." in told
    asking.keep(heard)
    asking.step(Turn("Done."))
    assert kinds(asking.told()) == [
        "user",
        *("says", "call exit_plan_mode", "result"),
        *("says", "call write", "result"),
    ]


@pytest.mark.parametrize(("option", "told"), [("reject", "rejected"), (None, "nobody answered")])
def test_an_exit_that_is_not_approved_changes_nothing(
    asking: Agent, option: str | None, told: str
) -> None:
    if option:
        approve(asking, option)
    heard = asking.step(
        Turn("My plan.", calls=(EXIT,)), Turn("I write.", calls=(WRITE,)), Turn("OK.")
    )
    assert (heard.text, heard.names, heard.finish) == ("My plan.\n\nI write.\n\nOK.", [], "stop")
    assert not leaks(asking.got)
    assert told in results(asking.told(1))["exit_plan_mode"]
    assert asking.session.state.mode == "plan"


def test_a_call_that_a_person_allows_is_released(asking: Agent) -> None:
    approve(asking, "allow_once")
    heard = asking.step(Turn("I fetch.", calls=(FETCH,)))
    assert (heard.text, heard.names, heard.finish) == ("I fetch.", ["fetch"], "calls")
    assert len(asking.got.requests) == 1


def test_a_call_that_a_person_rejects_is_refused(asking: Agent) -> None:
    approve(asking, "reject")
    heard = asking.step(Turn("I fetch.", calls=(READ, FETCH)))
    assert (heard.names, heard.finish) == (["read"], "calls")
    assert b'"url' not in asking.got.body
    asking.keep(heard)
    asking.step(Turn("Done."))
    assert "The user rejected the call." in results(asking.told())["fetch"]


def test_an_approved_exit_beside_other_calls_is_told_with_their_results(asking: Agent) -> None:
    approve(asking)
    heard = asking.step(Turn("Both.", calls=(READ, EXIT)))
    assert (heard.names, heard.finish) == (["read"], "calls")
    asking.keep(heard)
    asking.step(Turn("Now I write."))
    assert "approved the plan" in results(asking.told())["exit_plan_mode"]
    assert results(asking.told())["read"] == "ran read"
    assert asking.shown() == ["read", "fetch", "write"]


def test_calls_keep_their_order_around_one_that_waits(asking: Agent) -> None:
    approve(asking, "allow_once")
    asking.session.waits = True
    other = ScriptedCall("read", '{"path": "b"}')
    heard = asking.step(Turn("All.", calls=(READ, FETCH, other)))
    assert [json.loads(call.arguments) for call in heard.calls] == [
        {"path": "a"},
        {"url": "u"},
        {"path": "b"},
    ]


# What goes wrong ---------------------------------------------------------------------------------

FAILURES = {
    "500": Answer(Fixed(None), status=500),
    "cut": Answer(Turn("Half of", calls=(READ,), chunk=4), cut=True),
    "unreadable": Answer(Fixed(b"data: {\n\n"), headers=[(b"content-type", b"text/event-stream")]),
    "html": Answer(Fixed(b"<html>", json=False)),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_later_hop_that_fails_ends_the_answer_in_peace(agent: Agent, failure: Answer) -> None:
    heard = agent.step(Turn("I write.", calls=(WRITE,)), failure)
    assert heard.text.startswith("I write.")
    assert "[modegate] Refused in mode 'plan'" in heard.text
    assert (heard.names, heard.finish, heard.error) == ([], "stop", "")
    assert not leaks(agent.got)
    agent.keep(heard)
    agent.user("Go on.")
    agent.step(Turn("Yes."))
    assert "call write" in kinds(agent.told())


def test_a_first_hop_that_fails_is_told_as_it_is(agent: Agent) -> None:
    heard = agent.step(Answer(Fixed(None), status=500))
    assert heard.error == "the script answers 500"


@pytest.mark.parametrize("call", [READ, WRITE], ids=["allowed", "forbidden"])
def test_a_call_that_is_cut_off_goes_nowhere(agent: Agent, call: ScriptedCall) -> None:
    heard = agent.step(Answer(Turn("I begin.", calls=(call,)), cut=True))
    assert (heard.names, heard.finish) == ([], "")
    assert heard.error
    assert b'"path' not in agent.got.body
    assert not leaks(agent.got)


def test_a_mode_that_is_set_meanwhile_counts_too(agent: Agent) -> None:
    agent = Agent(agent.speech, policy(mode("plan", "read"), mode("locked", "grep")))
    agent.session.during = lambda: agent.session.set_mode("locked")
    heard = agent.step(Turn("I look.", calls=(READ,)), Turn("I may not."))
    assert (heard.text, heard.names) == ("I look.\n\nI may not.", [])
    assert b'"path' not in agent.got.body
    assert agent.shown(0) == ["read"]
    assert not {"read", "grep"} & set(agent.shown(1))


def test_what_cannot_be_logged_does_not_happen(agent: Agent) -> None:
    def gone() -> None:
        agent.session.log_fails = LogUnavailable("the log is gone")

    agent.session.during = gone
    heard = agent.step(Turn("Both.", calls=(READ, WRITE)))
    assert (heard.error, heard.finish) == ("the log is gone", "")
    assert not leaks(agent.got)


def test_usage_is_of_the_last_prompt_and_all_answers(agent: Agent) -> None:
    def spent(prompt: int, answer: int) -> dict[str, int]:
        total = prompt + answer
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": total}

    heard = agent.step(
        Turn("a", calls=(WRITE,), usage=spent(10, 1)),
        Turn("b", calls=(write(1),), usage=spent(20, 2)),
        Turn("c", usage=spent(30, 4)),
    )
    assert heard.usage == (30, 7)


# However it is cut -------------------------------------------------------------------------------

STORY = (Turn("Aß.", "Hm.", (WRITE,)), Turn("B.", calls=(READ, write(2))))


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_the_answer_does_not_depend_on_how_the_bytes_came(speech: Speech) -> None:
    def told(cut: Cut) -> tuple[bytes, list[bytes]]:
        agent = Agent(speech)
        agent.step(*STORY, cut=cut)
        return agent.got.body, agent.got.requests

    body, requests = told(whole)
    assert told(bytewise) == (body, requests)
    longest = max(len(speech.reply(turn, requests[0]).body) for turn in STORY)
    for place in range(1, longest, 1 + longest // 80):
        assert told(cut_at(place)) == (body, requests)


STORIES = {
    "released": (Turn("I look.", "Where?", (READ, GREP)),),
    "gives-in": (Turn("a", "r", (WRITE,)), Turn("b", "s", (READ,))),
    "mixed": (Turn("a", calls=(WRITE, READ, write(1), GREP)),),
    "never": tuple(Turn(f"a{at}", calls=(write(at),)) for at in range(4)),
    "cut-short": (Turn("a", calls=(WRITE, READ), finish="length"),),
    "silent": (Turn(calls=(WRITE,)), Turn(calls=(READ,))),
}


# The SDKs have no answer to give of one that was cut short.
ENDED = {name: story for name, story in STORIES.items() if name != "cut-short"}


@pytest.mark.parametrize("story", ENDED.values(), ids=ENDED)
def test_the_official_sdk_reads_the_same(agent: Agent, story: tuple[Turn, ...]) -> None:
    heard = agent.step(*story)
    text, calls = judges.told(agent.speech.name, agent.got.body, streamed=agent.speech.streamed)
    assert "".join(text.split()) == "".join(heard.text.split())
    assert calls == [(call.name, json.loads(call.arguments)) for call in heard.calls]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
def test_streamed_and_whole_tell_the_same(speech: Speech, story: tuple[Turn, ...]) -> None:
    def told(*, streamed: bool) -> tuple[object, ...]:
        agent = Agent(replace(speech, streamed=streamed))
        heard = agent.step(*story)
        agent.keep(heard)
        agent.step(Turn("Done."))
        calls = [(call.name, json.loads(call.arguments)) for call in heard.calls]
        then = [(entry.kind, entry.text, entry.name) for entry in agent.told()]
        return heard.text, heard.reasoning, calls, heard.finish, then

    assert told(streamed=True) == told(streamed=False)
