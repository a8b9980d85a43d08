"""A patch names its files, all of them, or is refused."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.patch import MAX_FILES, MAX_PATCH, files_of
from modegate.core.argument.understanding import NotUnderstood


def enveloped(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


ADDED = enveloped("*** Add File: a\n+x\n")
SIDES = "--- a/docs/x.md\n+++ b/docs/x.md\n"
HUNK = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


@pytest.mark.parametrize(
    ("patch", "files"),
    [
        (enveloped("*** Add File: docs/a.md\n+x\n+\n"), ["docs/a.md"]),
        (enveloped("*** Add File: docs/empty.md\n"), ["docs/empty.md"]),
        (enveloped("*** Delete File: docs/a b.md\n"), ["docs/a b.md"]),
        (enveloped("*** Update File: a\n@@\n-x\n+y\n"), ["a"]),
        (enveloped("*** Update File: a\n@@ def f():\n x\n\n-x\n+y\n*** End of File\n"), ["a"]),
        (enveloped("*** Update File: a\n*** Move to: b/c\n@@\n-x\n+y\n"), ["a", "b/c"]),
        (
            enveloped("*** Add File: a\n+x\n*** Update File: b\n x\n+y\n*** Delete File: c\n"),
            ["a", "b", "c"],
        ),
        (enveloped("*** Update File: a\n-x\n+y\n*** Update File: a\n-y\n+z\n"), ["a"]),
        (enveloped("*** Add File: /etc/passwd\n+x\n"), ["/etc/passwd"]),
        (enveloped("*** Add File: a\n+*** Add File: b\n+--- a/c\n"), ["a"]),
        (enveloped("*** Update File: a\n-*** Delete File: b\n+***bold***\n * item\n ***\n"), ["a"]),
        (enveloped("*** Update File: a\n | --- | --- |\n | x | y |\n"), ["a"]),
        (enveloped("*** Update File: a\n@@\n--- sql\n--- sql\n+x\n"), ["a"]),
        (enveloped("*** Add File: a\n+x\n").replace("\n", "\r\n"), ["a"]),
        ("\n\n" + enveloped("*** Add File: a\n+x\n") + "\n", ["a"]),
        (enveloped("*** Add File: a\n+x\n").rstrip("\n"), ["a"]),
        (SIDES + HUNK, ["docs/x.md"]),
        (SIDES + HUNK + "@@ -9 +9,0 @@ def f():\n-x\n", ["docs/x.md"]),
        (SIDES + HUNK + SIDES.replace("x.md", "y.md") + HUNK, ["docs/x.md", "docs/y.md"]),
        ("--- a/x\t2026-12-01 10:00:00\n+++ b/x\t2026-12-01\n" + HUNK, ["x"]),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n", ["x"]),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", ["x"]),
        ("--- a/x\n+++ b/y\n" + HUNK, ["x", "y"]),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- sql\n+-- SQL\n", ["x"]),
        (
            "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n"
            "index 1a2b3c..4d5e6f 100644\n--- a/x\n+++ b/y\n" + HUNK,
            ["x", "y"],
        ),
        ("diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", ["x", "y"]),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", ["x"]),
        ("diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n", ["x"]),
    ],
)
def test_files(patch: str, files: list[str]) -> None:
    assert files_of(patch) == tuple(files)


HIDDEN = {
    "blank in front": enveloped("*** Add File: a\n+x\n *** Add File: b\n+x\n"),
    "blank in front, in an update": enveloped("*** Update File: a\n x\n *** Delete File: b\n"),
    "tab in front": enveloped("*** Update File: a\n \t*** Delete File: b\n"),
    "no-break space in front": enveloped("*** Update File: a\n \u00a0*** Delete File: b\n"),
    "byte order mark in front": enveloped("*** Update File: a\n \ufeff*** Delete File: b\n"),
    "no blank": enveloped("*** Update File: a\n x\n***Delete File: b\n"),
    "two blanks": enveloped("*** Update File: a\n x\n***  Delete File: b\n"),
    "other case": enveloped("*** Update File: a\n x\n*** DELETE FILE: b\n"),
    "other case, blank in front": enveloped("*** Update File: a\n x\n *** delete file: b\n"),
    "no blank behind the colon": enveloped("*** Add File:b\n+x\n"),
    "unknown verb": enveloped("*** Copy File: a\n"),
    "rename": enveloped("*** Rename File: a\n"),
    "move elsewhere": enveloped("*** Update File: a\n-x\n+y\n*** Move to: b\n"),
    "move of an addition": enveloped("*** Add File: a\n*** Move to: b\n+x\n"),
    "move twice": enveloped("*** Update File: a\n*** Move to: b\n*** Move to: c\n-x\n"),
    "another environment": enveloped("*** Environment ID: prod\n*** Delete File: docs/a\n"),
    "deletion with a body": enveloped("*** Delete File: a\n+x\n"),
    "line separator": enveloped("*** Add File: a\n+x\u2028*** Add File: b\n+x\n"),
    "next line": enveloped("*** Add File: a\n+x\x85*** Add File: b\n+x\n"),
    "vertical tab": enveloped("*** Add File: a\n+x\v*** Add File: b\n+x\n"),
    "form feed": enveloped("*** Add File: a\n+x\f*** Add File: b\n+x\n"),
    "carriage return": enveloped("*** Add File: a\n+x\r*** Add File: b\n+x\n"),
    "carriage return in a name": enveloped("*** Add File: docs/a\r/../../b\n+x\n"),
    "blanks around the name": enveloped("*** Add File: a \n+x\n"),
    "blanks before the name": enveloped("*** Add File:   a\n+x\n"),
    "no name": enveloped("*** Add File: \n+x\n"),
    "no file": enveloped(""),
    "no plus": enveloped("*** Add File: a\nx\n"),
    "heredoc": f"<<'EOF'\n{ADDED}EOF\n",
    "command": f"apply_patch <<'EOF'\n{ADDED}EOF\n",
    "fence": f"```\n{ADDED}```\n",
    "words in front": "Here:\n" + enveloped("*** Add File: a\n+x\n"),
    "words behind": enveloped("*** Add File: a\n+x\n") + "Done\n",
    "two envelopes": enveloped("*** Add File: a\n+x\n") * 2,
    "envelope within": enveloped("*** Update File: a\n *** Begin Patch\n *** Add File: b\n"),
    "no end": "*** Begin Patch\n*** Add File: a\n+x\n",
    "end in front": "*** Begin Patch\n*** End Patch\n*** Add File: a\n+x\n*** End Patch\n",
    "blank before begin": " " + enveloped("*** Add File: a\n+x\n"),
    "unified in an envelope": enveloped("*** Update File: a\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"),
    "indented unified": enveloped("*** Update File: a\n --- a/b\n +++ b/b\n @@ -1 +1 @@\n"),
    "encapsulated unified": enveloped("*** Update File: a\n- --- a/b\n- +++ b/b\n"),
    "context diff": enveloped("*** Update File: a\n *** a/b\n --- a/b\n"),
    "half of a unified diff": enveloped("*** Update File: a\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n"),
    "normal diff": enveloped("*** Update File: a\n--- b/y\n 1c1\n < x\n ---\n > y\n"),
    "hunk of a context diff": enveloped("*** Update File: a\n--- b/y\n ***************\n"),
    "git header in an envelope": enveloped("*** Update File: a\n diff --git a/b b/b\n"),
    "index line in an envelope": enveloped("*** Update File: a\n Index: b\n"),
    "envelope in a unified diff": SIDES + "@@ -1 +1,2 @@\n a\n *** Delete File: b\n",
    "no prefix": "--- docs/x\n+++ docs/x\n" + HUNK,
    "other prefixes": "--- i/docs/x\n+++ w/docs/x\n" + HUNK,
    "swapped prefixes": "--- b/docs/x\n+++ a/docs/x\n" + HUNK,
    "absolute": "--- /w/docs/x\n+++ /w/docs/x\n" + HUNK,
    "two slashes": "--- a//w/docs/x\n+++ b//w/docs/x\n" + HUNK,
    "blank in the name": "--- a/docs/x /../../y\n+++ b/docs/x\n" + HUNK,
    "quoted name": '--- "a/docs/\\303\\274"\n+++ "b/docs/\\303\\274"\n' + HUNK,
    "hidden in a hunk": SIDES + "@@ -1,2 +1,2 @@\n--- a/y\n+++ b/y\n x\n",
    "hidden behind a hunk": SIDES + "@@ -1 +1 @@\n-a\n+b\n-- a/y\n++ b/y\n",
    "short hunk": SIDES + "@@ -1,3 +1,2 @@\n a\n-b\n+c\n",
    "long hunk": SIDES + "@@ -1 +1 @@\n a\n b\n",
    "uneven hunk": SIDES + "@@ -1,2 +1 @@\n-a\n+b\n+c\n",
    "no hunk": SIDES,
    "no sides": HUNK,
    "one side": "--- a/x\n" + HUNK,
    "words in a unified diff": "Subject: x\n\n" + SIDES + HUNK,
    "signature": SIDES + HUNK + "-- \n2.47\n",
    "link": "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
    "submodule": "diff --git a/x b/x\nnew file mode 160000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n",
    "binary": "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n",
    "binary differs": "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
    "svn": "Index: x\n=====\n" + SIDES + HUNK,
    "context": "*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
    "ed": "1c\nb\n.\n",
    "only half a rename": "diff --git a/x b/y\nrename from x\n",
    "absolute rename": "diff --git a/x b/y\nrename from /x\nrename to /y\n",
    "nothing": "",
    "blanks": "  \n\n",
    "too many files": enveloped("".join(f"*** Delete File: {n}\n" for n in range(MAX_FILES + 1))),
    "too large": enveloped("*** Add File: a\n" + "+x\n" * (MAX_PATCH // 3)),
}  # fmt: skip


@pytest.mark.parametrize("patch", HIDDEN.values(), ids=HIDDEN)
def test_refused(patch: str) -> None:
    with pytest.raises(NotUnderstood) as refusal:
        files_of(patch)
    assert len(str(refusal.value)) < 200


LARGE = {
    "additions": enveloped("*** Add File: a\n" + "+x\n" * (MAX_PATCH // 4)),
    "blank lines": enveloped("*** Update File: a\n" + " \n" * (MAX_PATCH // 3)),
    "files": enveloped("*** Add File: a\n" * (MAX_PATCH // 17)),
    "one line": enveloped("*** Update File: a\n " + " ***" * (MAX_PATCH // 5) + "\n"),
    "dashes": enveloped("*** Update File: a\n " + "--- " * (MAX_PATCH // 5) + "\n x\n"),
    "a long name": enveloped("*** Add File: a" + " a" * (MAX_PATCH // 3) + "\n"),
    "hunks": SIDES + "@@ -1 +1 @@\n \n" * (MAX_PATCH // 15),
    "one hunk": SIDES + "@@ -1,300000 +1,300000 @@\n" + " \n" * 300_000,
    "digits": enveloped("*** Update File: a\n " + "1" * (MAX_PATCH // 2) + "\n"),
    "no end of lines": "-" * MAX_PATCH,
}


@pytest.mark.parametrize("patch", LARGE.values(), ids=LARGE)
def test_a_large_patch_is_read_in_time(patch: str) -> None:
    """Time grows with the length: a power of it would not end within the limit of a test."""
    with suppress(NotUnderstood):
        assert len(files_of(patch)) == 1


HEADER = re.compile(
    r"\*\*\*\s*(?:add|delete|update)\s+file:\s*(.+)|\*\*\*\s*move\s+to:\s*(.+)", re.IGNORECASE
)


def most_lenient(patch: str) -> set[str]:
    """Return what a program finds that takes each line for a header that could be one."""
    found = (HEADER.match(line.lstrip("\ufeff \t\u00a0")) for line in patch.splitlines())
    return {(one[1] or one[2]).strip() for one in found if one is not None}


LINES = st.sampled_from(
    [
        *("*** Add File: a", "*** Update File: b", "*** Delete File: c", "*** Move to: d"),
        *(" *** Add File: e", "\t*** Delete File: f", "***Add File: g", "*** add file: h"),
        *("+x\u2028*** Add File: i", "+x\r*** Add File: j", "+*** Add File: k", "-*** Add File: l"),
        *("+x", "-x", " x", "", "@@", "@@ x", " \ufeff*** Add File: m", "x"),
        *("*** Begin Patch", "*** End Patch", "*** End of File", " *** End Patch"),
    ]
)


@pytest.mark.hypothesis
@given(st.lists(LINES, max_size=8))
def test_no_program_finds_another_file_in_an_envelope(lines: list[str]) -> None:
    patch = enveloped("".join(f"{line}\n" for line in lines))
    try:
        files = set(files_of(patch))
    except NotUnderstood:
        return
    assert most_lenient(patch) <= files


UNIFIED = st.sampled_from(
    [
        *("--- a/x", "+++ b/x", "--- a/y", "+++ b/y", "--- /dev/null", "+++ /dev/null", "--- z"),
        *("@@ -1 +1 @@", "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@", " a", "-a", "+a", "", "\\ No newline"),
        *("diff --git a/x b/x", "diff --git a/q b/r", "rename from q", "rename to r"),
        *("new file mode 100644", "index 1..2", "similarity index 100%", "-- a/w", "++ b/w"),
    ]
)


@pytest.mark.hypothesis
@given(st.lists(UNIFIED, min_size=2, max_size=10))
def test_git_finds_no_other_file_in_a_unified_diff(lines: list[str]) -> None:
    patch = "".join(f"{line}\n" for line in lines)
    try:
        files = set(files_of(patch))
    except NotUnderstood:
        return
    assert git_finds(patch) <= files


def git_finds(patch: str) -> set[str]:
    """Return the files that `git apply` would touch; none if it cannot read the patch."""
    told = subprocess.run(
        ["git", "apply", "--numstat", "-z", "-"], input=patch.encode(), capture_output=True
    )
    fields = (field.rpartition(b"\t")[2] for field in told.stdout.split(b"\0"))
    return {field.decode() for field in fields if field}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    text = "".join(f"line {number}\n" for number in range(30))
    for name in ("changed.md", "renamed.md", "deleted.md", "mode.sh"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "x")
    (tmp_path / "changed.md").write_text(text.replace("line 7\n", "-- 7\n"), encoding="utf-8")
    (tmp_path / "renamed.md").rename(tmp_path / "new name.md")
    (tmp_path / "deleted.md").unlink()
    (tmp_path / "mode.sh").chmod(0o755)
    (tmp_path / "added.md").write_text("++ x\n", encoding="utf-8")
    git("add", ".")
    return tmp_path


def test_what_git_writes_is_read(repository: Path) -> None:
    """But for names with blanks, which programs end at different places."""
    for names in (["changed.md"], ["deleted.md", "added.md", "mode.sh"]):
        told = subprocess.run(
            ["git", "diff", "--cached", "-M", "--", *names],
            cwd=repository, check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert set(files_of(told.stdout)) == set(names) == git_finds(told.stdout)
    told = subprocess.run(
        ["git", "diff", "--cached", "-M"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    with pytest.raises(NotUnderstood, match="new name"):
        files_of(told.stdout)
