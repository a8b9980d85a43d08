"""A program is a list of calls with literal arguments, or is refused."""

from __future__ import annotations

import pytest

from modegate.core.argument.javascript import InnerCall, calls_of
from modegate.core.argument.javascript_syntax import MAX_PROGRAM
from modegate.core.argument.understanding import NotUnderstood
from support.programs.table import READ, REFUSED, Calls


@pytest.mark.parametrize(("program", "calls"), READ)
def test_calls(program: str, calls: Calls) -> None:
    assert calls_of(program) == tuple(InnerCall(name, arguments) for name, arguments in calls)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r'"\x41\u0042\u{43}\u{000044}"', "ABCD"),
        (r'"\n\r\t\b\f\v"', "\n\r\t\b\f\v"),
        (r'"\q\ \-\"\'\\\$\`"', "q -\"'\\$`"),
        ('"a\\\nb\\\r\nc"', "abc"),
        (r'"\ud83d\ude00 \u{1F600}"', "\U0001f600 \U0001f600"),
        ("'it\"s'", 'it"s'),
        ('"ü😀"', "ü😀"),
        ("`a\r\nb\\\r\nc\\`$d$`", "a\nbc`$d$"),
        (r"`\${x}`", "${x}"),
        ('""', ""),
        ('"// no /* comment */"', "// no /* comment */"),
        ("999999999999999", 999_999_999_999_999),
        ("-0", 0),
        ("0.1", 0.1),
    ],
)
def test_literals(literal: str, value: object) -> None:
    (call,) = calls_of(f"await tools.x({{a: {literal}}})")
    assert call.arguments == {"a": value}
    assert type(call.arguments["a"]) is type(value)


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_refused(program: str) -> None:
    with pytest.raises(NotUnderstood) as refusal:
        calls_of(program)
    assert "program" in str(refusal.value)
    assert len(str(refusal.value)) < 250


def test_the_model_is_told_what_a_program_may_do() -> None:
    with pytest.raises(
        NotUnderstood, match=r"line 2 .* `for .* may only call tools with literal arguments"
    ):
        calls_of('text("a")\nfor (const a of [1]) text(a)')


@pytest.mark.parametrize(
    "piece",
    ["(", "[", "{", "${", "`", '"', "'", "/*", "a=>", "<a ", "a?", "1+", "async ", "x\n", "/[/", "a(b=>{",
     "await ", "\\u0041", "'\\", "a.", "...", "//\n", "`${a}`", "text(1);"],
)  # fmt: skip
def test_hostile_programs_end(piece: str) -> None:
    """The grammar takes a second for 64 KB of some of them, so the tokens are counted first."""
    with pytest.raises(NotUnderstood):
        calls_of(piece * (MAX_PROGRAM // len(piece)))
