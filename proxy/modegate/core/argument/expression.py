"""Regular expressions of a policy, matched in time that grows with the text and never with a power of it.

RE2 has no lookaround and no backreferences, which is what makes that hold. A pattern must match the whole
text; `.` matches no line break, and `^` and `$` match at no line's ends, unless it says so: `(?s)`, `(?m)`.
RE2 is imported where a policy has the first pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from modegate.core.argument.understanding import NotUnderstood

MAX_PATTERN = 4096
"""Characters of a pattern."""
MAX_INSTRUCTIONS = 5000
"""What a pattern may compile to: `.{300}` is 2,400 of them, since a character has up to four bytes."""
MAX_WORK = 20_000_000
"""Instructions times bytes of text: a tenth of a second where RE2 has to keep every state apart."""
MEMORY = 1 << 20
"""Bytes that a pattern and what is found out while matching it may take."""
PATTERNS_CACHED = 1024

_NOT_IN_RE2 = {
    "invalid perl operator: (?": "RE2 has no lookaround: write what must match, and use `not` for the rest",
    "invalid escape sequence: \\": "RE2 has no backreferences, and no escape of a letter without a meaning",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled pattern."""

    pattern: str
    _matcher: Any

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text; `NotUnderstood` if that cannot be found out.

        A text can be too long for the pattern (`MAX_WORK`), or hold half of a character, which has no bytes.
        """
        if len(text) * self._matcher.programsize > MAX_WORK:
            raise NotUnderstood(f"{len(text)} characters are too many for its expression")
        try:
            return self._matcher.fullmatch(text) is not None
        except UnicodeEncodeError:
            raise NotUnderstood("it holds half of a character") from None


@lru_cache(maxsize=PATTERNS_CACHED)
def compiled(pattern: str) -> Expression:
    """Compile a pattern for RE2; raise `ValueError` with what is wrong and what to do.

    https://github.com/google/re2/wiki/Syntax
    """
    import re2  # not where no policy has a pattern

    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f"a pattern may have {MAX_PATTERN} characters, and this has {len(pattern)}"
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MEMORY
    try:
        matcher = re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise ValueError("the pattern holds half of a character") from None
    except re2.error as error:
        raise ValueError(_explained(error)) from None
    if matcher.programsize > MAX_INSTRUCTIONS:
        raise ValueError(_TOO_LARGE)
    return Expression(pattern, matcher)


_TOO_LARGE = (
    "the pattern is too large: repeat less often (`{0,1000}` of a class is a thousand classes)"
)


def _explained(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if "too large" in text:
        return _TOO_LARGE
    hints = [hint for start, hint in _NOT_IN_RE2.items() if text.startswith(start)]
    return f"RE2 cannot read the pattern ({'; '.join([text, *hints])})"
