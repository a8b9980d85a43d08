"""Loose servers of the Responses API: what has one reading arrives in the API's own form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from modegate.core.log.events import CallJudged
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Limits
from modegate.core.policy.when import When
from support import judges
from support.playbook import Reply, at_every_byte, bytewise, mode, policy, rule
from support.responses import (
    CLIENTS,
    added,
    answer,
    begin,
    call,
    custom,
    done,
    end,
    events,
    inside,
    item_events,
    kinds,
    last,
    message,
    read,
    reasoning,
    request,
    session,
    stream,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')
TEXT = message("Hello")
ITEM_END = "response.output_item.done"


def without(found: list[Any], *keys: str) -> list[Any]:
    """Leave keys out of events and of their items."""
    return [
        {
            key: {k: v for k, v in value.items() if k not in keys} if key == "item" else value
            for key, value in event.items()
            if key not in keys
        }
        for event in found
    ]


def at_index(index: int, *items: Any) -> list[Any]:
    return [event for item in items for event in item_events(item, index)]


def woven(*items: Any) -> list[Any]:
    """Let the events of items take turns."""
    rows = [item_events(item, at) for at, item in enumerate(items)]
    return [row[at] for at in range(max(map(len, rows))) for row in rows if at < len(row)]


def no_ends(*items: Any) -> list[Any]:
    return [event for event in events(*items)[1:-1] if event["type"] != ITEM_END]


@dataclass(frozen=True)
class Case:
    """A stream, and what every client is to make of it."""

    found: list[Any]
    text: str = ""
    calls: tuple[Any, ...] = (READ,)
    raw: bytes = b""
    """What stands in the place of the last event."""


UNREAD = ("answer_unreadable", "too_large")
DONE_MARK = b"data: [DONE]\n\n"
BOTH = (READ, GREP)
OTHER_IDS = [
    {**event, "item": {**event["item"], "id": f"x{at}"}} if "item" in event else event
    for at, event in enumerate(item_events(READ, 0))
]
N016 = [begin(), *no_ends(READ), end([READ])]
CASES = {
    "N016 no end of the item": Case(N016),
    "N016 beside text": Case(
        [begin(), *no_ends(TEXT, READ, GREP), end([TEXT, READ, GREP])], "Hello", BOTH
    ),
    "no end of the item, and nothing at the end": Case([begin(), *no_ends(READ), end([])]),
    "N017 requires action": Case(
        [
            *events(READ)[:-1],
            end([READ]) | {"response": end([READ])["response"] | {"status": "requires_action"}},
        ]
    ),
    "in progress at the end": Case(
        [
            *events(TEXT, READ)[:-1],
            end([TEXT, READ])
            | {"response": end([TEXT, READ])["response"] | {"status": "in_progress"}},
        ],
        "Hello",
    ),
    "items side by side": Case([begin(), *woven(READ, GREP), end(BOTH)], "", BOTH),
    "text beside a call": Case([begin(), *woven(TEXT, READ), end([TEXT, READ])], "Hello"),
    "a call beside text": Case([begin(), *woven(READ, TEXT), end([READ, TEXT])], "Hello"),
    "all items end at the end": Case(
        [begin(), *no_ends(READ, GREP), done(READ, 0), done(GREP, 1), end(BOTH)], "", BOTH
    ),
    "no index": Case(without(events(TEXT, READ, GREP), "output_index"), "Hello", BOTH),
    "no index, side by side": Case(
        without([begin(), *woven(READ, GREP), end(BOTH)], "output_index"), "", BOTH
    ),
    "one index for all": Case(
        [begin(), *at_index(0, TEXT, READ, GREP), end([TEXT, READ, GREP])], "Hello", BOTH
    ),
    "one index for all, no ends": Case(
        [begin(), *(one for one in at_index(0, READ, GREP) if one["type"] != ITEM_END), end(BOTH)],
        "",
        BOTH,
    ),
    "indices that go back": Case(
        [begin(), *item_events(READ, 3), *item_events(GREP, 1), end(BOTH)], "", BOTH
    ),
    "no ids of items": Case(
        [*without(events(READ, GREP), "id", "item_id")[:-1], end(BOTH)], "", BOTH
    ),
    "other ids in each event": Case([begin(), *OTHER_IDS, end([READ])]),
    "no call_id where it begins": Case(
        [
            begin(),
            *without([added(READ, 0)], "call_id"),
            *inside(READ, 0),
            done(READ, 0),
            end([READ]),
        ]
    ),
    "no call_id where it ends": Case(
        [begin(), added(READ, 0), *inside(READ, 0), *without([done(READ, 0)], "call_id"), end([])]
    ),
    "no call_id": Case(
        [
            begin(),
            *without(item_events(READ, 0), "call_id"),
            end([{k: v for k, v in READ.items() if k != "call_id"}]),
        ]
    ),
    "a call_id that is the item's": Case(events(READ | {"call_id": "fc_1"})),
    "a call_id twice": Case(events(READ, GREP | {"call_id": READ["call_id"]}), "", BOTH),
    "announced twice": Case(
        [begin(), added(READ, 0), added(READ, 0), *item_events(READ, 0)[1:], end([READ])]
    ),
    "announced with its arguments": Case(
        [
            begin(),
            added(READ, 0) | {"item": READ | {"status": "in_progress"}},
            done(READ, 0),
            end([READ]),
        ]
    ),
    "ended twice": Case([begin(), *item_events(READ, 0), done(READ, 0), end([READ])]),
    "not announced": Case([begin(), done(READ, 0), end([READ])]),
    "only pieces": Case([begin(), *item_events(READ, 0)[1:], end([READ])]),
    "no pieces": Case([begin(), added(READ, 0), done(READ, 0), end([READ])]),
    "arguments behind the end": Case(
        [
            begin(),
            added(READ, 0),
            *inside(READ, 0)[:-1],
            done(READ, 0),
            inside(READ, 0)[-1],
            end([READ]),
        ]
    ),
    "only at the end": Case([begin(), end([TEXT, READ, GREP])], "Hello", BOTH),
    "a call only at the end": Case([*events(TEXT)[:-1], end([TEXT, READ])], "Hello"),
    "custom, in no pieces": Case(
        [begin(), added(custom("read", "free"), 0), done(custom("read", "free"), 0), end([])],
        "",
        (custom("read", "free"),),
    ),
    "a placeholder": Case(
        [
            begin(),
            *item_events(call("", "", 7), 0),
            *item_events(READ, 1),
            end([call("", "", 7), READ]),
        ]
    ),
    "no parts": Case(
        [event for event in events(TEXT, READ) if "content_part" not in event["type"]], "Hello"
    ),
    "text of no item": Case(
        [
            begin(),
            *(event for event in inside(TEXT, 0) if event["type"].endswith("text.delta")),
            end([TEXT]),
        ],
        "Hello",
        (),
    ),
    "no numbers": Case(events(TEXT, READ), "Hello"),
    "a mark of another API for an end": Case(events(TEXT, READ)[:-1], "Hello", raw=DONE_MARK),
    "and behind the end": Case(events(TEXT, READ), "Hello", raw=DONE_MARK),
    "reasoning": Case([begin(), *no_ends(reasoning(), READ), end([reasoning(), READ])]),
}


def body_of(case: Case, name: str = "") -> bytes:
    body = stream(case.found)
    if name == "no numbers":
        body = b"".join(
            b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode())
            for one in case.found
        )
    return body + case.raw


def arguments(item: Any) -> str:
    return str(item.get("arguments", item.get("input")))


def strict(body: bytes, calls: tuple[Any, ...]) -> None:
    """See that each call is told of in every form, in a run, under one id, and counted as items are."""
    found = read(body)
    numbers = [event["sequence_number"] for event in found if "sequence_number" in event]
    assert numbers == sorted(set(numbers))
    ends = [at for at, event in enumerate(found) if event["type"] == ITEM_END]
    runs = [at for at in ends if found[at]["item"]["type"].endswith("_call")]
    assert len(runs) == len(calls)
    seen = set()
    for at in runs:
        item, place = found[at]["item"], found[at]["output_index"]
        begin_ = max(one for one in range(at) if found[one]["type"] == "response.output_item.added")
        run = found[begin_ : at + 1]
        assert {event["output_index"] for event in run} == {place}
        names = {event.get("item_id") or event["item"].get("id") for event in run}
        assert names == {item["id"]}
        pieces = "".join(event["delta"] for event in run if event["type"].endswith(".delta"))
        assert pieces == arguments(item)
        assert isinstance(item["call_id"], str)
        seen.add(item["call_id"])
    assert len(seen) == len(runs)
    places = [
        event["output_index"] for event in found if event["type"] == "response.output_item.added"
    ]
    assert places == sorted(set(places))
    listed = [one for one in last(body)["output"] if one["type"].endswith("_call")]
    assert not listed or [one["call_id"] for one in listed] == [
        found[at]["item"]["call_id"] for at in runs
    ]
    assert last(body)["status"] == "completed"


@pytest.mark.parametrize("name", CASES)
def test_what_has_one_reading_arrives_in_one_form(name: str) -> None:
    """However it is cut; read by a strict client, by loose ones and by the official SDK."""
    case = CASES[name]
    got = session().step(REQUEST, [body_of(case, name)])
    if name != "no parts" and last(got.body)["output"]:
        said, told = judges.told("responses", got.body, streamed=True)
        assert said == case.text
        assert told == [(one["name"], json.loads(arguments(one))) for one in case.calls]
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(REQUEST, [body_of(case, name)], cut=cut)
        assert len(got.requests) == 1
        strict(got.body, case.calls)
        wanted = [(one["name"], arguments(one)) for one in case.calls]
        for client in CLIENTS.values():
            if client.__name__ == "by_snapshot" and not last(got.body)["output"]:
                continue
            assert [(one.name, one.arguments) for one in client(got.body)] == wanted


def test_an_end_without_a_status_keeps_its_bytes() -> None:
    found = events(READ)
    found[-1] = found[-1] | {"response": found[-1]["response"] | {"status": None}}
    assert session().step(REQUEST, [stream(found)]).body == stream(found)


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused_of_it_goes_nowhere(name: str) -> None:
    """The same server, whose model calls a tool that the mode does not have; then it gives in."""
    case = CASES[name]
    body = body_of(case, name).replace(b'"read"', b'"write"').replace(b'"grep"', b'"write"')
    body = body.replace(b'\\"path\\"', b'\\"SECRET\\"').replace(b'"path\\"', b'"SECRET\\"')
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(REQUEST, [body, answer(message("so", "m9"), n=2)], cut=cut)
        assert b"SECRET" not in got.body
        assert b"write" not in got.body
        assert b"function_call" not in got.body
        assert len(got.requests) == (2 if case.calls else 1)
        assert kinds(got.body)[-1] == "completed"


@pytest.mark.parametrize(
    "name", ["N016 no end of the item", "items side by side", "no call_id", "only at the end"]
)
def test_each_cut_gives_the_same(name: str) -> None:
    body = body_of(CASES[name])
    wanted = session().step(REQUEST, [body]).body
    for cut in at_every_byte():
        assert session().step(REQUEST, [body], cut=cut).body == wanted


PIECE = inside(READ, 0)[0]
DOUBTFUL = {
    "a piece behind the whole arguments": [
        added(READ, 0),
        *inside(READ, 0)[:-2],
        *reversed(inside(READ, 0)[-2:]),
        done(READ, 0),
    ],
    "a piece by one index and another id": [
        added(READ, 0),
        added(GREP, 1),
        PIECE | {"output_index": 1},
        *inside(READ, 0),
        *inside(GREP, 1),
        done(READ, 0),
        done(GREP, 1),
    ],
    "pieces of two without index or id": [
        added(READ, 0),
        added(GREP, 1),
        *without(inside(READ, 0), "output_index", "item_id"),
        done(READ, 0),
        done(GREP, 1),
    ],
    "one index, no ids, and pieces missing": [
        *without(
            [added(READ, 0), added(GREP, 0), *inside(READ, 0), *inside(GREP, 0)], "id", "item_id"
        ),
        *without([done(READ, 0), done(GREP, 0)], "id"),
    ],
    "another name where it is announced again": [
        added(READ, 0),
        added(READ | {"name": "grep"}, 0),
        *inside(READ, 0),
        done(READ, 0),
    ],
    "another end of a call that waits": [
        added(GREP, 0),
        *item_events(READ, 1),
        done(READ | {"arguments": "{}"}, 1),
        *inside(GREP, 0),
        done(GREP, 0),
    ],
    "another type at its end": [added(READ, 0), done(custom("read", "SECRET"), 0)],
    "an item twice in its end": [added(READ, 0), done(READ, 0) | {"Item": GREP}],
}


@pytest.mark.parametrize("found", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_call_with_two_readings_is_refused(found: list[Any]) -> None:
    for cut in (bytewise, lambda all_: [all_]):
        sent = stream([begin(), *found, end([])])
        got = session().step(REQUEST, [sent, answer(message("so", "m9"), n=2)], cut=cut)
        assert b'"read"' not in got.body
        assert [
            event
            for event in got.events
            if isinstance(event, CallJudged) and event.verdict == "answer"
        ]
        assert kinds(got.body)[-1] == "completed"


@pytest.mark.parametrize(
    "found",
    [
        [*item_events(READ, 0), done(READ | {"arguments": '{"path":"SECRET"}'}, 0)],
        [*item_events(READ, 0), PIECE | {"delta": "SECRET"}],
    ],
)
def test_another_call_behind_one_that_has_gone_ends_the_answer(found: list[Any]) -> None:
    got = session().step(REQUEST, [stream([begin(), *found, end([])])])
    assert b"SECRET" not in got.body
    assert kinds(got.body)[-1] == "failed"


EDIT = policy(
    mode("plan", "read", rule("edit", When({"command": Equals("view")}, others_any=True)))
)
VIEW, CREATE = call("edit", '{"command":"view"}'), call("edit", '{"command":"create"}')
WHEN = {
    "no pieces": ([added(VIEW, 0), done(VIEW, 0)], True),
    "no pieces, denied": ([added(CREATE, 0), done(CREATE, 0)], False),
    "only at the end": ([], True),
    "no end": (item_events(VIEW, 0)[:-1], True),
    "no end, and another at the end": (item_events(CREATE, 0)[:-1], False),
    "side by side": (woven(VIEW, GREP), True),
    "announced as another": ([added(CREATE, 0) | {"item": CREATE}, done(VIEW, 0)], False),
    "pieces of another": ([added(VIEW, 0), *inside(CREATE, 0), done(VIEW, 0)], False),
    "no id, pieces of another": (
        [*without([added(VIEW, 0), *inside(CREATE, 0), done(VIEW, 0)], "id", "item_id")],
        False,
    ),
}


@pytest.mark.parametrize(("found", "goes"), WHEN.values(), ids=WHEN)
def test_conditions_hold_for_what_every_client_reads_alike(found: list[Any], goes: bool) -> None:
    asked = request("edit", "read", "grep", stream=True)
    for cut in (bytewise, lambda all_: [all_]):
        sent = stream([begin(), *found, end([VIEW])])
        got = session(rules=EDIT).step(asked, [sent, answer(message("so", "m9"), n=2)], cut=cut)
        for client in CLIENTS.values():
            calls = [one.arguments for one in client(got.body) if one.name == "edit"]
            assert calls == (['{"command":"view"}'] if goes else [])


ERROR = {"type": "error", "code": "server_error", "message": "It broke"}
FAILED = {
    "type": "response.failed",
    "response": {"id": "resp_1", "status": "failed", "error": ERROR, "output": []},
}
ERRORS = {
    "an error": stream([ERROR]),
    "a failed response": stream([FAILED]),
    "an error without a type": b'event: error\ndata: {"error": {"message": "It broke"}}\n\n',
    "an error without a name": b'data: {"error": {"message": "It broke"}}\n\n',
    "words": b"event: error\ndata: It broke\n\n",
}


@pytest.mark.parametrize("broken", [True, False], ids=["torn", "closed"])
@pytest.mark.parametrize(
    "behind", [[], [FAILED], [ERROR], [end([READ])], [*item_events(READ, 1), end([READ])]]
)
@pytest.mark.parametrize("held", [[], [added(READ, 1)], [added(WRITE, 1), *inside(WRITE, 1)]])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_g2_an_error_ends_the_answer_once(
    error: bytes, held: list[Any], behind: list[Any], broken: bool
) -> None:
    """Whatever form it has: it reaches the client as an error, and nothing of ours follows."""
    front = events(TEXT)[:-1]
    sent = stream([*front, *held]) + error + stream(behind)
    for cut in (bytewise, lambda all_: [all_]):
        got = session().step(REQUEST, [Reply(sent, broken=broken)], cut=cut)
        assert got.body.startswith(stream(front))
        ends = [
            event["type"]
            for event in read(got.body)
            if event["type"] in ("error", "response.failed")
        ]
        assert len(ends) == 1
        assert b"It broke" in got.body
        assert b"function_call" not in got.body
        assert len(got.requests) == 1


def test_what_waits_is_bounded() -> None:
    """The same limit as for calls that are held back."""
    small = policy(mode("plan", "read"), limits=Limits(held=2_000))
    piece = {
        "type": "response.function_call_arguments.delta",
        "item_id": "fc_1",
        "output_index": 0,
        "delta": "x" * 100,
    }
    got = session(rules=small).step(REQUEST, [stream([begin(), added(READ, 0), *[piece] * 30])])
    assert b"limits.held" in got.body


def test_in_a_later_hop_too() -> None:
    """Behind a refused call, where events and items are counted anew."""
    loose = stream([begin(2), *woven(READ, GREP), end(BOTH, n=2)])
    got = session().step(
        REQUEST, [answer(message("A", "m1"), call("write", '{"path":"SECRET"}', 3)), loose]
    )
    assert b"SECRET" not in got.body
    strict(got.body, BOTH)
    assert judges.told("responses", got.body, streamed=True) == (
        "A",
        [("read", {"path": "a"}), ("grep", {"for": "b"})],
    )


@pytest.mark.parametrize("status", ["requires_action", "in_progress"])
@pytest.mark.parametrize("tool", ["read", "write"])
def test_n017_a_whole_answer_too(tool: str, status: str) -> None:
    reply = whole(call(tool, '{"path":"SECRET"}'), status=status)
    asked = {**REQUEST, "stream": False}
    got = session().step(asked, [reply, whole(message("b"))])
    assert got.json["status"] == "completed"
    assert len(got.requests) == (1 if tool == "read" else 2)
    assert (b"SECRET" in got.body) is (tool == "read")


PLACEHOLDER = call("", "", 7)
NO_ID = {key: value for key, value in READ.items() if key != "call_id"}
WHOLE = {
    "no call_id": ([TEXT, NO_ID], ["read"]),
    "an empty call_id": ([READ | {"call_id": ""}], ["read"]),
    "a call_id twice": ([READ, GREP | {"call_id": READ["call_id"]}], ["read", "grep"]),
    "a placeholder": ([PLACEHOLDER, TEXT, READ], ["read"]),
    "a placeholder alone": ([TEXT, PLACEHOLDER], []),
}


@pytest.mark.parametrize(("items", "names"), WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_has_ids_too(items: list[Any], names: list[str]) -> None:
    got = session().step({**REQUEST, "stream": False}, [whole(*items)])
    calls = [one for one in got.json["output"] if one["type"] == "function_call"]
    assert [one["name"] for one in calls] == names
    ids = [one["call_id"] for one in calls]
    assert all(isinstance(one, str) and one for one in ids)
    assert len({*ids}) == len(ids)
    assert len(got.requests) == 1


@pytest.mark.parametrize("store", [True, False])
def test_an_id_of_the_history_is_used_again_only_where_its_provider_keeps_it(store: bool) -> None:
    """It would not know the result under another."""
    past = [GREP | {"call_id": READ["call_id"]}]
    past.append({"type": "function_call_output", "call_id": READ["call_id"], "output": "x"})
    asked = request("read", "grep", stream=True, history=past) | {"store": store}
    body = answer(READ)
    got = session().step(asked, [body])
    assert (got.body == body) is store
    strict(got.body, (READ,))
    asked["stream"] = False
    found = session().step(asked, [whole(READ)]).json["output"][0]
    assert (found["call_id"] == READ["call_id"]) is store


@pytest.mark.parametrize("kind", ["message", "function_call"])
def test_an_end_that_lists_too_many_items_is_not_looked_through(kind: str) -> None:
    """To find each among all of them would take a time that grows with their square."""
    listed = [{"type": kind, "id": f"x{at}", "call_id": f"y{at}"} for at in range(600)]
    got = session().step(REQUEST, [stream([begin(), end(listed)])])
    assert got.finish is not None
    assert got.finish.outcome in UNREAD
    assert b"x599" not in got.body


def test_items_that_are_under_way_have_a_limit() -> None:
    ends = [done(call("read", "{}", at + 9), at) for at in range(1, 600)]
    got = session().step(REQUEST, [stream([begin(), added(READ, 0), *ends, end([])])])
    assert got.finish is not None
    assert got.finish.outcome in UNREAD
    assert b"function_call" not in got.body


def test_pieces_without_an_index_are_not_looked_for_among_many_items() -> None:
    begun = [added(call("read", "", at), at) for at in range(100)]
    piece = {"type": "response.function_call_arguments.delta", "delta": "{}"}
    got = session().step(REQUEST, [stream([begin(), *begun, piece, end([])])])
    assert got.finish is not None
    assert got.finish.outcome in UNREAD


@pytest.mark.parametrize("inner", [{"response": {"output": [WRITE]}}, {"item": WRITE}])
def test_l5_no_response_and_no_item_is_within_a_response(inner: Any) -> None:
    last_ = end([READ])
    first = begin()
    for found in (
        [first, *item_events(READ, 0), last_ | {"response": last_["response"] | inner}],
        [first | {"response": first["response"] | inner}, *item_events(READ, 0), last_],
    ):
        got = session().step(REQUEST, [stream(found), answer(message("so", "m9"), n=2)])
        assert b"SECRET" not in got.body
