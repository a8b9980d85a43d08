"""What a model said goes back as its provider gave it: in the next hop, and where it is put back later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support import message_frames as frames
from support import messages, responses
from support.playbook import (
    JSON,
    Cut,
    Got,
    Reply,
    Session,
    answer,
    bytewise,
    call,
    chunk,
    request,
    said,
    stream,
    text,
    tool_call,
    whole,
)

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "rename foo"}
AGAIN: Json = {"role": "user", "content": "and now?"}
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])

SIGNED: Json = {
    "google": {"thought_signature": "c2ln"},
}
DETAILS = [
    {"type": "reasoning.text", "text": "First. ", "format": "anthropic", "index": 0},
    {"type": "reasoning.text", "signature": "s1", "format": "anthropic", "index": 0},
    {"type": "reasoning.encrypted", "data": "abc", "id": "r1", "index": 1},
]
JOINED = [
    {
        "type": "reasoning.text",
        "text": "First. ",
        "format": "anthropic",
        "index": 0,
        "signature": "s1",
    },
    DETAILS[2],
]

FIELDS: dict[str, tuple[list[Json], Json]] = {
    "reasoning_content": (
        [{"reasoning_content": "Hm"}, {"reasoning_content": "."}],
        {"reasoning_content": "Hm."},
    ),
    "reasoning": ([{"reasoning": "Hm."}], {"reasoning": "Hm."}),
    "both": (
        [{"reasoning": "Hm.", "reasoning_content": "Hm."}],
        {"reasoning": "Hm.", "reasoning_content": "Hm."},
    ),
    "copilot": (
        [{"reasoning_text": "Hm"}, {"reasoning_text": ".", "reasoning_opaque": "xx"}],
        {"reasoning_text": "Hm.", "reasoning_opaque": "xx"},
    ),
    "openrouter": (
        [{"reasoning": "First. ", "reasoning_details": [one]} for one in DETAILS],
        {"reasoning": "First. " * 3, "reasoning_details": JOINED},
    ),
    "minimax tells all so far": (
        [
            {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": said_}]}
            for said_ in ("I think that", "I think that I write")
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": "I think that I write"}
            ]
        },
    ),
    "litellm": (
        [
            {"thinking_blocks": [{"type": "thinking", "thinking": "H", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "m", "signature": "s"}]},
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]},
        ],
        {
            "thinking_blocks": [
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
            ]
        },
    ),
    "gemini": (
        [{"extra_content": {"google": {"thought": True}}}, {"extra_content": SIGNED}],
        {"extra_content": SIGNED},
    ),
    "nothing in it": ([{"reasoning_content": "", "reasoning_details": []}], {}),
}


def ask(*history: Json, **more: Any) -> Json:
    """Return a request of chat completions with this history."""
    return request("read", "write", messages=[USER, *history], stream=True, **more)


@CUTS
@pytest.mark.parametrize(("deltas", "wanted"), FIELDS.values(), ids=FIELDS)
def test_n014_in_chat_the_next_hop_has_what_the_model_thought(
    deltas: list[Json], wanted: Json, cut: Cut
) -> None:
    """In each field in which it came, put together as clients do it."""
    first = stream(*map(chunk, deltas), text("I write."), call("write"))
    got = Session().step(ask(), [first, said()], cut=cut)
    turn = got.upstream["messages"][2]
    assert {key: value for key, value in turn.items() if key not in ("role", "tool_calls")} == {
        "content": "I write.",
        **wanted,
    }


@pytest.mark.parametrize(("_", "fields"), FIELDS.values(), ids=FIELDS)
def test_n014_so_has_a_whole_answer(_: list[Json], fields: Json) -> None:
    first = answer({**fields, "tool_calls": [tool_call("write")]})
    got = Session().step({**ask(), "stream": False}, [first, answer({"content": "ok"}, "stop")])
    turn = got.upstream["messages"][2]
    assert {key: turn.get(key) for key in fields} == fields


@CUTS
def test_what_stands_beside_a_call_goes_back_from_whichever_piece(cut: Cut) -> None:
    """Nulls are nothing, and no call by themselves."""
    none: Json = {"extra_content": None, "x": None}
    function = {"name": "write", "arguments": ""}
    pieces = [
        {"index": 0, "id": "call_of_write", "type": "function", "function": function, **none},
        {"index": 0, "function": {"arguments": "{}"}, "extra_content": SIGNED, "x": None},
    ]
    first = stream(*(chunk({"tool_calls": [one]}) for one in pieces))
    got = Session().step(ask(), [first, said()], cut=cut)
    (made,) = got.upstream["messages"][2]["tool_calls"]
    assert made.keys() == {"id", "type", "function", "extra_content"}
    assert made["extra_content"] == SIGNED
    empty = {"index": 0, "id": "c", "function": {"name": "", "arguments": ""}, **none}
    got = Session().step(ask(), [stream(chunk({"tool_calls": [empty]}), text("Hi"), finish="stop")])
    assert len(got.requests) == 1


THOUGHT = stream(chunk({"reasoning_content": "Hm."}), call("write"))
HISTORIES: dict[str, tuple[list[Json], bool]] = {
    "none yet": ([], True),
    "sends it": ([{"role": "assistant", "content": "x", "reasoning_content": "y"}, AGAIN], True),
    "sends another": (
        [{"role": "assistant", "content": "x", "reasoning_details": [1]}, AGAIN],
        True,
    ),
    "empty": ([{"role": "assistant", "content": "x", "reasoning_content": ""}, AGAIN], True),
    "null": ([{"role": "assistant", "content": "x", "reasoning_content": None}, AGAIN], False),
    "keeps it": ([{"role": "assistant", "content": "x"}, AGAIN], False),
}


@pytest.mark.parametrize(("history", "goes"), HISTORIES.values(), ids=HISTORIES)
def test_what_the_client_does_decides(history: list[Json], goes: bool) -> None:
    """Where it has sent no turn of its model yet, all goes."""
    got = Session().step(ask(*history), [THOUGHT, said()])
    assert ("reasoning_content" in got.upstream["messages"][-2]) is goes


SHOWN: list[Json] = [{"role": "assistant", "content": "x", "reasoning_content": "y"}, AGAIN]

# Putting back: what a client has of two hops is split again.


def lived(first: list[Json], second: list[Json]) -> Session:
    """Live through a step of two hops that thought."""
    one = Session()
    hops = [
        stream(*map(chunk, first), call("write", id_="call_of_write")),
        stream(*map(chunk, second), text("Done."), finish="stop"),
    ]
    one.step(ask(), hops)
    return one


def put_back(one: Session, **fields: Any) -> list[Json]:
    """Return what the model finds of the step once the client sends its message with these fields."""
    got = one.step(ask({"role": "assistant", "content": "Done.", **fields}, AGAIN), [said()])
    found: list[Json] = got.upstream["messages"][2:-1]
    return found


def part(said_: str, index: int = 0, **more: Any) -> Json:
    """Return a part of reasoning as OpenRouter writes it."""
    return {"type": "reasoning.text", "text": said_, "index": index, **more}


FIRST = [{"reasoning_details": [part("One. ")]}, {"reasoning_details": [part("", signature="s1")]}]
SECOND = [{"reasoning_details": [part("Two. ")]}, {"reasoning_details": [part("", signature="s2")]}]
KEPT: dict[str, list[Json]] = {
    "pieces": [part("One. "), part("", signature="s1"), part("Two. "), part("", signature="s2")],
    "joined": [part("One. ", signature="s1"), part("Two. ", signature="s2")],
    "by number": [part("One. Two. ", signature="s2")],
    "the last hop's": [part("Two. ", signature="s2")],
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_details_go_back_to_their_hops(kept: list[Json]) -> None:
    """However the client has put them together."""
    turn, _, last = put_back(lived(FIRST, SECOND), reasoning_details=kept)
    assert turn["reasoning_details"] == [part("One. ", signature="s1")]
    assert "".join(one["text"] for one in last["reasoning_details"]) == "Two. "
    assert last["reasoning_details"][-1]["signature"] == "s2"


def test_details_that_were_changed_stay_the_clients() -> None:
    """And stand there once."""
    kept = [part("Well. "), part("One. "), part("Two. ")]
    turn, _, last = put_back(lived(FIRST, SECOND), reasoning_details=kept)
    assert "reasoning_details" not in turn
    assert last["reasoning_details"] == kept


def test_a_hop_that_thought_alone_has_its_thoughts() -> None:
    """The client's message then is without, but those in front of it show that it sends them."""
    one = Session()
    hops = [THOUGHT, stream(text("Done."), finish="stop")]
    one.step(ask(*SHOWN), hops)
    history = [*SHOWN, {"role": "assistant", "content": "Done."}, AGAIN]
    got = one.step(ask(*history), [said()])
    assert got.upstream["messages"][4]["reasoning_content"] == "Hm."


def test_what_the_client_does_later_decides_nothing() -> None:
    """The provider has read the turn by then: with other bytes it would read all behind it anew."""
    one = lived([{"reasoning_content": "Hm."}], [])
    history = [{"role": "assistant", "content": "Done."}, AGAIN]
    first = one.step(ask(*history), [said()])
    assert "reasoning_content" not in first.upstream["messages"][2]
    then = one.step(ask(*history, *SHOWN), [said()])
    assert (
        then.upstream["messages"][: len(first.upstream["messages"])] == first.upstream["messages"]
    )


def test_details_all_of_earlier_hops_leave_nothing() -> None:
    turn, _, last = put_back(lived(FIRST, []), reasoning_details=[part("One. ", signature="s1")])
    assert turn["reasoning_details"] == [part("One. ", signature="s1")]
    assert "reasoning_details" not in last


def test_more_than_can_be_kept_is_not_told_again() -> None:
    """Then no other hop follows, as of any answer that is too long."""
    long = [{"reasoning_details": [part("x" * 100_000, index=at)]} for at in range(3)]
    got = Session().step(ask(), [stream(*map(chunk, long), call("write")), said()])
    assert len(got.requests) == 1
    assert b"[modegate]" in got.body


@pytest.mark.parametrize("size", [1_000, 140_000])
def test_a_turn_that_thought_too_long_is_put_back_without(size: int) -> None:
    """Rather than not at all: over 256 KB of a hop are not stored."""
    details = [{"reasoning": "x" * size, "reasoning_details": [part("x" * size)]}]
    one = lived(details, [])
    fields = {"reasoning": "x" * size, "reasoning_details": [part("x" * size)]}
    turn, *_ = put_back(one, **fields)
    assert turn["tool_calls"]
    assert ("reasoning_details" in turn) is (size == 1_000)


def test_so_it_is_in_messages() -> None:
    thought = "x" * 250_000
    first = frames.stream(
        unsigned(0, thought, {}), frames.use(1, "write", json.dumps({"a": "x" * 20_000}))
    )
    one = frames.session()
    one.step(thinks(), [first, frames.said("Done.")])
    kept = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": "Done."}]
    got = one.step(thinks({"role": "assistant", "content": kept}, AGAIN), [frames.said()])
    assert frames.shape(got.upstream["messages"])[1] == "assistant(thinking,write)"


@pytest.mark.parametrize("last", [{}, {"reasoning_content": None}, {"reasoning_content": "So."}],
                         ids=["absent", "null", "there"])  # fmt: skip
@pytest.mark.parametrize("content", [{"content": "Done."}, {"content": None}, {}], ids=str)
def test_a_client_of_a_whole_answer_is_told_all_thoughts(last: Json, content: Json) -> None:
    """As one of a stream is (L7), so that it can send them back."""
    one = Session()
    body = {**ask(), "stream": False}
    first = answer({"reasoning_content": "Hm.", "tool_calls": [tool_call("write")]})
    message = {"role": "assistant", **last, **content, "tool_calls": [tool_call("read", id_="c9")]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    second = Reply(json.dumps({"id": "x", "choices": [choice]}).encode(), list(JSON))
    got = one.step(body, [first, second])
    shown = got.json["choices"][0]["message"]
    assert shown["reasoning_content"] == "Hm." + (last.get("reasoning_content") or "")
    result = {"role": "tool", "tool_call_id": "c9", "content": "ran"}
    sent = one.step(ask(shown, result), [said()]).upstream["messages"]
    thoughts = [turn.get("reasoning_content") for turn in sent if turn["role"] == "assistant"]
    assert thoughts == ["Hm.", last.get("reasoning_content") or ""]


@pytest.mark.parametrize("all_so_far", [False, True], ids=["pieces", "all so far"])
def test_many_small_pieces_are_kept_as_what_they_say(all_so_far: bool) -> None:
    """And not as the JSON that they come in, of which there is ten times as much."""
    words = [f"{number} " for number in range(9_000)]
    ends = [words[at : at + 500] for at in range(0, len(words), 500)]
    said_: list[Json] = []
    told = ""
    for some in ends:
        for word in ["".join(some)] if all_so_far else some:
            told += word
            said_.append({"reasoning_details": [part(told if all_so_far else word)]})
    got = Session().step(ask(), [stream(*map(chunk, said_), call("write")), said()])
    assert got.upstream["messages"][2]["reasoning_details"] == [part(told)]


# Messages: thinking that bears no signature.


def unsigned(at: int, words: str, block: Json) -> bytes:
    return (
        frames.start(at, {"type": "thinking", "thinking": "", **block})
        + frames.delta(at, "thinking_delta", thinking=words)
        + frames.stop(at)
    )


def thinks(*history: Json) -> Json:
    """Return a request of Messages with thinking on."""
    return messages.request(
        "read",
        "write",
        messages=[USER, *history],
        thinking={"type": "enabled", "budget_tokens": 1024},
    )


@CUTS
@pytest.mark.parametrize(
    "block", [{}, {"signature": ""}, {"signature": "s"}], ids=["none", "empty", "signed"]
)
@pytest.mark.parametrize("shown", [False, True], ids=["first", "in the history"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "one body"])
def test_n014_thinking_goes_back_as_it_came(
    block: Json, shown: bool, cut: Cut, streamed: bool
) -> None:
    """Kimi and DeepSeek want it with the call, though it bears no signature."""
    thought = {"type": "thinking", "thinking": "Hm.", **block}
    turn = {"role": "assistant", "content": [thought, {"type": "text", "text": "x"}]}
    history = [turn, AGAIN] if shown else []
    first: bytes | Reply = frames.stream(unsigned(0, "Hm.", block), frames.use(1, "write"))
    last: bytes | Reply = frames.said("fine")
    if not streamed:
        first = frames.whole(thought, frames.call("write"))
        last = frames.whole({"type": "text", "text": "fine"}, reason="end_turn")

    def strict(body: bytes) -> Reply:
        sent = json.loads(body)["messages"][-2]["content"]
        good = [one["type"] for one in sent] == ["thinking", "tool_use"] and sent[0] == thought
        if not good:
            return Reply(b'{"type":"error","error":{"message":"thinking"}}', list(JSON), 400)
        return last if isinstance(last, Reply) else Reply(last)

    got = frames.session().step(thinks(*history), [first, strict], cut=cut)
    assert b"fine" in got.body
    assert len(got.requests) == 2


WITHOUT: dict[str, list[Json]] = {
    "an agent that sends none": [{"role": "assistant", "content": "x"}, AGAIN],
    "a provider that signs": [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "a", "signature": "s"}],
        },
        AGAIN,
    ],
}


@pytest.mark.parametrize("history", WITHOUT.values(), ids=WITHOUT)
def test_thinking_without_a_signature_stays_away_from(history: list[Json]) -> None:
    first = frames.stream(unsigned(0, "Hm.", {"signature": ""}), frames.use(1, "write"))
    got = frames.session().step(thinks(*history), [first, frames.said()])
    assert [one["type"] for one in got.upstream["messages"][-2]["content"]] == ["tool_use"]


# Responses: reasoning that anybody can read (vLLM, llama.cpp, LM Studio).


def open_reasoning(name: str = "rs_1") -> Json:
    content = [{"type": "reasoning_text", "text": "hm"}]
    return {"type": "reasoning", "id": name, "summary": [], "content": content}


OUTS: dict[str, tuple[Json, list[Json], bool]] = {
    "readable": (open_reasoning(), [], True),
    "sealed": (responses.reasoning(), [], True),
    "a summary": (responses.reasoning(sealed=False), [], False),
    "readable, sent before": (open_reasoning(), [open_reasoning("rs_0"), AGAIN], True),
    "readable, kept by the agent": (open_reasoning(), [responses.message("x"), AGAIN], False),
    "sealed, kept by the agent": (responses.reasoning(), [responses.message("x"), AGAIN], True),
}


@pytest.mark.parametrize(("item", "history", "goes"), OUTS.values(), ids=OUTS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "one body"])
def test_reasoning_items_go_back(
    item: Json, history: list[Json], goes: bool, streamed: bool
) -> None:
    """As they came, where the provider needs no id of its own to find them."""
    one = responses.session()
    make: Callable[..., bytes | Reply] = responses.answer if streamed else responses.whole
    hops = [make(item, responses.call("write", at=2)), make(responses.message("fine"))]
    body = responses.request("read", "write", history=[USER, *history], stream=streamed)
    got: Got = one.step(body, hops)
    assert (item in got.upstream["input"]) is goes


@pytest.mark.parametrize("depth", [101, 700, 900])
@pytest.mark.parametrize("key", ["extra_content", "provider_specific_fields", "reasoning_details"])
def test_thoughts_that_are_nested_too_deep_are_no_error_of_ours(key: str, depth: int) -> None:
    """Nothing follows an answer that cannot be told again, and the call goes to nobody."""
    deep = '{"a":' * depth + "1" + "}" * depth
    thought = chunk({key: "@"}).replace(
        b'"@"', f"[{deep}]".encode() if "det" in key else deep.encode()
    )
    got = Session().step(ask(), [stream(thought, thought, call("write"))])
    assert len(got.requests) == 1
    assert b'"write"' not in got.body
    assert got.finish is not None
    assert got.finish.outcome in ("answered", "answer_unreadable")
