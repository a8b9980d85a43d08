"""Chained Responses requests, each at another process than the answer that it goes on from (G1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modegate.core.policy.model import Waits
from support.raw_upstream import RawUpstream, chunked, whole
from support.responses import answer, call, message, response, tool
from support.running import Running, client, running

Json = dict[str, Any]
TOOLS = [tool("read"), tool("write")]
POLICY = """\
modes:
  plan: {section: PLAN-SECTION, tools: [read, exit_plan_mode]}
  review: {section: REVIEW-SECTION, tools: [read, exit_plan_mode]}
"""
WAITS = Waits(nobody=0.05)


def submit(plan: str) -> Json:
    return call("exit_plan_mode", json.dumps({"plan": plan}))


@asynccontextmanager
async def two(folder: Path, upstream: str) -> AsyncIterator[tuple[Running, Running]]:
    """Run two proxies on one log."""
    policies = folder / "policies.yaml"
    policies.write_text(POLICY, encoding="utf-8")
    more: Json = {"policies": policies, "waits": WAITS, "log": f"sqlite:{folder / 'log.db'}"}
    async with running(folder, upstream, **more) as one, running(folder, upstream, **more) as other:
        yield one, other


@pytest.mark.parametrize("way", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_g1_the_lane_is_known_at_every_process(
    tmp_path: Path, way: str, *, streamed: bool
) -> None:
    """One lane: a plan takes the place of the old one, one header, deltas, and one notice."""
    answers = [
        [submit("A")], [message("nobody was there")],
        [submit("B")], [message("nobody again")],
        [message("c")], [message("d")],
    ]  # fmt: skip
    async with RawUpstream() as up, two(tmp_path, up.base_url) as proxies, client() as http:
        for number, items in enumerate(answers, 1):
            body = json.dumps(response(items, n=number)).encode()
            up.enqueue(chunked(answer(*items, n=number)) if streamed else whole(body))
        await proxies[0].set_mode("plan")
        last = ""
        for number, words in enumerate(["first", "no, never do that", "go on", "go on"]):
            proxy = proxies[number % 2]
            if number == 2:
                await proxies[1].set_mode("review")
            more = (
                {"conversation": "conv_1"} if way == "conversation" else {way: last} if last else {}
            )
            asked = {"model": "m", "input": words, "tools": TOOLS, "stream": streamed, **more}
            said = await http.post(f"{proxy.base()}/responses", json=asked)
            assert said.status_code == 200, said.text
            last = (
                "resp_" + said.text.replace(" ", "").partition('"id":"resp_')[2].partition('"')[0]
            )
        events = await proxies[1].events()
        found = await proxies[0].control("GET", "/approvals")
    kinds = [one["type"] for one in events]
    assert kinds.count("request/header") == 1
    assert kinds.count("request/header-delta") == 1
    assert kinds.count("notice/given") == 1
    assert kinds.count("approval/asked") == 2
    closed = [one["data"]["why"] for one in events if one["type"] == "approval/closed"]
    assert closed[0] == "abandoned"
    assert found.json()["approvals"] == []
    told = [b"[modegate] The user changed the mode" in one.body for one in up.requests]
    assert told == [False] * 4 + [True, False]
