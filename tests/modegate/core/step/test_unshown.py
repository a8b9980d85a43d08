"""What is told of an item that was not passed on: never that it did not run if it may have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import CallJudged, TurnWithheld
from modegate.core.policy.model import Exit, ExitOption, Policy
from support import message_frames, messages, responses
from support.playbook import Got, Reply, Session, mode, policy

Json = dict[str, Any]
Cases = dict[str, tuple[list[Json], str]]
EXIT = Exit((ExitOption("Approve", DEFAULT_MODE),))
PLAIN = policy(mode("plan", "read"))
LEAVES = policy(mode("plan", "read", "exit_plan_mode", exit=EXIT))


class Responses:
    """The Responses API in what this file needs."""

    RAN: ClassVar[Cases] = {
        "search": ([{"type": "web_search_call", "id": "i", "status": "completed",
                     "action": {"type": "search", "query": "SECRET"}}], "web_search"),
        "mcp": ([{"type": "mcp_call", "id": "i", "server_label": "d", "name": "n",
                  "arguments": '{"a":"SECRET"}', "output": "SECRET"}], "mcp__d__n"),
        "mcp failed": ([{"type": "mcp_call", "id": "i", "server_label": "d", "name": "n",
                         "arguments": "{}", "error": "SECRET"}], "mcp__d__n"),
        "code": ([{"type": "code_interpreter_call", "id": "i", "code": "SECRET", "container_id": "c",
                   "outputs": [{"type": "logs", "logs": "SECRET"}]}], "code_interpreter"),
        "image": ([{"type": "image_generation_call", "id": "i", "result": "SECRET"}],
                  "image_generation"),
        "file": ([{"type": "file_search_call", "id": "i", "queries": [],
                   "results": [{"text": "SECRET"}]}], "file_search"),
        "shell": ([{"type": "shell_call_output", "id": "i", "call_id": "k",
                    "output": [{"stdout": "SECRET"}]}], "shell"),
    }  # fmt: skip
    MAY: ClassVar[Cases] = {
        "under way": ([{"type": "mcp_call", "id": "i", "server_label": "d", "name": "n",
                        "arguments": '{"a":"SECRET"}'}], "mcp__d__n"),
        "unknown": ([{"type": "something_new", "id": "i", "what": "SECRET", "status": "completed"}],
                    "something_new"),
        "a result": ([{"type": "function_call_output", "id": "i", "call_id": "k",
                       "output": "SECRET"}], "function"),
        "a list of tools": ([{"type": "mcp_list_tools", "id": "i", "server_label": "d",
                              "tools": [{"name": "SECRET"}]}], "mcp__d"),
    }  # fmt: skip

    def session(self, rules: Policy) -> Session:
        return responses.session(rules=rules)

    def body(self, *history: Json, streamed: bool) -> Json:
        said = [{"type": "message", "role": "user", "content": "hi"}, *history]
        return responses.request("read", "write", history=said, stream=streamed)

    def reply(self, items: Sequence[Json], *, streamed: bool, n: int = 1) -> bytes | Reply:
        make = responses.answer if streamed else responses.whole
        return make(*items, n=n)

    def say(self, words: str) -> Json:
        return responses.message(words, "msg_9")

    def call(self, name: str, at: int = 7) -> Json:
        return responses.call(name, json.dumps({"n": at}), at)

    def history(self, got: Got) -> list[Json]:
        items = responses.last(got.body)["output"] if b"data:" in got.body else got.json["output"]
        output = {"type": "function_call_output", "output": "R"}
        calls = [item for item in items if item["type"] == "function_call"]
        return [*items, *({**output, "call_id": item["call_id"]} for item in calls)]


class Messages:
    """The Messages API in what this file needs."""

    @staticmethod
    def ran(name: str, **more: Any) -> list[Json]:
        kind, result = ("mcp_tool_use", "mcp") if more else ("server_tool_use", name)
        asked = {"type": kind, "id": "srvtoolu_1", "name": name, "input": {"q": "SECRET"}, **more}
        came = {"type": f"{result}_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        return [asked, {**came, "content": [{"text": "SECRET"}]}]

    RAN: ClassVar[Cases] = {
        "search": (ran("web_search"), "web_search"),
        "mcp": (ran("n", server_name="d"), "mcp__d__n"),
        "code": (ran("bash_code_execution"), "code_execution"),
        "result alone": (ran("web_fetch")[1:], "web_fetch"),
        "file": ([{"type": "container_upload", "file_id": "SECRET"}], "code_execution"),
    }
    MAY: ClassVar[Cases] = {
        "under way": (ran("web_search")[:1], "web_search"),
        "mcp under way": (ran("n", server_name="d")[:1], "mcp__d__n"),
        "unknown": ([{"type": "dance", "steps": "SECRET"}], "dance"),
    }

    def session(self, rules: Policy) -> Session:
        return message_frames.session(rules)

    def body(self, *history: Json, streamed: bool) -> Json:
        said = [{"role": "user", "content": "hi"}, *history]
        return messages.request("read", "write", messages=said, stream=streamed)

    def reply(self, items: Sequence[Json], *, streamed: bool, n: int = 1) -> bytes | Reply:
        called = any(item["type"] == "tool_use" for item in items)
        reason = "tool_use" if called else "end_turn"
        if not streamed:
            return message_frames.whole(*items, reason=reason)
        frames = (message_frames.start(at, item) + message_frames.stop(at)
                  for at, item in enumerate(items))  # fmt: skip
        return message_frames.stream(*frames, reason=reason)

    def say(self, words: str) -> Json:
        return {"type": "text", "text": words}

    def call(self, name: str, at: int = 7) -> Json:
        return message_frames.call(name, {"n": at}, f"toolu_0000_{at}")

    def history(self, got: Got) -> list[Json]:
        blocks = _blocks(got)
        uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use, "content": "R"} for use in uses]
        said = [{"role": "assistant", "content": blocks}]
        return [*said, {"role": "user", "content": results}] if results else said


def _blocks(got: Got) -> list[Json]:
    if b"data:" not in got.body:
        found: list[Json] = got.json["content"]
        return found
    events = [json.loads(line[6:]) for line in got.body.split(b"\n") if line.startswith(b"data: ")]
    blocks: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            blocks[-1]["text"] += event["delta"]["text"]
    return blocks


Api = Responses | Messages
APIS: list[Api] = [Responses(), Messages()]
CASES = [
    pytest.param(api, items, tool, verb, id=f"{type(api).__name__} {kind}")
    for api in APIS
    for cases, verb in ((api.RAN, "has run"), (api.MAY, "may have run"))
    for kind, (items, tool) in cases.items()
]
every = pytest.mark.parametrize(("api", "items", "tool", "verb"), CASES)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def check_log(got: Got, verb: str) -> None:
    judged = [one for one in got.events if isinstance(one, CallJudged) and one.verdict == "answer"]
    ran = [one for one in judged if one.tool != "write"]
    assert ran
    # In a stream it may be judged before what came of it is there.
    known = (f"the provider {verb} it by itself", "the provider may have run it by itself")
    assert all(one.reason.startswith(known) for one in ran)
    assert not any("run it" in one.reason for one in judged if one not in ran)


@every
@pytest.mark.parametrize("leaves", [False, True], ids=["no way", "exit"])
def test_g3_g6_alone_the_answer_says_what_may_have_run(
    api: Api, items: list[Json], tool: str, verb: str, streamed: bool, leaves: bool
) -> None:
    one = api.session(LEAVES if leaves else PLAIN)
    got = one.step(
        api.body(streamed=streamed), [api.reply([*items, api.say("So.")], streamed=streamed)]
    )
    said = json.dumps(api.history(got))
    assert "SECRET" not in said
    assert "[modegate] Not shown in mode 'plan' (Plan)" in said
    assert f"the provider itself {verb} `{tool}`." in said
    assert "Nothing of it ran" not in said
    assert "a person sets another mode" in said
    assert ("the model calls `exit_plan_mode` with its whole plan" in said) is leaves
    check_log(got, verb)
    # The agent sends that text back itself, so that nothing more is told of it.
    told = {"role": "user", "content": "go on"}
    again = one.step(
        api.body(*api.history(got), told, streamed=streamed),
        [api.reply([api.say("ok")], streamed=streamed)],
    )
    assert json.dumps(again.upstream).count(f"{verb} `{tool}`") == 1


@every
def test_g3_beside_a_refused_call_each_is_told_of_as_it_was(
    api: Api, items: list[Json], tool: str, verb: str, streamed: bool
) -> None:
    one = api.session(PLAIN)
    reply = api.reply([*items, api.call("write")], streamed=streamed)
    got = one.step(api.body(streamed=streamed), [reply])
    assert len(got.requests) == 1
    said = json.dumps(api.history(got))
    assert "Refused in mode 'plan' (Plan): `write`. Nothing of it ran. Not shown in mode" in said
    assert f"the provider itself {verb} `{tool}`." in said
    check_log(got, verb)


@every
@pytest.mark.parametrize("later", [False, True], ids=["first hop", "second hop"])
@pytest.mark.parametrize("leaves", [False, True], ids=["no way", "exit"])
@pytest.mark.parametrize("more", [False, True], ids=["", "and a refused call"])
def test_g6_beside_an_allowed_call_the_next_request_says_so(
    api: Api, items: list[Json], tool: str, verb: str, streamed: bool, later: bool, leaves: bool, more: bool
) -> None:  # fmt: skip
    """And every later one, at the same place, also once the mode is left."""
    one = api.session(LEAVES if leaves else PLAIN)
    calls = [*([api.call("write", 8)] if more else []), api.call("read")]
    hops = [api.reply([api.call("write", 9)], streamed=streamed)] if later else []
    hops.append(api.reply([*items, *calls], streamed=streamed, n=2))
    got = one.step(api.body(streamed=streamed), hops)
    history = api.history(got)
    assert "SECRET" not in json.dumps(history)
    assert "[modegate]" not in json.dumps(history)
    check_log(got, verb)
    done = api.reply([api.say("ok")], streamed=streamed, n=3)
    first = one.step(api.body(*history, streamed=streamed), [done])
    told = json.dumps(first.upstream)
    note = f"In your answer the provider itself {verb} `{tool}`, which mode 'plan' (Plan) does not"
    assert told.count(note) == 1
    assert ("the model calls `exit_plan_mode`" in told) is leaves
    assert told.count("did not run") == later + more
    # It stands in the result of the agent's own call: no message of its own behind results.
    (result,) = [
        one for one in _results(first.upstream) if "R" in str(one)[-2000:] and note in str(one)
    ]
    assert str(result).index("R") < str(result).index(note)
    one.set_mode("default")
    more_said = [*history, *api.history(first), {"role": "user", "content": "go on"}]
    left = one.step(api.body(*more_said, streamed=streamed), [done])
    assert json.dumps(left.upstream).count(note) == 1


def _results(sent: Json) -> list[Any]:
    items = sent.get("input", [])
    blocks = [
        block
        for message in sent.get("messages", ())
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return [
        one for one in (*items, *blocks) if str(one.get("type")).endswith(("_output", "_result"))
    ]


@pytest.mark.parametrize("api", APIS, ids=["Responses", "Messages"])
def test_g6_several_are_named_once_each(api: Api, streamed: bool) -> None:
    """By what is known of each; what was allowed is not named."""
    (search, _), (mcp, _), (unknown, _) = api.RAN["search"], api.RAN["mcp"], api.MAY["unknown"]
    renamed = [{**one, "id": "j"} for one in search] if isinstance(api, Responses) else search
    both = [*search, *({**one, "id": "m"} for one in mcp), *({**one, "id": "u"} for one in unknown)]
    if isinstance(api, Messages):
        both = [*search, *_renamed(mcp), *unknown]
        renamed = _renamed(search, "srvtoolu_3")
    got = api.session(PLAIN).step(
        api.body(streamed=streamed), [api.reply([*both, *renamed], streamed=streamed)]
    )
    name = "something_new" if isinstance(api, Responses) else "dance"
    said = json.dumps(api.history(got))
    assert f"has run `web_search`, `mcp__d__n` and may have run `{name}`." in said


def _renamed(blocks: list[Json], name: str = "srvtoolu_2") -> list[Json]:
    keys = ("id", "tool_use_id")
    return [{key: name if key in keys else value for key, value in one.items()} for one in blocks]


def test_g6_a_turn_of_which_only_a_note_is_kept_has_no_body(streamed: bool) -> None:
    api = Responses()
    one = api.session(PLAIN)
    items = [*api.RAN["search"][0], api.call("read")]
    got = one.step(api.body(streamed=streamed), [api.reply(items, streamed=streamed)])
    (turn,) = [event for event in got.events if isinstance(event, TurnWithheld)]
    assert turn.note.startswith("[modegate] In your answer")
    assert [hop.blob for hop in turn.hops] == [""]
    assert one.blobs == {}


CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "call_of_computer_1", "status": "completed",
         "action": {"type": "click", "x": 1, "y": 2, "note": "SECRET"}}  # fmt: skip
CHECKED = {**CLICK, "pending_safety_checks": [{"id": "sc_1", "code": "malicious", "message": "m"}]}


@pytest.mark.parametrize("item", [CLICK, CHECKED], ids=["plain", "checked"])
@pytest.mark.parametrize("store", [False, True], ids=["unstored", "stored"])
def test_g6_a_computer_call_is_answered_as_any_other(
    item: Json, store: bool, streamed: bool
) -> None:
    """The API takes a picture alone for its result, so a blank one goes in front of the words."""
    more = {"store": True} if store else {}
    make = responses.answer if streamed else responses.whole
    hops = [make(item, **more), make(responses.message("b"), n=2, **more)]
    body = {**Responses().body(streamed=streamed), "store": store}
    got = responses.session().step(body, hops)
    *calls, result, told = got.upstream["input"]
    assert (calls[-1:] == [item]) is not store
    assert result["call_id"] == "call_of_computer_1"
    assert result["output"]["image_url"].startswith("data:image/png;base64,")
    assert result.get("acknowledged_safety_checks") == item.get("pending_safety_checks")
    assert "refused and did not run" in told["content"][0]["text"]
    assert "`computer`" in told["content"][0]["text"]
    assert b"SECRET" not in got.body
    assert b"[modegate]" not in got.body


@pytest.mark.parametrize("item", [CLICK, CHECKED], ids=["plain", "checked"])
def test_g6_a_computer_call_beside_an_allowed_one_is_put_back(item: Json, streamed: bool) -> None:
    api = Responses()
    one = api.session(PLAIN)
    got = one.step(
        api.body(streamed=streamed), [api.reply([item, api.call("read")], streamed=streamed)]
    )
    history = api.history(got)
    assert "computer" not in json.dumps(history)
    first = one.step(
        api.body(*history, streamed=streamed), [api.reply([api.say("ok")], streamed=streamed)]
    )
    kinds = [one_["type"] for one_ in first.upstream["input"] if one_.get("role") != "developer"]
    assert sorted(kinds) == sorted(["message", "computer_call", "function_call", "computer_call_output",
                                    "message", "function_call_output"])  # fmt: skip


def test_g6_a_computer_call_that_is_allowed_goes_as_it_came() -> None:
    body = responses.answer(CHECKED)
    rules = policy(mode("plan", "computer"))
    assert responses.session(rules=rules).step(Responses().body(streamed=True), [body]).body == body
