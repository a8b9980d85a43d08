"""Joining an upstream's base URL and the path that the client asked for.

A base URL is written with and without `/v1`, and so is a client's. Where the base ends in a version and the
client's path begins with `/v1`, the latter is dropped; everything else is put together as it stands,
and no byte of the client's path and query is decoded, encoded or normalised.

| base | client's path | upstream's |
|---|---|---|
| `https://h/v1`, `https://h/v1/` | `/v1/chat/completions` | `/v1/chat/completions` |
| | `/chat/completions` | `/v1/chat/completions` |
| | `//v1/messages` | `/v1//v1/messages` |
| | `/v10/x` | `/v1/v10/x` |
| `https://h/api/v1` | `/v1/chat/completions` | `/api/v1/chat/completions` |
| | `/chat/completions` | `/api/v1/chat/completions` |
| `https://h/api/v4`, `https://h/api/v1beta` | `/v1/chat/completions` | `/api/v4/chat/completions`, … |
| `https://h` | `/v1/chat/completions` | `/v1/chat/completions` |
| | `/chat/completions` | `/chat/completions` |
| `https://h/x`, `strip_v1` | `/v1/chat/completions` | `/x/chat/completions` |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit

from modegate.core.errors import BadRequest

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f]")
"""Would end the request line early, or begin another one."""
_VERSION = re.compile(r"/v[0-9]+(?:(?:alpha|beta)[0-9]*)?")
"""A base URL's last segment that takes the place of the client's `/v1`."""
_V1 = re.compile(r"/v1(?![^/?])")


@dataclass(frozen=True, slots=True)
class Base:
    """An upstream's base URL, checked."""

    scheme: str
    authority: str
    """Host and port as written."""
    path: str
    """Without a slash at its end; empty for none."""
    strip_v1: bool = False
    """Whether the client's `/v1` is dropped although the base does not end in a version."""
    query: tuple[tuple[str, str], ...] = ()
    """Parameters that every request gets unless the client gave them, such as `api-version`."""

    @classmethod
    def parse(
        cls, url: str, *, strip_v1: bool = False, query: tuple[tuple[str, str], ...] = ()
    ) -> Self:
        """Read a base URL.

        Raises:
            ValueError: it cannot be one. The message does not repeat a password.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an upstream's base URL looks like https://host/v1")
        if "@" in parts.netloc:
            raise ValueError("an upstream's base URL holds no user or password")
        if parts.query or parts.fragment or _UNSENDABLE.search(url):
            raise ValueError("an upstream's base URL has no query, no fragment and no blanks")
        # `port` raises ValueError for one that is no number.
        _ = parts.port
        return cls(parts.scheme, parts.netloc, parts.path.rstrip("/"), strip_v1, query)

    def join(self, target: bytes) -> str:
        """Return the path and query to ask upstream for, by the table above.

        Raises:
            BadRequest: the target is not an absolute path in UTF-8 without blanks.
        """
        try:
            text = target.decode()
        except UnicodeDecodeError as error:
            raise BadRequest("the request's path is not UTF-8") from error
        if not text.startswith("/") or _UNSENDABLE.search(text):
            raise BadRequest("the request's target is not a path")
        last = self.path[self.path.rfind("/") :] if self.path else ""
        if (self.strip_v1 or _VERSION.fullmatch(last)) and _V1.match(text):
            text = text.removeprefix("/v1")
            if not self.path and not text.startswith("/"):
                text = "/" + text
        return self._with_query(self.path + text)

    def _with_query(self, text: str) -> str:
        for name, value in self.query:
            pair = f"{quote(name, safe='')}="
            if not re.search(rf"[?&]{re.escape(pair)}", text):
                text += f"{'&' if '?' in text else '?'}{pair}{quote(value, safe='')}"
        return text
