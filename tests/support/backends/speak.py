"""Answers of a back end, made of its data.

Stages of a stream, each a list of frames; those of a part come only if the answer has it:

    begin   think_open think* think_close   text_open text* text_close   [call piece* call_close]*   calls
    late_close (of each part)   called (with calls) or said (without)   done

A frame is an object, or a text that is sent as it stands. In chat completions an object with `delta` or
`finish` is put into the chunk (`chunk`, `choice`); any other is merged with it.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.backends.entry import BackEnd, Json

ABSENT = object()
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Call:
    """A call that a model makes."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Turn:
    """What a model says."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a back end says, with all that it makes up itself."""

    number: int
    model: str
    text: str
    reasoning: str
    calls: tuple[Call, ...]

    @property
    def signature(self) -> str:
        """The seal of its reasoning."""
        return f"signed-{self.number}"


def answer(entry: BackEnd, turn: Turn, number: int, model: str) -> Answer:
    """Return a turn the ids and the reasoning of an answer; the same number gives the same."""
    dice = random.Random(number)
    calls = []
    for at, call in enumerate(turn.calls):
        form = entry.id.replace("$at", str(at)).replace("$name", call.name)
        form = form.replace("$count", str(number))
        made = re.sub(r"\?", lambda _: dice.choice(_LETTERS), form)
        calls.append(Call(call.name, call.arguments, made))
    reasoning = f"Thought {number}. It is clear." if entry.reasons else ""
    return Answer(number, model, turn.text, reasoning, tuple(calls))


def fill(template: Any, values: Json) -> Any:
    """Put values into a template."""
    if isinstance(template, dict):
        filled = {key: fill(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not ABSENT}
    if isinstance(template, list):
        return [value for one in template if (value := fill(one, values)) is not ABSENT]
    if not isinstance(template, str) or "$" not in template:
        return template
    if template[1:] in values and template[0] == "$":
        return values[template[1:]]
    return string.Template(template).safe_substitute(values)


@dataclass
class Speech:
    """One answer on its way."""

    entry: BackEnd
    answer: Answer
    values: Json = field(default_factory=dict)
    parts: list[Json] = field(default_factory=list)
    """The parts so far, as a whole answer has them."""
    opened: list[Json] = field(default_factory=list)
    """The values of each part."""
    sequence: int = 0
    thought: str = ""
    """Reasoning that the frames so far bear, whoever said it."""

    def __post_init__(self) -> None:
        entry, said = self.entry, self.answer
        self.values = {
            "absent": ABSENT,
            "n": f"{said.number:06d}",
            "model": said.model,
            "text": said.text,
            "reasoning": said.reasoning,
            "reasoning_or_absent": said.reasoning or ABSENT,
            "signature": said.signature,
            "finish": entry.finish["calls" if said.calls else "said"],
            "content": said.text or entry.empty,
        }
        calls = [fill(entry.parts["call"], self.of(call)) for call in said.calls]
        none = ABSENT if entry.no_calls == "$absent" else entry.no_calls
        self.values["calls"] = calls or none
        self.values["message"] = fill(entry.parts.get("message", {}), self.values)

    def of(self, call: Call, **more: Any) -> Json:
        """Return the values of a call."""
        at = self.answer.calls.index(call)
        inner: Json = {"id": call.id, "name": call.name, "arguments": call.arguments, "at": at}
        sealed = {"google": {"thought_signature": self.answer.signature}}
        inner["seal"] = ABSENT if at else sealed
        return {**self.values, **inner, "input": json.loads(call.arguments), **more}

    def block(self, kind: str, values: Json) -> Json:
        """Add a part, and give the values that its frames have."""
        values = {**values, "index": len(self.parts)}
        values["block"] = fill(self.entry.parts[kind], values) if kind in self.entry.parts else {}
        self.parts.append(values["block"])
        self.opened.append(values)
        return values

    def whole(self) -> bytes:
        """Return the answer in one body."""
        self.every_part()
        self.values["parts"] = self.parts
        return json.dumps(fill(self.entry.whole, self.values)).encode()

    def every_part(self) -> None:
        """Make each part without its frames."""
        if self.answer.reasoning:
            self.block("think", self.values)
        if self.answer.text:
            self.block("text", self.values)
        for call in self.answer.calls:
            self.block("call", self.of(call))

    def stream(self) -> Iterator[bytes]:
        """Yield the answer frame by frame."""
        said = self.answer
        yield from self.stage("begin", self.values)
        if said.reasoning:
            yield from self.part("think", said.reasoning, self.block("think", self.values))
        if said.text:
            yield from self.part("text", said.text, self.block("text", self.values))
        for call in said.calls:
            values = self.block("call", self.of(call))
            yield from self.stage("call", values)
            for part, piece in enumerate(halves(call.arguments)):
                yield from self.stage("piece", {**values, "piece": piece, "part": part})
            yield from self.stage("call_close", values)
        self.values["parts"] = self.parts
        if said.calls:
            yield from self.stage("calls", self.values)
        for values in self.opened:
            yield from self.stage("late_close", values)
        yield from self.stage("called" if said.calls else "said", self.values)
        yield from self.stage("done", self.values)

    def part(self, kind: str, text: str, values: Json) -> Iterator[bytes]:
        """Yield the frames of a part that is text."""
        yield from self.stage(f"{kind}_open", values)
        for piece in halves(text):
            yield from self.stage(kind, {**values, "piece": piece})
        yield from self.stage(f"{kind}_close", values)

    def stage(self, name: str, values: Json) -> Iterator[bytes]:
        """Yield the frames of one stage."""
        for template in self.entry.streamed.get(name, ()):
            if isinstance(template, str):
                yield f"{fill(template, values)}\n\n".encode()
                continue
            frame = fill(self.wrapped(template), {**values, "seq": self.sequence})
            self.sequence += 1
            self.thought += thought_in(frame)
            named = self.entry.api != "chat" and not self.entry.data_only
            line = f"event: {frame['type']}\n" if named else ""
            yield f"{line}data: {json.dumps(frame)}\n\n".encode()

    def wrapped(self, frame: Json) -> Json:
        """Put a chunk's frame into the chunk."""
        if self.entry.api != "chat":
            return frame
        if "delta" not in frame and "finish" not in frame:
            return {**self.entry.chunk, **frame}
        own = dict(frame)
        choice = {"index": 0, "delta": own.pop("delta", {}), "finish_reason": None}
        choice |= self.entry.choice
        if "finish" in own:
            choice["finish_reason"] = own.pop("finish")
        choice |= own.pop("choice", {})
        return {**self.entry.chunk, "choices": [choice], **own}


def thought_in(frame: Json) -> str:
    """Return the reasoning in a chunk of chat completions."""
    deltas = [choice.get("delta") or {} for choice in frame.get("choices", ())]
    return "".join(
        delta.get("reasoning_content") or delta.get("reasoning") or "" for delta in deltas
    )


def halves(text: str) -> Sequence[str]:
    """Cut a text into pieces as a model says it."""
    middle = max(1, len(text) // 2)
    return [piece for piece in (text[:middle], text[middle:]) if piece]
