"""What is no YAML, or too much of it, is refused with the line."""

from __future__ import annotations

import pytest

from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.file.yaml_nodes import MAX_BYTES, compose, duplicates, line_of


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param("", 1, "the file is empty", id="empty"),
        pytest.param("a:\n  b: [1, ", 2, "expected the node content", id="B149 half a file"),
        pytest.param("a: 1\n--- \nb: 2\n", 2, "expected a single document", id="two documents"),
        pytest.param("a: *b", 1, "undefined alias", id="alias to nothing"),
        pytest.param("- *_read", 1, 'begins with * needs quotes: "*_read"', id="unquoted glob"),
        pytest.param("- *\n", 1, "begins with * needs quotes", id="unquoted star"),
        pytest.param("a: 1\nb: \x01", 2, "a character that may not be in it", id="control"),
        pytest.param(b"a: 1\nb: \xff", 2, "not UTF-8", id="latin-1"),
        pytest.param('a: "\\UFFFFFFFF"', 0, "not valid YAML", id="no such character"),
        pytest.param("%YAML 1." + "1" * 5000 + "\n--- a", 0, "not valid YAML", id="huge version"),
        pytest.param("[" * 100_000, 1, "more than 64 levels", id="nested"),
        pytest.param("[" + "a,\n" * 20_001 + "]", 20_000, "more than 20000 values", id="many"),
        pytest.param(" " * (MAX_BYTES + 1), 0, "larger than 1048576 bytes", id="large"),
    ],
)
def test_unusable_text_is_refused(text: str | bytes, line: int, message: str) -> None:
    with pytest.raises(PolicyProblems) as caught:
        compose(text)
    [problem] = caught.value.problems
    assert problem.line == line
    assert message in problem.message


def test_a_byte_order_mark_is_no_content() -> None:
    assert line_of(compose(b"\xef\xbb\xbfa: 1")) == 1


def test_duplicates_are_found_wherever_they_are_written() -> None:
    text = """\
a: {x: 1, x: 2}
? [complex]
: - {y: 1,
     y: 2}
b: &b {z: 1, "z": 2}
c: *b
1: int
"1": string
"""
    assert [(p.path, p.line) for p in duplicates(compose(text))] == [
        ("a.x", 1),
        ("b.z", 5),
        ("?[0].y", 4),
    ]


def test_a_structure_that_holds_itself_is_searched_once() -> None:
    assert list(duplicates(compose("&a [*a, {b: *a}]"))) == []
