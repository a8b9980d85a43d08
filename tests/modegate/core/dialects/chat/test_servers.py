"""How servers of chat completions spell their answers, by the ids of reported cases, in each hop."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from modegate.core.log.events import CallJudged
from support.playbook import (
    DONE,
    Got,
    Reply,
    Session,
    answer,
    at_every_byte,
    bytewise,
    frame,
    frames,
    read_stream,
    request,
    said,
    tool_call,
    whole,
)
from support.speech_chat import ChatApi

ASKED = request("read", "write", stream=True)
ARGUMENTS = '{"path": "a/b", "n": [1, {"k": "}"}]}'
USAGE: dict[str, Any] = {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}


def one(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Return a chunk of one choice; `more` stands beside the choices."""
    return frame({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def calls(*pieces: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Return a chunk with pieces of calls."""
    return one({"tool_calls": list(pieces)}, finish, **more)


def begin(id_: str, name: str, arguments: str | None = "", **more: Any) -> dict[str, Any]:
    """Return the first piece of a call."""
    function = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return {"index": 0, "id": id_, "type": "function", "function": function, **more}


def more(arguments: str | None, **fields: Any) -> dict[str, Any]:
    """Return a later piece."""
    return {"index": 0, "function": {"arguments": arguments}, **fields}


ROLE = one({"role": "assistant", "content": ""})
END = one({}, "tool_calls")
HALVES = (ARGUMENTS[:9], ARGUMENTS[9:])


def vllm(name: str) -> bytes:
    pieces = b"".join(calls(more(half)) for half in HALVES)
    head = calls(begin("chatcmpl-tool-1f", name, None))
    usage = frame({"choices": [], **USAGE})
    return ROLE + head + pieces + one({"content": ""}, "tool_calls") + usage + DONE


def sglang(name: str) -> bytes:
    nulls = {"content": None, "reasoning_content": None}
    empty: Any = ""
    head = one({"role": "assistant", **nulls, "tool_calls": None}, empty)
    first = one({**nulls, "tool_calls": [begin("call_e5f6a7b8c9", name)]}, empty)
    rest = [
        {"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": half}}
        for half in HALVES
    ]
    last = b"".join(one({**nulls, "tool_calls": [piece]}, empty) for piece in rest)
    return head + first + last + one(nulls, "tool_calls") + DONE


def gemini(name: str) -> bytes:
    signature = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    call = {**begin("function-call-1234567890", name, ARGUMENTS), **signature}
    del call["index"]
    return (
        one({"role": "assistant", "tool_calls": [call]}, "stop") + one({}, "stop", **USAGE) + DONE
    )


def ollama(name: str) -> bytes:
    call = begin("call_ab12cd34", name, ARGUMENTS)
    delta = {"role": "assistant", "content": "", "tool_calls": [call]}
    return one(delta) + one({"role": "assistant", "content": ""}, "tool_calls") + DONE


def ollama_of_old(name: str) -> bytes:
    call = {
        "function": {"name": name, "arguments": ARGUMENTS},
        "id": "call_ab12cd34",
        "type": "function",
    }
    return one({"role": "assistant", "content": "", "tool_calls": [call]}, "stop") + DONE


def dashscope(name: str) -> bytes:
    later = [more(half, id="", type="") for half in HALVES]
    last = more(None, id="", type="")
    pieces = b"".join(calls(piece) for piece in (*later, last))
    return ROLE + calls(begin("call_0a1b2c3d4e5f", name, None)) + pieces + END + DONE


def kimi(name: str) -> bytes:
    pieces = b"".join(calls(more(half)) for half in HALVES)
    return ROLE + calls(begin(f"functions.{name}:0", name)) + pieces + END + DONE


def xai(name: str) -> bytes:
    head = one({"role": "assistant", "content": ""}, **USAGE)
    return (
        head
        + calls(begin("call_11223344", name, ARGUMENTS), **USAGE)
        + one({}, "tool_calls", **USAGE)
        + DONE
    )


def groq(name: str) -> bytes:
    head = one({"role": "assistant", "content": None, "tool_calls": []}, x_groq={"id": "req_1"})
    usage = {"x_groq": {"id": "req_1", **USAGE}, **USAGE}
    return head + calls(begin("a1b2c3d4e", name, ARGUMENTS)) + one({}, "tool_calls", **usage) + DONE


def openrouter(name: str) -> bytes:
    comment = b": OPENROUTER PROCESSING\n\n"
    pieces = comment.join(calls(more(half)) for half in HALVES)
    return comment * 2 + ROLE + comment + calls(begin("tool_0_x1y2z3", name)) + pieces + END + DONE


def finish_twice(name: str) -> bytes:
    call = calls(begin("tool_0_read_k8", name, ARGUMENTS))
    end = one({"role": "assistant", "content": ""}, "tool_calls")
    return ROLE + call + end + one({"content": ""}, "tool_calls", **USAGE) + DONE


def mistral(name: str) -> bytes:
    return ROLE + calls(begin("D681PevKs", name, ARGUMENTS), finish="tool_calls", **USAGE) + DONE


def mistral_with_text(name: str) -> bytes:
    delta = {"content": "T", "tool_calls": [begin("D681PevKs", name, ARGUMENTS)]}
    return ROLE + one(delta, "tool_calls", **USAGE) + DONE


def nulls(name: str) -> bytes:
    later = [
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": half}}
        for half in HALVES
    ]
    return ROLE + calls(begin("chatcmpl-tool-9", name)) + b"".join(map(calls, later)) + END + DONE


def an_object(name: str) -> bytes:
    call = begin("call_99aabbcc", name)
    call["function"]["arguments"] = json.loads(ARGUMENTS)
    return ROLE + calls(call) + END + DONE


def closing(name: str, finish: str | None = None) -> bytes:
    call = begin("call_function_abc_1", name, ARGUMENTS)
    message = {"role": "assistant", "content": "T", "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": finish or "tool_calls", "message": message}
    last = frame({"object": "chat.completion", "choices": [choice], **USAGE})
    end = b"" if finish else END
    return ROLE + one({"content": "T"}) + calls(call) + end + last + DONE


def new_ids(name: str, *ids: str, named: bool = False) -> bytes:
    name_again = {"name": name} if named else {}
    later = [
        {"index": 0, "id": id_, "function": {**name_again, "arguments": half}}
        for id_, half in zip(ids, HALVES, strict=True)
    ]
    return ROLE + calls(begin("call_aaaaaaaa", name)) + b"".join(map(calls, later)) + END + DONE


def stub_behind_a_call(name: str) -> bytes:
    stub = {"content": "", "function_call": {"name": "", "arguments": ""}}
    return ROLE + calls(begin("call_oneapi01", name, ARGUMENTS)) + one(stub, "tool_calls") + DONE


def placeholder(name: str, id_: str = "call_tmp_1") -> bytes:
    tmp = {"index": 0, "id": id_, "type": "function", "function": {"name": "", "arguments": ""}}
    head = one({"role": "assistant", "content": None, "tool_calls": [tmp]})
    return (
        head + one({"content": "T"}) + calls(begin("call_real0001", name, ARGUMENTS)) + END + DONE
    )


@dataclass(frozen=True)
class Server:
    """How a server spells a call."""

    spell: Callable[[str], bytes]
    verbatim: bool = True
    """The client gets it as it came, where it is allowed in the first hop."""
    finish: str = "tool_calls"
    text: str = ""


SERVERS = {
    "N003 stub behind a call": Server(stub_behind_a_call),
    "N003 a placeholder with another id": Server(placeholder, verbatim=False, text="T"),
    "N003 a placeholder of the call": Server(
        lambda name: placeholder(name, "call_real0001"), verbatim=False, text="T"
    ),
    "N004 MiniMax": Server(closing, verbatim=False, text="T"),
    "N004 finish in the closing frame": Server(
        lambda name: closing(name, "tool_calls"), verbatim=False, text="T"
    ),
    "N005 another id": Server(lambda name: new_ids(name, "b", "b"), verbatim=False),
    "N005 a new id in each piece": Server(lambda name: new_ids(name, "b", "c"), verbatim=False),
    "N005 and the name again": Server(
        lambda name: new_ids(name, "b", "c", named=True), verbatim=False
    ),
    "the id in each piece": Server(
        lambda name: new_ids(name, "call_aaaaaaaa", "call_aaaaaaaa"), verbatim=False
    ),
    "the name in each piece": Server(
        lambda name: new_ids(name, "", "", named=True), verbatim=False
    ),
    "N025 vLLM": Server(vllm),
    "N027 SGLang": Server(sglang),
    "N029 Gemini": Server(gemini, finish="stop"),
    "N030 Ollama": Server(ollama),
    "N031 Ollama of old": Server(ollama_of_old, finish="stop"),
    "N034 DashScope": Server(dashscope, verbatim=False),
    "N037 Kimi": Server(kimi),
    "N038 xAI": Server(xai),
    "N039 Groq": Server(groq),
    "N040 OpenRouter": Server(openrouter, verbatim=False),  # comments go without their text
    "N041 the finish twice": Server(finish_twice),
    "N042 Mistral": Server(mistral),
    "N042 Mistral, with text": Server(mistral_with_text, text="T"),
    "N043 Workers AI, Fireworks": Server(nulls),
    "N044 an object": Server(an_object),
}  # fmt: skip
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["at-once", "bytewise"])
EACH = pytest.mark.parametrize("server", SERVERS)


def heard(got: Got) -> tuple[str, list[tuple[str, Any]], str | None]:
    """Return text, calls and finish as a client that goes by index has them."""
    (choice,) = read_stream(got.body).values()
    made = [
        (call["name"], json.loads(call["arguments"] or "{}"))
        for key, call in choice["calls"].items()
        if key != "legacy"
    ]
    assert not [one for key, one in choice["calls"].items() if key == "legacy" and one["name"]]
    assert got.finish is not None
    assert (got.finish.outcome, got.finish.broken) == ("answered", False)
    assert got.body.count(DONE) == 1
    assert b"error" not in got.body
    return choice["text"], made, choice["finish"]


def refused_and_told(got: Got, hop: int) -> None:
    """The refused call went back as its API takes it: with one name, an object and one answer."""
    turn, result = json.loads(got.requests[hop])["messages"][-2:]
    (call,) = turn["tool_calls"]
    assert call["function"]["name"] == "write"
    assert json.loads(call["function"]["arguments"]) == json.loads(ARGUMENTS)
    assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
    assert "`write`" in result["content"]
    ChatApi().told(json.loads(got.requests[hop]))


READ = ("read", json.loads(ARGUMENTS))


@CUTS
@EACH
def test_an_allowed_call_passes_in_the_first_hop(server: str, cut: Any) -> None:
    way = SERVERS[server]
    body = way.spell("read")
    got = Session().step(ASKED, [body], cut=cut)
    assert heard(got) == (way.text, [READ], way.finish)
    assert len(got.requests) == 1
    assert (got.body == body) is way.verbatim
    assert [event.arguments for event in got.events if isinstance(event, CallJudged)]


@CUTS
@EACH
def test_an_allowed_call_passes_behind_a_refused_one(server: str, cut: Any) -> None:
    way = SERVERS[server]
    got = Session().step(ASKED, [way.spell("write"), way.spell("read")], cut=cut)
    text, made, finish = heard(got)
    assert text == "\n\n".join(filter(None, (way.text, way.text)))
    assert (made, finish) == ([READ], way.finish)
    assert len(got.requests) == 2
    refused_and_told(got, 1)
    assert b"write" not in got.body


@CUTS
@EACH
def test_a_refused_call_goes_back_and_a_text_follows(server: str, cut: Any) -> None:
    way = SERVERS[server]
    session = Session()
    got = session.step(ASKED, [way.spell("write"), said("bye")], cut=cut)
    text, made, finish = heard(got)
    assert text == "\n\n".join(filter(None, (way.text, "bye")))
    assert (made, finish) == ([], "stop")
    refused_and_told(got, 1)
    assert b"write" not in got.body
    # The refusal is found again where the client sends the answer back, in a mode or not.
    for mode in ("plan", "default"):
        if mode == "default":
            session.set_mode("default")
        history = [
            *ASKED["messages"],
            {"role": "assistant", "content": text},
            {"role": "user", "content": "go on"},
        ]
        later = session.step({**ASKED, "messages": history}, [said("ok")])
        shown = json.loads(later.requests[0])
        ChatApi().told(shown)
        sent = [call for one_ in shown["messages"] for call in one_.get("tool_calls", ())]
        assert [call["function"]["name"] for call in sent] == ["write"]


@EACH
@pytest.mark.parametrize("name", ["read", "write"])
def test_cut_at_every_byte(server: str, name: str) -> None:
    body = SERVERS[server].spell(name)
    wanted = Session().step(ASKED, [body, said("bye")]).body
    for cut in at_every_byte():
        assert Session().step(ASKED, [body, said("bye")], cut=cut).body == wanted


@EACH
def test_a_call_goes_with_one_id_and_one_name_to_those_who_join_them(server: str) -> None:
    """Some clients join names, overwrite ids, or begin a call at each id: where it matters there is one."""
    way = SERVERS[server]
    body = Session().step(ASKED, [way.spell("read")]).body
    deltas = [choice["delta"] for value in frames(body) for choice in value.get("choices", ())]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls") or ()]
    ids = [piece["id"] for piece in pieces if piece.get("id")]
    names = [piece["function"]["name"] for piece in pieces if piece["function"].get("name")]
    assert (len(ids), names) == (1, ["read"])


STUBS = {
    "N003 stub in the last chunk": (
        one({"content": "Hello"})
        + one({"content": "", "function_call": {"name": "", "arguments": ""}}, "stop")
        + DONE,
        True,
    ),
    "N003 stub with nulls": (
        one({"content": "Hello", "function_call": {"name": None, "arguments": None}})
        + one({}, "stop")
        + DONE,
        True,
    ),
    "N003 placeholder in front": (
        calls({"index": 0, "id": "call_tmp", "function": {"name": "", "arguments": ""}})
        + one({"role": "assistant", "content": "Hello"})
        + one({}, "stop")
        + DONE,
        False,
    ),
    "N003 placeholder with the role": (
        one(
            {
                "role": "assistant",
                "tool_calls": [{"index": 0, "id": "t", "function": {"name": "", "arguments": ""}}],
            }
        )
        + one({"content": "Hello"})
        + one({}, "tool_calls")
        + DONE,
        False,
    ),
    "N004 text again": (
        one({"role": "assistant", "content": "Hello"})
        + one({}, "stop")
        + frame(
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "Hello"},
                        "finish_reason": "stop",
                    }
                ],
                **USAGE,
            }
        )
        + DONE,
        True,
    ),
}


@CUTS
@pytest.mark.parametrize("stub", STUBS)
def test_what_says_nothing_is_nothing(stub: str, cut: Any) -> None:
    body, verbatim = STUBS[stub]
    got = Session().step(ASKED, [body], cut=cut)
    assert heard(got) == ("Hello", [], "stop")
    assert len(got.requests) == 1
    assert not [event for event in got.events if isinstance(event, CallJudged)]
    assert (got.body == body) is verbatim
    deltas = [choice.get("delta", {}) for one_ in frames(got.body) for choice in one_["choices"]]
    assert [delta for delta in deltas if delta.get("tool_calls")] == []
    if "role" in stub:
        assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]


@CUTS
@pytest.mark.parametrize("stub", STUBS)
def test_what_says_nothing_is_nothing_behind_a_refusal(stub: str, cut: Any) -> None:
    got = Session().step(ASKED, [xai("write"), STUBS[stub][0]], cut=cut)
    assert heard(got) == ("Hello", [], "stop")
    assert len(got.requests) == 2


@pytest.mark.parametrize("refused", [True, False], ids=["behind-a-refusal", "first"])
def test_n042_text_finish_and_usage_in_one_chunk(refused: bool) -> None:
    first = [mistral_with_text("write")] if refused else []
    got = Session().step(ASKED, [*first, one({"content": "bye"}, "stop", **USAGE) + DONE])
    assert heard(got) == ("T\n\nbye" if refused else "bye", [], "stop")
    usages = [value["usage"] for value in frames(got.body) if value.get("usage")]
    assert [usage["completion_tokens"] for usage in usages] == [4 if refused else 2]


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
@pytest.mark.parametrize("both", [True, False])
def test_n045_a_call_without_arguments(finish: str, both: bool) -> None:
    """As Bedrock has it by way of LiteLLM: its arguments are an empty text."""
    pieces = calls(begin("tooluse_abcdefgh", "read")) + calls(more(""))
    body = ROLE + pieces + one({}, finish) + DONE
    first = [body.replace(b'"read"', b'"write"')] if both else []
    got = Session().step(ASKED, [*first, body])
    assert heard(got) == ("", [("read", {})], finish)


WHOLE: dict[str, tuple[dict[str, Any], bool]] = {
    "N003 stub": ({"content": "Hello", "function_call": {"name": "", "arguments": ""}}, True),
    "N003 placeholder": ({"content": "Hello", "tool_calls": [tool_call("", "")]}, False),
    "N003 empty list": ({"content": "Hello", "tool_calls": []}, True),
}


@pytest.mark.parametrize("refused", [True, False], ids=["behind-a-refusal", "first"])
@pytest.mark.parametrize("stub", WHOLE)
def test_what_says_nothing_is_nothing_in_a_body(stub: str, refused: bool) -> None:
    message, verbatim = WHOLE[stub]
    finish = "stop" if verbatim else "tool_calls"
    sent = answer(message, finish)
    asked = {**ASKED, "stream": False}
    first = [answer({"tool_calls": [tool_call("write", ARGUMENTS)]})] if refused else []
    got = Session().step(asked, [*first, sent])
    (choice,) = got.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "stop")
    assert not choice["message"].get("tool_calls")
    assert len(got.requests) == 1 + refused
    assert refused or (got.body == sent.body) is verbatim


def test_n003_a_placeholder_beside_calls_of_a_body() -> None:
    listed = [tool_call("", "", "tmp"), tool_call("read", ARGUMENTS, "call_r")]
    got = Session().step({**ASKED, "stream": False}, [answer({"tool_calls": listed})])
    assert got.json["choices"][0]["message"]["tool_calls"] == listed[1:]


@pytest.mark.parametrize("last", ["write", "read"])
def test_n004_a_call_that_only_the_closing_frame_has_reaches_no_client_unjudged(last: str) -> None:
    """Behind deltas with a call it goes nowhere, behind deltas of text it is judged."""
    call = begin("call_later000", last, ARGUMENTS)
    message = {"role": "assistant", "content": "T", "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    frame_ = frame({"object": "chat.completion", "choices": [choice]}) + DONE
    text = ROLE + one({"content": "T"})
    for body in (text + calls(begin("call_first000", "read", ARGUMENTS)) + frame_, text + frame_):
        wanted = Session().step(ASKED, [body, said("bye")]).body
        assert b"write" not in wanted
        for cut in at_every_byte():
            got = Session().step(ASKED, [body, said("bye")], cut=cut)
            assert got.body == wanted


def test_n005_whole_calls_under_one_index_are_two() -> None:
    """So does Ollama send parallel calls, and others (agno pull request 8880)."""
    body = (
        ROLE
        + calls(begin("call_aaaaaaaa", "read", "{}"))
        + calls(begin("call_bbbbbbbb", "write", ARGUMENTS))
    )
    got = Session().step(ASKED, [body + END + DONE])
    assert heard(got) == ("", [("read", {})], "tool_calls")
    assert b"write" not in got.body


PIECES_OF_ANOTHER = {
    "a name that comes with the second id": [
        begin("call_aaaaaaaa", "read"),
        {"index": 0, "id": "b", "function": {"name": "write", "arguments": ARGUMENTS}},
    ],
    "a name that comes with the third": [
        begin("call_aaaaaaaa", "read"),
        {"index": 0, "id": "b", "function": {"arguments": ARGUMENTS[:9]}},
        {"index": 0, "id": "b", "function": {"name": "write", "arguments": ARGUMENTS[9:]}},
    ],
    "arguments that make two objects": [
        begin("call_aaaaaaaa", "read", '{"path": "a"}'),
        {"index": 0, "id": "b", "function": {"arguments": ARGUMENTS}},
    ],
    "a placeholder whose name comes under another index": [
        {"index": 0, "id": "call_aaaaaaaa", "function": {"name": "", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "write", "arguments": ""}},
        {"index": 0, "id": "call_aaaaaaaa", "function": {"arguments": ARGUMENTS}},
    ],
}


@pytest.mark.parametrize("pieces", PIECES_OF_ANOTHER)
def test_n005_no_arguments_of_another_call(pieces: str) -> None:
    """What is released is what was judged, cut anywhere, and never a tool that the mode refuses."""
    body = ROLE + b"".join(map(calls, PIECES_OF_ANOTHER[pieces])) + END + DONE
    wanted = Session().step(ASKED, [body, said("bye")])
    assert b'"write"' not in wanted.body
    for name, _ in heard(wanted)[1]:
        assert name == "read"
    for cut in at_every_byte():
        assert Session().step(ASKED, [body, said("bye")], cut=cut).body == wanted.body


@pytest.mark.parametrize("lines", [1, 3, 99])
@pytest.mark.parametrize("name", ["read", "write"])
def test_n006_several_chunks_in_one_event_are_one_clear_error(name: str, lines: int) -> None:
    parts = vllm(name).split(b"\n\n")
    body = b"\n".join(parts[:lines]) + b"\n\n" + b"\n\n".join(parts[lines:])
    got = Session().step(ASKED, [body, said("bye")])
    assert b'"write"' not in got.body
    if lines > 1:
        assert got.body.count(b'"error"') == 1
        assert len(got.requests) == 1


def test_n010_the_providers_error_within_the_stream() -> None:
    failed = {
        "error": {"code": 502, "message": "Provider returned error"},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    }
    body = one({"content": "T"}) + calls(begin("call_aaaaaaaa", "read", '{"pa')) + frame(failed)
    got = Session().step(ASKED, [Reply(body + DONE)])
    assert got.body == one({"content": "T"}) + frame(failed)
    assert len(got.requests) == 1


@pytest.mark.parametrize("refused", [True, False], ids=["behind-a-refusal", "first"])
@pytest.mark.parametrize("body", [{}, {"delta": None}, {"message": None}, {"message": {}}])
def test_a_closing_frame_without_a_body(body: dict[str, Any], refused: bool) -> None:
    """Found by the differential test."""
    last = frame({"choices": [{"index": 0, **body, "finish_reason": "tool_calls"}], **USAGE})
    first = [xai("write")] if refused else []
    call = calls(begin("call_first000", "read", ARGUMENTS))
    got = Session().step(ASKED, [*first, ROLE + call + last + DONE])
    assert heard(got) == ("", [READ], "tool_calls")
