"""The validated content of policies.yaml, as it is used.

A `Policy` is immutable and named by the hash of its meaning (`file.meaning`). It only says what was written:
`judge` gives verdicts, and `in_force` and `waiting` decide on the state of a session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from modegate.core.ids import DEFAULT_MODE, LOCAL, ModeId, Tenant, ToolName
from modegate.core.policy.file.problems import Problem
from modegate.core.policy.shell_table import NO_SHELL, ShellTable
from modegate.core.policy.upstreams import Route, UpstreamSpec
from modegate.core.policy.when import When

EXIT_TOOL = ToolName("exit_plan_mode")
"""The tool that asks a person to end the mode; no rule covers it, not even `*`."""
NATIVE_EXITS = frozenset({EXIT_TOOL, "ExitPlanMode", "plan_exit"})
"""Tools of this purpose that agents bring themselves."""
NO_TOOL = ToolName("no_tool_in_this_mode")
"""Stands in where an API wants a tool and the mode leaves none; a call of it is judged as any."""

# A field name of RFC 9110, section 5.1.
_HEADER = re.compile(r"header:([A-Za-z0-9!#$%&'*+.^_`|~-]{1,128})")
_BODY = re.compile(r"body:([^.\s]+(?:\.[^.\s]+)*)")


class Effect(StrEnum):
    """What a rule does with a call that it matches."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a mode's `tools`."""

    effect: Effect
    pattern: str
    when: When | None = None
    at: int | str | None = None
    """Its index in the file's `tools`, or in words where it was taken over from; None: its place among the
    rules."""

    def place(self, index: int | None = None) -> str:
        """Say where it stands, as messages do: `tools[2]`, `use[0] read-only/codex`, `plan.tools[2]`."""
        if isinstance(self.at, str):
            return self.at
        return f"tools[{index if self.at is None else self.at}]"


@dataclass(frozen=True, slots=True)
class ExitOption:
    """One answer that a person may give to a plan: a label and the mode it leads to."""

    label: str
    to: ModeId


@dataclass(frozen=True, slots=True)
class Exit:
    """How a mode is left by its exit tool."""

    options: tuple[ExitOption, ...]
    native: bool = True


@dataclass(frozen=True, slots=True)
class Mode:
    """A named policy state."""

    id: ModeId
    name: str
    description: str
    section: str
    rules: tuple[Rule, ...]
    exit: Exit | None = None
    without_tools: Literal["pass", "guide", "refuse"] = "pass"
    text_calls: Literal["pass", "refuse"] | None = None
    """What becomes of calls in plain text; None: refused for agents that are known to run them."""
    section_in: Literal["instructions", "input"] = "instructions"
    """For the Responses API: where the section goes."""
    aliases: tuple[str, ...] = ()
    """Other ids by which ACP clients name it."""
    shell: ShellTable = NO_SHELL
    """What is known in this mode of the programs that a shell command can run."""


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of `sessions.identify` or `sessions.parent`: where a request may name a session."""

    text: str
    """The entry, with the header's name in lower case."""
    kind: Literal["path", "header", "body"]
    name: bytes = b""
    """Of a header, in lower case."""
    keys: tuple[str, ...] = ()
    """Of a body field, from the top level inwards."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read an entry.

        Raises:
            ValueError: it is none of `path`, `header:NAME` and `body:dotted.path`.
        """
        if text == "path":
            return cls(text, "path")
        if match := _HEADER.fullmatch(text):
            name = match[1].lower()
            return cls(f"header:{name}", "header", name=name.encode())
        if match := _BODY.fullmatch(text):
            return cls(text, "body", keys=tuple(match[1].split(".")))
        raise ValueError(f"{text!r} is not `path`, `header:NAME` or `body:dotted.path`")


@dataclass(frozen=True, slots=True)
class Sessions:
    """`sessions`: how a request's session is found."""

    identify: tuple[str, ...] = ()
    """Empty means the default list of `modegate.core.identify.sources`."""
    parent: tuple[str, ...] = ()
    when_missing: Literal["derive", "reject"] = "derive"
    initial_mode: ModeId = ModeId("default")
    initial_mode_by_tenant: Mapping[Tenant, ModeId] = field(default_factory=dict)
    initial_mode_by_agent: Mapping[str, ModeId] = field(default_factory=dict)
    """By a glob of the `user-agent`; `in_force.initial_mode` has the whole rule."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`limits`: bytes, seconds and counts, each with the reason for its default in docs/policies.md."""

    body: int = 64 * 2**20
    frame: int = 64 * 2**20
    held: int = 16 * 2**20
    """Bytes of calls held back at one time in one answer."""
    hops: int = 4
    drain: float = 30.0
    memory: int = 2**30
    """Bytes that all steps of a process hold at one time."""


EXPIRES_MS = 24 * 60 * 60 * 1000
"""How long a question stays open at most."""
NOBODY_S = 2.0
"""Within this time somebody must have been shown the question, or the step goes on without."""
WAIT_STREAMED_S = 3600.0
WAIT_WHOLE_S = 60.0
"""How long a step waits: a stream is kept alive meanwhile, a body cannot be."""
BACK_S = 60.0
"""How long a question stays open whose client has gone: agents send a request again that broke off."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a step waits for a person, and a question for its client, in seconds."""

    nobody: float = NOBODY_S
    streamed: float = WAIT_STREAMED_S
    whole: float = WAIT_WHOLE_S
    back: float = BACK_S

    @property
    def longest(self) -> float:
        return max(self.streamed, self.whole)


WAITS = Waits()


OWN_TOKEN = "control"  # noqa: S105 -- a name, not a secret
"""What the log calls the token of the process itself, so that no other can have the name."""


class Level(StrEnum):
    """How much a token may do, the least first; each level covers those before it."""

    OBSERVE = "observe"
    TIGHTEN = "tighten"
    FULL = "full"

    def covers(self, needed: Level) -> bool:
        """Return whether a token of this level may do what needs the other."""
        order = list(Level)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Token:
    """`control.tokens[]`: one token; its secret stands in the environment, never in the file."""

    name: str
    env: str
    """The variable that holds the secret."""
    level: Level
    tenants: tuple[Tenant, ...] = (LOCAL,)


@dataclass(frozen=True, slots=True)
class AcpControl:
    """`control.acp`: how modes are set by ACP clients."""

    confirm_loosening: bool = True
    """Ask the person at the client before a mode is left, since clients also replay modes by themselves."""


@dataclass(frozen=True, slots=True)
class Control:
    """`control`: who may see and set modes, beside the holder of the process's own token."""

    tokens: tuple[Token, ...] = ()
    acp: AcpControl = field(default_factory=AcpControl)


@dataclass(frozen=True, slots=True)
class Policy:
    """All of policies.yaml."""

    hash: str
    modes: Mapping[ModeId, Mode]
    sessions: Sessions = field(default_factory=Sessions)
    limits: Limits = field(default_factory=Limits)
    narrate: bool = True
    """Whether a notice tells the model of a mode change made by a person."""
    upstreams: Mapping[str, UpstreamSpec] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    control: Control = field(default_factory=Control)
    approvals: Waits = WAITS
    """How long a request waits for a person."""
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    """What the file says that can hardly be meant; no part of its meaning."""

    def mode_named(self, name: str) -> ModeId | None:
        """Return the mode with this id or alias, `default` included; None if there is none."""
        if name == DEFAULT_MODE or name in self.modes:
            return ModeId(name)
        return next((mode.id for mode in self.modes.values() if name in mode.aliases), None)
