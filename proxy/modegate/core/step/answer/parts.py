"""What a dialect makes of an answer: parts that may go or must wait, and what its choices have said.

An answer arrives as frames. Each frame is cut into parts, so that what may go at once (`live`), what
must wait for a verdict (`call`) and what ends an answer (`finish`, `tail`, `done`) can be told apart;
parts that leave together leave as the bytes that came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from modegate.core.errors import AnswerUnreadable, ModegateError
from modegate.core.ids import CallId
from modegate.core.log.events import Segment
from modegate.core.policy.in_force import ModeInForce
from modegate.core.step.answer.calls import Gathered, digest
from modegate.core.wire.sse import Frame

MAX_TEXT = 256 * 1024
"""Characters kept of one choice's text; a stream may be longer, but is then not told again."""


class Kind(StrEnum):
    """What a part is."""

    LIVE = "live"
    """Text, reasoning, comments: goes to the client the moment it comes."""
    CALL = "call"
    """Pieces of calls: held until they are judged."""
    DROPPED = "dropped"
    """What no client may see, though nobody judges it: pieces of no item, ends of another API."""
    FINISH = "finish"
    """The finish of one choice: its calls are complete."""
    TAIL = "tail"
    """What may follow a finish, such as usage."""
    DONE = "done"
    """The end of the answer."""
    ERROR = "error"
    """The upstream says that its answer failed: that is its end, and no call of it is one."""


@dataclass(eq=False, slots=True)
class Part:
    """One thing that a frame says."""

    frame: Any
    """The dialect's own frame: nothing but its own writer looks into it."""
    kind: Kind
    choice: int = 0
    calls: tuple[Gathered, ...] = ()
    """For `call`: one entry for each piece, in the frame's order."""
    size: int = 0
    """Bytes that it costs to hold it back."""
    stop: bool = False
    """For `finish`: no call goes with it, so that one which says calls were made is a normal one."""
    ends: tuple[Gathered, ...] = ()
    """For `call`: those that are complete with it; where none is, a choice's finish completes its calls."""


@dataclass(slots=True)
class ChoiceRead:
    """What one choice of a hop's answer has said so far."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    """Visible text under `text`, reasoning under its field's name, as pieces."""
    calls: list[Gathered] = field(default_factory=list)
    finish: str | None = None
    size: int = 0
    """Characters said."""

    def say(self, kind: str, text: str) -> None:
        """Add a piece of text, and keep it as long as the whole can be of use."""
        self.size += len(text)
        if self.size <= MAX_TEXT:
            self.texts.setdefault(kind, []).append(text)

    @property
    def whole(self) -> bool:
        """Whether all that was said is kept, so that it can be told to the model again."""
        return self.size <= MAX_TEXT

    def text(self, kind: str = "text") -> str:
        """Return one kind of text whole."""
        return "".join(self.texts.get(kind, ()))

    def released(self) -> list[Gathered]:
        """Return the calls that the client gets."""
        return [call for call in self.calls if call.released]

    def refused(self) -> list[Gathered]:
        """Return the calls that it does not."""
        return [call for call in self.calls if call.withheld]

    def segments(self) -> list[Segment]:
        """Return what the client gets of it, for the log."""
        found = [
            Segment(kind, len(text), digest(text))
            for kind in self.texts
            if (text := self.text(kind))
        ]
        return [*found, *self.released_segment()]

    def released_segment(self) -> list[Segment]:
        """Return its released calls as a segment, if there are any."""
        ids = tuple(CallId(call.id) for call in self.released())
        return [Segment("calls", len(ids), digest("\n".join(ids)), ids)] if ids else []


ChoiceT = TypeVar("ChoiceT", bound=ChoiceRead)


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was not released, and what the model is told."""

    call: Gathered
    id: str
    """The id under which it stands in the history; differs from the model's where that could collide."""
    answer: str
    """Its result; none for what the provider ran, of which the model is told by a note (`texts.unshown`)."""
    force: ModeInForce | None
    """The mode that refused it; None in default mode."""
    leave: bool = False
    """That mode can be left by a plan."""
    person: bool = False
    """A person answered it."""
    approved: bool = False
    """What it asked for was done: our answer to it is no error."""
    note: str = ""
    """What the client is told of it where the answer ends with it."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A string of visible text in an answer: what some agents look for calls in."""

    text: str
    choice: int = 0
    place: Any = None
    """Which text it belongs to, where an answer has several: one block, one part of a message."""
    repeats: bool = False
    """It says whole what came in pieces before."""
    voice: str = ""
    """Empty for visible text, else a name for reasoning, which some agents take for text."""
    fixed: bool = False
    """The model's provider takes it back as it was or not at all, so that nothing of it can be replaced."""


class StreamReader(Protocol):
    """Reads the streamed answer of one hop."""

    usage: dict[str, Any] | None
    ordered: bool
    """Whether what follows a held call waits for it: where a client counts items by their place."""

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        """What the answer's choices have said."""

    def read(self, frame: Frame) -> list[Part]:
        """Read one frame and give its parts.

        Raises:
            AnswerUnreadable: it cannot be read in a way that leaves no doubt.
        """


class StreamWriter(Protocol):
    """Writes one continuous streamed answer from the parts of one hop or more."""

    def seen(self, part: Part) -> None:
        """Note what the answer is called, though nothing of it may go yet."""

    def write(self, parts: Sequence[Part]) -> bytes:
        """Return the bytes of parts that may go."""

    def next_hop(self, usage: Mapping[str, Any] | None) -> None:
        """Another hop's parts follow; this is the usage of the one that was."""

    def text(self, choice: int, text: str) -> bytes:
        """Return a piece of text of our own."""

    def finish(self, choice: int) -> bytes:
        """Return a normal finish of our own."""

    def keepalive(self) -> bytes:
        """Return what keeps the client waiting and means nothing; empty behind the answer's end.

        It is an event, since idle timers of agents do not count comments (R1), unless the answer has not
        begun or a choice is over: there some client's reader takes no event that means nothing.
        """

    def done(self) -> bytes:
        """Return the end of the answer."""

    def stopped(self) -> bytes:
        """Return what tells the client that the upstream stopped without an end, where the API has a way."""

    def error(self, error: ModegateError) -> bytes:
        """Return the dialect's error in mid-stream."""


def no_stream(*, strictly: bool) -> StreamReader:
    """Refuse to read a stream of an API that has none."""
    raise AnswerUnreadable("this API has no streams")


class NoStreamWriter:
    """Writes no stream, for an API that has none."""

    def seen(self, *_: object, **__: object) -> None:
        """Note nothing."""

    def write(self, *_: object, **__: object) -> bytes:
        return b""

    next_hop = seen
    text = finish = keepalive = done = stopped = error = write


class WholeAnswer(Protocol[ChoiceT]):
    """An answer that came as one JSON body."""

    usage: Mapping[str, Any] | None
    failed: bool
    """The upstream says that it failed, so none of its calls is one."""

    @property
    def choices(self) -> Mapping[int, ChoiceT]:
        """What its choices say."""

    def write(
        self,
        *,
        before: Sequence[ChoiceT],
        closing: Mapping[int, str],
        stop: frozenset[int],
        usage: Sequence[Mapping[str, Any]],
    ) -> bytes:
        """Return the body without the calls that were not released.

        `before` is what earlier hops said; `closing` the text with which a choice ends instead of its
        calls; in a choice of `stop` a finish that says calls were made is a normal one; `usage` is what
        earlier hops spent.
        """
