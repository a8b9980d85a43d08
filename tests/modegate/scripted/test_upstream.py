"""The scripted upstream, running the example of its documentation."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modegate.core.errors import UpstreamFailed
from modegate.core.policy.file.problems import PolicyProblems
from modegate.scripted.model import Answer, Fixed, Script, Turn
from modegate.scripted.upstream import KEPT_REQUESTS, ScriptedAnswer, ScriptedUpstream
from modegate.server.upstream.protocol import UpstreamRequest

DOCS = Path(__file__).parents[3] / "docs" / "scripted.md"
TOOLS = [
    {"type": "function", "function": {"name": name}} for name in ("read", "write", "exit_plan_mode")
]
USER = {"role": "user", "content": "Write notes.txt"}
REFUSED = {"role": "tool", "tool_call_id": "c", "content": "This call was refused."}


def request(*messages: Any, **fields: Any) -> UpstreamRequest:
    body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
    return UpstreamRequest("POST", b"/v1/chat/completions?x=1", [], body)


def say(text: str, **fields: Any) -> UpstreamRequest:
    return request({"role": "user", "content": text}, tools=TOOLS, **fields)


async def no_sleep(_seconds: float) -> None:
    raise AssertionError("nothing here has a pace")


@pytest.fixture
def example(tmp_path: Path) -> ScriptedUpstream:
    match = re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert match
    path = tmp_path / "example.yaml"
    path.write_text(match[1])
    return ScriptedUpstream.from_file(path)


async def read(answer: ScriptedAnswer) -> Any:
    return json.loads(b"".join([piece async for piece in answer.chunks()]))


async def message(upstream: ScriptedUpstream, sent: UpstreamRequest) -> Any:
    return (await read(await upstream.send(sent)))["choices"][0]["message"]


async def test_the_documented_story(example: ScriptedUpstream) -> None:
    first = await message(example, request(USER, tools=TOOLS))
    assert first["tool_calls"][0]["function"]["name"] == "write"
    second = await message(example, request(USER, first, REFUSED, tools=TOOLS))
    assert second["tool_calls"][0]["function"]["name"] == "exit_plan_mode"
    done = {**REFUSED, "content": "ok"}
    assert (await message(example, request(USER, first, done, tools=TOOLS)))["content"] == "Done."
    assert (await message(example, request(USER)))["content"] == "A title"
    assert len(example.requests) == 4
    assert json.loads(example.requests[-1])["messages"] == [USER]


async def test_a_documented_error(example: ScriptedUpstream) -> None:
    answer = await example.send(say("slow down"))
    assert answer.status == 429
    assert (b"retry-after", b"2") in answer.headers
    assert (await read(answer))["error"]["type"] == "rate_limit_error"


async def test_documented_broken_frames(example: ScriptedUpstream) -> None:
    answer = await example.send(say("garble", stream=True))
    frames = [piece async for piece in answer.chunks()]
    assert frames[0].endswith(b"half a fra\n\n")
    assert frames[1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_documented_cut(example: ScriptedUpstream, stream: bool) -> None:
    answer = await example.send(say("hang up", stream=stream))
    pieces: list[bytes] = []

    async def take() -> None:
        async for piece in answer.chunks():
            pieces.append(piece)  # noqa: PERF401 -- what came before the break must be kept

    with pytest.raises(UpstreamFailed):
        await take()
    said = b"".join(pieces)
    assert b'finish_reason":null' in said if stream else said.startswith(b'{"id"')
    assert b"[DONE]" not in said
    assert b"stop" not in said


async def test_frames_come_at_their_pace() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    script = Script("s", (Answer(Turn("ab", chunk=1), pace_ms=20),))
    answer = await ScriptedUpstream(script, sleep=sleep).send(say("x", stream=True))
    pieces = [piece async for piece in answer.chunks()]
    assert len(pieces) == 5
    assert waits == [0.02] * 4


async def test_a_closed_answer_says_no_more() -> None:
    script = Script("s", (Answer(Turn("abc", chunk=1)),))
    answer = await ScriptedUpstream(script, sleep=no_sleep).send(say("x", stream=True))
    chunks = answer.chunks()
    await anext(chunks)
    await answer.close()
    assert [piece async for piece in chunks] == []


async def test_times_count_answers_given() -> None:
    upstream = ScriptedUpstream(Script("s", (Answer(Turn("once"), times=1), Answer(Turn("then")))))
    said = [(await message(upstream, say("x")))["content"] for _ in range(3)]
    assert said == ["once", "then", "then"]


async def test_a_request_without_an_answer_is_told_how_it_looked() -> None:
    upstream = ScriptedUpstream(Script("my.yaml", ()))
    answer = await upstream.send(say("What now?"))
    assert answer.status == 400
    text = (await read(answer))["error"]["message"]
    assert text.startswith("script my.yaml has no answer to this request: 1 messages")
    assert "What now?" in text
    assert "write" in text


async def test_a_body_that_is_no_request_is_refused(example: ScriptedUpstream) -> None:
    answer = await example.send(UpstreamRequest("POST", b"/v1/chat/completions", [], b"no"))
    assert answer.status == 400
    assert "not JSON" in (await read(answer))["error"]["message"]


async def test_a_streamed_body_is_put_together(example: ScriptedUpstream) -> None:
    sent = request(USER, tools=TOOLS)

    async def pieces() -> AsyncIterator[bytes]:
        assert isinstance(sent.body, bytes)
        yield sent.body[:10]
        yield sent.body[10:]

    await example.send(UpstreamRequest("POST", sent.target, [], pieces()))
    assert list(example.requests) == [sent.body]


async def test_one_model_is_listed(example: ScriptedUpstream) -> None:
    answer = await example.send(UpstreamRequest("GET", b"/v1/models", [], b""))
    assert [model["id"] for model in (await read(answer))["data"]] == ["scripted"]
    await example.close()


@pytest.mark.parametrize(
    ("method", "target"), [("POST", b"/v1/completions"), ("GET", b"/v1/messages")]
)
async def test_other_endpoints_are_not_known(
    example: ScriptedUpstream, method: str, target: bytes
) -> None:
    answer = await example.send(UpstreamRequest(method, target, [], b""))
    assert answer.status == 404
    assert f"{method} {target.decode()}" in (await read(answer))["error"]["message"]
    assert not example.requests


async def test_only_the_last_requests_are_kept() -> None:
    upstream = ScriptedUpstream(Script("s", (Answer(Turn("a")),)))
    for number in range(KEPT_REQUESTS + 1):
        await upstream.send(say(str(number)))
    assert len(upstream.requests) == KEPT_REQUESTS
    assert b'"1"' in upstream.requests[0]


def test_a_bad_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("answers:\n  - pace: fast\n")
    with pytest.raises(PolicyProblems, match="line 2"):
        ScriptedUpstream.from_file(path)


BODIES: dict[bytes, dict[str, Any]] = {
    b"/v1/chat/completions": {"messages": [USER]},
    b"/v1/responses": {"input": [USER]},
    b"/v1/messages": {"messages": [USER]},
}


@pytest.mark.parametrize("target", BODIES)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_path_says_in_which_dialect_an_answer_is(target: bytes, stream: bool) -> None:
    upstream = ScriptedUpstream(Script("s", (Answer(Turn("Hello")),)))
    body = json.dumps({"model": "m", "stream": stream, **BODIES[target]}).encode()
    answer = await upstream.send(UpstreamRequest("POST", target, [], body))
    said = b"".join([piece async for piece in answer.chunks()])
    marks = {
        b"/v1/chat/completions": b"chat.completion",
        b"/v1/responses": b'"object":"response"',
        b"/v1/messages": b'"stop_reason"',
    }
    assert [mark for mark in marks.values() if mark in said] == [marks[target]]
    assert said.startswith(b"{") is not stream


async def test_errors_are_in_the_words_of_the_dialect() -> None:
    upstream = ScriptedUpstream(Script("s", (Answer(Fixed(None), status=529, times=1),)))
    for status, message in ((529, "the script answers 529"), (400, "script s has no answer")):
        answer = await upstream.send(UpstreamRequest("POST", b"/v1/messages", [], b"{}"))
        error = await read(answer)
        assert answer.status == status
        assert error["type"] == "error"
        assert error["error"]["message"].startswith(message)


async def test_tokens_are_counted(example: ScriptedUpstream) -> None:
    target = b"/v1/messages/count_tokens?beta=true"
    body = json.dumps({"messages": [USER]}).encode()
    answer = await example.send(UpstreamRequest("POST", target, [], body))
    assert await read(answer) == {"input_tokens": len(body) // 4}
    assert not example.requests, "it is no request for an answer"
    broken = await example.send(UpstreamRequest("POST", target, [], b"no"))
    assert broken.status == 400
    assert (await read(broken))["type"] == "error"
