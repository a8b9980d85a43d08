"""The choice of an upstream: what a request says of itself, and the first route that fits it.

Pure and cheap: the body is looked at only where a route asks for the model, and never changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from modegate.core.endpoints import Endpoint
from modegate.core.errors import BadRequest, DialectName
from modegate.core.policy.globs import glob_matches
from modegate.core.policy.upstreams import Route
from modegate.core.wire.headers import Headers, get_one
from modegate.core.wire.request_body import RequestBody
from modegate.core.wire.weight import TOO_DENSE

_DEPLOYMENT = re.compile(rb"/openai/deployments/([^/]+)/")
_RESPONSES = re.compile(rb"(?:/v1)?/(?:responses|conversations)(?:/|$)")
_MESSAGES = re.compile(rb"(?:/v1)?/messages(?:/|$)")


def dialect_of(endpoint: Endpoint, headers: Headers) -> DialectName:
    """Return the API that a request belongs to, also where its endpoint is of no dialect."""
    return endpoint.dialect if endpoint.gated else dialect_of_path(endpoint.path, headers)


def dialect_of_path(path: bytes, headers: Headers) -> DialectName:
    """Return the API that a path without a session's prefix belongs to; chat where nothing says otherwise.

    A list of models is asked of the Anthropic API under the OpenAI API's path; the line that its clients
    must send tells them apart. Stored answers belong to the API that stored them.
    """
    if _MESSAGES.match(path) or get_one(headers, b"anthropic-version") is not None:
        return "messages"
    return "responses" if _RESPONSES.match(path) else "chat"


def wants_model(routes: Sequence[Route], dialect: DialectName) -> bool:
    """Return whether the choice for this dialect depends on the model."""
    for route in routes:
        if route.dialect in (None, dialect):
            return route.model is not None
    return False


def choose(routes: Sequence[Route], dialect: DialectName, model: str | None) -> str | None:
    """Return the upstream of the first route that fits; None: the default.

    A route with a model does not fit a request that names none.
    """
    for route in routes:
        if route.dialect not in (None, dialect):
            continue
        if route.model is None or (model is not None and glob_matches(route.model, model)):
            return route.upstream
    return None


def has_model(endpoint: Endpoint, headers: Headers) -> bool:
    """Return whether the body of a request can name a model: it is one that the gate reads, or JSON.

    Others, such as uploads, need not be taken whole.
    """
    if endpoint.gated:
        return True
    kind = (get_one(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    return kind == b"application/json"


def model_of_path(path: bytes) -> str | None:
    """Return the deployment that an Azure-style path names."""
    match = _DEPLOYMENT.match(path)
    return unquote(match[1].decode("latin-1")) if match else None


def model_of_body(body: RequestBody) -> str | None:
    """Return the model that a JSON body names; None where it is no JSON object or names none.

    Raises:
        BadRequest: it names two, and who reads it decides which counts; or it holds too many values.
    """
    if body.dense:
        raise BadRequest(TOO_DENSE)
    try:
        found = [member.value for member in body.members if member.key == "model"]
        models = {_string(body.readable[span.start : span.end]) for span in found}
    except ValueError:
        return None
    if len(models) > 1:
        raise BadRequest("the request names two models, so that it cannot be routed")
    return models.pop() if models else None


def _string(raw: bytes) -> str | None:
    value: Any = msgspec.json.decode(raw)
    return value if isinstance(value, str) else None
