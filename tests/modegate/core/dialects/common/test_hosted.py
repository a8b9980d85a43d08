"""What a provider would run by itself is taken out of a request, or the request is refused (L6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.argument.globs import glob_matches
from modegate.core.dialects.common.hosted import CARRIERS, MODELS_RUN, PROVIDER_KEEPS, PROVIDER_RUNS
from modegate.core.policy.model import Effect, Policy, Rule
from support.playbook import Session, mode, policy, request, said, tool

USER = {"role": "user", "content": "rename foo"}


def rules(*tools: str) -> Policy:
    return policy(mode("plan", *tools))


def sent(body: bytes | dict[str, Any], policy_: Policy | None = None) -> Any:
    session = Session(rules=policy_) if policy_ else Session()
    return session.step(body, [said()]).upstream


@pytest.mark.parametrize("key", PROVIDER_RUNS)
@pytest.mark.parametrize("value", [{}, [], True, "on", {"enable": True}, 1])
def test_b100_l6_a_key_that_makes_the_provider_act_is_removed(key: str, value: Any) -> None:
    plain = request("read")
    assert sent({**plain, key: value}) == sent(plain)
    # However it stands, and however a lenient server spells it.
    assert sent({key.title().replace("_", ""): value, **plain}) == sent(plain)
    twice = json.dumps({**plain, "x": 0}).replace(
        '"x": 0', f'"{key}":null,"{key}":{json.dumps(value)}'
    )
    assert sent(twice.encode()) == sent(plain)


def test_l6_a_rule_that_asks_is_not_enough_as_nobody_could_be_asked() -> None:
    given = policy(mode("plan", "read", Rule(Effect.ASK, "*")))
    assert "web_search_options" not in sent({**request("read"), "web_search_options": {}}, given)


@pytest.mark.parametrize(("key", "name"), PROVIDER_RUNS.items())
def test_b100_it_stays_where_the_policy_allows_it_or_it_is_off(key: str, name: str) -> None:
    assert sent({**request("read"), key: {"a": 1}}, rules("read", name))[key] == {"a": 1}
    for off in (None, False):
        assert sent({**request("read"), key: off})[key] == off
    body = json.dumps({**request("read"), key: {}}).encode()
    assert Session("default").step(body, [said()]).requests == [body]


def refused(body: dict[str, Any]) -> str:
    got = Session().step(body, [said()])
    assert got.requests == []
    assert got.head is not None
    assert got.head.status == 400
    return str(got.json["error"]["message"])


@pytest.mark.parametrize(("key", "name"), PROVIDER_KEEPS.items())
def test_l6_a_stored_request_is_refused_unless_allowed(key: str, name: str) -> None:
    message = refused({**request("read"), key: {"id": "pmpt_1"}})
    assert repr(key) in message
    assert f"allow the tool {name!r}" in message
    assert sent({**request("read"), key: "x"}, rules("read", name))[key] == "x"
    assert sent({**request("read"), key: None})[key] is None


MODELS = {
    "openai/gpt-4o:online": "web_search",
    "openai/gpt-4o:ONLINE": "web_search",
    "x:online/linkup-deep": "web_search",
    "x:free:online": "web_search",
    "default:enable_web_search=on": "web_search",
    "default:a=b&enable_web_scraping=true": "web_search",
    "default:enable_x_search=true": "web_search",
    "gpt-4o-search-preview": "web_search",
    "gpt-5-search-api-2026": "web_search",
    "o3-deep-research": "web_search",
    "sonar-pro": "web_search",
    "perplexity/sonar": "web_search",
    "groq/compound-mini": "compound",
    "openrouter/groq/compound": "compound",
    "compound-beta": "compound",
    "@preset/coder": "preset",
    "openai/gpt-4o@preset/coder": "preset",
}


@pytest.mark.parametrize(("model", "name"), MODELS.items())
def test_b100_l6_a_model_that_acts_by_itself_is_refused_unless_allowed(
    model: str, name: str
) -> None:
    message = refused({**request("read"), "model": model})
    assert repr(model) in message
    assert f"allow the tool {name!r}" in message
    assert sent({**request("read"), "model": model}, rules("read", name))["model"] == model


def test_each_pattern_of_models_is_tested() -> None:
    for pattern, name in MODELS_RUN:
        assert [m for m, n in MODELS.items() if n == name and glob_matches(pattern, m.lower())], (
            pattern
        )


@pytest.mark.parametrize(
    "model", ["gpt-5", "openai/gpt-5:free", "qwen3-coder:30b", "my-sonar", "online"]
)
def test_other_models_are_asked(model: str) -> None:
    assert sent({**request("read"), "model": model})["model"] == model


HIDDEN = [
    {"tools": [tool("write")]},
    {"google": {"tools": [{"googleSearch": {}}]}},
    {"google": {"cached_content": "cachedContents/1"}},
    {"google": {"cachedContent": "cachedContents/1"}},
    {"a": [{"b": {"Web-Search-Options": {}}}]},
    {"plugins": [{"id": "web"}]},
    {"enable_search": True},
    {"model": "x:online"},
    {"tool_choice": "required"},
    {"messages": []},
    [{"model": "m", "mcp_servers": []}],
]


@pytest.mark.parametrize("carrier", sorted(CARRIERS))
@pytest.mark.parametrize("content", HIDDEN, ids=[json.dumps(one) for one in HIDDEN])
def test_l6_a_key_that_carries_another_request_is_looked_through(
    carrier: str, content: Any
) -> None:
    assert "mode 'plan'" in refused({**request("read"), carrier: content})


@pytest.mark.parametrize("carrier", ["models", "fallbacks", "context_window_fallbacks"])
def test_l6_a_fallback_is_a_model_too(carrier: str) -> None:
    assert "'b:online'" in refused({**request("read"), carrier: ["a", "b:online"]})
    assert sent({**request("read"), carrier: ["a", "b"]})[carrier] == ["a", "b"]


@pytest.mark.parametrize(
    ("carrier", "content"),
    [
        ("extra_body", {"google": {"thinking_config": {"include_thoughts": True}}}),
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("venice_parameters", {"enable_web_search": False, "strip_thinking_response": True}),
        ("provider_options", {"gateway": {"order": ["x"]}}),
        ("extra_body", None),
    ],
)
def test_harmless_content_of_a_carrier_passes(carrier: str, content: Any) -> None:
    assert sent({**request("read"), carrier: content})[carrier] == content


@pytest.mark.parametrize("key", ["tools", "functions", "Tools"])
def test_tools_inside_a_message_are_refused(key: str) -> None:
    message = refused(
        request("read", messages=[USER, {"role": "system", "content": "", key: [tool("write")]}])
    )
    assert "messages[1] declares tools" in message


@pytest.mark.parametrize("key", ["custom_tools", "functionDeclarations", "toolConfig"])
def test_keys_of_another_api_that_declare_tools_are_refused(key: str) -> None:
    """A server that translates could take them; empty they declare nothing."""
    assert f"the key {key!r} is not one of this API's" in refused({**request("read"), key: [{}]})
    assert key in sent({**request("read"), key: []})
