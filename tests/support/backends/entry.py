"""A back end as data: how its answers come, and which requests it refuses.

Each file of `tests/backends` is one:

    name, api            what it is called, and which API it speaks (chat, messages, responses)
    facts                where the facts are from
    announces, refuses_as, does
                         its row in docs/backends.md: how calls come, what it refuses, what modegate does
    id                   the form of a call's id; each `?` is a letter or figure, `$at` the number of the
                         call in its answer, `$count` that of the answer, `$name` the tool
    reasons              its model thinks before it speaks
    sends_back           members of an answer that an agent for it sends back with its turn
    parts                `think`, `text`, `call`: the parts of a whole answer, and what is built of them
    learned              what it refuses cannot be known beforehand: one refusal of a conversation is for
                         modegate, which asks once more in another form, and none for the client
    finish               why an answer ended: with `calls`, and with text alone (`said`)
    streamed             frames by stage, see `speak`
    whole                the body of an answer that is not streamed
    error                the body of a refusal, with `$says`
    refuses              rules (see `rules`), each with its own words (`says`) and status

In frames and bodies a text `$word` stands for a value, `$absent` takes its member away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

FOLDER = Path(__file__).parents[2] / "backends"

Json = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """Something that a back end refuses."""

    rule: str
    says: str
    status: int = 400
    more: Json = field(default_factory=dict)


@dataclass(frozen=True)
class BackEnd:
    """One back end."""

    key: str
    name: str
    api: Literal["chat", "messages", "responses"]
    facts: tuple[str, ...]
    announces: str
    refuses_as: str
    does: str
    id: str
    finish: Json
    streamed: Json
    whole: Json
    parts: Json
    error: Json
    refuses: tuple[Rule, ...]
    reasons: bool = False
    learned: bool = False
    sends_back: tuple[str, ...] = ()
    chunk: Json = field(default_factory=dict)
    choice: Json = field(default_factory=dict)
    content_type: str = "text/event-stream"
    data_only: bool = False
    """Its events have no `event:` line."""
    empty: str | None = None
    """The content of an answer without text."""
    no_calls: Any = "$absent"
    """What stands in the place of the calls where there are none."""

    @classmethod
    def read(cls, path: Path) -> BackEnd:
        """Read a file."""
        data: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
        rules = tuple(
            Rule(one.pop("rule"), one.pop("says"), one.pop("status", 400), one)
            for one in data.pop("refuses", ())
        )
        for name in ("facts", "sends_back"):
            data[name] = tuple(data.get(name, ()))
        return cls(key=path.stem, refuses=rules, **data)

    def row(self) -> str:
        """Return its row in the documentation."""
        return f"| {self.name} | {self.announces} | {self.refuses_as} | {self.does} |"


BACK_ENDS = [BackEnd.read(path) for path in sorted(FOLDER.glob("*.yaml"))]
