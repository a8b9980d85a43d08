"""A dialect is one package and one line: one that modegate does not have is served all the way through."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from modegate.core.dialects.registered import DIALECTS, Dialects
from support.raw_upstream import RawUpstream, chunked, whole
from support.running import Running, client, policies_file, running
from support.talk_dialect import TALK

WITH_TALK = Dialects((*DIALECTS, TALK))
POLICY = """
modes:
  plan: {section: PLAN-SECTION, tools: [read]}
upstreams:
  talker: {url: "URL", key: {env: TALK_KEY}}
routes:
  - {dialect: talk, model: "m*", upstream: talker}
"""
USER = {"role": "user", "words": "hi"}
READ = {"id": "c1", "name": "read", "arguments": {"path": "a"}}
WRITE = {"id": "c2", "name": "write", "arguments": {"path": "S3CRET"}}


def asked(*turns: Any) -> dict[str, Any]:
    return {"rules": "Be kind.", "turns": [USER, *turns], "tools": ["read", "write"]}


def said(words: str, *calls: Any) -> bytes:
    return json.dumps(
        {"words": words, "calls": calls, "stop": "calls" if calls else "done"}
    ).encode()


async def post(proxy: Running, path: str, body: dict[str, Any]) -> Any:
    async with client() as web:
        answer = await web.post(f"{proxy.url}{path}", json=body)
    return answer.json() if answer.content else None


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALK_KEY", "k")


def served(folder: Path, up: RawUpstream) -> Any:
    policies = policies_file(folder, POLICY.replace("URL", up.base_url))
    return running(folder, "http://127.0.0.1:9", policies=policies, dialects=WITH_TALK)


async def test_in_default_mode_it_passes_to_the_upstream_of_its_route(tmp_path: Path) -> None:
    async with RawUpstream(whole(said("", WRITE))) as up, served(tmp_path, up) as proxy:
        assert await post(proxy, "/s/s/v1/talk/m1:speak", asked()) == json.loads(said("", WRITE))
        (sent,) = up.requests
        assert json.loads(sent.body) == asked()
        assert sent.target.endswith(b"/talk/m1:speak")
        assert sent.header("x-talk-key") == [b"k"]


async def test_in_a_mode_a_call_is_withheld_answered_and_put_back(tmp_path: Path) -> None:
    answers = iter([said("Let me write. ", WRITE), said("Then I read.", READ), said("Done.")])
    async with RawUpstream(lambda _: whole(next(answers))) as up, served(tmp_path, up) as proxy:
        await proxy.set_mode("plan")
        got = await post(proxy, "/s/s/v1/talk/m1:speak", asked())
        assert got == json.loads(said("Let me write. Then I read.", READ))

        first, second = (json.loads(one.body) for one in up.requests)
        assert first == {**asked(), "rules": "Be kind.\nPLAN-SECTION", "tools": ["read"]}
        (withheld,) = second["turns"][1]["calls"]
        assert withheld == WRITE | {"id": withheld["id"]}
        assert "plan" in second["turns"][2]["words"]

        answer = {"role": "model", "words": got["words"], "calls": got["calls"]}
        result = {"role": "result", "call_id": "c1", "words": "text"}
        last = await post(proxy, "/s/s/v1/talk/m1:speak", asked(answer, result))
        assert last == json.loads(said("Done."))
        third = json.loads(up.requests[2].body)
        assert third["turns"] == [*second["turns"], answer, result]
        judged = [one for one in await proxy.events() if one["type"] == "call/judged"]
    assert [one["data"]["tool"] for one in judged] == ["write", "read"]


async def test_errors_come_in_its_format(tmp_path: Path) -> None:
    async with RawUpstream() as up, served(tmp_path, up) as proxy:
        await proxy.set_mode("plan")
        refused = await post(proxy, "/s/s/v1/talk/m1:sing", asked())
        assert refused["fault"][0] == "endpoint_not_gated"
        assert "/v1/talk/{model}:speak" in refused["fault"][1]
        broken = await post(proxy, "/s/s/v1/talk/m1:speak", {"turns": 1})
        assert broken == {"fault": ["bad_request", "the request has no turns"]}
    assert not up.requests


@pytest.mark.parametrize("mode", ["plan", "default"])
async def test_a_stream_that_its_api_does_not_have_is_not_read(tmp_path: Path, mode: str) -> None:
    stream = chunked(b"data: {}\n\n")
    async with RawUpstream(stream) as up, served(tmp_path, up) as proxy:
        await proxy.set_mode("plan")
        await proxy.set_mode(mode)
        async with client() as web:
            answer = await web.post(f"{proxy.url}/s/s/v1/talk/m1:speak", json=asked())
    if mode == "default":
        assert answer.content == b"data: {}\n\n"
    else:
        assert answer.json()["fault"] == ["answer_unreadable", "the answer is no JSON object"]


async def test_without_an_id_a_session_is_named_by_its_users_first_words(tmp_path: Path) -> None:
    async with RawUpstream(whole(said("ok"))) as up, served(tmp_path, up) as proxy:
        for turns in ((), ({"role": "model", "words": "ok"}, USER)):
            await post(proxy, "/v1/talk/m1:speak", asked(*turns))
        assert proxy.composed is not None
        await proxy.composed.services.batch_writer.flush()
        answer = await proxy.control("GET", "/sessions")
    (session,) = answer.json()["sessions"]
    assert session["id"].startswith("d-")


async def test_a_mode_that_is_set_within_such_a_stream_cuts_it_off(tmp_path: Path) -> None:
    more = asyncio.Event()
    async with (
        RawUpstream(chunked(b"data: {}\n\n", more, b"data: {}\n\n")) as up,
        served(tmp_path, up) as proxy,
        client() as web,
        web.stream("POST", f"{proxy.url}/s/s/v1/talk/m1:speak", json=asked()) as answer,
    ):
        got = answer.aiter_bytes()
        assert await anext(got) == b"data: {}\n\n"
        await proxy.set_mode("plan")
        more.set()
        with pytest.raises(httpx.HTTPError):
            await anext(got)
