"""Answers of an upstream: what a model says in each API, and what a hostile or broken server makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from modegate.scripted.model import ScriptedCall, Turn
from support.differential.loose import loosen
from support.differential.loose_items import loosen_items
from support.differential.mutations import mutate_frames, mutate_value
from support.differential.trees import Obj, dump, load
from support.playbook import Reply
from support.speech import Speech

ALLOWED = (
    ("read", '{"path": "a"}'),
    ("read", '{"path": "b", "lines": [1, 2.5, null]}'),
    ("grep", '{"q": "write"}'),
    ("edit", '{"command": "view", "path": "a"}'),
    ("mcp__docs__find", "{}"),
)
DENIED = (
    ("write", '{"path": "a", "text": "b"}'),
    ("readgrep", '{"q": "b"}'),
    ("edit", '{"command": "create", "path": "a"}'),
    ("mcp__docs__delete_all", "{}"),
    ("local_shell", '{"command": ["rm"]}'),
)
ASKED = (("fetch", '{"url": "u"}'),)
TRICKS = (
    ("edit", '{"command": "view", "command": "create"}'),
    ("edit", '{"command": "create", "command": "view"}'),
    ("edit", '{"command": "view", "Command": "create"}'),
    ("edit", '{"command": "view", "\\u0063ommand": "create"}'),
    ("edit", '{"command": "view"} {"command": "create"}'),
    ("fetch", '{"url": "u", "url": "evil"}'),
)
"""Arguments that are one call to some clients and another to others."""
TOOLS = tuple(dict.fromkeys(name for name, _ in (*ALLOWED, *DENIED, *ASKED)))


@dataclass
class Frame:
    """One event of a stream."""

    event: str
    data: Any
    """A JSON tree, or a text that is none."""

    def lines(self) -> list[str]:
        """Return its lines."""
        said = self.data if isinstance(self.data, str) else dump(self.data)
        return [f"event: {self.event}", f"data: {said}"] if self.event else [f"data: {said}"]


def scripted(calls: tuple[tuple[str, str], ...], rng: Random) -> Turn:
    """Let a model make these calls."""
    made = []
    for number, (name, arguments) in enumerate(calls):
        id_ = rng.choice([None, f"call_{number}", f"call_{rng.getrandbits(64):016x}"])
        made.append(ScriptedCall(name, arguments, id_))
    said = rng.choice(["", "Let me see.", "So: \n\ndata: x \U0001f600"])
    thought = rng.choice(["", "", "They want it."])
    return Turn(said, thought, tuple(made), fragments=rng.choice([1, 2, 5]))


def valid(rng: Random) -> Turn:
    """Return what a model says that obeys the mode; no call twice."""
    count = rng.choice([0, 1, 1, 2, 3])
    return scripted(tuple(rng.sample(ALLOWED, count)), rng)


def hostile(rng: Random) -> Turn:
    """Return what a model says that does not."""
    pool = [*ALLOWED, *DENIED, *DENIED, *ASKED, *TRICKS]
    return scripted(tuple(rng.choice(pool) for _ in range(rng.choice([1, 1, 2, 3]))), rng)


def frames_of(body: bytes) -> list[Frame]:
    """Take a scripted stream apart."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        event, _, data = block.rpartition("\n")
        name, data = event.removeprefix("event: "), data.removeprefix("data: ")
        found.append(Frame(name, data if data == "[DONE]" else load(data)))
    return found


def mutated(speech: Speech, asked: bytes, rng: Random, *, loose: bool = False) -> Reply:
    """Return an answer of which something is wrong, in a place or more; `loose`: or is only spelled oddly."""
    # Mostly what the mode allows, so that the wrong thing alone decides.
    says = valid if rng.random() < 0.6 else hostile
    own = speech.reply(says(rng), asked)
    other = speech.reply(hostile(rng), asked)
    if not speech.streamed:
        value, evil = load(own.body), load(other.body)
        for _ in range(rng.choice([1, 1, 2, 3])):
            mutate_value(value, evil, rng)
        return Reply(dump(value).encode(errors="surrogatepass"), own.headers)
    frames, evil_frames = frames_of(own.body), frames_of(other.body)
    if loose:
        (loosen if speech.name == "chat" else loosen_items)(frames, rng)
    for _ in range(rng.choice([0, 0, 1] if loose else [1, 1, 1, 2, 3])):
        mutate_frames(frames, evil_frames, rng)
    return Reply(written(frames, evil_frames, rng), own.headers)


def written(frames: list[Frame], evil: list[Frame], rng: Random) -> bytes:
    """Write frames as some server would: other line ends, comments, marks, data in odd places."""
    end = rng.choice(["\n"] * 6 + ["\r\n", "\r\n", "\r", "\n\r"])
    odd = rng.random() < 0.3
    out = []
    for frame in frames:
        lines = frame.lines()
        if odd and rng.random() < 0.2:
            rng.choice(_ODD)(lines, rng.choice(evil), rng)
        mine = rng.choice(["\n", "\r\n", "\r"]) if odd and rng.random() < 0.1 else end
        out.append(mine.join([*lines, "", ""]))
    text = "".join(out)
    if odd and rng.random() < 0.2:
        text = "\ufeff" + text
    if odd and rng.random() < 0.1:
        text = text.rstrip("\r\n") + rng.choice(["", "\n"])
    return text.encode(errors="surrogatepass")


def _comment(lines: list[str], evil: Frame, rng: Random) -> None:
    hidden = rng.choice(["\x0b", "\x0c", "\x1c", "\x85", "\u2028", " "])
    lines.insert(rng.randrange(len(lines) + 1), f": x{hidden}" + hidden.join(evil.lines()))


def _field(lines: list[str], evil: Frame, rng: Random) -> None:
    field = rng.choice(["id", "retry", "event", "datum", "Data", " data"])
    lines.insert(rng.randrange(len(lines) + 1), f"{field}: {evil.lines()[-1]}")


def _second(lines: list[str], evil: Frame, rng: Random) -> None:
    lines.insert(rng.randrange(len(lines) + 1), evil.lines()[-1])


def _split(lines: list[str], _evil: Frame, rng: Random) -> None:
    data = lines[-1].removeprefix("data: ")
    at = rng.randrange(len(data) + 1)
    lines[-1:] = [f"data: {data[:at]}", f"data: {data[at:]}"]


def _name(lines: list[str], evil: Frame, _rng: Random) -> None:
    lines[:0] = [f"event: {evil.event or 'message'}"]


def _space(lines: list[str], _evil: Frame, rng: Random) -> None:
    lines[-1] = lines[-1].replace(
        "data: ", rng.choice(["data:", "data:  ", "data:\t", "data : "]), 1
    )


def _mark(lines: list[str], _evil: Frame, rng: Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = rng.choice(["\ufeff", "\x00", " "]) + lines[at]


_ODD: tuple[Callable[[list[str], Frame, Random], None], ...] = (
    _comment,
    _comment,
    _field,
    _field,
    _second,
    _split,
    _name,
    _space,
    _mark,
)


def expected(turn: Turn) -> set[tuple[str, str]]:
    """Return a turn's calls as every client should see them."""
    return {
        (call.name, json.dumps(json.loads(call.arguments), sort_keys=True)) for call in turn.calls
    }


__all__ = [
    "ALLOWED",
    "TOOLS",
    "Frame",
    "Obj",
    "expected",
    "frames_of",
    "mutated",
    "valid",
    "written",
]
