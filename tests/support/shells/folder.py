"""A folder as agents work in, full of what an incautious command would run into."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

TEXTS = {
    "README.md": "# Words\n\nTODO: read\nbeta b\nalpha a\nTODO: read\n",
    "old.md": "# Words\n\nalpha\nbeta\n",
    "a file.txt": "words\n",
    "a folder/words.txt": "words\n",
    "data.csv": "b,2\na,1\nc,3\n",
    "package.json": '{"version": "1.2.3", "scripts": {"test": "x"}, "dependencies": {}, "a": []}\n',
    "config.yaml": "a:\n  b: 1\n",
    "pyproject.toml": "[project]\nname = 'words'\n",
    "src/main.py": "import os\n\n\ndef main():  # TODO\n    return os.name\n",
    "src/util.py": "class A:\n    pass\n",
    "src/odd.bin": "a\0b\n",
    "tests/test_main.py": "def test():\n    pass\n",
    "docs/index.md": "# Index\n",
    "old/main.py": "import os\n",
    ".env": "SECRET=1\n",
}
# Named like options, like programs, and like what only a careful reader takes for one name.
TRAPS = (
    *("-delete", "-exec", "-o", "-i", "-f", "-w", "-x", "-R", "--output=x", "--pre=x", "-ox", "--"),
    *("odd\nname", "b; touch x", "$(touch x)", "`touch x`", "*", " -o x", "a\\", "'", "é"),
)
PROGRAMS = ("x", "x.sh", "ls", "git", "cat", "rm", "sh", "less", "1")
# What git would run, each at some command that is refused. What it runs at commands that are
# released cannot be seen in a command: `UNSEEN`.
CONFIG = (
    *("alias.st", "alias.x", "alias.lg"),
    *("core.editor", "core.pager", "core.sshCommand", "core.askPass", "sequence.editor"),
    *("pager.log", "pager.diff", "pager.branch", "gpg.program", "credential.helper"),
    *("difftool.trap.cmd", "mergetool.trap.cmd", "filter.trap.smudge", "interactive.diffFilter"),
    *("web.browser", "browser.trap.cmd", "man.trap.cmd", "uploadpack.packObjectsHook"),
    *("remote.origin.uploadpack", "remote.origin.receivepack", "submodule.src.update"),
)
# Configuration of a repository by which git runs programs while it only reads, and the command.
UNSEEN = {
    "core.fsmonitor": "git status",
    "diff.external": "git diff HEAD~1",
    "diff.trap.command": "git diff HEAD~1",
    "diff.trap.textconv": "git log -p -1",
    "filter.trap.clean": "git diff",
}
LONG_AGO = 1_700_000_000


def lay(folder: Path, stub: Path) -> None:
    """Fill the folder: files, traps, archives, and a repository with two commits and a stash."""
    for name, text in TEXTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in TRAPS:
        (folder / name).write_text("words\n", encoding="utf-8")
    for name in PROGRAMS:
        (folder / name).symlink_to(stub)
    (folder / "old.log.gz").write_bytes(gzip.compress(b"TODO\n", mtime=0))
    archives(folder)
    repository(folder, stub)
    for path in sorted(folder.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def archives(folder: Path) -> None:
    """Write an archive of each kind, with a name in it that leads out."""
    for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz")):
        with tarfile.open(folder / name, mode) as archive:  # type: ignore[call-overload]
            member = tarfile.TarInfo("../out.txt")
            archive.addfile(member, io.BytesIO())
    with zipfile.ZipFile(folder / "a.zip", "w") as zipped:
        zipped.writestr("../out.txt", "words")


def repository(folder: Path, stub: Path) -> None:
    """Make a repository that runs the stub wherever somebody lets it."""
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.py filter=trap diff=trap\n", encoding="utf-8")
    git(folder, "add", "--", "README.md", "src", ".gitattributes")
    commit(folder, "first")
    git(folder, "branch", "x")
    git(folder, "tag", "v1")
    git(folder, "remote", "add", "origin", f"ext::{stub}")
    (folder / "src/util.py").write_text("class B:\n    pass\n", encoding="utf-8")
    git(folder, "add", "docs", "src")
    commit(folder, "second")
    (folder / "README.md").write_text("stashed\n", encoding="utf-8")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "stash", "-q")
    for name in CONFIG:
        git(folder, "config", name, str(stub) if not name.startswith("alias") else f"!{stub}")
    git(folder, "config", "protocol.ext.allow", "always")
    for hook in (folder / ".git/hooks").iterdir():
        target = hook.with_suffix("")
        hook.unlink()
        target.symlink_to(stub)


def commit(folder: Path, message: str) -> None:
    """Commit what is staged."""
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", message)


def git(folder: Path, *words: str) -> None:
    """Run git with no configuration but the repository's."""
    environment = {
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    }
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)
