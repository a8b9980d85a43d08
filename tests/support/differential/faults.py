"""Gates that are wrong on purpose: each judges something else than what some client runs.

A differential test that finds none of them finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from modegate.core.dialects.chat.answer import parsing as chat_answer
from modegate.core.dialects.chat.answer import sent_calls, stream
from modegate.core.dialects.common import strict_json
from modegate.core.dialects.responses.answer import call_consistency
from modegate.core.dialects.responses.answer import stream as responses_stream
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.policy.judge import ToolCall
from modegate.core.step.answer import calls, streamed
from modegate.core.wire import sse
from modegate.core.wire.arguments import parse_arguments
from support import speech_responses


def _first_key(text: str) -> dict[str, Any] | None:
    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    try:
        value = json.loads(text, object_pairs_hook=first)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _nothing(*_given: Any, **_named: Any) -> None:
    """Check nothing."""


def _first_name(self: calls.Gathered, _declared: frozenset[str]) -> list[ToolCall]:
    return [ToolCall(self.name, parse_arguments(self.arguments or "{}"))]


class _OneIndex(sent_calls.CallIndices):
    """Gives every call that moves the same index."""

    def new(self, call: calls.Gathered) -> int | None:
        """Return it."""
        return 0


@contextmanager
def _patched(*patches: Any) -> Iterator[None]:
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


@dataclass(frozen=True)
class Fault:
    """A gate that is wrong, and an answer that shows it."""

    speech: str
    number: int
    """Found by trying; where the mutations change, another one has to be."""
    planted: Callable[[], AbstractContextManager[None]]


_AS_IT_CAME = False
"""Calls go in the pieces in which they came; in one piece, most of what is wrong here is no harm."""

FAULTS: dict[str, Fault] = {
    "the first of two keys of the arguments counts": Fault(
        "chat-whole",
        108,
        lambda: _patched(
            patch.object(calls, "parse_arguments", _first_key),
            patch.object(calls, "trouble", lambda _text: ""),
        ),
    ),
    "the first name of a call counts, and nothing leaves a doubt": Fault(
        "chat-streamed",
        125,
        lambda: _patched(
            patch.object(calls.Gathered, "readings", _first_name),
            patch.object(calls.Gathered, "doubt", ""),
            patch.object(calls.Gathered, "rewritten", _AS_IT_CAME),
        ),
    ),
    "keys come twice and in any case": Fault(
        "chat-streamed",
        43,
        lambda: _patched(
            patch.object(chat_answer, "check_objects", _nothing),
            patch.object(strict_json, "check_objects", _nothing),
            patch.object(calls.Gathered, "rewritten", _AS_IT_CAME),
        ),
    ),
    "every frame is read in one way": Fault(
        "chat-streamed",
        60,
        lambda: _patched(
            patch.object(streamed, "check", _nothing),
            patch.object(sse.Frame, "checked", lambda self: self),
        ),
    ),
    "no call is taken for another": Fault(
        "chat-streamed",
        966,
        lambda: _patched(
            patch.object(stream, "share", _nothing),
            patch.object(calls.Gathered, "rewritten", _AS_IT_CAME),
        ),
    ),
    "the forms of an item may differ": Fault(
        "responses-streamed",
        2593,
        lambda: _patched(
            patch.object(responses_stream, "agree", lambda *_: True),
            patch.object(call_consistency, "same_arguments", lambda *_: True),
            patch.object(
                speech_responses,
                "RESPONSES",
                replace(RESPONSES, straightener=lambda *_: None),
            ),
        ),
    ),
    "what moves gets one index": Fault(
        "chat-streamed",
        12,
        lambda: _patched(
            patch("modegate.core.dialects.chat.answer.sent_calls.CallIndices", _OneIndex),
        ),
    ),
    "pieces of which clients make different calls leave no doubt": Fault(
        "chat-streamed",
        177,
        lambda: _patched(
            patch.object(calls.Gathered, "ambiguous", False),
            patch.object(calls.Gathered, "mixed", False),
            patch.object(calls.Gathered, "rewritten", _AS_IT_CAME),
        ),
    ),
}
"""By what is wrong."""
