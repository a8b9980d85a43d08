"""Every dialect in both forms."""

from __future__ import annotations

from support.speech import Speech
from support.speech_chat import ChatApi

SPEECHES = [Speech("chat", ChatApi(), streamed) for streamed in (True, False)]
