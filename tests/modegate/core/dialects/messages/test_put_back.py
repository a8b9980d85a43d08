"""Stories of several steps: a Messages history as agents send it back, and as the model finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support import judges
from support.message_frames import (
    SECRET,
    WRITE,
    begin,
    call,
    delta,
    result,
    said,
    session,
    shape,
    start,
    stop,
    stream,
    text,
    thinking,
    use,
    whole,
)
from support.messages import request
from support.playbook import Got, Session

Block = dict[str, Any]
Message = dict[str, Any]
USER: Message = {"role": "user", "content": [{"type": "text", "text": "rename foo"}]}
SYSTEM: Message = {"role": "system", "content": "Mind the time."}
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS = ("read", "write")


def ask(*history: Message, **more: Any) -> dict[str, Any]:
    """Return a request with this history."""
    return request(*TOOLS, messages=[USER, *history], stream=True, **more)


def kept(got: Got) -> list[Block]:
    """Return the blocks that a client with the official SDK keeps of a streamed answer."""
    return [
        block.model_dump(exclude_none=True)
        for block in judges.messages(got.body, streamed=True).content
    ]


ONE = stream(
    thinking(0, "Hm.", "sig-a"), text(1, "One."), use(2, "write", WRITE, id_="toolu_write_1")
)
TWO = stream(
    thinking(0, "So.", "sig-b"), text(1, "Two. "),
    use(2, "write", '{"n":1}', id_="toolu_write_2"), use(3, "read", '{"p":1.0}', id_="toolu_read_1"),
    use(4, "write", '{"n":2}', id_="toolu_write_3"),
)  # fmt: skip


def lived() -> tuple[Session, list[Block]]:
    """Live through a step of two hops; give the session, and the blocks that the client has of it."""
    one = session()
    return one, kept(one.step(ask(), [ONE, TWO]))


def as_given(blocks: list[Block]) -> Any:
    """Keep everything."""
    return blocks


def trimmed(blocks: list[Block]) -> Any:
    """Take white space off the ends of texts."""
    return [{**b, "text": b["text"].strip()} if b["type"] == "text" else b for b in blocks]


def marked(blocks: list[Block]) -> Any:
    """Put a cache marker on a text and on the last block."""
    return [*blocks[:-2], {**blocks[-2], **MARK}, {**blocks[-1], **MARK}]


def js(blocks: list[Block]) -> Any:
    """Write arguments as JavaScript does, keys in another order."""
    return [*blocks[:-1], dict(sorted({**blocks[-1], "input": {"p": 1}}.items(), reverse=True))]


def no_thinking(blocks: list[Block]) -> Any:
    """Leave thinking out, as of an older turn."""
    return [block for block in blocks if block["type"] != "thinking"]


def joined(glue: str, *, marker: bool = False) -> Callable[[list[Block]], Any]:
    """Leave thinking out and make one text of all that follow one another."""

    def join(blocks: list[Block]) -> Any:
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        one = {"type": "text", "text": glue.join(texts), **(MARK if marker else {})}
        return [one, *(block for block in blocks if block["type"] == "tool_use")]

    return join


def split(blocks: list[Block]) -> Any:
    """Cut each text in two."""
    found: list[Block] = []
    for b in blocks:
        cut = [b["text"][:2], b["text"][2:]] if b["type"] == "text" else []
        found += [{**b, "text": piece} for piece in cut] or [b]
    return found


def blank(blocks: list[Block]) -> Any:
    """Put empty texts between."""
    return [one for b in blocks for one in ({"type": "text", "text": "\n"}, b)]


def edited(blocks: list[Block]) -> Any:
    """Change what the first hop said."""
    return [{**b, "text": "1"} if b.get("text") == "One." else b for b in blocks]


def only_call(blocks: list[Block]) -> Any:
    """Keep no word."""
    return blocks[-1:]


FIRST = "assistant(sig-a,'One.',write)"
LAST = "assistant(sig-b,'Two. ',write,read,write)"
KEEPING: dict[str, tuple[Callable[[list[Block]], Any], str, str]] = {
    "as given": (as_given, FIRST, LAST),
    "trimmed": (trimmed, FIRST, "assistant(sig-b,'Two.',write,read,write)"),
    "marked": (marked, FIRST, LAST),
    "JavaScript": (js, FIRST, LAST),
    "no thinking": (no_thinking, "assistant('One.',write)", "assistant('Two. ',write,read,write)"),
    "joined": (joined(""), "assistant('One.',write)", "assistant('Two. ',write,read,write)"),
    "joined by lines": (joined("\n\n"), "assistant('One.',write)", "assistant('Two. ',write,read,write)"),
    "joined and marked": (joined("\n", marker=True), "assistant('One.',write)",
                          "assistant('Two. ',write,read,write)"),
    "split": (split, "assistant(sig-a,'On','e.',write)", "assistant(sig-b,'Tw','o. ',write,read,write)"),
    "blank": (blank, "assistant('\\n',sig-a,'\\n','One.',write)",
              "assistant('\\n',sig-b,'\\n','Two. ',write,'\\n',read,write)"),
    "edited": (edited, "assistant(sig-a,'1',write)", LAST),
    "only the call": (only_call, "assistant(write)", "assistant(write,read,write)"),
}  # fmt: skip


@pytest.mark.parametrize(("keep", "first", "last"), KEEPING.values(), ids=KEEPING)
def test_hops_are_told_apart_again(
    keep: Callable[[list[Block]], Any], first: str, last: str
) -> None:
    """However an agent keeps the answer, each call stands in its hop, and its answer right behind."""
    one, blocks = lived()
    answer = {"role": "assistant", "content": keep(blocks)}
    got = one.step(ask(answer, result()), [said()])
    assert shape(got.upstream["messages"]) == [
        "user('rename foo')", first, "user(refused)", last, "user(refused,refused,result)",
    ]  # fmt: skip
    assert SECRET in json.dumps(got.upstream["messages"][1])
    again = one.step(ask(answer, result()), [said()])
    assert again.requests == got.requests


def test_the_model_finds_what_it_was_shown_within_the_step() -> None:
    """Newer models check that their thinking still has the same in front of it."""
    one = session()
    got = one.step(ask(), [ONE, TWO])
    shown = got.upstream["messages"]
    history = [{"role": "assistant", "content": kept(got)}, result()]
    told = one.step(ask(*history), [said()]).upstream["messages"]
    assert told[: len(shown)] == shown


FOLLOWING: dict[str, tuple[list[Message], list[str]]] = {
    "results": ([result()], ["user(refused,refused,result)"]),
    "results and words": (
        [{"role": "user", "content": [*result()["content"], {"type": "text", "text": "go on"}]}],
        ["user(refused,refused,result,'go on')"],
    ),
    "a string": ([{"role": "user", "content": "stop"}], ["user(refused,refused,'stop')"]),
    "no blocks": ([{"role": "user", "content": []}], ["user(refused,refused)"]),
    "nothing": ([], ["user(refused,refused)"]),
    "a system message": ([SYSTEM, result()],
                         ["user(refused,refused)", "system('Mind the time.')", "user(result)"]),
    "no content": ([{"role": "user"}], ["user(refused,refused)"]),
}  # fmt: skip


@pytest.mark.parametrize(("following", "wanted"), FOLLOWING.values(), ids=FOLLOWING)
def test_b083_answers_stand_first_behind_their_calls(
    following: list[Message], wanted: list[str]
) -> None:
    """Whatever the agent sends next."""
    one, blocks = lived()
    got = one.step(ask({"role": "assistant", "content": blocks}, *following), [said()])
    rest = [message for message in got.upstream["messages"][4:] if "content" in message]
    assert shape(rest) == wanted


def test_blocks_keep_their_bytes() -> None:
    """Also where the agent writes them in its own way."""
    one, blocks = lived()
    body = json.dumps(ask({"role": "assistant", "content": blocks}, result()), indent=3).encode()
    got = one.step(body, [said()])
    for block in blocks:
        lines = json.dumps(block, indent=3).replace("\n", "\n" + " " * 12)
        assert lines.encode() in body
        assert lines.encode() in got.requests[0]


@pytest.mark.parametrize("between", [[SYSTEM], [SYSTEM, SYSTEM]], ids=["one", "two"])
def test_system_messages_come_and_go(between: list[Message]) -> None:
    """Claude Code puts them behind the user's message, and later has one more or none."""
    one = session()
    blocks = kept(one.step(ask(*between[1:]), [ONE, TWO]))
    answer = {"role": "assistant", "content": blocks}
    for history in ([*between, answer], [answer]):
        got = one.step(ask(*history, result()), [said()])
        rest = [message for message in got.upstream["messages"] if message["role"] != "system"]
        assert shape(rest)[1:4] == [FIRST, "user(refused)", LAST]


def test_reminders_come_and_go() -> None:
    """In front of the answer and behind its results."""
    one = session()
    note = {"type": "text", "text": "<system-reminder>Mind.</system-reminder>"}
    first = {"role": "user", "content": [note, *USER["content"]]}
    blocks = kept(one.step(request(*TOOLS, messages=[first], stream=True), [ONE, TWO]))
    got = one.step(ask({"role": "assistant", "content": blocks}, result()), [said()])
    assert shape(got.upstream["messages"])[1:4] == [FIRST, "user(refused)", LAST]


def test_the_next_turn_finds_both() -> None:
    """Two answers of which something was withheld, in one history that grows."""
    one, blocks = lived()
    history = [{"role": "assistant", "content": blocks}, result()]
    more = stream(text(0, "Three."), use(1, "write", '{"n":3}', id_="toolu_write_4"))
    got = one.step(ask(*history), [more, said("Four.")])
    history += [{"role": "assistant", "content": kept(got)}, {"role": "user", "content": "go on"}]
    got = one.step(ask(*history), [said()])
    assert shape(got.upstream["messages"])[1:] == [
        FIRST, "user(refused)", LAST, "user(refused,refused,result)",
        "assistant('Three.',write)", "user(refused)", "assistant('Four.')", "user('go on')",
    ]  # fmt: skip


def string(blocks: list[Block]) -> Any:
    """Make a string of it, as of an answer that is only text."""
    return "".join(block.get("text", "") for block in blocks)


@pytest.mark.parametrize("keep", [as_given, trimmed, joined(""), joined("\n\n"), string],
                         ids=["as given", "trimmed", "joined", "by lines", "string"])  # fmt: skip
def test_a_closing_text_is_a_message_of_its_own(keep: Callable[[list[Block]], Any]) -> None:
    """What modegate said to the user stays the client's message; the calls stand in front."""
    one = session()
    blocks = kept(one.step(ask(), [stream(text(0, "Now."), use(1, "write", WRITE))]))
    answer = {"role": "assistant", "content": keep(blocks)}
    got = one.step(ask(answer, {"role": "user", "content": "why?"}), [said()])
    messages = got.upstream["messages"]
    assert shape(messages[1:5]) == ["assistant('Now.',write)", "user(refused)"] * 2
    assert [one["role"] for one in messages[5:]] == ["assistant", "user"]
    assert messages[5]["content"][0]["text"].lstrip().startswith("[modegate]")


def test_a_later_hop_that_fails_is_put_back_too() -> None:
    """What it had said stays with the closing text; thinking that was cut off goes nowhere again."""
    one = session()
    cut = (
        begin() + text(0, "half ") + start(1, {"type": "thinking", "thinking": "", "signature": ""})
    )
    cut += delta(1, "thinking_delta", thinking="Hm")
    blocks = kept(one.step(ask(), [ONE, cut]))
    assert [block["type"] for block in blocks] == ["thinking", "text", "text", "thinking", "text"]
    for keep, first in ((as_given, FIRST), (no_thinking, "assistant('One.',write)")):
        answer = {"role": "assistant", "content": keep(blocks)}
        got = one.step(ask(answer, {"role": "user", "content": "why?"}), [said()])
        messages = got.upstream["messages"]
        assert shape(messages[1:3]) == [first, "user(refused)"]
        assert [block["type"] for block in messages[3]["content"]] == ["text", "text"]
        assert messages[3]["content"][1]["text"].startswith("[modegate]")


def test_an_agent_that_keeps_only_one_of_its_calls() -> None:
    """The others are not missed, and what was withheld stands behind."""
    one = session()
    calls = [
        use(0, "read", id_="toolu_read_1"),
        use(1, "read", id_="toolu_read_2"),
        use(2, "write"),
    ]
    blocks = kept(one.step(ask(), [stream(*calls)]))
    got = one.step(ask({"role": "assistant", "content": blocks[:1]}, result()), [said()])
    assert shape(got.upstream["messages"])[1:] == ["assistant(read,write)", "user(refused,result)"]


def test_an_answer_without_a_word_is_found_by_its_marks() -> None:
    """Thinking alone, with a call that was refused behind it, and a hop that says nothing."""
    one = session()
    opaque = start(1, {"type": "redacted_thinking", "data": "eHg="}) + stop(1)
    hops = [stream(thinking(0, "Hm.", "sig-a"), opaque, use(2, "write")), stream(reason="end_turn")]
    blocks = kept(one.step(ask(), hops))
    answer = {"role": "assistant", "content": blocks}
    got = one.step(ask(answer, {"role": "user", "content": "?"}), [said()])
    assert shape(got.upstream["messages"])[1:] == [
        "assistant(sig-a,redacted_thinking,write)", "user(refused,'?')",
    ]  # fmt: skip


ODD: dict[str, tuple[Any, list[str]]] = {
    "null": (None, ["assistant(write)", "user(refused,'?')"]),
    "absent": (..., []),
    "empty": ([], ["assistant(write)", "user(refused,'?')"]),
    "no blocks": ([{"type": "text"}], ["assistant(write)", "user(refused)"]),
}


@pytest.mark.parametrize(("content", "wanted"), ODD.values(), ids=ODD)
def test_an_answer_of_nothing_is_sent_back_in_many_ways(content: Any, wanted: list[str]) -> None:
    """Whatever an agent makes of it, the refused call is put in front."""
    one = session()
    one.step(ask(), [stream(use(0, "write")), stream(reason="end_turn")])
    answer = {"role": "assistant"} | ({} if content is ... else {"content": content})
    got = one.step(ask(answer, {"role": "user", "content": "?"}), [said()])
    messages = got.upstream["messages"]
    assert shape(messages[1:3] if wanted else []) == wanted
    assert shape(messages[-1:])[0].endswith("'?')")
    assert got.finish is not None
    assert got.finish.outcome == "answered"


def test_a_text_with_its_key_twice_is_cut_where_it_is_read() -> None:
    """The last one counts."""
    one = session()
    one.step(ask(), [stream(text(0, "One."), use(1, "write")), said("\ud83dTwo.")])
    body = json.dumps(ask({"role": "assistant", "content": "X"}, {"role": "user", "content": "?"}))
    block = '[{"text": "\\ud83d", "type": "text", "text": "One.\\ud83dTwo."}]'
    got = one.step(body.replace('"X"', block).encode(), [said()])
    assert [m["content"][0]["text"] for m in got.upstream["messages"][1:4:2]] == [
        "One.",
        "\ufffdTwo.",
    ]


def test_what_was_edited_away_gets_nothing_back() -> None:
    """The answer is not there any more, or what stood in front of it."""
    one, blocks = lived()
    other = [{**blocks[-1], "id": "toolu_other_1"}]
    got = one.step(ask({"role": "assistant", "content": other}, result("toolu_other_1")), [said()])
    assert shape(got.upstream["messages"])[1:] == ["assistant(read)", "user(result)"]
    history = [{"role": "user", "content": "compacted"}, {"role": "assistant", "content": blocks}]
    got = one.step(request(*TOOLS, messages=history, stream=True), [said()])
    assert len(got.upstream["messages"]) == 2
    got = one.step(ask({"role": "assistant"}, {"role": "assistant", "content": None}), [said()])
    assert len(got.upstream["messages"]) == 3


def test_short_ids_need_the_same_arguments() -> None:
    """An id that comes again is no key: the turn is found by what was called, too."""
    one = session()
    first = stream(
        use(0, "read", '{"p":[1.0,{"q":2}]}', id_="c0"), use(1, "write", WRITE, id_="c1")
    )
    blocks = kept(one.step(ask(), [first]))
    history = [{"role": "assistant", "content": blocks}, result("c0")]
    got = one.step(ask(*history), [said()])
    assert shape(got.upstream["messages"])[1:] == ["assistant(read,write)", "user(refused,result)"]
    changed = [{**blocks[0], "input": {"p": 2}}]
    got = one.step(ask({"role": "assistant", "content": changed}, result("c0")), [said()])
    assert shape(got.upstream["messages"])[1:] == ["assistant(read)", "user(result)"]


@pytest.mark.parametrize("order", [("write", "read"), ("read", "write")], ids="-".join)
def test_an_id_that_comes_twice_in_one_answer_stands_there_once(order: tuple[str, str]) -> None:
    """Each call is judged when it comes; the API wants ids to differ, and each result to find its call."""
    one = session()
    calls = [use(at, name, id_="toolu_again_1") for at, name in enumerate(order)]
    blocks = kept(one.step(ask(), [stream(*calls)]))
    shown = next(block["id"] for block in blocks if block["type"] == "tool_use")
    history = [{"role": "assistant", "content": blocks}, result(shown)]
    got = one.step(ask(*history), [said()])
    told, given = got.upstream["messages"][1:]
    assert [block["name"] for block in told["content"]] == [*order]
    ids = {block["name"]: block["id"] for block in told["content"]}
    assert len(set(ids.values())) == 2
    assert ids["read"] == shown
    assert {block["tool_use_id"] for block in given["content"]} == set(ids.values())


def test_a_call_that_was_cut_is_found_again() -> None:
    """Its arguments are what the client has made of them; its id tells."""
    one = session()
    body = stream(use(0, "write", WRITE), use(1, "read", '{"p'), reason="max_tokens")
    one.step(ask(), [body])
    answer = {"role": "assistant", "content": [call("read", {}, "toolu_0000_1")]}
    got = one.step(ask(answer, result("toolu_0000_1")), [said()])
    assert shape(got.upstream["messages"])[1:] == ["assistant(write,read)", "user(refused,result)"]


def test_whole_answers_are_put_back_as_streamed_ones() -> None:
    """L7 for the next request."""
    one, blocks = lived()
    two = session()
    front = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig-a"},
        {"type": "text", "text": "One."},
        call("write", {"path": SECRET}, "toolu_write_1"),
    ]
    back = [
        {"type": "thinking", "thinking": "So.", "signature": "sig-b"},
        {"type": "text", "text": "Two. "},
        call("write", {"n": 1}, "toolu_write_2"),
        call("read", {"p": 1.0}, "toolu_read_1"),
        call("write", {"n": 2}, "toolu_write_3"),
    ]
    got = two.step(ask(), [whole(*front), whole(*back)])
    assert got.json["content"] == blocks
    history = ask({"role": "assistant", "content": got.json["content"]}, result())
    told = [s.step(history, [said()]).upstream["messages"] for s in (one, two)]
    assert told[0] == told[1]
