"""A place reads its value as asked, or notes what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modegate.core.policy.file.document import MAX_VISITS, YamlValue, read_document
from modegate.core.policy.file.problems import PolicyProblems


def value(text: str) -> YamlValue:
    place = (read_document(f"a: {text}").mapping() or {})["a"]
    assert place.document.problems == []
    return place


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("word", YamlValue.string, "word"),
        ('"1"', YamlValue.string, "1"),
        ("|-\n  x\n  y", YamlValue.string, "x\ny"),
        ("!!str yes", YamlValue.string, "yes"),
        ("true", YamlValue.boolean, True),
        ("false", YamlValue.boolean, False),
        ("12", YamlValue.integer, 12),
        ("0", YamlValue.integer, 0),
        ("true", YamlValue.json_scalar, (True,)),
        ("null", YamlValue.json_scalar, (None,)),
        ("-3", YamlValue.json_scalar, (-3,)),
        ("1e3", YamlValue.json_scalar, (1000.0,)),
        ("2.5", YamlValue.json_scalar, (2.5,)),
        ('"true"', YamlValue.json_scalar, ("true",)),
        ('""', YamlValue.json_scalar, ("",)),
    ],
)
def test_a_value_is_read(text: str, read: Callable[[YamlValue], Any], expected: Any) -> None:
    found = read(value(text))
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "read", "message", "found"),
    [
        ("!secret x", YamlValue.string, "a value with the tag '!secret'; quote it", "'x'"),
        ("=", YamlValue.string, "a special key; quote it", "'='"),
        ("<<", YamlValue.string, "a merge key; quote it", "'<<'"),
        ("!!bool maybe", YamlValue.string, "the boolean false", "'maybe'"),
        ('"\\uD800"', YamlValue.string, "is not valid Unicode", "'\\ud800'"),
        ("{}", YamlValue.string, "must be a string", "a mapping"),
        ('"true"', YamlValue.boolean, "must be true or false", "'true'"),
        ("True", YamlValue.boolean, "must be true or false", "'True'"),
        ("[]", YamlValue.integer, "whole number", "a list"),
        ("1_000", YamlValue.integer, "whole number", "'1_000'"),
        ("9" * 5000, YamlValue.integer, "whole number", f"'{'9' * 59}…'"),
        ('" "', YamlValue.string, "must not be empty", "' '"),
        (
            "{}",
            YamlValue.json_scalar,
            "must be a string, a number, true, false or null",
            "a mapping",
        ),
        ('"\\uD800"', YamlValue.json_scalar, "is not valid Unicode", "'\\ud800'"),
        (".nan", YamlValue.json_scalar, "is read as a number", "'.nan'"),
        ("[]", YamlValue.sequence, "must not be empty", "a list"),
        ("!!set {a}", YamlValue.mapping, "must be a mapping", "a mapping"),
        ("!x [a]", YamlValue.sequence, "must be a list", "a list"),
        ("{<<: 1}", YamlValue.mapping, "a merge key takes a mapping", "'1'"),
        ("{[a]: 2}", YamlValue.mapping, "must be a string", "a list"),
        ("{1: 2}", YamlValue.mapping, "is read as a number; quote it", "'1'"),
    ],
)
def test_what_cannot_be_read_is_noted(
    text: str, read: Callable[[YamlValue], Any], message: str, found: str
) -> None:
    place = value(text)
    assert not read(place)
    [problem] = place.document.problems
    assert message in problem.message
    assert (problem.line, problem.found) == (1, found)


def test_merged_keys_come_behind_the_mappings_own_and_the_first_source_wins() -> None:
    place = read_document("""\
one: &one {a: 1, b: 1}
two: &two {a: 2, c: 2}
all: {c: own, <<: [*one, *two]}
""")
    keys = (place.mapping() or {})["all"].mapping() or {}
    assert {name: found.node.value for name, found in keys.items()} == {
        "a": "1",
        "b": "1",
        "c": "own",
    }
    assert (keys["a"].path, keys["c"].path) == ("all.a", "all.c")


def test_a_mapping_that_merges_itself_is_refused() -> None:
    with pytest.raises(PolicyProblems, match="too many merge keys within merge keys"):
        read_document("&a {<<: *a}").mapping()


def test_a_key_that_is_not_known_is_noted_and_left_out() -> None:
    place = read_document("name: a\nnmae: b\nother: c\n")
    assert list(place.mapping(("name", "to")) or {}) == ["name"]
    assert [(p.path, p.line, p.message, p.found) for p in place.document.problems] == [
        ("nmae", 2, "unknown key; did you mean 'name'?", "'nmae'"),
        ("other", 3, "unknown key; known: name, to", "'other'"),
    ]


def test_a_problem_with_a_name_is_on_the_line_of_the_name() -> None:
    place = (read_document("a:\n  - 1\n").mapping() or {})["a"]
    place.key_problem("bad name")
    place.problem("bad value")
    assert [(p.line, p.found) for p in place.document.problems] == [(1, "'a'"), (2, "a list")]


def test_a_document_is_visited_only_so_far() -> None:
    place = read_document("[a]")
    place.document.visited = MAX_VISITS - 1
    assert len(place.sequence() or []) == 1
    with pytest.raises(PolicyProblems, match="more than 20000 values"):
        place.sequence()


def test_a_mapping_can_be_told_from_a_scalar() -> None:
    assert read_document("{}").is_mapping()
    assert not read_document("a").is_mapping()
