"""What a choice of chat completions has said, with what its provider wants back beside text and calls.

Providers put what a model thought into fields of their own, some in several at once. Some refuse each later
request in which a call stands without it (DeepSeek, Kimi, Gemini's signatures), others make worse answers
(MiniMax), others refuse the fields (Mistral, Groq, older DeepSeek): see `docs/operations.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.chat.answer.parsing import REASONING_KEYS
from modegate.core.dialects.common.strict_json import MAX_DEPTH
from modegate.core.step.answer.parts import MAX_TEXT, ChoiceRead

LISTS = ("reasoning_details", "thinking_blocks")
"""Lists of parts: OpenRouter's and MiniMax's; litellm's."""

VALUES = ("reasoning_opaque", "extra_content", "provider_specific_fields")
"""What only the provider can read: GitHub Copilot's, Gemini's, litellm's."""

THOUGHTS = (*REASONING_KEYS, *LISTS, *VALUES)
"""Fields of a message that hold what its model thought."""

CALL = frozenset({"id", "type", "function", "custom"})
"""The members that every call of the history has; what is beside them is its provider's."""

_TEXTS = ("text", "summary", "data", "thinking")
"""Where a part of a list has its text."""
_PART = 64
"""Bytes that a part costs beside what it says."""
_SPOKEN = ("text", "summary", "thinking")
_PIECE = frozenset({"thought"})
"""What is said of one piece of an answer alone: that its text is a thought (Gemini)."""
_SURE = 8
"""Characters: a longer text that comes again at the front of a piece is all so far (MiniMax)."""


@dataclass(slots=True)
class _Part:
    """A part of a list, put together from its pieces."""

    fields: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Characters of each text."""

    def take(self, piece: dict[str, Any]) -> int:
        """Take a piece; give by how many bytes, or characters, it has grown."""
        grown = 0
        for key, value in piece.items():
            if key in _TEXTS and isinstance(value, str):
                self.fields.setdefault(key, "")
                grown += self._add_text(key, value)
            elif value is not None and not (value == "" and self.fields.get(key)):
                grown += 0 if value == self.fields.get(key) else _size(value)
                self.fields[key] = value
        return grown

    def _add_text(self, key: str, text: str) -> int:
        texts, size = self.texts.setdefault(key, []), self.sizes.get(key, 0)
        if not text:
            return 0
        if _SURE < size < len(text) and text.startswith("".join(texts)):
            self.texts[key], self.sizes[key] = [text], len(text)
            return len(text) - size
        texts.append(text)
        self.sizes[key] = size + len(text)
        return len(text)

    def goes_on(self, piece: dict[str, Any]) -> bool:
        if piece.get("type") != self.fields.get("type"):
            return False
        if "index" in piece or "index" in self.fields:
            return bool(piece.get("index") == self.fields.get("index"))
        # A signature ends a part that has no number.
        return not self.fields.get("signature") and any(key in piece for key in _SPOKEN)

    def whole(self) -> dict[str, Any]:
        return self.fields | {key: "".join(texts) for key, texts in self.texts.items()}


@dataclass(slots=True)
class ChatRead(ChoiceRead):
    """What one choice of a hop has said so far."""

    lists: dict[str, list[Any]] = field(default_factory=dict)
    """Of `LISTS`: parts, and what is none as it came."""
    values: dict[str, Any] = field(default_factory=dict)
    """Of `VALUES`."""
    kept: int = 0
    """Bytes of both."""

    @property
    def whole(self) -> bool:
        """Whether all that was said is kept, so that it can be told to the model again."""
        return self.size <= MAX_TEXT and self.kept <= MAX_TEXT

    def note(self, key: str, value: Any) -> None:
        """Take what stands under a key of `LISTS` or `VALUES`, or a piece of it."""
        if value in (None, "", [], {}):
            return
        if self.kept > MAX_TEXT:
            return
        if _deep(value):
            self.kept = MAX_TEXT + 1  # Nobody could write it again, as little as what is too long.
            return
        if key not in LISTS:
            self.kept += _size(value)
            merged = _merged(self.values.get(key), value)
            self.values |= {key: merged} if merged else {}
        elif isinstance(value, list):
            for piece in value:
                self._join(self.lists.setdefault(key, []), piece)

    def _join(self, parts: list[Any], piece: Any) -> None:
        """Join a piece to the part that it goes on with, or begin another."""
        if not isinstance(piece, dict):
            self.kept += _size(piece)
            parts.append(piece)
            return
        last = parts[-1] if parts else None
        if not (isinstance(last, _Part) and last.goes_on(piece)):
            last = _Part()
            parts.append(last)
            self.kept += _PART
        self.kept += last.take(piece)

    def thoughts(self) -> dict[str, Any]:
        texts = {key: self.text(key) for key in REASONING_KEYS if self.text(key)}
        lists = {
            key: [part.whole() if isinstance(part, _Part) else part for part in parts]
            for key, parts in self.lists.items()
        }
        return texts | lists | self.values


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _deep(value: Any, left: int = MAX_DEPTH) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not left or any(_deep(one, left - 1) for one in inner)


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, dict):
        return new
    kept = old if isinstance(old, dict) else {}
    found = {key: _merged(kept.get(key), value) for key, value in new.items() if key not in _PIECE}
    return kept | {key: value for key, value in found.items() if value != {}}


def text_of(part: Any) -> str:
    """Return the text of a part of a list, by which it is known again."""
    if not isinstance(part, dict):
        return ""
    texts = (part.get(key) for key in _TEXTS)
    return "".join(text for text in texts if isinstance(text, str))


def rest_behind(parts: list[Any], earlier: Iterable[Any]) -> list[Any] | None:
    """Return what stands behind the parts of earlier hops; None where these stand elsewhere than in front.

    Where they do not stand there at all, the client was given the last hop's alone. Clients put pieces
    together in their own way, and some go by numbers that each hop begins anew.
    """
    front = list(earlier)
    gone = "".join(map(text_of, front))
    signed = {part.get("signature") for part in front if isinstance(part, dict)} - {None, ""}
    if gone not in "".join(map(text_of, parts)):
        return parts
    at = done = 0
    while done < len(gone) and at < len(parts):
        text = text_of(parts[at])
        if not gone.startswith(text, done):
            left = gone[done:]
            rest = _cut(parts[at], len(left)) if text.startswith(left) else None
            return None if rest is None else [rest, *parts[at + 1 :]]
        done += len(text)
        at += 1
    while at < len(parts) and not text_of(parts[at]) and _signature(parts[at]) in signed:
        at += 1  # the end of a part, as a client has it that joins no pieces
    return None if done < len(gone) else parts[at:]


def _signature(part: Any) -> Any:
    return part.get("signature") if isinstance(part, dict) else None


def _cut(part: dict[str, Any], size: int) -> dict[str, Any] | None:
    found = [key for key in _TEXTS if isinstance(part.get(key), str) and part[key]]
    return {**part, found[0]: part[found[0]][size:]} if len(found) == 1 else None


def without_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in THOUGHTS}


def plain_call(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call of the history without what is its provider's alone."""
    return {key: value for key, value in call.items() if key in CALL}


def for_any_provider(message: dict[str, Any]) -> dict[str, Any]:
    bare = without_thoughts(message)
    calls = bare.get("tool_calls")
    return bare | {"tool_calls": [plain_call(call) for call in calls]} if calls else bare


def with_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a turn with calls for a provider that wants thoughts in each: empty ones, if there are none."""
    calls = message.get("tool_calls") or message.get("function_call")
    if message["role"] != "assistant" or not calls or any(key in message for key in THOUGHTS):
        return message
    return {**message, REASONING_KEYS[0]: ""}
