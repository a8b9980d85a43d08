"""Every dialect in both forms."""

from __future__ import annotations

from modegate.core.errors import DialectName
from support.speech import Api, Speech
from support.speech_chat import ChatApi
from support.speech_messages import MessagesApi
from support.speech_responses import ResponsesApi

APIS: dict[DialectName, Api] = {
    "chat": ChatApi(),
    "responses": ResponsesApi(),
    "messages": MessagesApi(),
}
SPEECHES = [Speech(name, api, streamed) for name, api in APIS.items() for streamed in (True, False)]
