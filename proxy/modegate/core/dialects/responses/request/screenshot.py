"""Our answer to a refused `computer_call`: the API takes nothing for one but a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WHITE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAEklEQVR42mP4DwUMo4xRBukM"
    "AOPT/hAC2mzjAAAAAElFTkSuQmCC"
)
"""64 x 64 white pixels: no screenshot was taken, and the words behind it say so."""


def no_screenshot(call: str, checks: Sequence[Any]) -> dict[str, Any]:
    """Return the result of a call that did not run.

    Its safety checks are acknowledged, since the API refuses the history for ever without that: of a call
    that did not run nothing is let through by it.
    """
    output = {"type": "computer_screenshot", "image_url": _WHITE}
    result = {"type": "computer_call_output", "call_id": call, "output": output}
    return result | ({"acknowledged_safety_checks": list(checks)} if checks else {})
