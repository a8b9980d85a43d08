"""The dialects that modegate speaks: a new one is a package of its own and a line here."""

from __future__ import annotations

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.step.dialect import AnyDialect

DIALECTS: tuple[AnyDialect, ...] = (CHAT, RESPONSES, MESSAGES)
