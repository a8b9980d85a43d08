"""What would make an upstream read another method or path than modegate classified.

Frameworks let a client that can only GET and POST name the method it means, and some servers take the path
from a line that a proxy in front of them is to set. In a mode neither may be: the gate read the method and
the path of the request line.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from modegate.core.wire.headers import Headers

_METHOD_NAMES = b"""
    x-http-method-override x-http-method x-method-override x-original-method x-forwarded-method
"""
_METHOD_LINES = frozenset(_METHOD_NAMES.split())
_PATH_NAMES = b"""
    x-original-url x-original-uri x-original-path x-rewrite-url x-rewrite-uri x-forwarded-uri
    x-forwarded-path
"""
_PATH_LINES = frozenset(_PATH_NAMES.split())
_METHOD_PARAMETERS = frozenset({"_method", "_http_method", "x-http-method-override"})

BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})
"""Methods whose body says nothing (RFC 9110, section 9.3): one can only be meant for another method."""


def override(method: str, raw_path: bytes, query: bytes, headers: Headers) -> str | None:
    """Return the name of what says another method or path than the request line does; None if nothing does.

    All are as they came: the path with the session's prefix, the query without its question mark.
    """
    return next(_overrides(method, raw_path, query, headers), None)


def _overrides(method: str, raw_path: bytes, query: bytes, headers: Headers) -> Iterator[str]:
    named = method.encode("latin-1", "replace")
    for name, value in headers:
        # Servers that read CGI's variables take an underscore for a hyphen.
        line = name.replace(b"_", b"-")
        other_method = line in _METHOD_LINES and value.strip().upper() != named
        if other_method or (line in _PATH_LINES and _path_of(value) != raw_path):
            yield name.decode("latin-1")
    for parameter, wanted in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if parameter.lower() in _METHOD_PARAMETERS and wanted.upper() != method:
            yield f"?{parameter}="


def _path_of(value: bytes) -> bytes:
    try:
        return urlsplit(value.strip()).path
    except ValueError:
        return b""
