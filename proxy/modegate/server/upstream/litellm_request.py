"""Requests to a provider that is reached by translation (litellm).

What a client's body says becomes the arguments of a function that also takes addresses, keys and switches
of its own, so only what the dialect knows is let through; the rest is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from modegate.core.errors import BadRequest
from modegate.core.step.translation import Translation
from modegate.core.wire import json_spans, surrogates
from modegate.core.wire.weight import REQUEST_VALUES, TOO_DENSE, is_dense

OFFERED: Final = ("function", "custom", "namespace", "web_search", "bash_", "text_editor_")
"""How the types of tools begin that are passed on."""

AMBIENT: Final = frozenset(
    {"bedrock", "sagemaker", "sagemaker_chat", "vertex_ai", "vertex_ai_beta"}
)
"""Providers whose credential is no key but an identity of the process (AWS, Google Cloud)."""


def model_for(pattern: str, model: str | None) -> tuple[str, str]:
    """Return provider and model to ask for, by the policy's `provider/model` with `*` for the client's.

    Raises:
        BadRequest: the client names no model, and the policy names none either.
    """
    provider, _, name = pattern.partition("/")
    if "*" not in name:
        return provider, name
    if not model:
        raise BadRequest("the request names no model")
    return provider, name.replace("*", model.removeprefix(f"{provider}/"))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body asks for."""

    model: str | None
    arguments: dict[str, Any]

    @property
    def streamed(self) -> bool:
        return self.arguments.get("stream") is True


def asked(translation: Translation, body: bytes) -> Asked:
    """Read what of a body is passed on.

    Raises:
        BadRequest: it cannot be read, or asks for what translation cannot give.
    """
    if is_dense(body, REQUEST_VALUES):
        raise BadRequest(TOO_DENSE)
    try:
        fields = msgspec.json.decode(surrogates.without_lone_surrogates(body), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise BadRequest("the request's body is not a JSON object") from error
    for name in translation.refused:
        if fields.get(name):
            raise BadRequest(
                f"{name} is not possible with this model: nothing is stored for it; send the whole input"
            )
    passed = {key: value for key, value in fields.items() if key in translation.fields}
    if isinstance(passed.get("tools"), list):
        passed["tools"] = [tool for tool in passed["tools"] if _is_offered(tool)] or None
    translation.adapt(passed)
    model = fields.get("model")
    return Asked(
        model if isinstance(model, str) else None,
        {key: value for key, value in passed.items() if value is not None},
    )


def _is_offered(tool: Any) -> bool:
    """Return whether a tool is run by the client, or is a search that the provider runs.

    Others litellm would run itself, from here: MCP servers, searches in files, code.
    """
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type") or "function"
    return isinstance(kind, str) and kind.startswith(OFFERED)


def renamed(body: bytes, pattern: str) -> bytes:
    """Return a body that asks for the policy's model, with all other bytes as they were.

    Raises:
        BadRequest: it cannot be read, or no model is named.
    """
    try:
        members = json_spans.members(surrogates.without_lone_surrogates(body))
        found = [member.value for member in members if member.key == "model"]
        names = [msgspec.json.decode(body[span.start : span.end]) for span in found]
    except ValueError as error:
        raise BadRequest("the request's body is not a JSON object") from error
    client = names[-1] if names and isinstance(names[-1], str) else None
    name = json_spans.quote(model_for(pattern, client)[1])
    return json_spans.apply(body, [json_spans.Edit(span.start, span.end, name) for span in found])
