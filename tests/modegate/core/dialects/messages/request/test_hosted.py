"""What the provider would run by itself is taken out of a request, or the request is refused (L6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.policy.model import Effect
from support.messages import USER, names, refused, request, rules, sent, tool
from support.playbook import SECTION, rule

CODE = rules("read", "code_execution")
ASKS = rules("read", rule("code_execution", effect=Effect.ASK))


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_fetch_20260318", "name": "web_fetch"},
        {"type": "code_execution_20260521", "name": "code_execution"},
        {"type": "advisor_20260301", "name": "advisor", "model": "m"},
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
        {"type": "web_search", "name": "read"},
    ],
    ids=lambda definition: str(definition["type"]),
)
def test_b100_a_tool_of_the_providers_is_removed_unless_allowed(definition: dict[str, Any]) -> None:
    assert names(sent(request("read", definition))) == ["read"]
    assert names(sent(request(definition, tool_choice={"type": "any"}))) == []
    name = "mcp" if "name" not in definition else definition["type"].split("_20")[0]
    assert sent(request("read", definition), rules("read", name))["tools"][1] == definition


@pytest.mark.parametrize(
    "definition",
    [{"type": "bash_20250124", "name": "bash"}, {"type": "memory_20250818", "name": "memory"}],
)
def test_b100_a_tool_that_the_agent_runs_is_filtered_by_its_name(
    definition: dict[str, Any],
) -> None:
    assert names(sent(request("read", definition))) == ["read"]
    assert (
        sent(request("read", definition), rules("read", definition["name"]))["tools"][1]
        == definition
    )


@pytest.mark.parametrize(
    "key", ["web_search_options", "plugins", "search_parameters", "background"]
)
def test_keys_of_gateways_go(key: str) -> None:
    assert sent({**request("read"), key: {"a": 1}}) == sent(request("read"))


def test_keys_and_models_that_cannot_go_are_refused() -> None:
    assert "'preset'" in refused(request("read", preset="x"))
    assert "the model" in refused(request("read", model="claude:online"))
    assert "'extra_body'" in refused(request("read", extra_body={"tools": []}))
    assert "declares tools" in refused(
        request("read", messages=[{**USER, "tools": [tool("write")]}])
    )


def test_servers_that_the_provider_asks_go_and_a_choice_among_nothing_too() -> None:
    entry = {"type": "url", "name": "docs", "url": "https://docs"}
    assert sent(request(mcp_servers=[entry], tool_choice={"type": "any"})) == request()
    assert sent(request("read", mcp_servers=[entry])) == sent(request("read"))


# Containers.


@pytest.mark.parametrize(
    "container", ["c_1", {"id": "c_1"}, {"id": "c_1", "skills": []}, {"skills": None}]
)
def test_a_container_goes_where_no_code_may_run(container: Any) -> None:
    body = request("read", container=container)
    for policy_ in (rules("read"), ASKS):
        assert sent(body, policy_) == sent(request("read"))
    assert sent(body, CODE)["container"] == container


@pytest.mark.parametrize(
    "container",
    [
        '{"skills":[{"type":"anthropic","skill_id":"pptx"}]}',
        '{"id":"c","skills":[{}],"skills":[]}',
        '{"skills":"all"}',
    ],
)
def test_skills_are_refused_where_no_code_may_run(container: str) -> None:
    body = json.dumps(request("read", container="%")).replace('"%"', container).encode()
    assert "'container' holds skills" in refused(body)
    assert "allow the tool 'code_execution'" in refused(body, ASKS)
    assert "container" in sent(body, CODE)


def test_no_container_stays_no_container() -> None:
    assert sent(request("read", container=None))["container"] is None


# Conversations that the provider keeps.


def test_the_provider_is_not_asked_to_keep_the_conversation() -> None:
    assert sent(request("read", thread={"type": "create"})) == sent(request("read"))
    assert sent(request("read", thread=None))["thread"] is None


@pytest.mark.parametrize(
    "thread",
    [
        '{"type":"continue","previous_message_id":"msg_1"}',
        '{"type":"create","type":"continue","previous_message_id":"msg_1"}',
        '{"type":"continue","type":"create"}',
        '{"type":"create","previous_message_id":"msg_1"}',
        '"create"',
    ],
)
def test_one_that_it_keeps_is_refused_as_its_tools_are_kept_too(thread: str) -> None:
    body = json.dumps(request(thread="%")).replace('"%"', thread).encode()
    assert "send the whole conversation" in refused(body)


# Calls of the provider's own that would go on.


def call(
    name: str = "web_search", id_: str = "s1", kind: str = "server_tool_use"
) -> dict[str, Any]:
    return {"type": kind, "id": id_, "name": name, "input": {}}


def result(id_: str = "s1", kind: str = "web_search_tool_result") -> dict[str, Any]:
    return {"type": kind, "tool_use_id": id_, "content": []}


def answer(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": "so"}, *blocks]}


MCP = {**call("find", kind="mcp_tool_use"), "server_name": "docs"}

PENDING: dict[str, tuple[list[Any], str]] = {
    "at the end": ([USER, answer(call())], "web_search"),
    "behind one that has its result": (
        [USER, answer(call(), result(), call(id_="s2"))],
        "web_search",
    ),
    "with a result of another kind": (
        [USER, answer(call(), result(kind="tool_result"))],
        "web_search",
    ),
    "waiting for a tool of the agent's": (
        [
            USER,
            answer(call("code_execution"), {**call("read", "t1"), "type": "tool_use"}),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
        ],
        "code_execution",
    ),
    "a part of code execution": ([USER, answer(call("bash_code_execution"))], "code_execution"),
    "another part": ([USER, answer(call("text_editor_code_execution"))], "code_execution"),
    "in a message of several": ([USER, answer(call()), answer()], "web_search"),
    "that nobody knows": ([USER, answer(call("spawn"))], "spawn"),
    "at a server": ([USER, answer(MCP)], "mcp__docs__find"),
}


@pytest.mark.parametrize(("messages", "name"), PENDING.values(), ids=PENDING)
def test_l6_an_unfinished_call_is_refused_unless_allowed(messages: list[Any], name: str) -> None:
    body = request("read", messages=messages)
    assert "that the provider would now run" in refused(body)
    assert sent(body, rules("read", name))["messages"] == messages


def test_an_unfinished_call_at_a_server_is_allowed_with_its_server() -> None:
    messages = PENDING["at a server"][0]
    assert sent(request("read", messages=messages), rules("mcp"))["messages"] == messages


def test_l6_a_name_in_escapes_is_seen() -> None:
    body = json.dumps(request("read", messages=[USER, answer(call())]))
    hidden = body.replace("server_tool_use", "server\\u005ftool_use")
    assert "that the provider would now run" in refused(hidden.encode())


def test_l4_a_key_that_stands_twice_beside_one_is_refused() -> None:
    body = json.dumps(request("read", messages=[USER, answer(call(), result())]))
    twice = body.replace('{"role": "assistant"', '{"role": "assistant", "content": []')
    assert "messages[1] holds a key twice" in refused(twice.encode())


@pytest.mark.parametrize(
    "messages",
    [
        [USER, answer(call(), result()), USER],
        [USER, answer(call("web_search"), result(), {**call("read", "t1"), "type": "tool_use"})],
        [USER, answer(MCP, result(kind="mcp_tool_result")), USER],
        [{"role": "user", "content": "server_tool_use of web_search"}],
    ],
)
def test_calls_that_are_over_stay_in_the_history(messages: list[Any]) -> None:
    assert sent(request("read", messages=messages)) == {
        **request("read", messages=messages),
        "system": SECTION,
    }


@pytest.mark.parametrize("key", ["functions", "function_call", "custom_tools", "toolConfig"])
def test_keys_of_another_api_that_declare_tools_are_refused(key: str) -> None:
    """A gateway that translates this API could take them for the model's tools."""
    assert f"the key {key!r} is not one of this API's" in refused(request("read", **{key: [{}]}))
