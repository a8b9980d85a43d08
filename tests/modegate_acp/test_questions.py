"""A model wants to leave plan mode, and people at ACP clients decide: real sockets, a real agent's SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modegate.core.ids import (
    DEFAULT_MODE,
    CallId,
    Lane,
    SessionId,
    SessionKey,
    StepId,
    Tenant,
    ToolName,
)
from modegate.core.log.approval_events import ApprovalAsked, ApprovalDetached, Option
from modegate.core.log.records import Entry
from modegate.core.policy.model import Waits
from support import acp_story
from support.acp import Client, Connect, Json, is_question, kinds, socket, updated
from support.playbook import request
from support.running import Running, policies_file, running
from support.sdk_clients import openai_client
from support.waiting import PATIENCE

WAITS = Waits(nobody=PATIENCE, streamed=PATIENCE, whole=PATIENCE)
PLAN = "# Rename foo\n\n1. Look\n2. Write"
POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, exit_plan_mode, {ask: fetch}]
    exit: {options: [{label: "Go, edit by edit", to: review}, {label: "Go", to: default}]}
  review:
    section: REVIEW-SECTION
    tools: [read, write]
"""
SCRIPT = """
answers:
  - when: {last_result: "approved the plan", offers: write, lacks: exit_plan_mode}
    text: "Now I write."
  - when: {last_result: "rejected"}
    text: "I revise."
  - when: {last_result: "nobody answered"}
    text: "Please answer."
  - when: {any: "fetch it", offers: fetch}
    text: "I fetch."
    calls: [{name: fetch, arguments: {url: "http://a.example"}}]
  - when: {offers: exit_plan_mode}
    text: "Here is my plan."
    calls: [{name: exit_plan_mode, arguments: {plan: "# Rename foo\\n\\n1. Look\\n2. Write"}}]
  - text: "Something else was asked."
"""
TOOLS: Any = request("read", "write", "fetch")["tools"]


@asynccontextmanager
async def planning(folder: Path, **more: Any) -> AsyncIterator[Running]:
    """Run a proxy whose model submits a plan."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    more = {"waits": WAITS, "policies": policies_file(folder, POLICIES), **more}
    async with running(folder, f"scripted:{script}", **more) as proxy:
        yield proxy


@pytest.fixture(scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Run one for all tests here, each with a session of its own."""
    async with planning(tmp_path_factory.mktemp("planning")) as proxy:
        yield proxy


async def step(proxy: Running, session: str, text: str = "rename foo") -> str:
    """Ask the model as the agent does, and give its text."""
    async with openai_client(proxy.base(session)) as openai:
        messages: Any = [{"role": "user", "content": text}]
        answer = await openai.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        return str(answer.choices[0].message.content)


@asynccontextmanager
async def asked(proxy: Running, session: str, *clients: Client) -> AsyncIterator[Waiting]:
    """Have clients attached, and the model ask."""
    await proxy.set_mode("plan", session)
    for client in clients:
        await client.load(session)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(step(proxy, session))
        waiting = Waiting(task, [await client.question() for client in clients])
        yield waiting
        await task


class Waiting:
    """A step that waits, and the questions that its people got."""

    def __init__(self, step: asyncio.Task[str], questions: list[Json]) -> None:
        self.step = step
        self.questions = questions


async def kinds_of(proxy: Running, session: str) -> list[str]:
    return [event["type"] for event in await proxy.events(session)]


async def mode(proxy: Running, session: str) -> str:
    return str((await proxy.control("GET", f"/sessions/{session}")).json()["mode"])


async def test_b163_the_plan_is_shown_whole_and_approved(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Gajae-code 1139: the event first, then the update, then the next request unfiltered."""
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            (question,) = waiting.questions
            params = question["params"]
            call = params["toolCall"]
            assert call["content"] == [
                {"type": "content", "content": {"type": "text", "text": PLAN}}
            ]
            assert call["rawInput"] == {"tool": "exit_plan_mode"}
            assert (call["kind"], call["status"]) == ("switch_mode", "pending")
            rest = {key: value for key, value in call.items() if key != "content"}
            assert params["subject"] == {"type": "tool_call", "toolCall": rest}
            assert (params["title"], params["description"]) == (call["title"], PLAN)
            assert [(one["name"], one["kind"]) for one in params["options"]] == [
                ("Go, edit by edit", "allow_once"),
                ("Go", "allow_once"),
                ("Reject", "reject_once"),
            ]
            shown = await client.update("tool_call", toolCallId=call["toolCallId"])
            assert client.seen.index(question) > [one.get("params") for one in client.seen].index(
                shown
            )
            await client.choose(question, "approve-2")
            assert await waiting.step == "Here is my plan.\n\nNow I write."
        await client.update("current_mode_update", currentModeId="default")
        await client.update("config_option_update")
        await client.update("tool_call_update", status="completed")
    events = await proxy.events(name)
    types = [one["type"] for one in events]
    at = types.index("approval/answered")
    assert types[at : at + 2] == ["approval/answered", "mode/set"]
    assert events[at]["by"] == f"person:acp test request_permission {client.connection}"
    (delivered,) = [one for one in events if one["type"] == "approval/delivered"]
    assert delivered["data"]["via"] == "acp:test"


async def test_b162_a_rejection_keeps_the_mode(proxy: Running, connect: Connect, name: str) -> None:
    """claude-code #89403; agenthub 603: the turn goes on with a corrective result."""
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            await client.choose(waiting.questions[0], "reject")
            assert "I revise." in await waiting.step
        await client.update("tool_call_update", status="failed")
        await client.settled()
        assert client.updates("current_mode_update") == []
    assert await mode(proxy, name) == "plan"
    assert "mode/set" not in (await kinds_of(proxy, name))[1:]


async def test_the_first_answer_wins_and_the_others_are_dismissed(
    proxy: Running, connect: Connect, name: str
) -> None:
    """qwen-code PR 5910: no answer is accepted and lost."""
    async with connect(proxy) as one, connect(proxy) as two:
        async with asked(proxy, name, one, two) as waiting:
            first, second = waiting.questions
            assert first["id"] != second["id"]
            await one.choose(first, "approve-1")
            await waiting.step
            await two.find(
                lambda m: (
                    m.get("method") == "$/cancel_request"
                    and m["params"] == {"requestId": second["id"]}
                )
            )
            await two.update("tool_call_update", status="completed")
            await two.update("current_mode_update", currentModeId="review")
            await two.choose(second, "reject")
            await two.settled()
        await one.settled()
        assert "$/cancel_request" not in kinds(one.seen)
    assert await mode(proxy, name) == "review"
    assert (await kinds_of(proxy, name)).count("approval/answered") == 1


async def test_an_answer_on_another_connection_changes_nothing(
    proxy: Running, connect: Connect, name: str
) -> None:
    """qwen-code PR 5910: and it is not lost either, since its own connection can still answer."""
    async with connect(proxy) as one, connect(proxy) as two:
        async with asked(proxy, name, one, two) as waiting:
            await two.choose(waiting.questions[0], "approve-2")
            await two.settled()
            assert await mode(proxy, name) == "plan"
            await one.choose(waiting.questions[0], "approve-1")
            await waiting.step
    assert await mode(proxy, name) == "review"


NOT_A_YES: dict[str, Json] = {
    "always": {"result": {"outcome": {"outcome": "selected", "optionId": "allow_always"}}},
    "unknown": {"result": {"outcome": {"outcome": "selected", "optionId": "approve"}}},
    "no option": {"result": {"outcome": {"outcome": "selected"}}},
    "no outcome": {"result": {}},
    "null": {"result": None},
    "an error": {"error": {"code": -32603, "message": "no"}},
    "an error and a yes": {
        "error": {"code": -32603, "message": "no"},
        "result": {"outcome": {"outcome": "selected", "optionId": "approve-2"}},
    },
}


@pytest.mark.parametrize("answer", NOT_A_YES.values(), ids=NOT_A_YES)
async def test_b162_nothing_but_an_offered_option_approves(
    proxy: Running, connect: Connect, name: str, answer: Json
) -> None:
    """Agenthub 603."""
    async with connect(proxy) as one, connect(proxy) as two:
        async with asked(proxy, name, one, two) as waiting:
            first, second = waiting.questions
            await one.transmit({"jsonrpc": "2.0", "id": first["id"], **answer})
            await one.settled()
            assert "approval/answered" not in await kinds_of(proxy, name)
            await two.choose(second, "reject")
            await waiting.step
    assert await mode(proxy, name) == "plan"


async def test_b162_cancelled_is_an_abstention_while_others_are_attached(
    proxy: Running, connect: Connect, name: str
) -> None:
    async with connect(proxy) as one, connect(proxy) as two:
        async with asked(proxy, name, one, two) as waiting:
            first, second = waiting.questions
            await one.reply(first, {"outcome": "cancelled"})
            await one.settled()
            assert "approval/answered" not in await kinds_of(proxy, name)
            await two.reply(second, {"outcome": "cancelled"})
            assert "I revise." in await waiting.step
    assert await mode(proxy, name) == "plan"


@pytest.mark.parametrize("slow", [0, 1], ids=["the first is slow", "the second is slow"])
async def test_b162_who_dismiss_it_at_once_do_not_leave_it_to_each_other(
    proxy: Running, connect: Connect, name: str, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    """Each hears of the other before either is in the log: together they have said no."""
    assert proxy.composed
    approvals, written = proxy.composed.services.approvals, asyncio.Event()
    append = approvals.left

    async with connect(proxy) as one, connect(proxy) as two:
        late = f"acp:{(one, two)[slow].connection}"

        async def left(key: SessionKey, question: str, client: str, **more: Any) -> None:
            if client == late:
                await written.wait()
            await append(key, question, client, **more)
            written.set()

        monkeypatch.setattr(approvals, "left", left)
        async with asked(proxy, name, one, two) as waiting:
            for client, question in zip((one, two), waiting.questions, strict=True):
                await client.reply(question, {"outcome": "cancelled"})
            assert "I revise." in await waiting.step
    assert await mode(proxy, name) == "plan"


async def test_b159_session_cancel_settles_what_waits_at_once(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Deepchat 1881: the held answer completes as not approved; a late yes changes nothing."""
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            (question,) = waiting.questions
            await client.notify("session/cancel", sessionId=name)
            assert "I revise." in await waiting.step
            await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
            await client.choose(question, "approve-2")
            await client.settled()
    assert await mode(proxy, name) == "plan"
    assert (await kinds_of(proxy, name)).count("approval/answered") == 1


@pytest.mark.parametrize("how", ["session/close", "the connection ends"])
async def test_b159_who_leaves_abstains(
    proxy: Running, connect: Connect, name: str, how: str
) -> None:
    """Deepchat 1881: a client that dies decides nothing; the question waits for the next one."""
    async with asked_then_left(proxy, connect, name, how) as waiting:
        assert "approval/answered" not in await kinds_of(proxy, name)
        async with connect(proxy) as other:
            await other.load(name)
            await other.choose(await other.question(), "approve-2")
            assert "Now I write." in await waiting.step


@asynccontextmanager
async def asked_then_left(
    proxy: Running, connect: Connect, name: str, how: str
) -> AsyncIterator[Waiting]:
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            if how == "session/close":
                await client.call(how, sessionId=name)
                yield waiting
                return
            leaving = waiting
            await leave(client)
            yield leaving


async def leave(client: Client) -> None:
    """End a connection as its process's death would."""
    from support.acp import Socket, Streams

    if isinstance(client, Socket):
        client.socket.transport.abort()
    elif isinstance(client, Streams):
        await client.http.delete(client.url, headers=client.headers)
    await client.until_closed()


async def test_ids_are_never_used_again(proxy: Running, connect: Connect, name: str) -> None:
    """Macro PR 6194: a stale yes must not answer a new question."""
    async with connect(proxy) as first:
        async with asked(proxy, name, first) as waiting:
            (stale,) = waiting.questions
            await leave(first)
            async with connect(proxy) as client:
                await client.load(name)
                fresh = await client.question()
                assert fresh["id"] != stale["id"]
                assert fresh["id"].startswith("mg-perm-")
                await client.choose(stale, "approve-2")
                await client.settled()
                assert await mode(proxy, name) == "plan"
                await client.choose(fresh, "reject")
                await waiting.step


async def test_a_question_blocks_nothing(proxy: Running, connect: Connect, name: str) -> None:
    """claude-agent-acp #830, qwen-code #11795."""
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            other = await client.new()
            await client.set_mode(other, "plan")
            await client.prompt(name, "/status")
            text = client.updates("agent_message_chunk")[-1]["content"]["text"]
            assert "Open questions: 1" in text
            # In mid-turn, and the gate hears of it: fx #184.
            await client.set_mode(name, "review", _meta={"modegate/seq": await seq(proxy, name)})
            await client.find(
                lambda one: one.get("params") == {"requestId": waiting.questions[0]["id"]}
            )
            await client.update("tool_call_update", status="failed")
            await waiting.step
    assert await mode(proxy, name) == "review"


async def seq(proxy: Running, session: str) -> int:
    return int((await proxy.control("GET", f"/sessions/{session}")).json()["seq"])


async def test_a_detached_question_can_still_be_answered(tmp_path: Path, connect: Connect) -> None:
    waits = Waits(nobody=0.05, streamed=PATIENCE, whole=PATIENCE)
    async with planning(tmp_path, waits=waits) as proxy:
        await proxy.set_mode("plan")
        assert "Please answer." in await step(proxy, "s")
        async with connect(proxy) as client:
            await client.load("s")
            await client.choose(await client.question(), "approve-2")
            await client.update("current_mode_update", currentModeId="default")
    assert "approval/detached" in await kinds_of_closed(tmp_path)


async def kinds_of_closed(folder: Path) -> list[str]:
    async with planning(folder) as proxy:
        return await kinds_of(proxy, "s")


async def test_b161_nobody_answers_in_time(tmp_path: Path, connect: Connect) -> None:
    """Chatcli 1307: a client that shows nothing freezes nothing for ever."""
    waits = Waits(nobody=PATIENCE, streamed=0.3, whole=0.3)
    async with planning(tmp_path, waits=waits) as proxy, connect(proxy) as client:
        async with asked(proxy, "s", client) as waiting:
            assert "Please answer." in await waiting.step
        assert await mode(proxy, "s") == "plan"


@pytest.mark.parametrize("streamed", [True, False])
async def test_r7_the_policy_says_how_long_a_person_has(tmp_path: Path, streamed: bool) -> None:
    short, long = ("timeout", "timeout_whole") if streamed else ("timeout_whole", "timeout")
    folder = tmp_path / "own"
    folder.mkdir()
    policies = policies_file(folder, f"{POLICIES}approvals: {{{short}: 0.3, {long}: 24h}}\n")
    async with planning(tmp_path, waits=None, policies=policies) as proxy:
        await proxy.set_mode("plan")
        text = await (acp_story.step(proxy) if streamed else step(proxy, "s"))
        assert "Please answer." in (text or "")
        (detached,) = [one for one in await proxy.events("s") if one["type"] == "approval/detached"]
        assert detached["data"]["why"] == "timeout"


async def test_a_single_call_is_allowed_once(proxy: Running, connect: Connect, name: str) -> None:
    async with connect(proxy) as client, asyncio.TaskGroup() as group:
        await proxy.set_mode("plan", name)
        await client.load(name)
        task = group.create_task(step(proxy, name, "fetch it"))
        question = await client.question()
        call = question["params"]["toolCall"]
        assert call["title"] == "Run fetch?"
        assert call["rawInput"]["tool"] == "fetch"
        assert "http://a.example" in call["content"][0]["content"]["text"]
        assert [one["kind"] for one in question["params"]["options"]] == [
            "allow_once",
            "reject_once",
        ]
        await client.choose(question, "allow_once")
        assert await task == "I fetch."
        await client.update("tool_call_update", status="completed")
    assert await mode(proxy, name) == "plan"


async def test_an_answer_from_elsewhere_dismisses_the_dialog(
    proxy: Running, connect: Connect, name: str
) -> None:
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            (question,) = waiting.questions
            approval = question["params"]["toolCall"]["toolCallId"]
            answer = await proxy.control(
                "POST", f"/approvals/{approval}", json={"option": "reject"}
            )
            assert answer.status_code == 200
            await waiting.step
            await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
            await client.update("tool_call_update", status="failed", toolCallId=approval)


async def test_a_question_that_expires_is_taken_back(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Nothing in the log says that it has expired: only the clock does."""
    assert proxy.composed
    log, key = proxy.composed.services.log, SessionKey(Tenant("local"), SessionId(name))
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    options = (
        Option("reject", "Reject", "reject"),
        Option("approve", "Approve", "approve", DEFAULT_MODE),
    )
    async with connect(proxy) as client:
        await proxy.set_mode("plan", name)
        await client.load(name)
        expires = proxy.composed.acp and now() + 1_500
        entry = Entry(
            now(),
            "gate",
            ApprovalAsked(f"mg-perm-{name}", *place, "exit", "P", options, expires or 0),
        )
        await log.append(
            key, [entry, Entry(now(), "gate", ApprovalDetached(f"mg-perm-{name}", "nobody"))]
        )
        question = await client.question()
        # A rejection stands last, whatever the order in the log.
        assert [one["optionId"] for one in question["params"]["options"]] == ["approve", "reject"]
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
        await client.update("tool_call_update", status="failed")


def now() -> int:
    import time

    return time.time_ns() // 1_000_000


async def test_who_joins_later_is_asked_too(proxy: Running, connect: Connect, name: str) -> None:
    async with connect(proxy) as one, connect(proxy) as two:
        async with asked(proxy, name, one) as waiting:
            loaded = len(two.seen)
            await two.load(name)
            question = await two.question(after=loaded)
            await two.choose(question, "approve-2")
            await waiting.step
            await one.find(lambda m: m.get("params") == {"requestId": waiting.questions[0]["id"]})


async def test_what_is_open_is_asked_behind_the_answer(proxy: Running, name: str) -> None:
    async with socket(proxy) as one, socket(proxy) as two:
        async with asked(proxy, name, one) as waiting:
            before = len(two.seen)
            await two.load(name)
            await two.question()
            assert kinds(two.seen[before:]) == [
                "agent_message_chunk",
                "result",
                "available_commands_update",
                "tool_call",
                "session/request_permission",
            ]
            await one.choose(waiting.questions[0], "reject")


async def test_loading_again_asks_again(proxy: Running, connect: Connect, name: str) -> None:
    async with connect(proxy) as client:
        async with asked(proxy, name, client) as waiting:
            (first,) = waiting.questions
            after = len(client.seen)
            await client.load(name)
            await client.find(lambda one: one.get("params") == {"requestId": first["id"]})
            second = await client.question(after=after)
            await client.choose(first, "approve-2")
            await client.settled()
            assert await mode(proxy, name) == "plan"
            await client.choose(second, "approve-2")
            await waiting.step
    assert len([one for one in client.seen if is_question(one)]) == 2
    assert updated(client.seen[0]) == {}
