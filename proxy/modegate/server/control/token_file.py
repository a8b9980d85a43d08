"""The control token that a proxy makes for itself, and where it is kept for the commands of its owner."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

TOKEN_FILE = "control-token"  # noqa: S105 -- a file's name


MIN_TOKEN = 16
"""Characters; one that is made here has 43, and a shorter one than this could be found by trying."""


def weakness(token: str) -> str:
    """Say why this cannot be a control token; empty if it can. The token is not repeated."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        return "must be printable ASCII without spaces"
    if len(token) < MIN_TOKEN:
        return f"must have {MIN_TOKEN} characters or more; `openssl rand -hex 32` makes one"
    return ""


def read_token(state_dir: Path) -> str | None:
    """Return the stored token, or None if there is none or if others can read it."""
    path = state_dir / TOKEN_FILE
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(1024).strip()
    except FileNotFoundError:
        return None
    shared = os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO)
    return token if token and not shared else None


def ensure_token(state_dir: Path) -> str:
    """Return the stored token; make one (mode 0600, complete or not at all) where there is none.

    It outlives restarts, and several processes of one machine share it.

    Raises:
        OSError: the folder cannot be written.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = state_dir / TOKEN_FILE
    if target.exists():
        if token := read_token(state_dir):
            return token
        target.unlink()  # empty, or others could have read it
    handle, name = tempfile.mkstemp(dir=state_dir, prefix=f".{TOKEN_FILE}.")  # created 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):  # another process was faster: its token counts
            os.link(name, target)
    finally:
        os.unlink(name)
    token = read_token(state_dir)
    if token is None:
        raise OSError(f"{target} cannot be kept readable by its owner only")
    return token
