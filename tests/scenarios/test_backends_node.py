"""The table of back ends, read by the SDKs for Node: through the proxy as well as without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modegate.core.errors import DialectName
from support.backends.agents import NAMES, SCHEMA, SYSTEM
from support.backends.entry import BACK_ENDS, BackEnd, Json
from support.backends.model import READ
from support.backends.server import PATHS, BackEnds
from support.backends.speak import Speech, Turn, answer
from support.differential.sdks import NodeSdks, Told
from support.raw_upstream import RawUpstream
from support.running import client, running

POLICIES = "modes: {plan: {section: s, tools: [read]}}"


@pytest.fixture(scope="module")
def node() -> Iterator[NodeSdks]:
    with NodeSdks(NAMES) as sdks:
        yield sdks


def request(entry: BackEnd, words: str) -> Json:
    """Return an agent's first request."""
    user = {"role": "user", "content": words}
    body: Json = {"model": f"{entry.key}/node-{words}", "stream": True}
    if entry.api == "chat":
        tools: Any = [
            {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
        ]
        return body | {"messages": [{"role": "system", "content": SYSTEM}, user], "tools": tools}
    if entry.api == "messages":
        tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
        return body | {"max_tokens": 2000, "system": SYSTEM, "messages": [user], "tools": tools}
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
    return body | {"instructions": SYSTEM, "input": [user], "tools": tools, "store": False}


def direct(entry: BackEnd, turn: Turn) -> bytes:
    """Return the back end's own answer, as it comes without a proxy."""
    return b"".join(Speech(entry, answer(entry, turn, 1, "m")).stream())


@pytest.mark.timeout(300)
async def test_node_reads_what_is_released(tmp_path: Path, node: NodeSdks) -> None:
    """Of a call that is allowed and one that is not, what each SDK finds is the allowed one, read as ever."""
    asked: list[tuple[DialectName, bytes, bool, int]] = []
    async with RawUpstream(BackEnds()) as up:
        policies = tmp_path / "policies.yaml"
        policies.write_text(POLICIES, encoding="utf-8")
        async with running(tmp_path, up.base_url, policies=policies) as proxy, client() as http:
            for entry in BACK_ENDS:
                for words in ("both", "write"):
                    session = f"{entry.key}-{words}"
                    await proxy.set_mode("plan", session)
                    url = f"{proxy.url}/s/{session}{PATHS[entry.api].decode()}"
                    got = await http.post(url, json=request(entry, words))
                    asked.append((entry.api, got.content, True, 0))
    through = node.calls(asked)
    alone = node.calls([(e.api, direct(e, Turn("Hm.", (READ,))), True, 0) for e in BACK_ENDS])
    wrong = [
        (entry.key, sdk, bare[sdk], calls)
        for entry, bare, told in zip(
            BACK_ENDS, map(found, alone), map(found, through[::2]), strict=True
        )
        for sdk, calls in told.items()
        if calls != READS and (bare[sdk] == READS or calls != bare[sdk])
    ]
    assert wrong == []
    assert [
        entry.key
        for entry, one in zip(BACK_ENDS, through[1::2], strict=True)
        if any(found(one).values())
    ] == []
    read = [sdk for one in map(found, through[::2]) for sdk, calls in one.items() if calls == READS]
    assert len(read) > 3 * len(BACK_ENDS), "most of them read most answers"


READS = [("read", {"path": "a.py"})]


def found(told: Told) -> dict[str, list[tuple[str, Any]]]:
    """Return the calls that each SDK found and an agent could run; LangChain lists each in two places."""
    return {
        sdk: once([(name, parsed(arguments)) for name, arguments in calls if name])
        for sdk, calls in told.items()
    }


def once(calls: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return each call once."""
    return [call for at, call in enumerate(calls) if call not in calls[:at]]


def parsed(arguments: Any) -> Any:
    """Return arguments as an object; what is none stays as it is."""
    if isinstance(arguments, dict):
        return arguments["value"]
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
