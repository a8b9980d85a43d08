"""What a dialect is to the rest of the core: facts of one API, and functions that read and write it.

A dialect is one value that its package makes; `modegate.core.dialects.registered` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from modegate.core.endpoints import Api
from modegate.core.errors import DialectName
from modegate.core.ids import ToolName
from modegate.core.log.events import AnswerMapped, Segment, WithheldHop
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import (
    ChoiceRead,
    ChoiceT,
    NoStreamWriter,
    Refused,
    Spoken,
    StreamReader,
    StreamWriter,
    WholeAnswer,
    no_stream,
)
from modegate.core.step.answer.straightener import Ids, Straightener
from modegate.core.step.effects import CallUpstream
from modegate.core.step.request.request_form import Manner
from modegate.core.step.translation import Translation
from modegate.core.wire.request_body import RequestBody


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the history, as far as putting back needs it."""

    key: str
    """Under which it is found again; see `transcript`."""
    answer: bool
    """It is an answer of the model."""
    open: bool = True
    """A sentence can be put behind its words, so that it is refused nowhere."""


class Request(Protocol):
    """A request that was read."""

    body: bytes

    @property
    def messages(self) -> Sequence[object]:
        """The items of the history that it holds."""

    @property
    def declared(self) -> frozenset[str]:
        """Every name under which the agent declares a tool."""

    @property
    def declares_tools(self) -> bool:
        """Whether it declares any."""

    @property
    def first_user_text(self) -> str:
        """The first user message's text."""

    @property
    def call_ids(self) -> frozenset[str]:
        """Ids of calls in the history."""

    def value(self, key: str) -> Any:
        """Return a top-level member as Python; None where there is none."""


RequestT = TypeVar("RequestT", bound=Request)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A request as the model is to see it."""

    body: bytes
    tools: tuple[ToolName, ...]
    """The names that were kept, in the agent's order."""
    native: ToolName | None = None
    """The agent's own exit tool, where it stays in the place of ours."""
    beside: tuple[ToolName, ...] = ()
    """What else was sent, and is no tool to use: placeholders, and what stands in where the API wants one."""

    @property
    def sent(self) -> tuple[ToolName, ...]:
        """Every tool in it, for the log."""
        return (*self.tools, *self.beside)


Found = Mapping[int, tuple[Sequence[Sequence[Segment]], Sequence[bytes]]]
"""For an item's index: what the client got of each hop, and the stored bodies."""
Notices = Mapping[int, Sequence[str]]
"""For an item's index: the sentences to put behind it."""
Lost = Mapping[int, Sequence[WithheldHop]]
"""For an item's index: the hops of a turn of which a stored body is gone, so that nothing is put back."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the provider keeps the answer to a request."""

    conversation: str = ""
    """The conversation that it is added to; empty where an answer is known by its own id."""


class Fetched(Protocol):
    """A stored answer that a client asked for."""

    @property
    def calls(self) -> list[Gathered]:
        """Its calls, as the gate reads them."""

    def write(self, name: str, refused: frozenset[str], own: frozenset[str]) -> bytes:
        """Return it under this id, without the calls that were not released, and results of refused ones.

        `own` are all ids of the answer, which it does not go on from: those of its hops are our matter.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswers(Generic[RequestT, ChoiceT]):
    """An API whose provider may keep answers."""

    kept: Callable[[RequestT], Kept | None]
    """Where the answer to a request is kept; None if it is not."""
    unstored: Callable[[RequestBody], bytes]
    """The body of a request with `store: false`, for upstreams that store nothing."""
    goes_on_from: Callable[[RequestT], str]
    """The id of the answer or the conversation that a request goes on from; empty for none."""
    go_on: Callable[[RequestT, AnswerMapped], bytes]
    """Let a request go on from the last hop, with the results that are owed in front."""
    chained: Callable[[RequestT, ChoiceT, Sequence[Refused]], bytes | None]
    """The next hop as our answers alone, behind the answer that the provider keeps; None where it keeps
    none, so that all that was said goes again."""
    answer_id: Callable[[ChoiceT], str]
    """The id under which a hop's answer is kept; empty if it is not."""
    owed: Callable[[Sequence[Refused], str], tuple[str, ...]]
    """The results of refused calls, and a note to the model, as JSON for a later request."""
    fetched: Callable[[bytes], Fetched]
    """Read a stored answer; raises `AnswerUnreadable`."""
    fetched_items: Callable[[bytes], Fetched]
    """Read what an answer was given to, as a list of items; raises `AnswerUnreadable`."""


class OpenReader(Protocol):
    """Makes a reader for one hop's stream."""

    def __call__(self, *, strictly: bool) -> StreamReader:
        """`strictly`: its frames will be edited."""


class FindSpoken(Protocol):
    """Finds the visible text of one frame or of a whole answer."""

    def __call__(self, data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
        """Return the texts, and which choices end with them.

        Raises:
            AnswerUnreadable: it cannot be read with no doubt left.
        """


def _none_needed(_limit: int, _ids: Ids) -> None:
    """Straighten no stream."""


def _as_it_came(body: bytes, _ids: Ids) -> bytes:
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Generic[RequestT, ChoiceT]):
    """One API. Its functions take the requests and choices that its own readers gave."""

    api: Api
    """What is known of it without reading a body."""

    # Requests.
    read: Callable[[RequestBody], RequestT]
    """Read a request; raises `BadRequest` where it cannot be read in a way that leaves no doubt."""
    assemble: Callable[[RequestT, ModesInForce, str], Assembled]
    """Show the model only what the mode allows, and the section unless it is empty; raises `BadRequest`
    where what is asked for cannot be filtered without changing what is asked."""
    extend: Callable[[RequestT, ChoiceT, Sequence[Refused], Manner], bytes]
    """The next hop's request: this one, the model's turn, our answers to its calls."""
    system_text: Callable[[RequestT], str]
    """What the agent tells its model of itself."""

    # The history.
    items: Callable[[RequestT], list[Item]]
    """The history's items with their keys."""
    last_key: Callable[[RequestT], str]
    """The key of the history's last item; empty if there is none."""
    newest_is_user: Callable[[RequestT], bool]
    """Whether the history ends with a message of the user."""
    answer_key: Callable[[Sequence[ChoiceT]], str]
    """The key that the answer will have when the client sends back what these hops said."""
    restore: Callable[[RequestT, Found, Notices, Manner], bytes]
    """Put withheld exchanges back, and notices at the end of the items with these indices."""
    turn_blob: Callable[[ChoiceT, Sequence[Refused]], bytes]
    """The stored body of a hop of which every call was refused."""
    partial_blob: Callable[[ChoiceT, Sequence[Refused]], bytes]
    """The stored body of a hop of which some calls were released."""
    aside_blob: bytes
    """The stored body of words of our own between hops, which the model is not to find."""
    blob_ids: Sequence[str]
    """Where stored bodies hold ids of calls and of our answers to them: paths (`json_spans.values_at`)."""

    told_calls: Callable[[RequestT], Iterable[dict[str, Any]]] = lambda _request: ()
    """The model's turns with calls in a history, each in the form of an answer, to be judged again."""
    claims: Callable[[Mapping[str, Any]], bool] = lambda _body: False
    """Whether a recorded body, of which no path is known, looks like one of its requests."""
    begins_compacted: Callable[[RequestT], bool] = lambda _request: False
    """Whether something that the provider has compacted stands in front of the first user message."""
    without_asides: Callable[[RequestT], bytes | None] = lambda _request: None
    """The body without the line that says a plan waits (`texts.PLAN_WAITS`); None where it is not there."""

    # Answers.
    stream_reader: OpenReader = no_stream
    stream_writer: Callable[[], StreamWriter] = NoStreamWriter
    read_whole: Callable[[bytes], WholeAnswer[ChoiceT]]
    """Read an answer that is one JSON body; raises `AnswerUnreadable`."""
    spoken: FindSpoken
    last_said: Callable[[ChoiceT | None, str], ChoiceT]
    """What the client got last: what a hop had said before it failed, and our closing text."""
    may_go_on: Callable[[str | None], bool]
    """Whether an answer that finished so may be followed by another hop."""

    # What only some APIs need.
    straightener: Callable[[int, Ids], Straightener | None] = _none_needed
    """What straightens a hop's stream, where the API has servers that need it: at most so many bytes may
    wait in it; `Ids` has some for calls that have none."""
    straight_whole: Callable[[bytes, Ids], bytes] = _as_it_came
    """A whole answer in which no call lacks what every client goes by."""
    stored: StoredAnswers[RequestT, ChoiceT] | None = None
    """For an API whose provider may keep answers."""
    forget: Callable[[RequestT, Found, Notices, Lost], bytes] | None = None
    """For an API that takes no reasoning of which the call that it led to is gone: `restore`, and take out
    reasoning that nothing follows any more."""
    unbound: Callable[[bytes], bytes] | None = None
    """For stored bodies with what only the model takes back that said it: such a body as another takes it."""
    mend: Callable[[CallUpstream, bytes], CallUpstream | None] | None = None
    """For an API that may refuse what a mode changes: the request to send instead of one that was refused
    with these words; None where this is no such refusal."""
    translation: Translation | None = None
    """How providers are reached that do not speak it; None where none can be."""
    variants: Mapping[str, Dialect[RequestT, ChoiceT]] = field(default_factory=dict)
    """By the name of an operation that is read in another way."""

    @property
    def name(self) -> DialectName:
        """What it is called in policies, logs and metrics."""
        return self.api.name

    @property
    def streams(self) -> bool:
        """Whether the API has streams. If it has none, what calls itself a stream is read as one body."""
        return self.stream_reader is not no_stream


AnyDialect: TypeAlias = Dialect[Request, ChoiceRead]
"""A dialect of which is not known which: made by `erased` alone."""


def erased(dialect: Dialect[RequestT, ChoiceT]) -> AnyDialect:
    """Forget which requests and choices a dialect takes.

    The one place in which this is forgotten: a step works with one dialect, and hands its functions nothing
    but what they gave it, so that every function gets what it takes.
    """
    return cast(AnyDialect, dialect)
