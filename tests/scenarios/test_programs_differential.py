"""A program that is read makes just the calls that were read: Node runs it, and tells.

As a module, which is how Codex runs one, and as the body of an async function.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.javascript import calls_of
from modegate.core.argument.understanding import NotUnderstood
from support.programs.engine import Engine, node
from support.programs.table import READ, REFUSED, Calls


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with node() as started:
        yield started


def check(engine: Engine, program: str) -> bool:
    """Check a program, if it is read; return whether it is."""
    try:
        calls = calls_of(program)
    except NotUnderstood:
        return False
    for ran in engine.run(program):
        assert ran.traps == ()
        if ran.error is None and "??" not in program and "||" not in program:
            assert ran.calls == calls
        waiting = iter(calls)  # an error, or the left side of `??`, can only leave calls out
        assert all(call in waiting for call in ran.calls)
    return True


@pytest.mark.parametrize(("program", "calls"), READ)
def test_what_is_read_runs(engine: Engine, program: str, calls: Calls) -> None:
    """Not only without another call, but to its end: else nobody could use it."""
    assert check(engine, program)
    for ran in engine.run(program):
        assert ran.error is None
        assert len(ran.calls) == len(calls)


@pytest.mark.parametrize("text", [r"\x41\u{1F600}", "a\\\r\nb", "a\\\nb", r"\'\"\q", "ü😀", "//"])
@pytest.mark.parametrize("quote", "\"'`")
def test_a_string_is_what_an_engine_makes_of_it(engine: Engine, text: str, quote: str) -> None:
    assert check(engine, f"await tools.x({{a: {quote}{text}{quote}}})")


ESCAPES = st.sampled_from(
    [
        *(r"\n", r"\t", r"\v", r"\b", r"\f", r"\r", r"\q", r"\\", r"\'", r"\"", r"\`", r"\$", r"\-"),
        *(r"\x41", r"\x4", r"\u0041", r"\u004", r"\u{41}", r"\u{1F600}", r"\u{110000}", r"\u{}"),
        *(r"\ud83d", r"\ude00", r"\0", r"\1", r"\08", r"\101", "\\\n", "\\\r\n", "\\\r", "\n", "\r\n"),
        *("a", "ü", "😀", " ", "'", '"', "`", "$", "{", "${", "}", "//", "/*", "*/", "<!--", "\\", "\t"),
        *("\u2028", "\ufeff", "\x00", "\x7f", "\u200b", "\u00a0", "&amp;", "#"),
    ]
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.hypothesis
@given(st.lists(ESCAPES, max_size=8).map("".join), st.sampled_from("\"'`"))
def test_strings(engine: Engine, text: str, quote: str) -> None:
    check(engine, f"await tools.x({{a: {quote}{text}{quote}}})")


PIECES = [
    *("const a = ", "let b = ", "const {c, d: e} = ", "const [f, g] = ", "var h = ", "a = ", ""),
    *('await tools.x({a: "b"})', "await tools.y(a)", "await tools.z({a})", "tools.w({})", "await "),
    *("await Promise.all([tools.x({}), tools.y({a: 1})])", "Promise.all(", "[tools.v({})]", "tools"),
    *("text(", "text(a)", "text(b.output)", "console.log(", "JSON.stringify(", ")", "(", "((", "))"),
    *("[", "]", "[0]", "[a]", "{", "}", "{a: 1}", "{a}", ".", "?.", "...", ",", ":", "=", "=>", "+"),
    *("??", "||", "&&", "!", "-", "--", "++", "/", "/a/", "*", "<", ">", "<!--", "-->", "`", "${", "}`"),
    *("`a`", "`${a}`", '"s"', "'s'", "1", "-1", "0.5", "0x1", "1e1", "true", "null", "undefined", "a", "b"),
    *(";", "\n", "\r\n", "\r", " ", "// c\n", "/* c */", "/* c\n */", "//", "/*", "*/", "\u2028"),
    *("if (a) ", "for (;;) ", "return ", "throw ", "async ", "function f() {", "new ", "typeof ", "in "),
    *(".output", ".constructor", "?.output", "a\n(b)", "a\n[0]", "a\n`b`", "\\u0061", "#", "@", "this"),
]  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.hypothesis
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_pieces(engine: Engine, program: str) -> None:
    check(engine, program)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return a program of the tables, some places of it replaced by another piece."""
    program = draw(
        st.sampled_from([one for one, _ in READ] + [p for p in REFUSED.values() if len(p) < 200])
    )
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(program)))
        end = min(len(program), start + draw(st.sampled_from([0, 0, 1, 2, 5])))
        program = program[:start] + draw(st.sampled_from(PIECES)) + program[end:]
    return program


@pytest.mark.timeout(600)
@pytest.mark.hypothesis
@given(mutated())
def test_mutations(engine: Engine, program: str) -> None:
    check(engine, program)


STATEMENTS = [
    *('await tools.x({a: "b"})', "const r = await tools.x({})", "text(r)", "text(r.output)", "r", '"s"'),
    *("const [p, q] = await Promise.all([tools.x({}), tools.y({})])", "const {output} = await tools.y()"),
    *("text(`${p}`)", "console.log(q?.a)", 'const s = "v"', "await tools.z({s})", "text(-1)", "(r)", "[r]"),
    *("await tools.w(s)", "text(r[0] + 1)", "`t`", "1", "-1", "text(r ?? (await tools.u({})))"),
]  # fmt: skip
BETWEEN = st.sampled_from(
    [";", "\n", ";\n", " ", "", "// c\n", "/* c */", "/*\n*/", "\n\n", "\r\n", ",", ";;"]
)


@pytest.mark.timeout(600)
@pytest.mark.hypothesis
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), BETWEEN), max_size=7))
def test_statements(engine: Engine, parts: list[tuple[str, str]]) -> None:
    check(engine, "".join(statement + between for statement, between in parts))
