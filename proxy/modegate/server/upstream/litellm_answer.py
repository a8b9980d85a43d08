"""Answers of a provider that is reached by translation (litellm), as their dialect has them.

So the gate and the client read them as any other answer.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from modegate.core.errors import UpstreamFailed
from modegate.core.step.translation import Translation
from modegate.core.wire.headers import Headers

MESSAGE_LIMIT = 2000
"""Characters of a provider's error that are told."""


@dataclass(slots=True)
class LitellmAnswer:
    """A translated answer: whole, or a stream whose first pieces have come."""

    status: int
    headers: Headers
    first: list[bytes]
    rest: AsyncIterator[bytes] | None = None
    source: Any = None
    """What litellm gave, to be closed."""
    name: str = ""

    @classmethod
    async def streamed(cls, translation: Translation, source: Any, name: str) -> LitellmAnswer:
        """Wait for the first of a stream, so that what goes wrong before it is still an error's answer.

        What litellm begins with of its own does not count.
        """
        pieces = _pieces(translation, source)
        first: list[bytes] = []
        try:
            async for piece in pieces:
                first.append(piece)
                if len(first) > translation.opening:
                    break
        except BaseException:
            await source.aclose()
            raise
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        return cls(200, head, first, pieces, source, name)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body.

        Raises:
            UpstreamFailed: it broke off.
        """
        for piece in self.first:
            yield piece
        if self.rest is None:
            return
        try:
            async for piece in self.rest:
                yield piece
        except Exception as error:
            kind = type(error).__name__
            raise UpstreamFailed(f"upstream {self.name}: its answer broke off ({kind})") from error

    async def close(self) -> None:
        if self.source is not None:
            source, self.source = self.source, None
            await source.aclose()


async def _pieces(translation: Translation, source: Any) -> AsyncIterator[bytes]:
    """Yield a stream's frames in the dialect, cut back to what it knows.

    Raises:
        Exception: what litellm raises.
    """
    thoughts = partial(_thoughts, source)
    async for piece in source:
        failure = getattr(source, "stream_failure", None)
        if failure is not None:
            raise failure
        yield translation.frame(piece if isinstance(piece, bytes) else _plain(piece), thoughts)
    if translation.end:
        yield translation.end


def _plain(given: Any) -> dict[str, Any]:
    plain: dict[str, Any] = (
        given if isinstance(given, dict) else given.model_dump(mode="json", exclude_none=True)
    )
    return plain


def _thoughts(source: Any) -> str | None:
    """Return what the provider wants back of the reasoning that a stream has had so far."""
    module = importlib.import_module(
        "litellm.responses.litellm_completion_transformation.reasoning_items"
    )
    blocks: list[dict[str, Any]] = []
    for chunk in getattr(source, "collected_chat_completion_chunks", ()):
        for choice in chunk["choices"]:
            for block in choice["delta"].get("thinking_blocks") or []:
                join_thinking(blocks, block)
    encoded: str | None = module.encode_thinking_blocks(blocks)
    return encoded


def join_thinking(blocks: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Join a piece of a thinking block to the block; a signature ends one."""
    if piece.get("type") != "thinking":
        blocks.append(dict(piece))
    elif blocks and blocks[-1].get("type") == "thinking" and not blocks[-1].get("signature"):
        blocks[-1]["thinking"] += piece.get("thinking") or ""
        blocks[-1]["signature"] = piece.get("signature") or ""
    else:
        blocks.append(
            {
                "type": "thinking",
                "thinking": piece.get("thinking") or "",
                "signature": piece.get("signature") or "",
            }
        )


def whole_answer(translation: Translation, given: Any) -> LitellmAnswer:
    return json_answer(200, msgspec.json.encode(translation.whole(_plain(given))))


def json_answer(status: int, body: bytes, retry_after: str | None = None) -> LitellmAnswer:
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if retry_after:
        head.append((b"retry-after", retry_after.encode()))
    return LitellmAnswer(status, head, [body])


def told(text: str, secret: str = "") -> str:
    """Return what a provider said, out of the words that were put around it; never the credential."""
    inner = text[text.find("{") : text.rfind("}") + 1]
    try:
        said = msgspec.json.decode(inner)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        said = text
    said = said if isinstance(said, str) else text
    if secret:
        said = said.replace(secret, "***")
    return said[:MESSAGE_LIMIT]
