"""Small values of a policy: sizes, durations, sources of a session id, names of modes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modegate.core.policy.file import (
    conditions,
    control,
    modes,
    policy,
    shell_section,
    upstreams,
)
from modegate.core.policy.file.document import YamlValue, read_document
from modegate.core.policy.file.modes import mode_name
from modegate.core.policy.file.schema import (
    Field,
    Section,
    choice,
    count,
    duration,
    mode_reference,
    size,
    source,
)
from support.policies import KEYS


def value(text: str) -> YamlValue:
    return (read_document(f"a: {text}").mapping() or {})["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("1 B", 1), ("2KiB", 2048), ('"64MiB"', 64 * 2**20), ("1 GiB", 2**30)],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, expected: int) -> None:
    assert size(value(text)) == expected


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "1kb", "1e9", "0x10", "", "{}", "9999999999999"]
)
def test_another_size_is_a_problem(text: str) -> None:
    place = value(text)
    assert size(place) is None
    assert len(place.document.problems) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 30.0), ("0", 0.0), ("0.5", 0.5), ('"30s"', 30.0), ("250ms", 0.25), ("2 m", 120.0),
     ("1h", 3600.0)],
)  # fmt: skip
def test_a_duration_is_seconds_or_has_a_unit(text: str, expected: float) -> None:
    assert duration()(value(text)) == expected


@pytest.mark.parametrize("text", ["-1", "1d", "1:30", "010", ".5", "inf", "[]"])
def test_another_duration_is_a_problem(text: str) -> None:
    place = value(text)
    assert duration()(place) is None
    assert len(place.document.problems) == 1


@pytest.mark.parametrize(
    ("text", "headers_only", "expected"),
    [
        ("path", False, "path"),
        ("header:X-Session", False, "header:x-session"),
        ("header:X-Session", True, "header:x-session"),
        ("body:metadata.session_id", False, "body:metadata.session_id"),
        ("path", True, None),
        ("body:a", True, None),
        ("'header:a b'", False, None),
        ("'body:'", False, None),
        ("Path", False, None),
        ("1", False, None),
    ],
)
def test_a_source_is_a_path_a_header_or_a_field(
    text: str, headers_only: bool, expected: str | None
) -> None:
    place = value(text)
    assert source(headers_only=headers_only)(place) == expected
    assert bool(place.document.problems) is (expected is None)


@pytest.mark.parametrize(
    ("name", "good"),
    [("plan", True), ("Plan-2.b_c", True), ("default", False), ("a b", False), (".a", False),
     ("a" * 64, True), ("a" * 65, False), ("é", False), ("a\n", False)],
)  # fmt: skip
def test_a_mode_id_is_a_plain_name_and_not_default(name: str, good: bool) -> None:
    place = value("x")
    assert mode_name(place, name) == (name if good else None)
    assert bool(place.document.problems) is not good


def test_words_numbers_and_modes_are_checked_against_what_there_is() -> None:
    def mode(place: YamlValue) -> str | None:
        place.document.names["modes"] = ["plan"]
        return mode_reference(place)

    assert choice("a", "b")(value("b")) == "b"
    assert count(1, 3)(value("3")) == 3
    assert mode(value("plan")) == "plan"
    readers: list[Callable[[YamlValue], object]] = [choice("a", "b"), count(1, 3), mode]
    for read in readers:
        for text in ("4", "c", "[]"):
            place = value(text)
            assert read(place) is None
            assert len(place.document.problems) == 1


def test_every_section_is_among_those_whose_keys_are_described() -> None:
    modules = (conditions, control, modes, policy, shell_section, upstreams)
    written = [
        one for module in modules for one in vars(module).values() if isinstance(one, Section)
    ]
    assert {one.path for one in written} == set(KEYS)


def test_what_a_section_lacks_or_does_not_know_is_a_problem_and_what_is_bad_is_left_out() -> None:
    section = Section("a", Field("n", count(1, 3), required=True), Field("to", size, "bytes"))
    assert section.into(dict)(value("{n: 2, to: 1KiB}")) == {"n": 2, "bytes": 1024}
    assert section.into(dict)(value("{n: 2, to: x}")) == {"n": 2}
    place = value("{to: 1, m: 2}")
    assert section.into(dict)(place) is None
    told = {problem.message for problem in place.document.problems}
    assert told == {"unknown key; known: n, to"}, "which may be the one that is lacking"
    place = value("{to: 1}")
    assert section.into(dict)(place) is None
    assert [problem.message for problem in place.document.problems] == ["needs the key 'n'"]
