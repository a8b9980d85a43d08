"""What modegate adds to a request, and what it takes away for it."""

from __future__ import annotations

import pytest

from modegate.core.errors import DialectName
from modegate.core.policy.upstreams import (
    Injected,
    UpstreamSpec,
    Value,
    added,
    missing,
    with_injected,
)
from modegate.core.wire.headers import Headers
from support.dialect_facts import api

CLIENT: Headers = [
    (b"x-first", b"1"),
    (b"authorization", b"Bearer client"),
    (b"x-api-key", b"client"),
    (b"api-key", b"client"),
    (b"x-goog-api-key", b"client"),
    (b"anthropic-version", b"2023-06-01"),
]
WITHOUT: Headers = [CLIENT[0], CLIENT[-1]]


@pytest.mark.parametrize(
    ("dialect", "line"),
    [
        ("chat", (b"authorization", b"Bearer k")),
        ("responses", (b"authorization", b"Bearer k")),
        ("messages", (b"x-api-key", b"k")),
    ],
)
def test_a_key_takes_the_place_of_all_that_the_client_sent(
    dialect: DialectName, line: tuple[bytes, bytes]
) -> None:
    assert with_injected(CLIENT, api(dialect).credential, Injected(key=b"k")) == [*WITHOUT, line]


def test_a_secret_header_does_too() -> None:
    given = Injected(headers=((b"api-key", b"k"),), secret=True)
    assert given.credential
    assert with_injected(CLIENT, api("chat").credential, given) == [*WITHOUT, (b"api-key", b"k")]


def test_another_header_leaves_the_clients_credential() -> None:
    given = Injected(headers=((b"x-first", b"2"), (b"x-team", b"t")))
    assert not given.credential
    assert with_injected(CLIENT, api("chat").credential, given) == [
        *CLIENT[1:],
        (b"x-first", b"2"),
        (b"x-team", b"t"),
    ]


def test_nothing_added_is_nothing_changed() -> None:
    assert with_injected(CLIENT, api("messages").credential, Injected()) is CLIENT


SPEC = UpstreamSpec(
    name="u",
    url="https://h",
    headers=(("x-team", Value("t")), ("api-key", Value(env="AZURE"))),
    key="KEY",
    proxy=Value(env="PROXY"),
)


def test_variables_that_are_not_set_are_named_with_their_place() -> None:
    names = [
        ("upstreams.u.headers.api-key.env", "AZURE"),
        ("upstreams.u.key.env", "KEY"),
        ("upstreams.u.proxy.env", "PROXY"),
    ]
    assert missing([SPEC], {"KEY": "", "x-team": "t"}) == [names[0], names[1], names[2]]
    assert missing([SPEC], {"KEY": "k", "PROXY": "p"}) == names[:1]
    plain = UpstreamSpec(name="v", url="https://h", proxy=Value("http://p"))
    assert missing([plain], {}) == []


def test_values_are_looked_up() -> None:
    environment = {"KEY": "k\n", "AZURE": " ü ", "PROXY": "p"}
    headers = ((b"x-team", b"t"), (b"api-key", "ü".encode()))
    assert added(SPEC, environment) == Injected(headers, b"k", secret=True)


@pytest.mark.parametrize("value", ["geheim\nx-more: 1", "geheim\x7f", " "])
def test_what_no_header_can_carry_is_told_and_not_repeated(value: str) -> None:
    with pytest.raises(ValueError, match=r"^key: ") as caught:
        added(SPEC, {"KEY": value, "AZURE": "a"})
    assert "geheim" not in str(caught.value)
