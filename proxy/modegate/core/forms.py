"""In which form a request goes out, as far as that is modegate's to choose.

Mode, tools and section are none of it: they are the same in each form.
"""

from __future__ import annotations

from dataclasses import dataclass

from modegate.core.dialects.base import Thoughts

MAX_MODEL = 256
"""Characters of a model's name under which something is remembered."""

_NAMES = (b"reason", b"think", b"thought", b"signature", b"extra_content", b"provider_specific")
"""What a provider's complaint about thoughts speaks of, in lower case."""

_WANTS = (b"missing", b"must", b"required", b"expected", b"passed back")
"""How one says that it wants them; all else says that it refuses them."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form."""

    thoughts: Thoughts = None
    notices: bool = True
    """Sentences stand in the history that tell of mode changes."""
    withheld: bool = True
    """What was withheld stands in it."""
    chained: bool = True
    """Hops go on from what the provider says that it keeps."""


def speaks_of_thoughts(complaint: bytes) -> bool:
    """Tell whether a refusal could be about what a model thought."""
    folded = complaint.lower()
    return any(name in folded for name in _NAMES)


def wants(complaint: bytes) -> bool:
    """Tell whether a refusal could say that something is not there."""
    folded = complaint.lower()
    return any(word in folded for word in _WANTS)
