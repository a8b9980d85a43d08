"""A path is in a policy's folder, or there is a reason that it is not."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.path import MAX_PATH, problem, why_not_under

FOLDERS = ["docs/", "plans", "/w/plans/"]


@pytest.mark.parametrize(
    "path",
    [
        "docs/a.md",
        "./docs/a.md",
        "docs//a.md",
        "docs/./a.md",
        "docs/b/../a.md",
        "docs/b/c/../../a.md",
        "docs/b/",
        "docs/.hidden",
        "docs/..a/b",
        "docs/a..b",
        "docs/[id].md",
        "docs/(group)/$id.tsx",
        "docs/ü 日本.md",
        "docs/10:30.md",
        "docs/a~",
        "plans",
        "plans/",
        "plans/p.md",
        "/w/plans/p.md",
        "/w/./plans//p.md",
    ],
)
def test_inside(path: str) -> None:
    assert why_not_under(path, FOLDERS) == ""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("docs", "is not in"),
        ("docs/", "is not in"),
        ("docs/.", "is not in"),
        ("docs/a/..", "is not in"),
        ("/w/plans", "is not in"),
        ("Docs/a.md", "is not in"),
        ("docs2/a.md", "is not in"),
        ("docs.md", "is not in"),
        ("src/docs/a.md", "is not in"),
        ("/docs/a.md", "is not in"),
        ("w/plans/a.md", "is not in"),
        ("docs/../etc", "is not in"),
        ("docs/../src/a.py", "is not in"),
        ("/w/plans/../../etc/passwd", "is not in"),
        ("/", "is not in"),
        (".", "is not in"),
        ("../w/docs/a.md", "leaves"),
        ("docs/../../docs/a.md", "leaves"),
        ("/../w/plans/p.md", "leaves"),
        ("~/docs/a.md", "plain name"),
        ("~user/docs/a.md", "plain name"),
        ("~/../docs/a.md", "plain name"),
        ("./~/a.md", "plain name"),
        ("$HOME/docs/a.md", "plain name"),
        ("@docs/a.md", "plain name"),
        ("'docs/a.md'", "plain name"),
        ("C:/docs/a.md", "plain name"),
        ("C:docs/a.md", "plain name"),
        ("file:docs/a.md", "plain name"),
        ("file:///w/plans/p.md", "plain name"),
        ("docs:x/../docs/a.md", "plain name"),
        ("//w/plans/p.md", "begins with `//`"),
        ("\\\\srv\\share", "backslash"),
        ("docs\\a.md", "backslash"),
        ("docs/..\\..\\a.md", "backslash"),
        ("docs/%2e%2e/a.md", "%"),
        ("docs/${X}/a.md", "variable"),
        ("docs/$(id)/a.md", "variable"),
        ("docs/$X/../a.md", "variable"),
        ("docs/$X/..", "variable"),
        ("docs/`id`/a.md", "variable"),
        ("docs/*", "glob"),
        ("docs/?", "glob"),
        ("docs/{../../x,a}", "glob"),
        ("docs/.[.]/.[.]/a.md", "glob"),
        ("docs/a.", "Windows"),
        ("docs/a ", "blanks"),
        ("docs/a /b", "Windows"),
        ("docs/.../a", "Windows"),
        ("docs/.. /.. /a", "Windows"),
        (" docs/a.md", "blanks"),
        ("docs/a.md\n", "blanks"),
        ("\u00a0docs/a.md", "blanks"),
        ("docs/a\x00b", "cannot be seen"),
        ("docs/a\nb", "cannot be seen"),
        ("docs/a\x1bb", "cannot be seen"),
        ("docs/.\u200b./a.md", "cannot be seen"),
        ("docs/\u202ea.md", "cannot be seen"),
        ("docs/a\u2028b", "cannot be seen"),
        ("docs/\ud800", "cannot be seen"),
        ("docs/\uff0e\uff0e/a.md", "separator or a dot"),
        ("docs\uff0fa.md", "separator or a dot"),
        ("docs/\u2025/a.md", "separator or a dot"),
        ("", "empty"),
        ("  ", "empty"),
        ("docs/" + "a" * MAX_PATH, "characters"),
    ],
)
def test_outside(path: str, reason: str) -> None:
    assert reason in why_not_under(path, FOLDERS)


@pytest.mark.parametrize(
    ("path", "folders", "inside"),
    [
        ("a.md", ["./"], True),
        ("a/b.md", ["."], True),
        (".", ["."], True),
        (".", ["./"], False),
        ("/a.md", ["./"], False),
        ("../a.md", ["./"], False),
        ("@/etc/passwd", ["./"], False),
        ("/etc/passwd", ["/"], True),
        ("etc/passwd", ["/"], False),
        ("a/b/c", ["a/b/"], True),
        ("a/b", ["a/b/"], False),
        ("a/c", ["x/../a/"], True),
        ("a.md", [], False),
    ],
)  # fmt: skip
def test_folders(path: str, folders: list[str], inside: bool) -> None:
    assert (why_not_under(path, folders) == "") is inside


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("docs/", ""),
        ("/w/plans", ""),
        ("./", ""),
        ("../shared/", "leaves"),
        ("~/plans/", "plain name"),
        ("docs/*", "glob"),
        ("C:/w/", "plain name"),
        ("docs\\", "backslash"),
        ("", "empty"),
    ],
)
def test_folders_that_a_policy_may_name(folder: str, reason: str) -> None:
    assert reason in problem(folder)
    assert bool(problem(folder)) is bool(reason)


def test_a_refusal_quotes_no_more_than_a_line() -> None:
    assert len(why_not_under("a" * MAX_PATH, FOLDERS)) < 250


NAMES = st.sampled_from(["docs", "plans", "a", "..", ".", "", "w", "...", "~", ".. ", "b.md"])


@pytest.mark.hypothesis
@given(st.lists(NAMES, min_size=1, max_size=8), st.booleans())
def test_inside_is_what_the_system_says(names: list[str], absolute: bool) -> None:
    """Where the working folder is `/w`, what is in a folder here is in it for the system as well."""
    path = "/" * absolute + "/".join(names)
    whole = posixpath.normpath(posixpath.join("/w", path))
    if why_not_under(path, ["docs/"]) == "":
        assert whole.startswith("/w/docs/")
        assert not absolute
    if why_not_under(path, ["/w/plans/"]) == "":
        assert whole.startswith("/w/plans/")
        assert absolute


@pytest.mark.hypothesis
@given(st.lists(NAMES, min_size=1, max_size=8))
def test_what_is_plainly_inside_is(names: list[str]) -> None:
    plain = [name for name in names if name in ("docs", "a", "b.md", "w", ".", "")]
    assert (why_not_under("/".join(["docs", *plain, "x"]), ["docs/"])) == ""


def test_a_real_file_is_where_its_path_says(tmp_path: Path) -> None:
    """What is let through is a file below the folder, in a tree without links."""
    (tmp_path / "docs" / "b").mkdir(parents=True)
    (tmp_path / "secret.md").touch()
    (tmp_path / "docs" / "a.md").touch()
    for path in ("docs/a.md", "docs/b/../a.md", "docs/../secret.md", "docs/b/../../secret.md"):
        real = os.path.realpath(tmp_path / path)
        inside = real.startswith(os.path.realpath(tmp_path / "docs") + "/")
        assert (why_not_under(path, ["docs/"]) == "") is inside
