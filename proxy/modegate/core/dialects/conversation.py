"""Requests whose history is a list of messages, each with a role: chat completions and Messages."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from modegate.core.dialects.body import Body
from modegate.core.dialects.texts import content_text
from modegate.core.spans import Span


class Conversation(Body):
    """A request whose history is `messages`, each with a role."""

    messages: list[Span]

    @cached_property
    def first_user_text(self) -> str:
        """The first user message's text."""
        for span in self.messages:
            if self.role(span) == "user":
                return content_text(self.decode(span).get("content"))
        return ""

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """All messages decoded; only for what needs the whole history."""
        return [self.decode(span) for span in self.messages]
