"""What a provider refuses of what modegate put in is asked in another form: no session is stuck with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from modegate.core.ids import Seq
from modegate.core.log.events import HistoryRefused, NoticeGiven, TurnWithheld
from modegate.core.log.fold import State, dump_state, fold_all, load_state
from modegate.core.log.records import Record
from modegate.core.step.effects import Counted
from modegate.core.step.request.request_form import Manner
from modegate.scripted.model import ScriptedCall, Turn
from support import message_frames as frames
from support import messages
from support.playbook import (
    JSON,
    Answers,
    Cut,
    Got,
    Reply,
    Session,
    answer,
    bytewise,
    call,
    chunk,
    mode,
    policy,
    request,
    said,
    stream,
    text,
    tool_call,
    whole,
)
from support.speech import Agent, Heard, Speech
from support.speeches import SPEECHES

Json = dict[str, Any]
Judge = Callable[[Json], str]
"""A provider: why it refuses a request, or nothing."""
USER: Json = {"role": "user", "content": "rename foo"}
AGAIN: Json = {"role": "user", "content": "and now?"}
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])


def refusal(words: str, status: int = 400) -> Reply:
    """Return an error as providers write it."""
    error = {"message": words, "type": "invalid_request_error"}
    return Reply(json.dumps({"error": error}).encode(), list(JSON), status)


def judged(judge: Judge, *replies: Reply | bytes, status: int = 400) -> list[Answers]:
    """Return a provider that answers so as long as it refuses nothing."""
    left = list(replies)

    def one(body: bytes) -> Reply:
        why = judge(json.loads(body))
        if why:
            return refusal(why, status)
        reply = left.pop(0) if len(left) > 1 else left[0]
        return reply if isinstance(reply, Reply) else Reply(reply)

    return [one]


def with_calls(body: Json) -> list[Json]:
    """Return the assistant's messages that call tools."""
    return [one for one in body["messages"] if one.get("tool_calls")]


# Providers, with what they say of what they refuse.


def deepseek(body: Json) -> str:
    bare = [one for one in with_calls(body) if not one.get("reasoning_content")]
    why = "The `reasoning_content` in the thinking mode must be passed back to the API."
    return why if bare else ""


def kimi(body: Json) -> str:
    found = enumerate(body["messages"])
    bare = [at for at, one in found if one.get("tool_calls") and "reasoning_content" not in one]
    where = "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
    return f"{where} {bare[0]}" if bare else ""


def old_deepseek(body: Json) -> str:
    shown = any("reasoning_content" in one for one in body["messages"])
    return "The reasoning_content field in the input messages is not allowed" if shown else ""


def groq(body: Json) -> str:
    known = {"role", "content", "tool_calls", "tool_call_id", "name"}
    odd = [(at, key) for at, one in enumerate(body["messages"]) for key in one.keys() - known]
    return f"'messages.{odd[0][0]}' : property '{odd[0][1]}' is unsupported" if odd else ""


def mistral(body: Json) -> str:
    odd = [
        key
        for one in with_calls(body)
        for made in one["tool_calls"]
        for key in made.keys() - {"id", "type", "function", "index"}
    ]
    return f"Extra inputs are not permitted: {odd[0]}" if odd else groq(body)


def gemini(body: Json) -> str:
    bare = [
        made
        for one in with_calls(body)
        for made in one["tool_calls"]
        if not made.get("extra_content")
    ]
    return "Function call is missing a thought_signature in functionCall parts." if bare else ""


def ask(*history: Json, **more: Any) -> Json:
    """Return a request of chat completions."""
    return request("read", "write", messages=[USER, *history], stream=True, **more)


THOUGHT = stream(chunk({"reasoning_content": "Hm."}), call("write", id_="call_of_write"))
NO_THOUGHT = stream(call("write", id_="call_of_write"))
QUIET: list[Json] = [{"role": "assistant", "content": "x"}, AGAIN]
SHOWS: list[Json] = [{"role": "assistant", "content": "x", "reasoning_content": "y"}, AGAIN]

PROVIDERS: dict[str, tuple[Judge, int, bytes, list[Json], int]] = {
    "deepseek": (deepseek, 400, THOUGHT, [], 2),
    "deepseek, an agent that keeps thoughts": (deepseek, 400, THOUGHT, QUIET, 3),
    "deepseek, an agent that shows them": (deepseek, 400, THOUGHT, SHOWS, 2),
    "kimi": (kimi, 400, THOUGHT, [], 2),
    "kimi, a hop without a thought": (kimi, 400, NO_THOUGHT, [], 3),
    "old deepseek": (old_deepseek, 400, THOUGHT, [], 3),
    "groq": (groq, 400, THOUGHT, [], 3),
    "groq, an agent that keeps thoughts": (groq, 400, THOUGHT, QUIET, 2),
    "mistral": (mistral, 422, THOUGHT, [], 3),
}


@CUTS
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "one body"])
@pytest.mark.parametrize(
    ("judge", "status", "first", "history", "requests"), PROVIDERS.values(), ids=PROVIDERS
)
def test_n014_a_refused_hop_goes_in_the_other_form(
    judge: Judge,
    status: int,
    first: bytes,
    history: list[Json],
    requests: int,
    cut: Cut,
    streamed: bool,
) -> None:
    """The client sees one answer, and the next hop is asked in that form at once."""
    one = Session()
    more = first.replace(b"of_write", b"of_more!").replace(b'"{}"', b'"{\\"n\\":1}"')
    hops: list[Reply | bytes] = [first, more, said("fine")]
    if not streamed:
        thought = {"reasoning_content": "Hm."} if first is THOUGHT else {}
        made = [
            answer({**thought, "tool_calls": [tool_call("write", f'{{"n":{n}}}', f"call_of_{n}")]})
            for n in range(2)
        ]
        hops = [*made, answer({"content": "fine"}, "stop")]
    body = {**ask(*history), "stream": streamed}
    got = one.step(body, judged(judge, *hops, status=status), cut=cut)
    assert b"fine" in got.body
    assert b"modegate" not in got.body
    assert len(got.requests) == requests + 1
    assert got.counts.count(Counted.RESENT) == requests - 2
    for sent in map(json.loads, got.requests):
        assert [made["function"]["name"] for made in sent["tools"]] == ["read"], "never changes"
        assert "PLAN-SECTION" in sent["messages"][0]["content"]
    # What was found out is known at the next step of any session.
    two = Session()
    two.learned = one.learned
    assert bool(one.learned) is (requests > 2)
    again = two.step(body, judged(judge, *hops, status=status), cut=cut)
    assert len(again.requests) == 3
    assert b"fine" in again.body


SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


def test_a_call_that_bears_what_a_strict_provider_refuses() -> None:
    """Its own fields go back with it, unless they are what is refused."""
    made = {"index": 0, "id": "call_of_write", "type": "function", **SIGNED}
    function = {"function": {"name": "write", "arguments": "{}"}}
    first = stream(chunk({"tool_calls": [made | function]}))
    got = Session().step(ask(), judged(gemini, first, said("fine")))
    assert (len(got.requests), b"fine" in got.body) == (2, True)
    got = Session().step(ask(), judged(mistral, first, said("fine"), status=422))
    assert (len(got.requests), b"fine" in got.body) == (3, True)
    assert with_calls(got.upstream)[0]["tool_calls"][0].keys() == {"id", "type", "function"}


def null(body: Json) -> str:
    silent = [at for at, one in enumerate(body["messages"]) if one["content"] is None]
    return f"Invalid 'content' of {silent[0]}: must be a string" if silent else ""


def blank(body: Json) -> str:
    silent = [at for at, one in enumerate(body["messages"]) if one["content"] == ""]
    return f"messages.{silent[0]}: the text field in the content is blank" if silent else ""


CALLS: Json = {"role": "assistant", "tool_calls": [tool_call("read", "{}", "call_of_read")]}
RAN: Json = {"role": "tool", "tool_call_id": "call_of_read", "content": "x"}


@pytest.mark.parametrize(
    ("judge", "own", "requests"),
    [(null, [], 3), (blank, [], 2), (null, [""], 2), (blank, [None], 2), (blank, ["x"], 2)],
    ids=["no null", "no empty", "no null, as its agent knows", "no empty, likewise", "own text"],
)
def test_a_turn_that_only_calls_has_the_text_that_its_provider_takes(
    judge: Judge, own: list[str | None], requests: int
) -> None:
    """None, or an empty one: as the agent writes its own, else as is found out; also when it is put back."""
    one = Session()
    history = [message for text in own for message in ({**CALLS, "content": text}, RAN)]
    got = one.step(ask(*history), judged(judge, NO_THOUGHT, said("fine")))
    assert (len(got.requests), b"fine" in got.body) == (requests, True)
    assert bool(one.learned) is (requests > 2)
    later = ask(*history, {"role": "assistant", "content": "fine"}, AGAIN)
    got = one.step(later, judged(judge, said("yes")))
    assert (len(got.requests), b"yes" in got.body) == (1, True)
    assert "call_of_write" in str(with_calls(got.upstream)), "it is put back"


def test_a_provider_that_refuses_both_forms_ends_the_answer() -> None:
    """In words, once each form was refused."""
    refuses: list[Answers] = [THOUGHT, refusal("reasoning_content is odd")]
    got = Session().step(ask(), refuses)
    assert len(got.requests) == 3
    assert b"[modegate]" in got.body
    assert got.head is not None
    assert got.head.status == 200


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_no_other_error_is_asked_again(status: int) -> None:
    got = Session().step(ask(), [THOUGHT, refusal("reasoning_content", status)])
    assert len(got.requests) == 2
    assert b"[modegate]" in got.body


def test_a_refusal_that_breaks_off_is_not_asked_again() -> None:
    """It was not read whole."""
    broken = Reply(b'{"error": {"message": "reasoning_content', list(JSON), 400, broken=True)
    got = Session().step(ask(), [THOUGHT, broken])
    assert len(got.requests) == 2
    assert b"[modegate]" in got.body


@pytest.mark.parametrize("size", [70_000, 2**20 + 1])
def test_a_refusal_that_is_too_long_is_none(size: int) -> None:
    long = Reply(b'{"error": "reasoning_content ' + b"x" * size + b'"}', list(JSON), 400)
    got = Session().step(ask(), [THOUGHT, long])
    assert len(got.requests) == 2
    assert b"[modegate]" in got.body


# What was put back is left out where nothing else is taken: in every API, and in default mode again.


def lived(speech: Speech) -> Agent:
    """Live through a step of which a turn is withheld."""
    agent = Agent(speech, policy(mode("plan", "read", "grep"), mode("other", "read")))
    write = ScriptedCall("write", "{}", id="call_of_write")
    agent.keep(agent.step(Turn("I write.", calls=(write,)), Turn("Enough.")))
    agent.user("Go on.")
    return agent


def history_of(body: bytes) -> str:
    """Return what a request tells its model beside system text and tools."""
    value = json.loads(body)
    return json.dumps(value.get("messages", value.get("input")))


def stepped(agent: Agent, judge: Callable[[str], bool], status: int = 400) -> Heard:
    """Step with a provider that refuses some histories in words that say nothing."""
    speech = agent.speech

    def provider(asked: bytes) -> Reply:
        if judge(history_of(asked)):
            return refusal("unexpected role", status)
        return speech.reply(Turn("Fine."), asked)

    body = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    agent.got = agent.session.step(body, [provider])
    return speech.heard(agent.got)


def has_write(history: str) -> bool:
    """Return whether the refused call stands in a history."""
    return '"call_of_write' in history


@pytest.mark.parametrize("left", [False, True], ids=["in the mode", "after it"])
@pytest.mark.parametrize("status", [400, 404, 413, 422])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_no_session_is_stuck_with_what_was_put_back(
    speech: Speech, status: int, left: bool
) -> None:
    """It goes on without, the log says so, and from then on it is not put in any more."""
    agent = lived(speech)
    (turn,) = [one for one in agent.session.events if isinstance(one, TurnWithheld)]
    if left:
        # Nothing tells of the change, so that the turn is all that is put in.
        agent.session.policy = replace(agent.session.policy, narrate=False)
        agent.session.set_mode("default")
    assert stepped(agent, has_write, status).text == "Fine."
    assert [has_write(history_of(one)) for one in agent.got.requests] == [True, False]
    (event,) = [one for one in agent.got.events if isinstance(one, HistoryRefused)]
    assert (event.turns, event.notices) == ((turn.step,), ())
    if not left:
        assert agent.shown(0) == agent.shown(1)
    assert stepped(agent, has_write, status).text == "Fine."
    assert len(agent.got.requests) == 1
    agent.session.state = load_state(dump_state(fold_of(agent)))
    assert stepped(agent, has_write, status).text == "Fine."
    assert len(agent.got.requests) == 1


def fold_of(agent: Agent) -> State:
    """Fold a session's log from its start."""
    events = enumerate(agent.session.events, 1)
    return fold_all(Record(Seq(at), 0, "person:test", event) for at, event in events)


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_a_request_that_is_refused_as_the_client_sent_it_is_the_clients_to_see(
    speech: Speech,
) -> None:
    """Nothing is taken out for good then."""
    agent = lived(speech)
    assert stepped(agent, lambda _: True).error == "unexpected role"
    assert len(agent.got.requests) == 2
    assert not any(isinstance(one, HistoryRefused) for one in agent.session.events)
    assert not agent.session.state.refused


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_what_fails_otherwise_in_the_other_form_is_not_settled(speech: Speech) -> None:
    """Only an answer says that the provider takes it."""
    agent = lived(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    agent.got = agent.session.step(body, [refusal("odd"), refusal("busy", 503)])
    assert speech.heard(agent.got).error == "busy"
    assert not agent.session.state.refused


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_a_notice_that_is_refused_is_left_out_alone(speech: Speech) -> None:
    """The turn that was withheld stays, as the provider takes it."""
    agent = lived(speech)
    agent.session.set_mode("other")

    def refuses(history: str) -> bool:
        return "changed the mode" in history

    assert stepped(agent, refuses).text == "Fine."
    notice = [one for one in agent.session.events if isinstance(one, NoticeGiven)]
    assert len(notice) == 1
    assert len(agent.got.requests) == 2
    assert has_write(history_of(agent.got.requests[1]))
    (event,) = [one for one in agent.got.events if isinstance(one, HistoryRefused)]
    assert (event.turns, event.notices) == ((), (notice[0].mode_seq,))
    assert not agent.session.state.refused
    assert not agent.session.state.notices
    assert stepped(agent, refuses).text == "Fine."
    assert len(agent.got.requests) == 1


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_all_is_left_out_where_each_is_refused(speech: Speech) -> None:
    agent = lived(speech)
    agent.session.set_mode("other")
    assert stepped(agent, lambda told: "mode" in told or has_write(told)).text == "Fine."
    assert len(agent.got.requests) == 3
    assert agent.session.state.refused
    assert not agent.session.state.notices


@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.name == "responses"], ids=str)
def test_reasoning_that_led_to_what_is_left_out_is_left_out_with_it(speech: Speech) -> None:
    """The API refuses reasoning that nothing follows, in this request and in each later one."""
    agent = Agent(speech)
    write = ScriptedCall("write", "{}", id="call_of_write")
    agent.keep(agent.step(Turn("", "Hm.", (write,)), Turn("Enough.", "So.")))
    agent.user("Go on.")
    for requests in (2, 1):
        assert stepped(agent, has_write).text == "Fine."
        assert len(agent.got.requests) == requests
        assert [one.text for one in agent.told() if one.kind == "thinks"] == ["So."]


def test_nothing_is_sent_again_once_a_mode_was_set() -> None:
    """The request is one of the default mode, and would offer what the mode forbids."""
    agent = lived(SPEECHES[0])
    agent.session.set_mode("default")
    body = SPEECHES[0].api.request(agent.history, agent.tools, streamed=True)
    got = agent.session.step(body, [refusal("odd"), said()], tighten_after=0)
    assert len(got.requests) == 1
    assert got.json["error"]["message"] == "odd"


@pytest.mark.parametrize("between", ["other", "default"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_nor_once_another_mode_was_set(speech: Speech, between: str) -> None:
    """It would offer what only the mode before allows, also what the provider runs; loosened, it may go."""
    agent = lived(speech)
    agent.session.during = lambda: agent.session.set_mode(between)
    heard = stepped(agent, has_write)
    goes = between == "default"
    assert (heard.text, heard.error) == (("Fine.", "") if goes else ("", "unexpected role"))
    assert len(agent.got.requests) == 1 + goes
    assert speech.tools(agent.got) == ["read", "grep"]


def test_a_mode_that_was_set_and_left_again_sends_nothing_again_either() -> None:
    """What was to pass unread is read since, and nothing was made ready for that."""
    agent = lived(SPEECHES[0])
    agent.session.set_mode("default")
    agent.session.during = lambda: agent.session.set_mode("default")
    body = SPEECHES[0].api.request(agent.history, agent.tools, streamed=True)
    got = agent.session.step(body, [refusal("odd"), said()], tighten_after=0)
    assert len(got.requests) == 1
    assert got.json["error"]["message"] == "odd"


def test_a_session_of_which_nothing_was_put_in_is_asked_once() -> None:
    got = Session().step(ask(*SHOWS), [refusal("reasoning_content")])
    assert len(got.requests) == 1
    assert got.json["error"]["message"] == "reasoning_content"


# What is put back has the form that the provider takes, too.


def put_back(judge: Judge, **fields: Any) -> Got:
    """Let a provider judge the request that follows a refused turn which thought."""
    one = Session()
    one.step(
        ask(), [THOUGHT, stream(chunk({"reasoning_content": "So."}), text("Done."), finish="stop")]
    )
    history = [{"role": "assistant", "content": "Done.", **fields}, AGAIN]
    return one.step(ask(*history), judged(judge, said("fine")))


def test_a_turn_that_is_put_back_has_its_thoughts_where_they_are_wanted() -> None:
    """Though the agent keeps them to itself."""
    got = put_back(deepseek)
    assert b"fine" in got.body
    assert len(got.requests) == 2
    assert with_calls(got.upstream)[0]["reasoning_content"] == "Hm."
    assert not any(isinstance(one, HistoryRefused) for one in got.events)


def test_it_has_none_where_they_are_refused() -> None:
    got = put_back(groq, reasoning_content="Hm.So.")
    # The client's own are its own: what is refused of them is refused again.
    assert len(got.requests) == 3
    assert "reasoning_content" not in with_calls(json.loads(got.requests[1]))[0]
    assert got.head is not None
    assert got.head.status == 400


@pytest.mark.parametrize("judge", [kimi, old_deepseek], ids=["kimi", "old deepseek"])
def test_a_hop_that_called_without_a_thought_stays_taken(judge: Judge) -> None:
    """Its thoughts stood in the hop before it, and the client has both as one message."""
    one = Session()
    one.step(ask(), [THOUGHT, stream(call("read", id_="call_of_read"))])
    made = {
        "role": "assistant",
        "content": None,
        "tool_calls": [tool_call("read", id_="call_of_read")],
    }
    made |= {"reasoning_content": "Hm."} if judge is kimi else {}
    result = {"role": "tool", "tool_call_id": "call_of_read", "content": "ran"}
    got = one.step(ask(made, result), judged(judge, said("fine")))
    assert (len(got.requests), b"fine" in got.body) == (1, True)
    assert len(with_calls(got.upstream)) == 2


# Another model than the one that thought.

SIGNED_CALL = {"index": 0, "id": "call_of_write", "type": "function", **SIGNED}
SIGNED_HOP = stream(
    chunk({"reasoning_content": "Hm.", "reasoning_details": [{"type": "x", "data": "d"}]}),
    chunk({"tool_calls": [{**SIGNED_CALL, "function": {"name": "write", "arguments": "{}"}}]}),
)


@pytest.mark.parametrize("model", ["m", "other"])
def test_what_a_model_thought_is_put_back_to_no_other(model: str) -> None:
    """Neither its thoughts nor its signatures, whatever the agent does with its own turns."""
    one = Session()
    one.step(ask(), [SIGNED_HOP, said("Done.")])
    done = {"role": "assistant", "content": "Done.", "reasoning_details": []}
    got = one.step(ask(done, AGAIN, model=model), [said()])
    turn = with_calls(got.upstream)[0]
    assert ("reasoning_content" in turn) is (model == "m")
    assert ("reasoning_details" in turn) is (model == "m")
    assert ("extra_content" in turn["tool_calls"][0]) is (model == "m")


def test_unless_that_one_asks_for_it() -> None:
    one = Session()
    one.step(ask(), [SIGNED_HOP, said("Done.")])
    history = [{"role": "assistant", "content": "Done."}, AGAIN]
    got = one.step(ask(*history, model="other"), judged(gemini, said("fine")))
    assert (len(got.requests), b"fine" in got.body) == (2, True)
    assert one.learned == {"other": Manner(thoughts=True)}


# Messages: an agent that sends back no thinking that bears no signature.


def kimi_messages(body: Json) -> str:
    """Want thinking in each turn that calls tools."""
    for turn in body["messages"]:
        kinds = [one["type"] for one in turn["content"] if isinstance(one, dict)]
        if turn["role"] == "assistant" and "tool_use" in kinds and "thinking" not in kinds:
            return "The `content[].thinking` in the thinking mode must be passed back to the API."
    return ""


@pytest.mark.parametrize("keeps", [True, False], ids=["sends it", "does not"])
@pytest.mark.parametrize("signature", [{}, {"signature": ""}], ids=["none", "empty"])
def test_n014_thinking_is_put_back_where_it_is_wanted(keeps: bool, signature: Json) -> None:
    """Each later request is taken, and has the turn."""
    one = frames.session()
    block = {"type": "thinking", "thinking": "", **signature}
    thought = frames.delta(0, "thinking_delta", thinking="Hm.")
    first = frames.stream(frames.start(0, block), thought, frames.stop(0), frames.use(1, "write"))
    user = {"role": "user", "content": [{"type": "text", "text": "rename foo"}]}
    body = messages.request("read", "write", messages=[user], stream=True)
    got = one.step(body, judged(kimi_messages, first, frames.said("Done.")))
    assert (len(got.requests), b"[modegate]" in got.body) == (2, False)
    whole_ = {"type": "thinking", "thinking": "Hm.", **signature}
    said_ = {"type": "text", "text": "Done."}
    answer_ = {"role": "assistant", "content": [whole_, said_] if keeps else [said_]}
    again = {"role": "user", "content": [{"type": "text", "text": "and?"}]}
    body = messages.request("read", "write", messages=[user, answer_, again], stream=True)
    for tries in (1 if keeps else 2, 1):
        got = one.step(body, judged(kimi_messages, frames.said("fine")))
        assert (len(got.requests), b"fine" in got.body) == (tries, True)
        assert [one_["type"] for one_ in got.upstream["messages"][1]["content"]] == [
            "thinking",
            "tool_use",
        ]
        assert got.upstream["messages"][1]["content"][0] == whole_
    assert one.state.withheld
