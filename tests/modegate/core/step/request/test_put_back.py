"""Stories of several steps: what was withheld is found by the model where it happened, and stays there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.log.events import TurnWithheld
from modegate.core.step.request.transcript import MAX_BLOB
from support.playbook import (
    DONE,
    JSON,
    Got,
    Reply,
    Session,
    answer,
    call,
    chunk,
    frame,
    mode,
    piece,
    policy,
    read_stream,
    request,
    said,
    stream,
    text,
    tool_call,
)

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "rename foo"}
TOOLS = ("read", "grep", "write")
SECRET = "S3CRET"
WRITE = json.dumps({"path": SECRET})


def ask(*history: Message, **more: Any) -> dict[str, Any]:
    """Return a request with this history."""
    return request(*TOOLS, messages=[USER, *history], stream=True, **more)


def shown(got: Got) -> Message:
    """Return the message that a client keeps of a streamed answer."""
    one = read_stream(got.body)[0]
    message: Message = {"role": "assistant", "content": one["text"] or None}
    ids = [
        piece_["id"]
        for line in got.body.split(b"\n\n")
        if b"tool_calls" in line
        for choice in json.loads(line[6:])["choices"]
        for piece_ in choice["delta"].get("tool_calls", ())
        if piece_.get("id")
    ]
    found = [
        {"id": id_, "type": "function", "function": dict(made)}
        for id_, made in zip(ids, one["calls"].values(), strict=True)
    ]
    return {**message, **({"tool_calls": found} if found else {})}


def result(id_: str, content: str = "ok") -> Message:
    """Return a tool's result."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def roles(messages: list[Message]) -> list[str]:
    """Return a history in short: roles, with the names of calls and the ids of results."""
    found = []
    for message in messages:
        names = [
            c.get("function", c.get("custom", {}))["name"] for c in message.get("tool_calls") or ()
        ]
        names += [message["function_call"]["name"]] if message.get("function_call") else []
        found.append(message["role"] + (f"({','.join(names)})" if names else ""))
    return found


MIXED = stream(
    text("Both."),
    call("write", WRITE, at=0, id_="call_w"),
    call("read", '{"p": 1}', at=1, id_="call_r"),
    call("write", '{"n":2}', at=2, id_="call_x"),
)


def mixed() -> tuple[Session, Message, list[Message]]:
    """Live through a step with released and refused calls; give the session and the next history."""
    session = Session()
    message = shown(session.step(ask(), [MIXED]))
    return session, message, [message, result("call_r")]


def test_mixed_calls_are_put_back() -> None:
    """The agent knows of one call; the model finds all three, in order, each with one answer."""
    session, message, history = mixed()
    assert [one["id"] for one in message["tool_calls"]] == ["call_r"]
    got = session.step(ask(*history), [said()])
    turn, *rest = got.upstream["messages"][2:]
    assert roles([turn]) == ["assistant(write,read,write)"]
    assert turn["content"] == "Both."
    assert [c["function"]["arguments"] for c in turn["tool_calls"]] == [
        WRITE,
        '{"p": 1}',
        '{"n":2}',
    ]
    ids = [c["id"] for c in turn["tool_calls"]]
    assert sorted(one["tool_call_id"] for one in rest) == sorted(ids)
    assert len(set(ids)) == 3
    refused = {one["tool_call_id"]: one["content"] for one in rest}
    assert "refused" in refused[ids[0]]
    assert refused["call_r"] == "ok"


def test_b083_nothing_between_a_call_and_its_results() -> None:
    """Behind the calls come results only, also where the user's next words follow them."""
    session, _, history = mixed()
    got = session.step(ask(*history, {"role": "user", "content": "go on"}), [said()])
    assert [one["role"] for one in got.upstream["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "tool", "user",
    ]  # fmt: skip


def test_what_the_client_sends_keeps_its_bytes() -> None:
    """Only insertions: without them, the request upstream is what it would be anyway (B102 for chat)."""
    session, message, history = mixed()
    body = json.dumps(ask(*history, zoo=1.0, seed=12345678901234567890), indent=1).encode()
    got = session.step(body, [said()])
    plain = Session().step(body, [said()])
    before, after = plain.requests[0], got.requests[0]
    kept = json.dumps(message["tool_calls"][0], indent=1).replace("\n", "\n    ").encode()
    assert kept in before
    assert kept in after
    at = before.index(b'"tool_calls"')
    assert after.startswith(before[:at])
    assert after.endswith(before[before.index(b'"role": "tool"') :])


def test_the_same_request_twice_gives_the_same_bytes() -> None:
    """And so does a process that has only the log."""
    session, _, history = mixed()
    first = session.step(ask(*history), [said()])
    again = session.step(ask(*history), [said()])
    assert first.requests == again.requests


RESPELLED: dict[str, Callable[[Message], Message]] = {
    "arguments-respelled": lambda m: _arguments(m, lambda a: json.dumps(json.loads(a))),
    "arguments-compact": lambda m: _arguments(
        m, lambda a: json.dumps(json.loads(a), separators=(",", ":"))
    ),
    "arguments-an-object": lambda m: _arguments(m, json.loads),
    "content-null": lambda m: {**m, "content": None},
    "content-empty": lambda m: {**m, "content": ""},
    "content-parts": lambda m: {**m, "content": [{"type": "text", "text": m["content"]}]},
    "content-gone": lambda m: {k: v for k, v in m.items() if k != "content"},
    "content-trimmed": lambda m: {**m, "content": m["content"].strip(".")},
    "more-members": lambda m: {**m, "reasoning_content": "", "refusal": None, "name": "x"},
    "other-order": lambda m: dict(reversed(m.items())),
}


def _arguments(message: Message, change: Callable[[str], Any]) -> Message:
    made = [
        {**one, "function": {**one["function"], "arguments": change(one["function"]["arguments"])}}
        for one in message["tool_calls"]
    ]
    return {**message, "tool_calls": made}


@pytest.mark.parametrize("respell", RESPELLED.values(), ids=RESPELLED)
def test_agents_spell_the_answer_in_their_own_way(respell: Callable[[Message], Message]) -> None:
    """The answer is recognised by its first call, whatever else changed about it."""
    session, message, _ = mixed()
    got = session.step(ask(respell(message), result("call_r")), [said()])
    assert roles(got.upstream["messages"])[2] == "assistant(write,read,write)"


REMINDER = "<system-reminder>do not edit</system-reminder>"
MOVED: dict[str, Any] = {
    "in-front": REMINDER + "\n" + USER["content"],
    "behind": USER["content"] + "\n" + REMINDER,
    "own-part": [{"type": "text", "text": REMINDER}, {"type": "text", "text": USER["content"]}],
    "white-space": f"  {USER['content']}\n\n",
    "cache-control": [
        {"type": "text", "text": USER["content"], "cache_control": {"type": "ephemeral"}}
    ],
}


@pytest.mark.parametrize("content", MOVED.values(), ids=MOVED)
def test_reminders_move_about(content: Any) -> None:
    """The message in front is recognised by its words alone."""
    session, _, history = mixed()
    body = {**ask(), "messages": [{"role": "user", "content": content}, *history]}
    got = session.step(body, [said()])
    assert "assistant(write,read,write)" in roles(got.upstream["messages"])


EDITED: dict[str, Callable[[list[Message]], list[Message]]] = {
    "another-call-id": lambda h: [
        {**h[0], "tool_calls": [{**h[0]["tool_calls"][0], "id": "other"}]}, result("other"),
    ],
    "other-arguments": lambda h: [_arguments(h[0], lambda _: '{"p":2}'), h[1]],
    "other-words-in-front": lambda h: [{"role": "user", "content": "something else"}, *h],
    "compacted": lambda _: [{"role": "user", "content": "Summary: foo was renamed."}],
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITED.values(), ids=EDITED)
def test_nothing_is_put_into_another_history(
    edit: Callable[[list[Message]], list[Message]],
) -> None:
    """Edited or compacted, the history goes as the client sends it."""
    session, _, history = mixed()
    body = ask(*edit(history))
    assert session.step(body, [said()]).requests == Session().step(body, [said()]).requests


def test_a_body_that_is_gone_is_not_put_back() -> None:
    """Its retention is over, or it was too large to be kept: all or nothing."""
    session, _, history = mixed()
    session.blobs.clear()
    body = ask(*history)
    assert session.step(body, [said()]).requests == Session().step(body, [said()]).requests


def test_several_hops_are_split_again() -> None:
    """One message of the client is three turns of the model, each with its own text and answers."""
    session = Session()
    got = session.step(ask(), [
        stream(text("One."), call("write", '{"n":1}')),
        stream(text("Two."), text(" More."), call("write", '{"n":2}')),
        stream(text("Three."), call("read", id_="call_r")),
    ])  # fmt: skip
    message = shown(got)
    assert message["content"] == "One.\n\nTwo. More.\n\nThree."
    told = got.upstream["messages"]
    got = session.step(ask(message, result("call_r")), [said()])
    messages = got.upstream["messages"]
    assert roles(messages) == [
        "system", "user", "assistant(write)", "tool", "assistant(write)", "tool", "assistant(read)",
        "tool",
    ]  # fmt: skip
    assert [one["content"] for one in messages if one["role"] == "assistant"] == [
        "One.", "Two. More.", "Three.",
    ]  # fmt: skip
    assert messages[: len(told)] == told


SPLITS: dict[str, tuple[Callable[[str], Any], list[str | None]]] = {
    "as-given": (lambda t: t, ["One.", "Two. "]),
    "trimmed": (str.strip, ["One.", "Two."]),
    "one-part": (lambda t: [{"type": "text", "text": t}], ["One.", "Two. "]),
    "edited": (lambda t: t.replace("One", "1"), ["One.", "Two. "]),
    "edited-at-the-end": (lambda t: t.replace("Two", "2"), ["One.", "2. "]),
    "edited-everywhere": (lambda t: t.upper(), [None, "ONE.\n\nTWO. "]),
    "dropped": (lambda _: None, [None, None]),
}


@pytest.mark.parametrize(("change", "wanted"), SPLITS.values(), ids=SPLITS)
def test_a_text_is_split_or_stays_whole(
    change: Callable[[str], Any], wanted: list[str | None]
) -> None:
    """No sentence of the model stands there twice, and none is lost that the client still sends."""
    session = Session()
    hops = [stream(text("One."), call("write")), stream(text("Two. "), call("read", id_="call_r"))]
    message = shown(session.step(ask(), hops))
    changed = {**message, "content": change(message["content"])}
    got = session.step(ask(changed, result("call_r")), [said()])
    turns = [one for one in got.upstream["messages"] if one["role"] == "assistant"]
    assert roles(turns) == ["assistant(write)", "assistant(read)"]
    contents = [
        one["content"][0]["text"] if isinstance(one["content"], list) else one["content"]
        for one in turns
    ]
    assert contents == wanted


def test_a_closing_text_is_a_turn_of_its_own() -> None:
    """What modegate said to the user stays what the client's message says; the calls stand in front."""
    session = Session()
    got = session.step(ask(), [stream(text("Now."), call("write", WRITE))])
    message = shown(got)
    assert "[modegate]" in message["content"]
    got = session.step(ask(message, {"role": "user", "content": "why?"}), [said()])
    messages = got.upstream["messages"]
    assert roles(messages) == [
        "system", "user", "assistant(write)", "tool", "assistant(write)", "tool", "assistant", "user",
    ]  # fmt: skip
    assert messages[-2]["content"].startswith("[modegate]")
    assert SECRET in messages[2]["tool_calls"][0]["function"]["arguments"]


def test_a_later_hop_that_fails_is_put_back_too() -> None:
    """What the failing hop had said stays with the closing text."""
    session = Session()
    hops: list[Reply | bytes] = [
        stream(text("Now."), call("write", WRITE)),
        Reply(text("half "), broken=True),
    ]
    message = shown(session.step(ask(), hops))
    got = session.step(ask(message, {"role": "user", "content": "why?"}), [said()])
    messages = got.upstream["messages"]
    assert roles(messages) == ["system", "user", "assistant(write)", "tool", "assistant", "user"]
    assert messages[-2]["content"].startswith("half \n\n[modegate]")


def test_whole_answers_are_put_back_as_streamed_ones() -> None:
    """L7 for the next request: the same upstream bytes, but for the flag."""
    session = Session()
    streamed, _, history = mixed()
    found = [
        tool_call("write", WRITE, "call_w"),
        tool_call("read", '{"p": 1}', "call_r"),
        tool_call("write", '{"n":2}', "call_x"),
    ]
    got = session.step(ask(), [answer({"content": "Both.", "tool_calls": found})])
    message = got.json["choices"][0]["message"]
    assert message == history[0]
    one = session.step(ask(message, history[1]), [said()])
    assert one.requests == streamed.step(ask(*history), [said()]).requests


def test_prefixes_stay_over_many_turns() -> None:
    """What was put back stays at its place in its bytes, though ids and words come again and again."""
    session = Session()
    history: list[Message] = []
    before = b""
    for turn in range(6):
        got = session.step(
            ask(*history),
            [MIXED if turn in (0, 1, 4) else stream(call("read", '{"p": 1}', id_="call_r"))],
        )
        sent = got.requests[0]
        end = sent.rindex(b"]", 0, sent.rindex(b'"stream"'))
        assert sent.startswith(before)
        before = sent[:end]
        history += [shown(got), result("call_r")]
    got = session.step(ask(*history), [said()])
    assert roles(got.upstream["messages"]).count("assistant(write,read,write)") == 3
    found = [n for n, role in enumerate(roles(got.upstream["messages"])) if "write" in role]
    assert found == [2, 6, 14]


def test_short_ids_do_not_collide() -> None:
    """`call_0` is used again in the same history: a withheld call bears another id, always the same."""
    session = Session()
    first = stream(call("write", WRITE, at=0, id_="call_0"), call("read", at=1, id_="call_0"))
    message = shown(session.step(ask(), [first]))
    history = [message, result("call_0")]
    got = session.step(ask(*history), [stream(call("write", WRITE, id_="call_0")), said()])
    ids = [c["id"] for one in got.upstream["messages"] for c in one.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) == 3
    assert all(len(id_) <= 40 for id_ in ids)


def test_an_id_of_mistral_stays_one() -> None:
    """Its API takes nine letters and digits and nothing else."""
    session = Session()
    first = stream(call("write", WRITE, id_="D681PevKs"))
    again = stream(call("write", "{}", id_="D681PevKs"))
    got = session.step(ask(), [first, again, said()])
    ids = [c["id"] for one in got.upstream["messages"] for c in one.get("tool_calls", ())]
    assert ids[0] == "D681PevKs"
    assert ids[1] != ids[0]
    assert all(len(id_) == 9 and id_.isalnum() for id_ in ids)


def test_arguments_that_do_not_parse_go_back_as_an_empty_object() -> None:
    """A provider would refuse the history for ever after."""
    got = Session().step(ask(), [stream(call("write", '{"p": "x')), said()])
    assert got.upstream["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_members_of_a_call_go_back() -> None:
    """A signature that the provider wants back stands on the call that it came with (B076)."""
    signed = piece(
        index=0, id="c", type="function", function={"name": "write", "arguments": "{}"},
        extra_content={"google": {"thought_signature": "SIG=="}},
    )  # fmt: skip
    got = Session().step(ask(), [stream(signed), said()])
    made = got.upstream["messages"][2]["tool_calls"][0]
    assert made["extra_content"] == {"google": {"thought_signature": "SIG=="}}


def test_legacy_function_calls() -> None:
    """The old form stays the old form: a function's result, never a tool's."""
    session = Session()
    first = stream(
        chunk({"function_call": {"name": "write", "arguments": WRITE}}), finish="function_call"
    )
    second = stream(
        chunk({"function_call": {"name": "read", "arguments": "{}"}}), finish="function_call"
    )
    session.step(ask(), [first, second])
    message = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "read", "arguments": "{ }"},
    }
    given = {"role": "function", "name": "read", "content": "ok"}
    got = session.step(ask(message, given), [said()])
    assert roles(got.upstream["messages"]) == [
        "system", "user", "assistant(write)", "function", "assistant(read)", "function",
    ]  # fmt: skip


def test_a_withheld_tool_call_beside_a_released_legacy_one() -> None:
    """There is no list that it could stand in, and an answer without its call would be refused."""
    session = Session()
    both = {
        "tool_calls": [{"index": 0, "id": "w", "function": {"name": "write", "arguments": "{}"}}]
    }
    session.step(
        ask(), [stream(chunk({**both, "function_call": {"name": "read", "arguments": "{}"}}))]
    )
    others: list[Message] = [{}, {"tool_calls": []}, {"tool_calls": None}]
    for more in others:
        kept = {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "read", "arguments": "{}"},
        }
        body = ask({**kept, **more}, {"role": "function", "name": "read", "content": "ok"})
        got = session.step(body, [said()])
        assert "tool" not in [one["role"] for one in got.upstream["messages"]]


def test_custom_calls() -> None:
    """Free text goes back as free text."""
    session = Session()
    made = [
        {"index": 0, "id": "w", "type": "custom", "custom": {"name": "write", "input": SECRET}},
        {"index": 1, "id": "r", "type": "custom", "custom": {"name": "read", "input": "x"}},
    ]
    session.step(ask(), [stream(chunk({"tool_calls": made}))])
    kept = {"id": "r", "type": "custom", "custom": {"name": "read", "input": "x"}}
    got = session.step(ask({"role": "assistant", "tool_calls": [kept]}, result("r")), [said()])
    turn = got.upstream["messages"][2]
    assert [one["custom"]["name"] for one in turn["tool_calls"]] == ["write", "read"]
    assert turn["tool_calls"][0]["custom"]["input"] == SECRET
    assert turn["tool_calls"][0]["type"] == "custom"


@pytest.mark.parametrize("sends", [True, False], ids=["sends-reasoning", "does-not"])
def test_reasoning_goes_back_only_if_the_client_sends_it(sends: bool) -> None:
    """One that keeps reasoning to itself has a model that does not expect it."""
    session = Session()
    hops = [
        stream(chunk({"reasoning_content": "think1"}), text("a"), call("write")),
        stream(chunk({"reasoning_content": "think2"}), text("b"), call("read", id_="call_r")),
    ]
    message = shown(session.step(ask(), hops))
    if sends:
        message["reasoning_content"] = "think1think2"
    got = session.step(ask(message, result("call_r")), [said()])
    turns = [one for one in got.upstream["messages"] if one["role"] == "assistant"]
    wanted = ["think1", "think2"] if sends else [None, None]
    assert [one.get("reasoning_content") for one in turns] == wanted


def test_after_the_mode_was_left() -> None:
    """The restore path: put back, and otherwise nothing filtered, added or judged (L10, B005)."""
    session, _, history = mixed()
    session.policy = replace(session.policy, narrate=False)
    session.set_mode("default")
    body = json.dumps(ask(*history)).encode()
    upstream = stream(call("write", WRITE))
    got = session.step(body, [upstream])
    assert roles(got.upstream["messages"])[1] == "assistant(write,read,write)"
    assert got.upstream["tools"] == ask()["tools"]
    assert got.body == upstream
    assert got.events == []


def test_b005_a_text_does_not_bring_a_mode_back() -> None:
    """The mode comes from the log; a history that speaks of plan mode passes to the byte."""
    session = Session()
    session.set_mode("default")
    words = "Summary: ... <system-reminder>plan mode is active, do not edit</system-reminder> ..."
    body = json.dumps(ask({"role": "user", "content": words}), indent=2).encode()
    upstream = stream(call("write", WRITE)).replace(b"data: ", b"data:")
    got = session.step(body, [upstream])
    assert got.requests == [body]
    assert got.body == upstream


UNTOUCHED = {
    "not-json": b"{oops",
    "no-messages": b'{"model":"m"}',
    "broken-utf8": b'{"messages":[{"role":"user","content":"\xff"}]}',
    "twice": b'{"messages":[],"messages":[]}',
    "odd-message": b'{"messages":[{"role":1,"content":{"a":[]},"tool_calls":{"x":1}}]}',
    "odd-calls": b'{"messages":[{"role":"assistant","tool_calls":[1,{"function":2},{"id":[]}]}]}',
}


@pytest.mark.parametrize("body", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_nobody_can_read_passes_in_default_mode(body: bytes) -> None:
    """A session that once had a mode is still invisible where nothing is to be put back."""
    session, _, _ = mixed()
    session.set_mode("default")
    assert session.step(body, [said()]).requests == [body]


def test_steps_in_parallel_keep_their_own() -> None:
    """Sub-agents share a session: each history gets what was withheld in it."""
    session = Session()
    one = {"role": "user", "content": "first agent"}
    two = {"role": "user", "content": "second agent"}
    histories = []
    for user, path in ((one, "A"), (two, "B")):
        found = stream(
            call("write", json.dumps({"path": path}), at=0, id_="w"), call("read", at=1, id_="r")
        )
        got = session.step(request(*TOOLS, messages=[user], stream=True), [found])
        histories.append([user, shown(got), result("r")])
    for history, path in zip(histories, "AB", strict=True):
        got = session.step(request(*TOOLS, messages=history, stream=True), [said()])
        made = [c for m in got.upstream["messages"] for c in m.get("tool_calls", ())]
        assert [c["function"]["name"] for c in made] == ["write", "read"]
        assert json.loads(made[0]["function"]["arguments"]) == {"path": path}


def test_of_two_equal_turns_each_keeps_its_place() -> None:
    """Both keys match twice: each goes to where it stood, and to the last place if that has moved."""
    session = Session()
    again = {"role": "user", "content": "again"}
    history: list[Message] = [again]
    for n in (1, 2):
        found = stream(call("write", json.dumps({"n": n}), at=0), call("read", at=1, id_="call_1"))
        got = session.step(request(*TOOLS, messages=history, stream=True), [found])
        history += [shown(got), result("call_1"), again]
    for dropped in (0, 3):
        got = session.step(request(*TOOLS, messages=history[dropped:], stream=True), [said()])
        made = [c for m in got.upstream["messages"] for c in m.get("tool_calls", ())]
        numbers = [json.loads(c["function"]["arguments"]).get("n") for c in made]
        assert [n for n in numbers if n] == ([1, 2] if not dropped else [1])


def test_a_hop_that_is_too_large_is_not_kept() -> None:
    """Over 256 KB nothing of the answer is put back: half of it would not be what happened."""
    session = Session()
    big = json.dumps({"text": "x" * MAX_BLOB})
    hops = [
        stream(text("a"), call("write", big)),
        stream(text("b"), call("write", "{}")),
        said("c"),
    ]
    message = shown(session.step(ask(), hops))
    assert all(len(blob) <= MAX_BLOB for blob in session.blobs.values())
    body = ask(message, {"role": "user", "content": "next"})
    assert session.step(body, [said()]).requests == Session().step(body, [said()]).requests


def test_every_choice_has_its_own_exchange() -> None:
    """The client goes on with one of the answers: that one's calls are put back."""
    session = Session()
    found = [
        {"index": n, "delta": {"tool_calls": [
            {"index": 0, "id": f"r{n}", "function": {"name": "read", "arguments": "{}"}},
            {"index": 1, "id": f"w{n}", "function": {"name": "write", "arguments": f'{{"n":{n}}}'}},
        ]}, "finish_reason": "tool_calls"}
        for n in (0, 1)
    ]  # fmt: skip
    session.step({**ask(), "n": 2}, [frame({"choices": found}) + DONE])
    assert len([event for event in session.events if isinstance(event, TurnWithheld)]) == 2
    kept = {"role": "assistant", "content": None, "tool_calls": [tool_call("read", "{}", "r1")]}
    got = session.step(ask(kept, result("r1")), [said()])
    made = got.upstream["messages"][2]["tool_calls"]
    assert [one["function"]["arguments"] for one in made] == ["{}", '{"n":1}']


def test_a_later_refusal_stands_in_the_same_history() -> None:
    """Hops of a later step see what was put back of an earlier one, and the gate knows its ids."""
    session, _, history = mixed()
    got = session.step(ask(*history), [stream(call("write", '{"m":1}', id_="call_w")), said()])
    ids = [c["id"] for one in got.upstream["messages"] for c in one.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 4
    assert roles(got.upstream["messages"])[2:] == [
        "assistant(write,read,write)", "tool", "tool", "tool", "assistant(write)", "tool",
    ]  # fmt: skip


def test_another_mode_later_changes_nothing_in_the_past() -> None:
    """The refusal keeps the words of the mode that refused."""
    session = Session(rules=policy(mode("plan", "read"), mode("review", "read", "write")))
    message = shown(session.step(ask(), [MIXED]))
    session.set_mode("review")
    got = session.step(ask(message, result("call_r")), [said()])
    answers = [one["content"] for one in got.upstream["messages"] if one["role"] == "tool"]
    assert "'plan'" in answers[0]


def test_a_notice_stays_where_it_was_given() -> None:
    """Also where the same words and the same calls come again behind it, and with what is put back."""
    session = Session(rules=policy(mode("plan", "read"), mode("review", "read", section="OTHER")))
    again = {"role": "user", "content": "again"}
    history: list[Message] = []
    sent: list[list[Message]] = []
    for turn in range(5):
        if turn == 1:
            session.set_mode("review")
        got = session.step(ask(*history, again), [MIXED])
        sent.append(got.upstream["messages"][1:])
        history += [again, shown(got), result("call_r")]
    for shorter, longer in pairwise(sent[1:]):
        assert longer[: len(shorter)] == shorter
    told = [
        n for n, one in enumerate(sent[-1]) if "[modegate] The user changed" in str(one["content"])
    ]
    assert told == [6]


def test_whole_and_empty_replies_of_a_last_hop() -> None:
    """A model that says nothing at last leaves an answer that most agents do not keep."""
    session = Session()
    end = Reply(answer({"content": ""}, "stop").body, list(JSON))
    first = answer({"content": "a", "tool_calls": [tool_call("write", WRITE)]})
    message = session.step(ask(), [first, end]).json["choices"][0]["message"]
    got = session.step(ask(message, {"role": "user", "content": "next"}), [said()])
    assert roles(got.upstream["messages"]) == ["system", "user", "assistant(write)", "tool", "user"]
    assert got.upstream["messages"][2]["content"] == "a"
