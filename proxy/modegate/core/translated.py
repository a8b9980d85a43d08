"""Requests and answers of a provider that is reached by translation (litellm): what goes in, what comes out.

What a client's body says becomes the arguments of a function that also takes addresses, keys and switches
of its own, so only what the dialect knows is let through; the rest is left out. What comes out is cut back
to the dialect's frames, so that the gate and the client read it as any other answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from modegate.core import spans
from modegate.core.errors import BadRequest, DialectName

_CHAT_FIELDS = """
    messages tools tool_choice functions function_call parallel_tool_calls stream stream_options
    temperature top_p n stop max_tokens max_completion_tokens presence_penalty frequency_penalty
    logit_bias logprobs top_logprobs response_format seed user reasoning_effort verbosity thinking
    modalities prediction service_tier web_search_options prompt_cache_key safety_identifier
"""
_RESPONSES_FIELDS = """
    input instructions include max_output_tokens parallel_tool_calls reasoning stream temperature
    text tool_choice tools top_p truncation user prompt_cache_key safety_identifier service_tier
"""
_MESSAGES_FIELDS = """
    messages system max_tokens tools tool_choice stream temperature top_p top_k stop_sequences
    thinking metadata
"""
FIELDS: Final[Mapping[DialectName, frozenset[str]]] = {
    "chat": frozenset(_CHAT_FIELDS.split()),
    "responses": frozenset(_RESPONSES_FIELDS.split()),
    "messages": frozenset(_MESSAGES_FIELDS.split()),
}
"""The keys of a body that are passed on."""

STORED: Final = ("previous_response_id", "conversation", "prompt", "background")
"""What refers to something that the OpenAI API keeps, and nobody keeps here."""

AMBIENT: Final = frozenset(
    {"bedrock", "sagemaker", "sagemaker_chat", "vertex_ai", "vertex_ai_beta"}
)
"""Providers whose credential is no key but an identity of the process (AWS, Google Cloud)."""

SIGNATURE: Final = "__thought__"
"""What litellm puts between a call's id and the signature of the thought that led to it."""

MESSAGE_LIMIT = 2000
"""Characters of a provider's error that are told."""

_CHUNK = (
    "id",
    "object",
    "created",
    "model",
    "service_tier",
    "system_fingerprint",
    "choices",
    "usage",
)
_CHOICE = ("index", "delta", "message", "finish_reason", "logprobs")
_MESSAGE = (
    "role",
    "content",
    "refusal",
    "reasoning_content",
    "thinking_blocks",
    "tool_calls",
    "function_call",
    "annotations",
    "audio",
    "images",
)
_CALL = ("index", "id", "type", "function")
_USAGE = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
)

_MESSAGES_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def model_for(pattern: str, model: str | None) -> tuple[str, str]:
    """Give provider and model to ask for, by the policy's `provider/model` with `*` for the client's.

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
        """Whether the answer is to be streamed."""
        return self.arguments.get("stream") is True


def asked(dialect: DialectName, body: bytes) -> Asked:
    """Read what of a body is passed on.

    Raises:
        BadRequest: it cannot be read, or asks for what translation cannot give.
    """
    try:
        fields = msgspec.json.decode(spans.without_lone_surrogates(body), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise BadRequest("the request's body is not a JSON object") from error
    if dialect == "responses":
        for name in STORED:
            if fields.get(name):
                raise BadRequest(
                    f"{name} is not possible with this model: nothing is stored for it; "
                    "send the whole input"
                )
    tools = fields.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        # litellm would connect to the server, and run the tools that it gives.
        if isinstance(tool, dict) and str(tool.get("type", "")).startswith("mcp"):
            raise BadRequest("MCP servers are not possible with this model")
    passed = {key: value for key, value in fields.items() if key in FIELDS[dialect]}
    if dialect == "messages":
        _give_back(passed.get("messages"))
        user = passed.get("metadata")
        passed["metadata"] = _kept(user, ("user_id",)) if isinstance(user, dict) else None
    model = fields.get("model")
    return Asked(
        model if isinstance(model, str) else None,
        {key: value for key, value in passed.items() if value is not None},
    )


def _give_back(messages: Any) -> None:
    """Undo `_sign`: put what stands in a call's id where litellm looks for it in this dialect."""
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else []:
            name = block.get("id") if isinstance(block, dict) else None
            if isinstance(name, str) and SIGNATURE in name and block.get("type") == "tool_use":
                signature = name.partition(SIGNATURE)[2]
                block["provider_specific_fields"] = {"signature": signature}


def renamed(body: bytes, pattern: str) -> bytes:
    """Give a body that asks for the policy's model, with all other bytes as they were.

    Raises:
        BadRequest: it cannot be read, or no model is named.
    """
    try:
        members = spans.members(spans.without_lone_surrogates(body))
        found = [member.value for member in members if member.key == "model"]
        names = [msgspec.json.decode(body[span.start : span.end]) for span in found]
    except ValueError as error:
        raise BadRequest("the request's body is not a JSON object") from error
    client = names[-1] if names and isinstance(names[-1], str) else None
    name = spans.quote(model_for(pattern, client)[1])
    return spans.apply(body, [spans.Edit(span.start, span.end, name) for span in found])


def unstored(body: bytes) -> bytes:
    """Give a body of the Responses API that asks for nothing to be stored; what cannot be read stays.

    Hops are then not chained to an answer that nobody has, but carry all that was said.
    """
    text = spans.without_lone_surrogates(body)
    try:
        members = spans.members(text)
    except ValueError:
        return body
    found = [member.value for member in members if member.key == "store"]
    if found:
        return spans.apply(body, [spans.Edit(span.start, span.end, b"false") for span in found])
    at = body.index(b"{") + 1
    return spans.apply(
        body, [spans.Edit(at, at, b'"store":false,' if members else b'"store":false')]
    )


def chat_object(given: Mapping[str, Any]) -> dict[str, Any]:
    """Cut a chat completion, or a chunk of one, back to what the dialect knows.

    Thinking stays, in the two ways in which clients of other providers know it.
    """
    kept = _kept(given, _CHUNK)
    kept["choices"] = [_choice(choice) for choice in given.get("choices") or []]
    if kept.get("usage"):
        kept["usage"] = _kept(kept["usage"], _USAGE)
    return kept


def _choice(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = _kept(given, _CHOICE)
    kept.setdefault("finish_reason", None)
    for key in ("delta", "message"):
        if key in kept:
            message = kept[key] = _kept(kept[key], _MESSAGE)
            if not message.get("images"):
                message.pop("images", None)
            if "tool_calls" in message:
                message["tool_calls"] = _calls(message["tool_calls"], whole=key == "message")
            if key == "message":
                message.setdefault("content", None)
    return kept


def _calls(given: Iterable[Mapping[str, Any]], *, whole: bool) -> list[dict[str, Any]]:
    calls = [_kept(call, _CALL) for call in given]
    if whole:
        for call in calls:
            call.pop("index", None)  # there is no such key outside of a stream
    return calls


def responses_object(given: dict[str, Any], thinking: str | None = None) -> dict[str, Any]:
    """Mend an answer, or an event of one, of the Responses API.

    litellm writes reasoning items in two ways, one of them with what a message has. `thinking` is what the
    provider wants back of the item that ends with this event.
    """
    response = given.get("response", given)
    for item in response.get("output") or []:
        _mend(item, None)
    if given.get("type") == "response.output_item.done":
        _mend(given["item"], thinking)
    for holder in (given, response):
        holder.pop("provider_specific_fields", None)
    if response.get("usage"):
        response["usage"].pop("cost", None)
    return given


def _mend(item: dict[str, Any], thinking: str | None) -> None:
    item.pop("provider_specific_fields", None)
    if item.get("type") != "reasoning":
        return
    texts = [part.get("text", "") for part in item.pop("content", None) or []]
    item.pop("role", None)
    item.setdefault("summary", [{"type": "summary_text", "text": text} for text in texts])
    if thinking is not None:
        item.setdefault("encrypted_content", thinking)


def messages_object(given: dict[str, Any]) -> dict[str, Any]:
    """Cut a whole answer of the Messages API, or an event of one, back to what the dialect knows."""
    for block in given.get("content") or []:
        _sign(block)
    if given.get("type") == "content_block_start":
        _sign(given["content_block"])
    return given


def messages_frame(given: bytes) -> bytes:
    """Cut an event that is written already back to what the dialect knows; others keep their bytes."""
    if b"provider_specific_fields" not in given:
        return given
    data = given[given.index(b"data: ") + len(b"data: ") :]
    return frame("messages", messages_object(msgspec.json.decode(data)))


def _sign(block: dict[str, Any]) -> None:
    """Put what Gemini wants back with a call into the call's id, as litellm does in the other dialects:
    clients give ids back as they were, and nothing else that they do not know."""
    more = block.pop("provider_specific_fields", None) or {}
    signature = more.get("signature")
    if signature and block.get("type") == "tool_use" and SIGNATURE not in block["id"]:
        block["id"] += SIGNATURE + signature


def frame(dialect: DialectName, event: Mapping[str, Any]) -> bytes:
    """Give a server-sent event."""
    data = msgspec.json.encode(event)
    if dialect == "chat":
        return b"data: %b\n\n" % data
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data)


def error_body(dialect: DialectName, status: int, message: str) -> bytes:
    """Give a provider's error in the dialect's own format."""
    if dialect == "messages":
        kind = _MESSAGES_ERRORS.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": None, "code": None}
    return msgspec.json.encode({"error": error})


def told(text: str, secret: str = "") -> str:
    """Give what a provider said, out of the words that were put around it; never the credential."""
    inner = text[text.find("{") : text.rfind("}") + 1]
    try:
        said = msgspec.json.decode(inner)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        said = text
    said = said if isinstance(said, str) else text
    if secret:
        said = said.replace(secret, "***")
    return said[:MESSAGE_LIMIT]


def _kept(given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: given[key] for key in keys if given.get(key) is not None}
