"""Stored answers in a mode: which of them can be fetched, under which id, and what of them is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.dialects.responses.answer.fetched import FetchedItems, FetchedResponse
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.endpoints import Kind
from modegate.core.errors import AnswerUnreadable, EndpointNotGated
from modegate.core.ids import DEFAULT_MODE, StepId
from modegate.core.policy.model import Effect
from modegate.core.step.stored_answers_get import judge, plan, reworded
from support.dialect_facts import stored_paths
from support.playbook import Session, mode, policy, rule
from support.responses import answer, call, message, request, response, session

PATHS = stored_paths("responses")
WRITE = call("write", '{"path":"SECRET"}')
READ = call("read", "{}", 2)
GREP = call("grep", "{}", 3)


def given(*hops: bytes, rules: Any = None) -> Session:
    """Return a session in which an answer of these hops was given."""
    got = session(rules=rules) if rules else session()
    body = {key: value for key, value in request("read", "grep", "write").items() if key != "store"}
    got.step(body | {"stream": True}, list(hops))
    return got


TWO = [
    answer(message("a"), WRITE),
    answer(message("b"), WRITE | {"arguments": '{"n":2}'}, n=2),
    answer(message("c"), READ, n=3),
]


@pytest.mark.parametrize(("method", "path", "kind"), [
    ("GET", b"/v1/responses/resp_1", Kind.STORED),
    ("DELETE", b"/responses/resp-1/", Kind.STORED),
    ("GET", b"/v1/responses/resp_1/input_items", Kind.STORED),
    ("POST", b"/v1/responses/resp_1/cancel", Kind.STORED),
    ("POST", b"/v1/responses/resp_1", Kind.OTHER),
    ("GET", b"/v1/responses/a/b", Kind.OTHER),
    ("GET", b"/v1/responses/a%2Fb", Kind.OTHER),
    ("GET", b"/v1/responses/..", Kind.OTHER),
    ("GET\n", b"/v1/responses/a", Kind.OTHER),
])  # fmt: skip
def test_which_requests_are_for_a_stored_answer(method: str, path: bytes, kind: Kind) -> None:
    assert DIALECTS.apis.classify(method, path).kind == kind


@pytest.mark.parametrize(("path", "wanted"), [
    (b"/v1/responses/resp_1", b"/v1/responses/resp_3"),
    (b"/responses/resp_1/", b"/responses/resp_3/"),
    (b"/v1/responses/resp_1/cancel", b"/v1/responses/resp_3/cancel"),
    (b"/v1/responses/resp_2", b"/v1/responses/resp_3"),
    (b"/v1/responses/resp_3", b"/v1/responses/resp_3"),
])  # fmt: skip
def test_the_provider_is_asked_for_the_last_hop(path: bytes, wanted: bytes) -> None:
    planned = plan(PATHS, path, b"include=x", given(*TWO).in_force())
    assert planned is not None
    assert planned.path == wanted


def test_an_answer_of_which_nothing_was_refused_is_known() -> None:
    planned = plan(PATHS, b"/v1/responses/resp_1", b"", given(answer(message("a"))).in_force())
    assert planned is not None
    assert planned.path == b"/v1/responses/resp_1"


@pytest.mark.parametrize(("path", "query"), [
    (b"/v1/responses/resp_9", b""),
    (b"/v1/responses/resp_9/input_items", b""),
    (b"/v1/responses/resp_1", b"stream=true"),
    (b"/v1/responses/resp_1", b"a=b&Stream=True"),
    (b"/v1/responses/resp_1", b"starting_after=1"),
])  # fmt: skip
def test_what_cannot_be_looked_at_is_refused(path: bytes, query: bytes) -> None:
    with pytest.raises(EndpointNotGated):
        plan(PATHS, path, query, given(*TWO).in_force())


def test_in_default_mode_unknown_answers_pass_and_known_ones_are_looked_at() -> None:
    got = given(*TWO)
    got.set_mode(DEFAULT_MODE)
    assert plan(PATHS, b"/v1/responses/resp_9", b"stream=true", got.in_force()) is None
    assert plan(PATHS, b"/v1/responses/resp_1", b"stream=false", got.in_force()) is not None
    assert plan(PATHS, b"/v1/responses/x", b"", Session(DEFAULT_MODE).in_force()) is None


def fetched(got: Session, *items: Any, name: str = "resp_1") -> Any:
    planned = plan(PATHS, b"/v1/responses/" + name.encode(), b"", got.in_force())
    assert planned is not None
    body = json.dumps(response(items, n=3)).encode()
    return json.loads(judge(StepId("s"), FetchedResponse(body), planned, got.in_force()))


def test_it_bears_the_clients_id_and_what_the_mode_allows() -> None:
    found = fetched(given(*TWO), message("c"), READ, WRITE)
    assert found["id"] == "resp_1"
    assert [item["type"] for item in found["output"]] == ["message", "function_call"]


@pytest.mark.parametrize(
    ("previous", "told"),
    [("resp_1", None), ("resp_2", None), ("resp_0", "resp_0"), (None, None), ({}, {})],
)
def test_g5_it_does_not_go_on_from_itself(previous: Any, told: Any) -> None:
    """A later hop goes on from the one before, which the client knows under the same id."""
    got = given(*TWO)
    planned = plan(PATHS, b"/v1/responses/resp_1", b"", got.in_force())
    assert planned is not None
    body = json.dumps(response([message("c")], n=3, previous_response_id=previous)).encode()
    found = json.loads(judge(StepId("s"), FetchedResponse(body), planned, got.in_force()))
    assert (found["id"], found["previous_response_id"]) == ("resp_1", told)


def test_what_the_mode_no_longer_allows_is_not_shown() -> None:
    rules = policy(mode("plan", "read", "grep"), mode("review", "grep"))
    got = given(answer(READ, GREP), rules=rules)
    got.set_mode("review")
    assert [item["name"] for item in fetched(got, READ, GREP)["output"]] == ["grep"]


def test_what_was_refused_is_not_shown_in_default_mode_either() -> None:
    got = given(answer(WRITE, READ))
    got.set_mode(DEFAULT_MODE)
    other = call("write", "{}", 9)
    assert [item["id"] for item in fetched(got, WRITE, READ, other)["output"]] == ["fc_2", "fc_9"]


def test_what_a_person_would_be_asked_about_is_not_shown() -> None:

    rules = policy(mode("plan", "grep", rule("read", effect=Effect.ASK)))
    assert fetched(given(answer(GREP), rules=rules), READ, GREP)["output"] == [GREP]


@pytest.mark.parametrize(("text_calls", "shown"), [("refuse", False), ("pass", True), (None, True)])
def test_h4_calls_in_its_text_are_not_shown_where_a_mode_says_so(
    text_calls: Any, shown: bool
) -> None:
    text = 'So {"name": "write", "arguments": {"path": "S3CRET"}}, {"name": "read", "input": {}}.'
    body = json.dumps(
        {
            "id": "r",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
        }
    ).encode()
    in_force = Session(rules=policy(mode("plan", "read", text_calls=text_calls))).in_force()
    told = reworded(StepId("a" * 20), body, RESPONSES, in_force).decode()
    assert ("S3CRET" in told) is shown
    assert ("stood here in plain text" in told) is not shown
    assert '\\"read\\", \\"input\\": {}}.' in told


def test_a_deleted_answer_is_told_under_the_clients_id() -> None:
    got = given(*TWO)
    planned = plan(PATHS, b"/v1/responses/resp_1", b"", got.in_force())
    assert planned is not None
    body = b'{"id": "resp_3", "object": "response", "deleted": true}'
    told = judge(StepId("s"), FetchedResponse(body), planned, got.in_force())
    assert told == body.replace(b"resp_3", b"resp_1")


ASKED = [
    {"type": "message", "role": "user", "content": "go on"},
    {"role": "user", "content": "without a type"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    READ,
    {"type": "function_call_output", "call_id": READ["call_id"], "output": "x"},
    WRITE | {"call_id": "call_of_another_mode"},
    {"type": "function_call_output", "call_id": "call_of_another_mode", "output": "SECRET"},
    {"type": "custom_tool_call", "call_id": "call_patch", "name": "apply_patch", "input": "SECRET"},
    {"type": "local_shell_call", "call_id": "call_shell", "action": {"command": ["SECRET"]}},
    {"type": "function_call", "call_id": "c", "name": "read", "arguments": {"SECRET": 1}},
    {"type": "made_up", "text": "SECRET"},
]


def items_of(got: Session, asked: list[Any]) -> Any:
    """Return what a client is shown of what an answer was given to."""
    planned = plan(PATHS, b"/v1/responses/resp_1/input_items", b"limit=5", got.in_force())
    assert planned is not None
    assert (planned.path, planned.asked) == (b"/v1/responses/resp_1/input_items", True)
    body = json.dumps({"object": "list", "data": asked, "has_more": False}).encode()
    return json.loads(judge(StepId("s"), FetchedItems(body), planned, got.in_force()))


def test_of_what_was_asked_only_what_the_mode_allows_is_shown() -> None:
    """Calls and their results together; what cannot be told is not shown."""
    found = items_of(given(*TWO), ASKED)
    assert found["data"] == ASKED[:5]
    assert found["object"] == "list"


def test_results_that_modegate_put_in_front_are_not_shown() -> None:
    """They are of calls that the client never saw, in default mode as well."""
    got = given(answer(WRITE, READ))
    owed = {"type": "function_call_output", "call_id": WRITE["call_id"], "output": "refused"}
    assert items_of(got, [owed, ASKED[0]])["data"] == [ASKED[0]]
    got.set_mode(DEFAULT_MODE)
    assert items_of(got, [owed, ASKED[0]])["data"] == [ASKED[0]]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"data":{}}', b'{"data":[1]}', b'{"data":[],"data":[]}']
)
def test_a_list_that_cannot_be_read_is_not_shown(body: bytes) -> None:
    with pytest.raises(AnswerUnreadable):
        FetchedItems(body)


def test_what_cannot_be_read_is_not_shown() -> None:
    with pytest.raises(AnswerUnreadable):
        FetchedResponse(b"event: x\n\n")


@pytest.mark.parametrize("name", ["", 'a"b', "a\\b", "\u2028", "é\n"], ids=ascii)
def test_l5_what_was_refused_is_not_shown_later_whatever_its_id(name: str) -> None:
    """Also once the mode is left, in which it was refused."""
    write, read = WRITE | {"call_id": name}, READ | {"call_id": "another"}
    got = given(answer(write, read))
    got.set_mode(DEFAULT_MODE)
    in_force = got.in_force()
    planned = plan(PATHS, b"/v1/responses/resp_1", b"", in_force)
    assert planned is not None
    body = json.dumps(response((write, read))).encode()
    shown = judge(StepId("a" * 20), FetchedResponse(body), planned, in_force)
    assert [item["name"] for item in json.loads(shown)["output"]] == ["read"]
