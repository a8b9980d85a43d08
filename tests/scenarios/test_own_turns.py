"""A provider that refuses what modegate put in, over real sockets: what it takes is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.playbook import call, chunk, request, said, stream
from support.raw_upstream import RawUpstream, chunked, whole
from support.running import Running, client, running

THOUGHT = stream(chunk({"reasoning_content": "Hm."}), call("write", id_="call_of_write"))
REFUSED = whole(
    b'{"error":{"message":"property \'reasoning_content\' is unsupported"}}', status=400
)
ODD = whole(b'{"error":{"message":"unexpected role"}}', status=400)


def ask(*history: dict[str, Any]) -> bytes:
    """Return a request."""
    first = {"role": "user", "content": "rename foo"}
    return json.dumps(request("read", "write", messages=[first, *history], stream=True)).encode()


async def step(proxy: Running, body: bytes, session: str = "s") -> bytes:
    """Send a request; give the answer's body."""
    async with client() as http:
        url = f"{proxy.base(session)}/chat/completions"
        answer = await http.post(url, content=body)
    assert answer.status_code == 200
    return answer.content


async def test_n014_what_a_provider_takes_is_known_to_the_next_session(tmp_path: Path) -> None:
    async with RawUpstream(ODD) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(THOUGHT), REFUSED, chunked(said("fine")))
        up.enqueue(chunked(THOUGHT), chunked(said("fine")))
        for session in ("one", "two"):
            await proxy.set_mode("plan", session)
            assert b"fine" in await step(proxy, ask(), session)
    sent = [json.loads(one.body)["messages"][-2] for one in up.requests]
    assert ["reasoning_content" in one for one in sent] == [False, True, False, False, False]


async def test_what_was_put_back_and_refused_is_put_back_no_more(tmp_path: Path) -> None:
    """The second request of the agent is answered, and the third is asked once."""
    done = {"role": "assistant", "content": "Done."}
    history = [done, {"role": "user", "content": "and now?"}]
    async with RawUpstream(ODD) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(stream(call("write", id_="call_of_write"))), chunked(said("Done.")))
        up.enqueue(ODD, chunked(said("fine")), chunked(said("fine")))
        await proxy.set_mode("plan")
        await step(proxy, ask())
        for _ in range(2):
            assert b"fine" in await step(proxy, ask(*history))
        kinds = [event["type"] for event in await proxy.events()]
    sizes = [len(json.loads(one.body)["messages"]) for one in up.requests]
    assert sizes == [2, 4, 6, 4, 4]
    assert kinds.count("history/refused") == 1
