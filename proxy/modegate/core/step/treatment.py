"""How far a step reads its answer."""

from __future__ import annotations

from enum import IntEnum


class Treatment(IntEnum):
    """Decided once, as a step opens; from there on it only rises."""

    RELAY = 0
    """The bytes pass as they come: no mode is in force, and nothing of ours can stand in the answer."""
    WATCH = 1
    """No mode is in force, but the model may call an exit tool that it no longer has: the answer is read
    and judged, and what nobody can read passes."""
    GATE = 2
    """A mode is in force: what cannot be read goes nowhere."""
