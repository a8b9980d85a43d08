"""What counts as a call in the text of one step's answers, and how such a call is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from modegate.core.step.answer.calls import Gathered
from modegate.core.step.reasons import Reason
from modegate.core.step.text_calls.agents import FENCES, PLAIN, TAGS, Habit
from modegate.core.step.text_calls.shapes import NAMED, SHAPES, Shape
from modegate.core.wire.arguments import ArgumentFault, parse_arguments

NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_LOOKS_LIKE_ONE = re.compile(r"[\"'](?:name|tool|tool_name|action|function)[\"']\s{0,64}:")


@dataclass(frozen=True, slots=True)
class TextCalls:
    """What counts as a call in the text of one step's answers."""

    declared: frozenset[str]
    """Names of the tools that the agent declares."""
    habit: Habit | None = None
    thinks: bool = False
    """It is for reasoning, where who reads it looks for less."""

    @property
    def thoughts(self) -> TextCalls | None:
        """What counts as a call in reasoning; None where nobody looks there."""
        looks = self.habit is not None and self.habit.thoughts
        return replace(self, thinks=True) if looks else None

    @property
    def everything(self) -> bool:
        return self.habit is not None and self.habit.everything

    @property
    def _writes_blocks(self) -> bool:
        return self.habit is not None and self.habit.fences == "all"

    def counts(self, shape: Shape, match: re.Match[str]) -> bool:
        """Return whether a head is one of a call, or of something that nobody runs."""
        if self.thinks and shape.kind not in _IN_THOUGHTS:
            return False
        name = match.groupdict().get("name")
        if name is None:
            # It says its name later, or is so long that nobody writes it without a purpose.
            return True
        if shape.kind == "tag":
            return name in TAGS or self._declares(name)
        return shape.kind != "fence" or self._runs(name)

    def _declares(self, name: str) -> bool:
        return name in self.declared or name.casefold() in {one.casefold() for one in self.declared}

    def _runs(self, language: str) -> bool:
        fences = self.habit.fences if self.habit else "named"
        if fences == "all" or language in FENCES or self._declares(language):
            return True
        return fences == "shown" and bool(language) and language.casefold() not in PLAIN

    def call(self, choice: int, shape: Shape, head: re.Match[str], text: str) -> Gathered | None:
        """Read a text that has a call's shape, whole; None where it turns out to be none."""
        if shape.kind == "json":
            return self._json_call(choice, text)
        inner = text[head.end() :]
        name = self._name(shape, head, inner)
        call = Gathered(choice, "function", names=[name] if name else [], text=True)
        if shape.kind == "at":
            body = text[text.find("{") :] if "{" in text else ""
            call.pieces = [body]
            if parse_arguments(body) is None:
                call.odd = ArgumentFault.NO_OBJECT
        elif shape.kind in ("tag", "function", "invoke"):
            _take_tags(call, inner)
        else:
            call.kind = "custom"
            call.pieces = [_END.sub("", inner).lstrip(" \t").removeprefix("\n")]
        call.names += [other for other in self.heads_in(inner) if other not in call.names]
        if shape.kind == "fence" and (
            self._writes_blocks or (head["name"] == "" and not call.names)
        ):
            # aider takes a block for a file as a whole: its language is no tool, whatever a mode allows.
            call.names.append("text")
        return call

    def _name(self, shape: Shape, head: re.Match[str], inner: str) -> str:
        if shape.kind == "invoke":
            found = _NAME_OF.search(inner.partition(">")[0])
            return found["name"] if found else ""
        return (head.groupdict().get("name") or NAMED.get(shape.kind, "")).strip()

    def unended(self, choice: int, shape: Shape, head: re.Match[str], text: str) -> Gathered | None:
        """Read a call that has no end: some agents run it all the same, and the next hop could end it.

        None for a brace that has said nothing of a call yet, as in code that is spoken of.
        """
        if shape.kind == "json" and _LOOKS_LIKE_ONE.search(text) is None:
            return None
        found = self.call(choice, shape, head, text) or Gathered(choice, "function", text=True)
        if not shape.close:
            found.odd = Reason.NO_END
        return found

    def code(self, choice: int, text: str) -> Gathered:
        return Gathered(choice, "custom", names=["python"], pieces=[text], text=True)

    def _json_call(self, choice: int, text: str) -> Gathered | None:
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            if _LOOKS_LIKE_ONE.search(text) is None:
                return None
            return Gathered(choice, "function", odd=Reason.BROKEN_JSON, text=True)
        found = list(self._calls_in(value, 6))
        if not found:
            return None
        name, arguments = found[0]
        call = Gathered(choice, "function", names=[name], text=True)
        if len(found) > 1 or _has_a_key_twice(text):
            call.odd = Reason.MORE_THAN_ONE_CALL
        if isinstance(arguments, str):
            call.kind, call.pieces = "custom", [arguments]
        elif isinstance(arguments, dict):
            call.pieces = [json.dumps(arguments)]
        elif arguments is not None:
            call.odd = Reason.ARGUMENTS_NO_OBJECT
        call.names += [other for other in self.heads_in(text[1:]) if other not in call.names]
        return call

    def _calls_in(self, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """Find what has a tool's name and arguments, or the name of a declared tool alone."""
        if isinstance(value, list) and depth:
            for inner in value:
                yield from self._calls_in(inner, depth - 1)
        if not isinstance(value, dict) or not depth:
            return
        # Agents differ in which key they read: what has two of them is two calls.
        names = dict.fromkeys(value[key] for key in NAME_KEYS if isinstance(value.get(key), str))
        given = [value[key] for key in ARGUMENT_KEYS if key in value]
        if names and (given or any(map(self._declares, names))):
            # Where no member has the arguments, they can stand beside the name.
            beside = {key: one for key, one in value.items() if key not in NAME_KEYS}
            yield from ((name, one) for name in names for one in given or [beside])
            return
        for inner in value.values():
            yield from self._calls_in(inner, depth - 1)

    def heads_in(self, text: str) -> Iterable[str]:
        """Return the names of calls that some other reader could see within one; at most a few."""
        found: dict[str, None] = {}
        for count, match in enumerate(_ANY_HEAD.finditer(text)):
            for shape in _WITHIN.get(match.group(), ()):
                head = shape.head.match(text, match.start())
                if head is not None and self.counts(shape, head):
                    found[self._name(shape, head, text[head.end() : head.end() + 512])] = None
            if len(found) > _MANY or count > _LOOKS:
                # Too many to tell: names that are more than a call may have make it unreadable.
                return [f"call {at}" for at in range(_MANY)]
        return found


_IN_THOUGHTS = frozenset({"at", "fence", "tag", "invoke"})
"""Kinds of calls that gptme runs."""
_ANY_HEAD = re.compile(r"[<`]|(?<=[\r\n])[@*\-]")
_END = re.compile(r"[\r\n](?:[ \t]{0,64}`{3,}\s*|Observation\s?\d{0,9}\s?:)\Z")
_NAME_OF = re.compile(r"\bname\s{0,16}=\s{0,16}[\"']?(?P<name>[^\s>\"']{1,256})")
_WITHIN = {first: tuple(shape for shape in SHAPES if shape.first == first) for first in "<`@*-"}
_LOOKS = 20_000
"""Places looked at within one call."""
_MANY = 9
"""Names within one call; over this many it is not read (`calls.MAX_NAMES`)."""

_CHILD = re.compile(
    r"\s*<(?:parameter\s?=\s?(?P<of>[^>\s]{1,128})|(?:[\w\-]{1,64}:)?parameter\s+name\s?=\s?"
    r"[\"'](?P<named>[^\"'>]{1,128})[\"'][^>]{0,64}|(?P<tag>[A-Za-z_][\w.\-]{0,127}))\s{0,9}>"
)


def _take_tags(call: Gathered, inner: str) -> None:
    """Read `<key>value</key>` within a call's tags; what is not so in every reader's eyes is ambiguous."""
    begin = inner.find(">") + 1
    attributes = _NAME_OF.sub("", inner[: begin - 1], 1).strip("\"'/ ")
    body, at = inner[begin : inner.rfind("</")] if "</" in inner else inner[begin:], 0
    values: dict[str, str] = {}
    while (match := _CHILD.match(body, at)) is not None:
        key = match["of"] or match["named"] or match["tag"]
        close = f"</{match['tag']}>" if match["tag"] else "</"
        end = body.find(close, match.end())
        if end < 0 or key in values or body.find(f"<{key}>", match.end(), end) >= 0:
            call.split = True
            break
        values[key] = body[match.end() : end].removeprefix("\n").removesuffix("\n")
        at = body.find(">", end) + 1
    call.split = call.split or bool(attributes) or bool(values and body[at:].strip())
    if values:
        call.pieces = [json.dumps(values)]
    else:
        call.kind, call.pieces = "custom", [body]


def _has_a_key_twice(text: str) -> bool:
    """Return whether readers could differ in which of two equal keys they take."""
    twice: list[bool] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        twice.append(len(found) < len(pairs))
        return found

    json.loads(text, strict=False, object_pairs_hook=read)
    return any(twice)
