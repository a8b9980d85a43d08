"""What an exchange wants done, as data; `modegate.server.proxy.drive` does it and reports back.

| effect | reported back as |
|---|---|
| `Append`, `StoreBlobs` | nothing; the effects after it wait until it is durable |
| `ReadBlobs` | `Exchange.blobs` |
| `ReadState` | `Exchange.state` |
| `AskPerson` | `Exchange.approval` |
| `Abandon`, `KeepOpen`, `Count` | nothing |
| `CallUpstream` | `Exchange.upstream_head`, `upstream_data`, `upstream_end` |
| `StopUpstream` | nothing; the rest of the upstream's answer is not wanted |
| `SendHead`, `SendBytes` | nothing |
| `Learned` | nothing; later steps are told of it (`StepRequest.learned`) |
| `Finish` | nothing; the step is over |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from modegate.core.ids import Seq
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import Event
from modegate.core.step.request.request_form import Manner

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Append:
    """Log these events; `durable` before anything that follows, else in a batch."""

    events: tuple[Event, ...]
    durable: bool = True


@dataclass(frozen=True, slots=True)
class StoreBlobs:
    """Keep the bodies of withheld hops, before the event that refers to them."""

    blobs: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ReadBlobs:
    """Fetch bodies of withheld hops."""

    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read strictly what the session stands under now: a call is about to be judged (L8)."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Ask a person and wait for the answer, within limits; the client is kept waiting."""

    asked: ApprovalAsked
    """Without `expires`, which the clock gives."""
    mode_seq: Seq
    """The question is about the mode that was set there."""
    streamed: bool
    """The client can be kept waiting for long, as it is told that something comes."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """Close those of these questions that no step waits for: the agent's user has moved on."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeepOpen:
    """Keep these questions open: the client that went away has come back with the same request."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallUpstream:
    """Send one hop's request."""

    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class StopUpstream:
    """Cancel the hop under way."""


@dataclass(frozen=True, slots=True)
class SendHead:
    """Begin the answer to the client."""

    status: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Send a piece of the answer's body."""

    data: bytes


class Counted(Enum):
    """What an operator wants a number of, beside how each step ended."""

    UNREADABLE = auto()
    """An answer that could not be read in a mode."""
    NO_TOOLS = auto()
    """A step in a mode that declares no tools, so that no gate reads its answer."""
    READ_ON = auto()
    """An answer that passed raw until a person set a mode, and is read from there on."""
    CUT_OFF = auto()
    """An answer that passed raw until a person set a mode, and was ended there."""
    UPSTREAM_CUT = auto()
    """An answer that the upstream did not end."""
    RESENT = auto()
    """A request that an upstream refused and that was sent again in another form."""


@dataclass(frozen=True, slots=True)
class Count:
    """Count something for the operator."""

    what: Counted


@dataclass(frozen=True, slots=True)
class Learned:
    """Remember how this upstream takes the turns of this model that modegate puts in."""

    model: str
    manner: Manner


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is complete; with `broken`, the connection is cut so that the client notices."""

    outcome: str
    broken: bool = False


Records = Append | StoreBlobs | Abandon | KeepOpen | Learned | Count
"""What is only noted: nothing is reported back."""
Effect = (
    Records
    | ReadBlobs
    | ReadState
    | AskPerson
    | CallUpstream
    | StopUpstream
    | SendHead
    | SendBytes
    | Finish
)
