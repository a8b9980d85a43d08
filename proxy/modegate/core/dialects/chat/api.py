"""What is known of chat completions without reading a body."""

from __future__ import annotations

import re

from modegate.core.endpoints import Api, Operation

API = Api(
    name="chat",
    home="https://api.openai.com/v1",
    operations=(Operation("chat", "/chat/completions"),),
    models=re.compile(rb"/openai/deployments/(?P<model>[^/]+)/"),
)
