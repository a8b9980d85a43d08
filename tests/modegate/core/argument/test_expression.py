"""A pattern matches the whole text, in bounded time, or says what is wrong with it."""

from __future__ import annotations

import pytest

from modegate.core.argument.expression import MAX_PATTERN, MAX_WORK, compiled
from modegate.core.argument.understanding import NotUnderstood


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("git (log|diff)( .*)?", "git log -3", True),
        ("git (log|diff)( .*)?", "git log", True),
        ("git (log|diff)( .*)?", "git logs", False),
        ("git log", "x git log", False),
        ("git log", "git log x", False),
        ("git log", "git log\n", False),
        ("git log$", "git log\n", False),
        ("a|ab", "ab", True),
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        ("^a$", "x\na\ny", False),
        ("[A-Z]+-[0-9]+", "ABC-12", True),
        ("(?i)abc", "ABC", True),
        ("ä.", "äö", True),
        (".", "𝄞", True),
        ("", "", True),
        ("", "a", False),
        ("a\x00b", "a\x00b", True),
        ("a", "a\x00", False),
        (r"\d", "٣", False),
        (r"\p{Lu}", "Ä", True),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert compiled(pattern).fullmatch(text) is matches


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "RE2 cannot read"),
        ("[", "RE2 cannot read"),
        ("*", "RE2 cannot read"),
        ("a{1001}", "RE2 cannot read"),
        ("(?=a)", "lookaround"),
        ("(?!a)", "lookaround"),
        ("(?<=a)b", "lookaround"),
        ("(?<!a)b", "lookaround"),
        (r"(a)\1", "backreferences"),
        ("(?P=name)", "RE2 cannot read"),
        ("(?>a)", "RE2 cannot read"),
        ("a{1000}{1000}", "RE2 cannot read"),
        ("(a{1000}){1000}", "RE2 cannot read"),
        (".{1000}", "too large"),
        (r"\p{L}{1000}", "too large"),
        ("(" * 2000 + ")" * 2000, ""),
        ("a" * (MAX_PATTERN + 1), "characters"),
        ("\ud800", "half of a character"),
    ],
)
def test_what_is_wrong_is_said(
    pattern: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said anywhere else: RE2 can write to the standard error."""
    if message:
        with pytest.raises(ValueError, match=message):
            compiled(pattern)
    else:
        assert compiled(pattern).fullmatch("")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        (".*", "a\ud800", "half of a character"),
        ("(a|b)*a(a|b){200}", "ab" * MAX_WORK, "too many"),
    ],
)
def test_what_cannot_be_found_out_is_not_understood(pattern: str, text: str, message: str) -> None:
    """Which is no mismatch: `not` must not turn it into a match."""
    with pytest.raises(NotUnderstood, match=message):
        compiled(pattern).fullmatch(text)


def test_a_pattern_is_compiled_once() -> None:
    assert compiled("a+") is compiled("a+")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(x+x+)+y", "x" * 300_000),
        ("(a|aa)+$", "a" * 300_000 + "b"),
        ("(.*a){10}.{20}b", "a" * 60_000),
        ("(a|b)*a(a|b){200}", "ab" * 40_000),
    ],
)
def test_hostile_pairs_end(pattern: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert not compiled(pattern).fullmatch(text) or text.endswith("b")
    assert capfd.readouterr() == ("", "")
