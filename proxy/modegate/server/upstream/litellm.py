"""The upstream through litellm: providers that do not speak the client's API.

The only file that imports litellm, and only where a policy wants it: the import takes seconds and some
200 MB. What litellm would do by itself is switched off: look-ups in the network at import, `.env` files,
retries, messages of its own on stdout and in the log, since those may quote bodies.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from modegate.core.dialects.registered import Dialects
from modegate.core.errors import BadRequest, DialectName, UpstreamFailed, UpstreamTimeout
from modegate.core.policy.upstreams import UpstreamSpec
from modegate.core.step.translation import Translation
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding, decoder
from modegate.core.wire.headers import Headers, get_one, replace
from modegate.server.upstream.litellm_answer import LitellmAnswer, json_answer, told, whole_answer
from modegate.server.upstream.litellm_request import AMBIENT, Asked, asked, model_for, renamed
from modegate.server.upstream.loopback import is_loopback
from modegate.server.upstream.protocol import Upstream, UpstreamAnswer, UpstreamRequest

BODY_LIMIT: Final = 256 * 2**20
"""Bytes of a body that was compressed; the policy's limit was kept already where it was not."""

_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",  # else a `.env` file of the working directory is read
}


class Library:
    """litellm, once it is wanted; one for all upstreams, since its connections belong to the process."""

    def __init__(self) -> None:
        self._module: Any = None
        self._loading = asyncio.Lock()

    async def load(self) -> Any:
        """Return the module; the first time it is imported, in a thread since that takes seconds.

        Raises:
            UpstreamFailed: it cannot be imported.
        """
        async with self._loading:
            if self._module is None:
                try:
                    self._module = await asyncio.to_thread(_import)
                except Exception as error:
                    why = f"litellm cannot be imported ({type(error).__name__}: {error})"
                    raise UpstreamFailed(why) from error
        return self._module

    async def close(self) -> None:
        if self._module is not None:
            await self._module.close_litellm_async_clients()


def _import() -> Any:
    os.environ.update(_ENVIRONMENT)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.drop_params = True  # what a provider does not know is left out, and not an error
    litellm.modify_params = (
        True  # what a provider wants beside is added, such as tools to old calls
    )
    return litellm


def _lead_straight_to(host: str) -> None:
    """Have no proxy of the environment lead to a host: litellm takes that from `no_proxy` alone."""
    names = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if host not in names.split(","):
        os.environ["no_proxy"] = f"{names},{host}" if names else host


class LitellmUpstream:
    """A provider that litellm speaks to."""

    def __init__(
        self,
        spec: UpstreamSpec,
        library: Library,
        dialects: Dialects,
        native: Mapping[DialectName, Upstream] = MappingProxyType({}),
    ) -> None:
        """Take what the policy says, and by dialect the upstreams that speak it without translation."""
        self._spec = spec
        self._dialects = dialects
        self._library = library
        self._native = native
        self._extra = [name.encode() for name, _ in spec.headers]
        host = urlsplit(spec.url or "").hostname or ""
        if is_loopback(host):
            _lead_straight_to(host)

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Send a request and give its answer once the first of it is there.

        Raises:
            BadRequest: the request cannot be read or translated.
            UpstreamFailed: no connection, or no answer.
            UpstreamTimeout: it took too long.
        """
        endpoint = self._dialects.apis.classify(request.method, request.target.partition(b"?")[0])
        if (native := self._native.get(endpoint.dialect)) is not None:
            return await native.send(await self._asking_for_ours(request))
        api = endpoint.api
        translation = self._dialects.named(api.name).translation
        if translation is None or endpoint.operation is not api.operations[0]:
            words = (
                f"upstream {self._spec.name} answers chat completions, Responses and Messages only"
            )
            told_as = api.error(words, 404, "not_found")
            return json_answer(404, translation.failure(404, words) if translation else told_as)
        wanted = asked(translation, await _whole(request))
        secret = _credential(request.headers)
        call = await self._call(translation, wanted, request.headers, secret)
        try:
            given = await call
            if wanted.streamed:
                return await LitellmAnswer.streamed(translation, given, self._spec.name)
        except Exception as error:  # noqa: BLE001 -- litellm raises what its many parts raise
            return self._failed(translation, error, secret)
        return whole_answer(translation, given)

    async def close(self) -> None:
        """Let go of connections; those of the library are the process's."""
        for native in self._native.values():
            await native.close()

    async def _asking_for_ours(self, request: UpstreamRequest) -> UpstreamRequest:
        if self._spec.litellm.endswith("/*"):
            return request
        body = renamed(await _whole(request), self._spec.litellm)
        headers = replace(request.headers, b"content-encoding", None)
        return UpstreamRequest(request.method, request.target, headers, body)

    async def _call(
        self, translation: Translation, wanted: Asked, headers: Headers, secret: str
    ) -> Any:
        provider, model = model_for(self._spec.litellm, wanted.model)
        if not secret and provider not in AMBIENT:
            # litellm would look for one in the environment, where others' are too.
            raise BadRequest(
                f"no credential for upstream {self._spec.name}: send one, or set its key"
            )
        litellm = await self._library.load()
        timeouts = self._spec.timeouts
        more: dict[str, Any] = {
            "model": model,
            "custom_llm_provider": provider,
            "max_retries": 0,
            "num_retries": 0,
            "timeout": litellm.httpx.Timeout(timeouts.read, connect=timeouts.connect),
        }
        if self._spec.url:
            more["api_base"] = self._spec.url
        if secret:
            more["api_key"] = secret
        extra = {name: get_one(headers, name) for name in self._extra}
        if extra:
            more["extra_headers"] = {
                name.decode(): value.decode() for name, value in extra.items() if value is not None
            }
        return getattr(litellm, translation.function)(**wanted.arguments, **more)

    def _failed(self, translation: Translation, error: Exception, secret: str) -> LitellmAnswer:
        """Return a provider's error as an answer; what is no answer of it is raised."""
        cause = getattr(error, "original_exception", None) or error
        status = getattr(cause, "status_code", None)
        lines = getattr(cause, "litellm_response_headers", None)
        if type(cause).__name__ == "Timeout":
            raise UpstreamTimeout(f"upstream {self._spec.name}: no byte for too long") from error
        if not isinstance(status, int) or (status >= 500 and lines is None):
            kind = type(cause).__name__
            raise UpstreamFailed(f"upstream {self._spec.name}: no answer ({kind})") from error
        words = told(str(getattr(cause, "message", cause)), secret)
        retry_after = lines.get("retry-after") if lines is not None else None
        return json_answer(status, translation.failure(status, words), retry_after)


def _credential(headers: Headers) -> str:
    """Return what the request carries: the policy's key, else the client's own."""
    key = get_one(headers, b"x-api-key")
    if key is None:
        scheme, _, token = (get_one(headers, b"authorization") or b"").partition(b" ")
        key = token.strip() if scheme.lower() == b"bearer" else b""
    return key.decode("utf-8", "replace")


async def _whole(request: UpstreamRequest) -> bytes:
    body = request.body
    if not isinstance(body, bytes):
        body = b"".join([piece async for piece in body])
    encoding = get_one(request.headers, b"content-encoding")
    if not encoding:
        return body
    try:
        undo = decoder(encoding, BODY_LIMIT)
        plain = undo.feed(body)
        undo.finish()
    except (BadEncoding, UnknownEncoding) as error:
        raise BadRequest(f"the request body cannot be decoded: {error}") from error
    return plain
