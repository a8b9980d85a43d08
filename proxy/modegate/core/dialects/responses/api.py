"""What is known of the Responses API without reading a body."""

from __future__ import annotations

import re

from modegate.core.endpoints import Api, History, Operation, StoredPaths

API = Api(
    name="responses",
    home="https://api.openai.com/v1",
    operations=(
        Operation("responses", "/responses"),
        Operation("input_tokens", "/responses/input_tokens", counts=True),
        Operation("compact", "/responses/compact"),
    ),
    paths=re.compile(rb"(?:/v1)?/(?:responses|conversations)(?:/|$)"),
    stored=StoredPaths(
        requests=re.compile(
            rb"(?:GET|DELETE) /responses/[A-Za-z0-9_-]+|GET /responses/[A-Za-z0-9_-]+/input_items"
            rb"|POST /responses/[A-Za-z0-9_-]+/cancel"
        ),
        name=re.compile(rb"(?P<base>.*/responses/)(?P<id>[A-Za-z0-9_-]+)(?P<rest>/[a-z_]+)?/?"),
        items=b"/input_items",
    ),
    history=History("input"),
)
