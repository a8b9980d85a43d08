"""The choice of an upstream: what a request says of itself, and the first route that fits it.

Pure and cheap: the body is looked at only where a route asks for the model, and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from modegate.core.argument.globs import glob_matches
from modegate.core.endpoints import Api, Apis, Endpoint
from modegate.core.errors import BadRequest, DialectName
from modegate.core.policy.upstreams import Route
from modegate.core.wire.headers import Headers, get_one
from modegate.core.wire.request_body import RequestBody
from modegate.core.wire.weight import TOO_DENSE


def api_of(apis: Apis, endpoint: Endpoint, headers: Headers) -> Api:
    """Return the API that a request belongs to, also where its endpoint is an operation of none."""
    return endpoint.api if endpoint.gated else api_of_path(apis, endpoint.path, headers)


def api_of_path(apis: Apis, path: bytes, headers: Headers) -> Api:
    """Return the API that a path without a session's prefix belongs to; the first where nothing says.

    A list of models is asked of the Anthropic API under the OpenAI API's path; the line that its clients
    must send tells them apart. Stored answers belong to the API that stored them.
    """
    sent = {name for name, _ in headers}
    told = (api for api in apis.all if api.header in sent)
    fits = (api for api in apis.all if api.paths is not None and api.paths.match(path))
    return next(told, None) or next(fits, apis.first)


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


def model_of_path(apis: Apis, endpoint: Endpoint) -> str | None:
    """Return the model that a path names, as that of an Azure-style deployment; None where it names none."""
    path, operation = endpoint.path, endpoint.operation
    found = [operation.match(path)] if operation is not None else []
    found += [api.models.match(path) for api in apis.all if api.models is not None]
    model = next((match["model"] for match in found if match and match.re.groupindex), None)
    return unquote(model.decode("latin-1")) if model else None


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
