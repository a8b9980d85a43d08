"""The only place that reads the time or makes an id."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """Time and ids, passed in so that tests decide them."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds for measuring durations."""

    def new_id(self) -> str:
        """Return an id that no other call will ever give."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def new_id(self) -> str:
        return secrets.token_hex(10)  # 80 random bits
