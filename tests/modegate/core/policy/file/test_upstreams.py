"""`upstreams` and `routes` of a policy file, and every mistake that can be in them."""

from __future__ import annotations

import pytest

from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.upstreams import Pool, Route, Timeouts, UpstreamSpec, Value
from support.policies import parse

MODES = "modes: {plan: {section: s, tools: [read]}}\n"
FULL = """\
upstreams:
  openai:
    url: https://api.openai.com/v1
    headers: {X-Team: agents, openai-organization: {env: ORG}}
    key: {env: OPENAI_API_KEY}
    timeouts: {connect: 2s, read: 30m}
    pool: {size: 100, keep_alive: 15}
    proxy: http://proxy:3128
    ca: /etc/ssl/corp.pem
  azure:
    url: https://acme.openai.azure.com/openai/deployments/gpt-4o
    strip_v1: true
    query: {api-version: "2024-10-21"}
    headers: {api-key: {env: AZURE_KEY}}
    proxy: {env: PROXY}
    timeouts: {read: 600}
    pool: {keep_alive: 5}
  gemini: {litellm: "gemini/*", key: {env: GEMINI_API_KEY}}
  local: {url: "http://localhost:11434", proxy: none, pool: {size: 8}}
routes:
  - {dialect: messages, model: "claude-*", upstream: openai}
  - {model: "gpt-4o", upstream: azure}
  - {dialect: chat, upstream: gemini}
  - {model: "*", upstream: local}
"""


def test_every_key_is_read() -> None:
    policy = parse(MODES + FULL)
    assert policy.upstreams == {
        "openai": UpstreamSpec(
            name="openai",
            url="https://api.openai.com/v1",
            headers=(("x-team", Value("agents")), ("openai-organization", Value(env="ORG"))),
            key="OPENAI_API_KEY",
            timeouts=Timeouts(2.0, 1800.0),
            pool=Pool(100, 15.0),
            proxy=Value("http://proxy:3128"),
            ca="/etc/ssl/corp.pem",
        ),
        "azure": UpstreamSpec(
            name="azure",
            url="https://acme.openai.azure.com/openai/deployments/gpt-4o",
            strip_v1=True,
            query=(("api-version", "2024-10-21"),),
            headers=(("api-key", Value(env="AZURE_KEY")),),
            proxy=Value(env="PROXY"),
            timeouts=Timeouts(read=600.0),
            pool=Pool(keep_alive=5.0),
        ),
        "gemini": UpstreamSpec(name="gemini", litellm="gemini/*", key="GEMINI_API_KEY"),
        "local": UpstreamSpec(
            name="local", url="http://localhost:11434", proxy="none", pool=Pool(8)
        ),
    }
    assert policy.routes == (
        Route("openai", "messages", "claude-*"),
        Route("azure", None, "gpt-4o"),
        Route("gemini", "chat"),
        Route("local"),
    )


def test_upstreams_and_routes_are_part_of_the_meaning() -> None:
    texts = [
        MODES,
        MODES + FULL,
        MODES + FULL.replace("gpt-4o", "gpt-5"),
        MODES + FULL.replace("chat", "responses"),
        MODES + FULL.replace("OPENAI_API_KEY", "OTHER"),
    ]
    assert len({parse(text).hash for text in texts}) == len(texts)
    assert parse(MODES + "# a remark\n" + FULL).hash == parse(MODES + FULL).hash


def upstream(text: str) -> str:
    return f"{MODES}upstreams: {{u: {{{text}}}}}\nroutes: [{{upstream: u}}]\n"


def routes(text: str) -> str:
    return f'{MODES}upstreams: {{u: {{url: "http://h"}}}}\nroutes: {text}\n'


URL = 'url: "http://h", '

MISTAKES = {
    "nowhere to go": (upstream('key: {env: "K"}'), "upstreams.u", "needs the key 'url'"),
    "a url of another type": (upstream("url: 1"), "upstreams.u.url", "must be a string"),
    "not a url": (upstream("url: h/v1"), "upstreams.u.url", "looks like https://host/v1"),
    "a password": (upstream('url: "https://u:geheim@h"'), "upstreams.u.url", "no user or password"),
    "a query": (upstream('url: "https://h?key=geheim"'), "upstreams.u.url", "has no query"),
    "no secrets": (upstream(URL + "key: geheim"), "upstreams.u.key", "environment variable"),
    "no secrets by variable": (
        upstream(URL + 'key: {env: "sk-geheim"}'),
        "upstreams.u.key.env",
        "environment variable",
    ),
    "no variable": (upstream(URL + "key: {}"), "upstreams.u.key", "needs the key 'env'"),
    "a variable of another type": (
        upstream(URL + "key: {env: 1}"),
        "upstreams.u.key.env",
        "must be a string",
    ),
    "unknown key": (upstream(URL + "timeout: 1"), "upstreams.u.timeout", "did you mean 'timeouts'"),
    "not a mapping": (
        MODES + "upstreams: {u: 1}\nroutes: [{upstream: u}]",
        "upstreams.u",
        "mapping",
    ),
    "a secret in a header": (
        upstream(URL + "headers: {Authorization: geheim}"),
        "upstreams.u.headers.Authorization",
        "is a credential",
    ),
    "hop by hop": (
        upstream(URL + "headers: {connection: x}"),
        "upstreams.u.headers.connection",
        "cannot be set",
    ),
    "of modegate": (
        upstream(URL + "headers: {X-Modegate-Session: x}"),
        "upstreams.u.headers.X-Modegate-Session",
        "cannot be set",
    ),
    "no header": (
        upstream(URL + 'headers: {"a b": x}'),
        "upstreams.u.headers.a b",
        "not a header's name",
    ),
    "twice": (
        upstream(URL + "headers: {x-a: x, X-A: y}"),
        "upstreams.u.headers.X-A",
        "do not differ by case",
    ),
    "a line break": (
        upstream(URL + 'headers: {x-a: "x\\ny"}'),
        "upstreams.u.headers.x-a",
        "no header can carry",
    ),
    "no header value": (
        upstream(URL + "headers: {x-a: no}"),
        "upstreams.u.headers.x-a",
        "quote it",
    ),
    "no time": (
        upstream(URL + "timeouts: {connect: 0}"),
        "upstreams.u.timeouts.connect",
        "more than nothing",
    ),
    "not a time": (
        upstream(URL + "timeouts: {read: long}"),
        "upstreams.u.timeouts.read",
        "must be seconds",
    ),
    "no connections": (
        upstream(URL + "pool: {size: 0}"),
        "upstreams.u.pool.size",
        "between 1 and",
    ),
    "a proxy's password": (
        upstream(URL + 'proxy: "http://u:geheim@p:1"'),
        "upstreams.u.proxy",
        "{env: NAME}",
    ),
    "not a proxy": (upstream(URL + 'proxy: "http://[p"'), "upstreams.u.proxy", "must be none"),
    "a proxy of another type": (upstream(URL + "proxy: 1"), "upstreams.u.proxy", "a string"),
    "a relative file": (upstream(URL + "ca: ca.pem"), "upstreams.u.ca", "absolute path"),
    "not a switch": (upstream(URL + "strip_v1: on"), "upstreams.u.strip_v1", "true or false"),
    "a date": (
        upstream(URL + "query: {api-version: 2024-10-21}"),
        "upstreams.u.query.api-version",
        "quote it",
    ),
    "no provider": (upstream("litellm: gpt-5"), "upstreams.u.litellm", "with its provider"),
    "two stars": (upstream('litellm: "a/*/*"'), "upstreams.u.litellm", "with its provider"),
    "not with litellm": (
        upstream('litellm: "a/*", ca: /x'),
        "upstreams.u.ca",
        "no meaning with litellm",
    ),
    "name": (
        MODES + 'upstreams: {"a b": {url: "http://h"}}\nroutes: [{upstream: "a b"}]',
        "upstreams.a b",
        "not a name",
    ),
    "no routes": (MODES + 'upstreams: {u: {url: "http://h"}}', "upstreams", "needs routes"),
    "no such upstream": (routes("[{upstream: v}]"), "routes[0].upstream", "no such upstream"),
    "no upstream": (routes("[{model: v}]"), "routes[0]", "needs the key 'upstream'"),
    "no such dialect": (
        routes("[{dialect: completions, upstream: u}]"),
        "routes[0].dialect",
        "must be one of: chat, responses, messages",
    ),
    "never reached": (
        routes("[{upstream: u}, {model: m, upstream: u}]"),
        "routes[1]",
        "never reached",
    ),
    "empty": (routes("[]"), "routes", "must not be empty"),
    "not a route": (routes("[u]"), "routes[0]", "must be a mapping"),
}


@pytest.mark.parametrize(("text", "place", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_where_it_is_and_no_secret_is_repeated(
    text: str, place: str, words: str
) -> None:
    with pytest.raises(PolicyProblems) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert problem.path == place
    assert words in problem.message
    assert "geheim" not in str(problem)
