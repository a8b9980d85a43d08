"""Names: which session ids are taken, and keys that never collide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import BadSession
from modegate.core.ids import SessionId, SessionKey, Tenant, fits_session_id, parse_session_id

# Text without lone surrogates, which no header, path or file can carry.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.builds(SessionKey, TEXT.map(Tenant), TEXT.map(SessionId))

GOOD = {
    "one letter": "a",
    "one digit": "0",
    "all signs": "Az0._:-",
    "uuid": "0198c5f2-7c5e-7bd4-b7a7-0b3ba0a1f7c8",
    "longest": "x" * 128,
}
BAD = {
    "empty": "",
    "too long": "x" * 129,
    "dot first": ".a",
    "dash first": "-a",
    "slash": "a/b",
    "dots": "../x",
    "space at the end": "s1 ",
    "newline at the end": "s1\n",
    "nul": "s1\x00",
    "percent": "a%2Fb",
    "comma": "a,b",
    "umlaut": "ä",
    "full-width letter": "ａ",
    "other digits": "٣",
}


@pytest.mark.parametrize("raw", GOOD.values(), ids=GOOD.keys())
def test_takes(raw: str) -> None:
    assert parse_session_id(raw) == raw
    assert fits_session_id(raw)


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_B133_refuses(raw: str) -> None:
    with pytest.raises(BadSession, match="is not valid"):
        parse_session_id(raw)
    assert not fits_session_id(raw)


def test_a_refusal_does_not_repeat_a_long_id() -> None:
    with pytest.raises(BadSession) as raised:
        parse_session_id("x" * 100_000)
    assert len(str(raised.value)) < 400


@given(KEYS)
def test_a_key_is_read_back(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(KEYS, KEYS)
def test_two_keys_are_written_alike_only_if_they_are_the_same(a: SessionKey, b: SessionKey) -> None:
    assert (str(a) == str(b)) == (a == b)


@given(KEYS)
def test_a_written_key_has_one_slash_and_no_braces(key: SessionKey) -> None:
    # The stores rely on it: hash tags in Redis, one column in SQLite.
    assert str(key).count("/") == 1
    assert not set(str(key)) & set("{} \x00")
