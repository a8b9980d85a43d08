"""What makes a provider run something by itself, beside `tools`: data, and what is done about it.

Nothing of it passes the gate, so in a mode the filter is the law (L6). Each entry names the tools that a
policy must allow for it to stay. The data follows the request bodies that the providers document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from modegate.core.argument.globs import glob_matches
from modegate.core.dialects.common.body import Body
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.arguments import spelling, words

_KEYS_OF = {
    # OpenAI, and gateways that took it over: the model searches the web. Then xAI live search, Groq,
    # DashScope, Venice, Baichuan, Hunyuan, Qianfan, NanoGPT. Then Gemini's own tools, where a translating
    # gateway takes them beside `tools`.
    "web_search": """
        web_search_options
        search_parameters search_settings search_options enable_search enable_web_search
        enable_web_scraping enable_x_search with_search_enhance enable_enhancement
        force_search_enhancement enable_deep_search web_search linkup
        google_search google_search_retrieval google_maps url_context
    """,
    # Gemini; DashScope, Anthropic and the Assistants' form of a place to run code in.
    "code_interpreter": "code_execution enable_code_interpreter container tool_resources",
    # Groq: what its compound systems may do by themselves.
    "compound": "compound_custom",
    # Remote servers and stores that the provider asks: Anthropic, Cohere, Azure, LiteLLM.
    "mcp": "mcp_servers mcp_tools",
    "connectors": "connectors",
    "file_search": "data_sources vector_store_ids",
    # OpenRouter and DashScope.
    "plugins": "plugins",
    # The answer is fetched later, by a way that is not gated: OpenAI, xAI.
    "background": "background background_options deferred",
}
PROVIDER_RUNS = {key: tool for tool, keys in _KEYS_OF.items() for key in keys.split()}
"""Key to tool name; removed unless the policy allows the tool of that name."""

PROVIDER_KEEPS = {
    "cached_content": "cached_content",  # Gemini: a cached prefix can hold tools and instructions
    "preset": "preset",  # OpenRouter: a stored request, plugins included
    "prompt": "prompt",  # OpenAI: a stored prompt, tools included
    "prompt_id": "prompt",  # LiteLLM
}
"""A part of the request that is stored at the provider and may declare anything; refused, as what is asked
would be another question without it."""

CARRIERS = frozenset(
    {
        "extra_body",  # LiteLLM and Gemini put its content beside the other keys
        "google",  # Gemini, inside extra_body or in its place
        "provider_options",  # Vercel
        "venice_parameters",
        "litellm_params",
        "additional_model_request_fields",  # Bedrock
        "chat_template_kwargs",  # vLLM: `tools` in it replaces the request's
        "models",  # OpenRouter: further models, tried if the first fails
        "fallbacks",  # LiteLLM: whole other requests
        "context_window_fallbacks",
        "content_policy_fallbacks",
    }
)
"""Keys with parts of another request inside; refused if one of these keys or models is in them."""

MODELS_RUN = (
    ("*:online*", "web_search"),  # OpenRouter, NanoGPT
    ("*:*enable_web_*", "web_search"),  # Venice writes parameters behind the name
    ("*:*enable_x_search*", "web_search"),
    ("*-search-preview*", "web_search"),  # OpenAI: the model searches before each answer
    ("*-search-api*", "web_search"),
    ("*-deep-research*", "web_search"),
    ("sonar*", "web_search"),  # Perplexity
    ("*/sonar*", "web_search"),
    ("groq/compound*", "compound"),  # Groq: searches, and runs code
    ("*/groq/compound*", "compound"),
    ("compound-beta*", "compound"),
    ("*@preset/*", "preset"),  # OpenRouter
)
"""Glob on the model's name in lower case, to tool name; refused, as another name asks another model."""

CARRIED = words("""
    messages tools tool_choice functions function_call parallel_tool_calls custom_tools tool_config
    function_declarations
""")
"""What no carrier may hold, beside the keys that decide about tools in the dialect itself."""

ELSEWHERE = frozenset(
    {"customtools", "functioncall", "functiondeclarations", "functions", "messages", "toolconfig"}
)
"""Keys of one API or another, as `spelling` gives them, from which servers that translate could take tools:
refused where they are not this API's own."""

_EMPTY = frozenset({b"null", b"[]", b"{}"})
_RUNS = {spelling(key): name for key, name in PROVIDER_RUNS.items()}
_KEEPS = {spelling(key): name for key, name in PROVIDER_KEEPS.items()}
_TOOLS = {spelling(key) for key in CARRIED}
_CARRIERS = {spelling(key) for key in CARRIERS}
_MODELS = {spelling(key) for key in CARRIERS if key == "models" or "fallbacks" in key} | {"model"}


def removable(request: Body, in_force: ModesInForce) -> set[str]:
    """Return the top-level keys that switch on what this standing does not allow."""
    return {
        member.key
        for member in request.members
        if (name := _RUNS.get(spelling(member.key))) is not None
        and not in_force.may_run(ToolName(name))
        and request.text(member.value) not in (b"null", b"false")
    }


def refuse(request: Body, in_force: ModesInForce) -> None:
    """Raise `BadRequest`, with a way out, for what cannot be taken out without asking for something else."""
    own = {spelling(key) for key in request.TOOLS}
    tools = _TOOLS | own
    foreign = ELSEWHERE - own
    for member in request.members:
        key = spelling(member.key)
        if key in foreign and request.text(member.value) not in _EMPTY:
            raise BadRequest(
                f"the key {member.key!r} is not one of this API's, and in mode {in_force.label!r} tools may "
                "only stand in 'tools'"
            )
        if key == "model" or key in _KEEPS or key in _CARRIERS:
            value = request.decode(member.value)
            _refuse_key(member.key, value, in_force, _KEEPS)
            for where, inner in _walk(member.key, value):
                _refuse_carried(member.key, where, inner, in_force, tools)


def refuse_tools_in(history: Sequence[Mapping[str, Any]], key: str, in_force: ModesInForce) -> None:
    """Raise `BadRequest` for messages that declare tools of their own, named by their place under `key`."""
    for number, message in enumerate(history):
        for inner in message:
            if spelling(inner) in ("tools", "functions"):
                raise BadRequest(
                    f"{key}[{number}] declares tools in {inner!r}; in mode {in_force.label!r} they must "
                    "stand in the request's own 'tools'"
                )


def _walk(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value in it, however deep; what stands in a list has the list's key."""
    if isinstance(value, dict):
        for inner, what in value.items():
            yield inner, what
            yield from _walk(inner, what)
    elif isinstance(value, list):
        for what in value:
            yield from _walk(key, what)
    else:
        yield key, value


def _refuse_carried(
    carrier: str, key: str, value: Any, in_force: ModesInForce, tools: set[str]
) -> None:
    _refuse_key(key, value, in_force, _KEEPS | _RUNS)
    if spelling(key) in tools and value is not None:
        raise BadRequest(
            f"{carrier!r} holds {key!r}, which in mode {in_force.label!r} may only stand in the request "
            "itself"
        )
    if spelling(key) in _MODELS and isinstance(value, str):
        _refuse_model(value, in_force)


def _refuse_key(key: str, value: Any, in_force: ModesInForce, names: dict[str, str]) -> None:
    name = names.get(spelling(key))
    if name is not None and value not in (None, False) and not in_force.may_run(ToolName(name)):
        _refuse(repr(key), name, in_force)


def _refuse_model(model: str, in_force: ModesInForce) -> None:
    for pattern, name in MODELS_RUN:
        if glob_matches(pattern, model.casefold()) and not in_force.may_run(ToolName(name)):
            _refuse(f"the model {model!r}", name, in_force)


def _refuse(what: str, name: str, in_force: ModesInForce) -> NoReturn:
    raise BadRequest(
        f"{what} lets the provider act by itself, which mode {in_force.label!r} does not allow; ask without "
        f"it, or allow the tool {name!r} in policies.yaml"
    )
