"""Arguments of calls: read in the one way in which every program reads them, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.wire.arguments import paired, parse_arguments, tangled, trouble, without_halves
from support import message_frames as messages
from support import responses
from support.apis import (
    APIS,
    PROTO,
    RULES,
    SECRET,
    assert_nothing_arrives,
    custom,
    function,
    step,
)
from support.playbook import Session, bytewise, chunk, stream

# Arguments that say two things, under a rule that reads them.

ARGUMENTS = {
    f"{name}, {tool}": (tool, text)
    for tool in ("edit", "change", "fetch")
    for name, text in {
        "H9 two cases": f'{{"command":"view","Command":"create","x":"{SECRET}"}}',
        "H9 two cases, the other first": f'{{"COMMAND":"create","command":"view","x":"{SECRET}"}}',
        "H9 inside": f'{{"command":"view","x":[{{"a":1,"A":"{SECRET}"}}]}}',
        "H9 a Kelvin sign": f'{{"command":"view","k":1,"\\u212a":"{SECRET}"}}',
        "H6 inherited": f'{{"command":"view","{PROTO}":{{"command":"create","x":"{SECRET}"}}}}',
        "H6 inherited, inside": f'{{"command":"view","x":{{"{PROTO}":{{"x":"{SECRET}"}}}}}}',
        "H6 of its maker": f'{{"command":"view","constructor":{{"prototype":{{"x":"{SECRET}"}}}}}}',
    }.items()
} | {
    "H9 a denied argument in another case": ("change", f'{{"Command":"create","x":"{SECRET}"}}'),
    "H9 a denied argument in another spelling": ("change", f'{{"com-mand":"create","x":"{SECRET}"}}'),
}  # fmt: skip


TOLD = [
    pytest.param(api, tool, text, id=f"{api}, {name}")
    for api in APIS
    for name, (tool, text) in ARGUMENTS.items()
]


@pytest.mark.parametrize(("api", "tool", "text"), TOLD)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_arguments_that_say_two_things(api: str, tool: str, text: str, streamed: bool) -> None:
    """They meet no condition, get around none, and no person is asked about them."""
    assert_nothing_arrives(step(api, APIS[api][1](tool, text), streamed=streamed))


@pytest.mark.parametrize(("api", "tool", "text"), TOLD)
def test_nor_do_they_byte_by_byte(api: str, tool: str, text: str) -> None:
    got = step(api, APIS[api][1](tool, text), streamed=True, cut=bytewise)
    assert_nothing_arrives(got)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1, "b": {"a": 1}}, False),
        ({"a": [{"b": 1}, {"B": 1}]}, False),
        ({"file_path": 1, "filepath": 1}, False),
        ({"a": 1, "A": 1}, True),
        ({"x": [{"y": {"k": 1, "\u212a": 1}}]}, True),
        ({"s": 1, "\u017f": 1}, True),
        ({PROTO: 1}, True),
        ({"x": {"__PROTO__": 1}}, True),
        (None, False),
    ],
)
def test_what_is_tangled(value: Any, told: bool) -> None:
    assert tangled(value) is told


def test_deep_arguments_are_looked_through() -> None:
    deep: Any = {PROTO: 1}
    for _ in range(5000):
        deep = {"a": [deep]}
    assert tangled(deep)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a":1}', ""),
        ("[1]", "not one JSON object"),
        ("{", "not one JSON object"),
        ('{"a":NaN}', "not one JSON object"),
        ('{"a":1,"a":1}', "one key twice"),
        ('{"a":1e999}', "a number that is out of range"),
        ('{"a":"\\ud83d"}', "half of a character"),
        ('{"a":"\ud83d"}', "half of a character"),
        ('{"a":"\\\\ud83d"}', ""),
        ('{"a":"\\ud83d\\ude00"}', ""),
        ('{"a":' + "9" * 5000 + "}", "a number that is out of range"),
        ('{"a":"' + "\\ud83d" * 100_001 + '"}', "half of a character"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "not one JSON object"),
    ],
)
def test_what_the_trouble_is(text: str, why: str) -> None:
    assert why in trouble(text)
    assert bool(why) is (parse_arguments(text) is None)
    assert bool(why) is bool(trouble(text))


def test_halves_that_meet_are_a_character() -> None:
    assert paired("a\ud83d" + "\ude00b") == "a\U0001f600b"
    assert paired("\ude00\ud83d") == "\ude00\ud83d"
    assert paired("\xe9") == "\xe9"
    assert without_halves("a\ud83d") == "a\ufffd"


# S6: what does not read alike everywhere, and is no broken JSON.

HALVES = {
    "S6 half a character": ('{"a":"\\ud83d"}', "half of a character"),
    "S6 half a character, the other half": ('{"a":"x\\ude00"}', "half of a character"),
    "S6 a number out of range": ('{"a":1e400}', "a number that is out of range"),
    "S6 a number out of range, inside": ('{"a":[{"b":-1E+999}]}', "a number that is out of range"),
    "a key twice": ('{"a":1,"a":2}', "one key twice"),
}


@pytest.mark.parametrize(("text", "why"), HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", APIS)
def test_s6_the_model_is_told_what_is_wrong(api: str, streamed: bool, text: str, why: str) -> None:
    """And all else of the answer stands, streamed and whole alike."""
    got = step(api, APIS[api][1]("read", text), streamed=streamed)
    assert got.finish is not None
    assert got.finish.outcome == "answered"
    assert len(got.requests) == 2
    assert why in got.requests[1].decode()
    assert b"not one JSON object" not in got.requests[1]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_s6_half_a_character_as_the_api_itself_escapes_it(streamed: bool) -> None:
    """As JavaScript writes a text that it has cut: the same words, whoever sends it."""
    half = "\ud83d"
    for api, call in (("chat", function("read", f'{{"a":"{half}"}}')),
                      ("responses", responses.call("read", f'{{"a":"{half}"}}')),
                      ("messages", messages.call("read", {"a": half}))):  # fmt: skip
        got = step(api, call, streamed=streamed)
        assert got.finish is not None
        assert got.finish.outcome == "answered"
        assert "half of a character" in got.requests[1].decode()


def test_s6_a_character_that_is_cut_between_two_pieces_is_whole() -> None:
    """Servers in JavaScript cut an emoji in two; clients join the pieces before they read them."""
    first, second = '{"a":"\ud83d', '\ude00"}'
    text = '{"a":"\U0001f600"}'
    body = stream(
        chunk({"tool_calls": [function("read", first)]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": second}}]}),
    )
    assert Session(rules=RULES).step({**APIS["chat"][3], "stream": True}, [body]).body == body
    events = responses.events(responses.call("read", text))
    pieces = [event for event in events if event["type"].endswith("arguments.delta")]
    pieces[0]["delta"], pieces[1]["delta"] = first, second
    sent = responses.stream(events)
    asked = {**APIS["responses"][3], "stream": True}
    assert responses.session(rules=RULES).step(asked, [sent]).body == sent
    frames = messages.stream(messages.use(0, "read", first, second))
    asked = {**APIS["messages"][3], "stream": True}
    assert messages.session(RULES).step(asked, [frames]).body == frames


def test_a_half_of_a_character_in_free_text_breaks_nothing() -> None:
    """It is put into the history that the model is shown, where it cannot be encoded."""
    for api, call in (("chat", custom("write", "\ud83d")), ("chat", custom("fetch", "\ud83d")),
                      ("responses", responses.custom("write", "\ud83d")),
                      ("responses", responses.custom("fetch", "\ud83d"))):  # fmt: skip
        for streamed in (True, False):
            got = step(api, call, streamed=streamed)
            assert got.asked == []
            assert got.finish is not None
            assert got.finish.outcome == "answered"
