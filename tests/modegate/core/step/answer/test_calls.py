"""Calls as the gate reads them: arguments in one spelling, and every reading that a client could have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.step.answer.calls import (
    MAX_NAMES,
    CallState,
    Gathered,
    arguments_hash,
    canonical,
    digest,
    same_calls,
    share,
)
from modegate.core.wire.arguments import parse_arguments

NO_OBJECT = {
    "empty": "",
    "null": "null",
    "list": "[1]",
    "text": '"x"',
    "cut": '{"p": "x',
    "two": "{}{}",
    "duplicate": '{"p":1,"p":2}',
    "duplicate-inside": '{"p":{"q":1,"q":1}}',
    "duplicate-by-escape": '{"p":1,"\\u0070":2}',
    "nan": '{"p":NaN}',
    "comment": '{"p":1} // x',
    "single-quotes": "{'p':1}",
    "surrogate": '{"p":"\ud800"}',
    "deep": '{"a":' * 3000 + "1" + "}" * 3000,
    "huge-number": '{"p":' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("text", NO_OBJECT.values(), ids=NO_OBJECT)
def test_arguments_that_match_no_condition(text: str) -> None:
    """What is no JSON object with each key once is None, and hashed as it stands."""
    assert parse_arguments(text) is None
    assert canonical(text) == text.strip()
    assert arguments_hash(text) == digest(text.strip())


@pytest.mark.parametrize(
    "spelled", ['{"a": 1, "b": "é"}', '{"b":"\\u00e9","a":1}', ' {"a":1,\n"b":"é"} ']
)
def test_one_spelling(spelled: str) -> None:
    """Agents send arguments back in their own."""
    assert arguments_hash(spelled) == arguments_hash('{"a":1,"b":"é"}')


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans() | st.none()))
def test_canonical_is_its_own(value: dict[str, object]) -> None:
    """Twice is once."""
    once = canonical(str(value).replace("'", '"'))
    assert canonical(once) == once


def readings(call: Gathered, *declared: str) -> dict[str, object]:
    """Return the readings as a dict."""
    return {one.name: one.arguments for one in call.readings(frozenset(declared))}


def call(*names: str, arguments: str = '{"p":1}', kind: str = "function") -> Gathered:
    """Return a call."""
    return Gathered(0, kind, "id", list(names), [arguments])


def test_one_name() -> None:
    """The usual case has one reading, with its arguments."""
    assert readings(call("read"), "read", "write") == {"read": {"p": 1}}


def test_a_name_that_comes_again() -> None:
    """It is one name, unless the agent has a tool of the joined one."""
    assert readings(call("read", "read"), "read") == {"read": {"p": 1}}
    assert set(readings(call("read", "read"), "readread")) == {"read", "readread"}


def test_a_name_in_pieces() -> None:
    """Each piece, all together, and each tool that some of them spell."""
    found = readings(call("a", "b", "a"), "aba", "ab", "ba", "bab", "abc")
    assert set(found) == {"a", "b", "aba", "ab", "ba", "bab"}


def test_no_arguments_at_all() -> None:
    """Some servers send no text for a call without arguments."""
    assert readings(call("read", arguments="")) == {"read": {}}


def test_custom_text() -> None:
    """Free text is one argument; text that is an object is that object too."""
    both = call("patch", arguments='{"command":"rm"}', kind="custom").readings(frozenset())
    assert [one.arguments for one in both] == [{"input": '{"command":"rm"}'}, {"command": "rm"}]
    (text,) = call("patch", arguments="*** Begin", kind="custom").readings(frozenset())
    assert text.arguments == {"input": "*** Begin"}


UNREADABLE = {
    "no-name": call(),
    "odd": Gathered(0, "function", "id", ["read"], odd="its name is not a string"),
    "a-name-that-ends-early": call("read\0write"),
    "a-name-of-two-lines": call("read\n"),
    "two-shapes": Gathered(0, "custom", "id", ["read"], kinds={"function", "custom"}),
    "too-many-names": call(*(f"n{n}" for n in range(MAX_NAMES + 1))),
}


@pytest.mark.parametrize("one", UNREADABLE.values(), ids=UNREADABLE)
def test_calls_without_a_reading(one: Gathered) -> None:
    """They cannot be released, and say why."""
    assert one.readings(frozenset()) == []
    assert one.doubt


def test_h23_names_are_not_put_together_in_all_ways() -> None:
    """A name in pieces could be that of thousands of tools, spelled together in ever new ways."""
    names = [length * "a" for length in range(1, MAX_NAMES + 1)]
    one = call(*names)
    assert one.readings(frozenset(f"a{number * 'ba'}" for number in range(2000))) == []
    assert one.doubt
    few = frozenset({*(f"server__tool_{number}" for number in range(4000)), 50 * "a"})
    assert 50 * "a" in readings(call(*names), *few)


@pytest.mark.parametrize("doubt", ["split", "places"])
def test_arguments_of_which_a_client_sees_a_part(doubt: str) -> None:
    """No condition can hold."""
    one = call("read")
    if doubt == "split":
        one.split = True
    else:
        one.places |= {0: None, 1: None}
    assert readings(one) == {"read": None}


def test_calls_in_one_place() -> None:
    """Only one that was released can still be taken for this one."""
    first, second = call("read"), call("edit")
    share(first, second)
    share(second, first)
    assert len(first.shared) == len(second.shared) == 1
    assert readings(second) == {"edit": {"p": 1}}
    first.state = CallState.WITHHELD
    assert readings(second) == {"edit": {"p": 1}}
    first.state = CallState.RELEASED
    assert readings(second, "editread", "readedit") == dict.fromkeys(
        ("edit", "read", "editread", "readedit")
    )


def test_the_same_call_again() -> None:
    """By name and meaning, not by spelling or id."""
    assert same_calls([call("write")], [call("other"), call("write", arguments='{ "p" : 1 }')])
    assert not same_calls([call("write")], [call("write", arguments='{"p":2}'), call("read")])
    assert not same_calls([], [call("write")])
