"""All back ends on one socket: the model's name in a request says which of them it asks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from support.backends.entry import BACK_ENDS, BackEnd, Json
from support.backends.model import think
from support.backends.rules import RULES, Asked
from support.backends.speak import Speech, answer, fill
from support.backends.told import Told, told
from support.raw_upstream import Piece, Received, chunked, whole

PATHS = {
    "chat": b"/v1/chat/completions",
    "messages": b"/v1/messages",
    "responses": b"/v1/responses",
}


@dataclass
class Seen:
    """What one conversation has asked of a back end."""

    accepted: list[Json] = field(default_factory=list)
    refused: list[tuple[str, Json]] = field(default_factory=list)
    """The words of each refusal, and the request."""
    said: list[str] = field(default_factory=list)
    """Reasoning that it gave."""


class BackEnds:
    """What answers for each of them; a conversation is a model's name, `back end/whatever`."""

    def __init__(self, entries: Sequence[BackEnd] = BACK_ENDS) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._seals: dict[str, str] = {}
        self._count = 0
        self.seen: dict[str, Seen] = defaultdict(Seen)

    def __call__(self, request: Received) -> Sequence[Piece]:
        """Answer a request."""
        body: Json = json.loads(request.body)
        model: str = body["model"]
        entry, seen = self._entries[model.split("/")[0]], self.seen[model]
        assert request.target.split(b"?")[0] == PATHS[entry.api]
        history = told(entry.api, body)
        refusal = self._refusal(entry, body, history)
        if refusal is not None:
            status, says = refusal
            seen.refused.append((says, body))
            return whole(json.dumps(fill(entry.error, {"says": says})).encode(), status)
        seen.accepted.append(body)
        self._count += 1
        said = answer(entry, think(history), self._count, model)
        self._seals[said.signature] = said.reasoning
        speech = Speech(entry, said)
        if not body.get("stream"):
            seen.said.append(said.reasoning)
            return whole(speech.whole())
        frames = list(speech.stream())
        seen.said.append(speech.thought or said.reasoning)
        kind = [("Content-Type", entry.content_type)] if entry.content_type else []
        return chunked(*frames, headers=kind)

    def _refusal(
        self, entry: BackEnd, body: Json, history: Sequence[Told]
    ) -> tuple[int, str] | None:
        for rule in entry.refuses:
            asked = Asked(body, history, rule.more, self._seals)
            wrong = RULES[rule.rule](asked)
            if wrong is not None:
                return rule.status, str(fill(rule.says, wrong))
        return None
