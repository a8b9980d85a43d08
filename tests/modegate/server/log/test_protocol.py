"""What holds for an event log, whichever store keeps it; runs against both."""

from __future__ import annotations

import asyncio

import pytest

from modegate.core.errors import BadRequest, Conflict
from modegate.core.ids import (
    LOCAL,
    CallId,
    Lane,
    ModeId,
    Seq,
    SessionId,
    SessionKey,
    StepId,
    Tenant,
    ToolName,
)
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import ModeSet, SessionOpen
from modegate.core.log.records import Entry, Record
from modegate.server.log.common import KEEP_QUESTIONS_MS
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog, Question, Seen
from support.stores import Store, entry, key_of, mode_set, writer

S = key_of("s")


@pytest.fixture
def log(store: Store) -> EventLog:
    return store.open()


def modes(records: list[Record]) -> list[str]:
    return [record.event.mode for record in records if isinstance(record.event, ModeSet)]


async def test_gives_back_what_was_appended(log: EventLog) -> None:
    opened = entry(SessionOpen("agent/1", "/v1/chat/completions", "path"), at=5)
    assert await log.append(S, [opened, mode_set("plan", at=6)]) == 2
    assert await log.append(S, [mode_set("default", at=7)]) == 3
    assert await log.read(S) == [
        Record(Seq(1), 5, "gate", opened.event),
        Record(Seq(2), 6, "person:cli", ModeSet(ModeId("plan"))),
        Record(Seq(3), 7, "person:cli", ModeSet(ModeId("default"))),
    ]


async def test_reads_in_pages(log: EventLog) -> None:
    await log.append(S, [mode_set(f"m{n}") for n in range(1, 8)])
    assert modes(await log.read(S, limit=3)) == ["m1", "m2", "m3"]
    assert modes(await log.read(S, Seq(3), 3)) == ["m4", "m5", "m6"]
    assert modes(await log.read(S, Seq(6), 3)) == ["m7"]
    assert await log.read(S, Seq(7)) == []
    assert await log.read(S, Seq(99)) == []


async def test_an_unknown_session_has_no_events(log: EventLog) -> None:
    assert await log.read(S) == []
    assert not await log.was_seen(S)


async def test_keys_of_tenants_never_collide(log: EventLog) -> None:
    first = SessionKey(Tenant("a/b"), SessionId("c"))
    second = SessionKey(Tenant("a"), SessionId("b:c"))
    third = SessionKey(Tenant("a}{b"), SessionId("c"))
    for n, key in enumerate((first, second, third)):
        await log.append(key, [mode_set(f"m{n}")])
    assert [modes(await log.read(key)) for key in (first, second, third)] == [
        ["m0"],
        ["m1"],
        ["m2"],
    ]


@pytest.mark.parametrize("expect", [1, 3])
async def test_appends_nothing_where_the_log_does_not_end(log: EventLog, expect: int) -> None:
    await log.append(S, [mode_set("a"), mode_set("b")], expect=Seq(0))
    with pytest.raises(Conflict, match=f"ends at 2, not at {expect}"):
        await log.append(S, [mode_set("c")], expect=Seq(expect))
    assert await log.append(S, [mode_set("d")], expect=Seq(2)) == 3
    assert modes(await log.read(S)) == ["a", "b", "d"]


async def test_of_many_who_expect_the_same_end_one_appends(store: Store) -> None:
    logs = [store.open(), store.open()]

    async def attempt(n: int) -> bool:
        try:
            await logs[n % 2].append(S, [mode_set(f"m{n}")], expect=Seq(0))
        except Conflict:
            return False
        return True

    won = await asyncio.gather(*(attempt(n) for n in range(20)))
    assert won.count(True) == 1
    assert modes(await logs[0].read(S)) == [f"m{won.index(True)}"]


async def test_two_processes_append_to_one_session(store: Store) -> None:
    with writer(store.url, "s", "a", 30) as a, writer(store.url, "s", "b", 30) as b:
        a.go()
        b.go()
        acknowledged = [int(process.line()) for process in (a, b) for _ in range(30)]
        assert (a.wait(), b.wait()) == (0, 0)
    found = await store.open().read(S)
    assert [record.seq for record in found] == sorted(acknowledged) == list(range(1, 61))
    assert sorted(modes(found)) == sorted(f"{name}-{n}" for name in "ab" for n in range(1, 31))


async def test_an_acknowledged_append_survives_kill_9_of_its_writer(store: Store) -> None:
    with writer(store.url, "s", "m", 0) as process:
        process.go()
        acknowledged = [int(process.line()) for _ in range(20)][-1]
        process.kill()
    found = await store.open().read(S)
    assert acknowledged == 20
    assert modes(found)[:20] == [f"m-{n}" for n in range(1, 21)]


async def test_the_feed_tells_what_changed_since_a_position(store: Store) -> None:
    mine, other = store.open(), store.open()
    start = await mine.changes(None)
    assert (start.changes, start.gap) == ((), False)
    await other.append(S, [mode_set("a"), mode_set("b")])
    await other.append(key_of("t"), [mode_set("a")])
    found = await mine.changes(start.position)
    assert [(change.key, change.seq) for change in found.changes] == [(S, 2), (key_of("t"), 1)]
    nothing = await mine.changes(found.position)
    assert (nothing.position, nothing.changes, nothing.gap) == (found.position, (), False)
    assert (await mine.changes(None)).position == found.position


async def test_waiting_for_the_feed_ends_when_another_process_appends(store: Store) -> None:
    mine, other = store.open(), store.open()
    position = (await mine.changes(None)).position
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(mine.changes(position, wait=20))
        group.create_task(other.append(S, [mode_set("plan")]))
    assert [change.key for change in waiting.result().changes] == [S]


async def test_waiting_for_the_feed_ends_with_nothing(log: EventLog) -> None:
    position = (await log.changes(None)).position
    found = await log.changes(position, wait=0.02)
    assert (found.position, found.changes, found.gap) == (position, (), False)


async def test_an_append_of_nothing_checks_the_end(log: EventLog) -> None:
    assert await log.append(S, [], expect=Seq(0)) == 0
    await log.append(S, [mode_set("plan")])
    assert await log.append(S, [], expect=Seq(1)) == 1
    with pytest.raises(Conflict):
        await log.append(S, [], expect=Seq(0))
    assert not await log.was_seen(key_of("nobody"))


async def test_a_session_that_was_only_seen_is_a_row_without_events(log: EventLog) -> None:
    await log.touch([Seen(S, "agent/1", "path", 10)])
    assert await log.was_seen(S)
    (row,) = (await log.sessions(LOCAL)).rows
    assert (row.key, row.seq, row.agent, row.how, row.at) == (S, 0, "agent/1", "path", 10)
    assert await log.read(S) == []


async def test_the_index_keeps_what_each_source_knows(log: EventLog) -> None:
    await log.append(S, [mode_set("plan", at=20)])
    await log.touch([Seen(S, "agent/1", "path", 10)])
    await log.append(S, [mode_set("default", at=15)])
    (row,) = (await log.sessions(LOCAL)).rows
    assert (row.seq, row.agent, row.how, row.at) == (2, "agent/1", "path", 20)


async def test_lists_sessions_newest_first_in_pages(log: EventLog) -> None:
    # Several of the same millisecond, so that a page ends between them.
    times = {"a": 1, "b": 5, "c": 5, "d": 5, "e": 5, "f": 9, "g": 3}
    await log.touch([Seen(key_of(name), "x", "path", at) for name, at in times.items()])
    await log.touch([Seen(SessionKey(Tenant("other"), SessionId("z")), "x", "path", 7)])
    pages, cursor = [], None
    while True:
        page = await log.sessions(LOCAL, cursor, 2)
        pages.append("".join(row.key.session for row in page.rows))
        if page.next is None:
            break
        cursor = page.next
    assert pages == ["fe", "dc", "bg", "a"]


async def test_an_empty_index_is_an_empty_page(log: EventLog) -> None:
    page = await log.sessions(LOCAL)
    assert (page.rows, page.next) == ((), None)


@pytest.mark.parametrize("cursor", ["x", "1", ":s", "-1:s", "99999999999999999999:s"])
async def test_refuses_a_cursor_that_it_never_gave(log: EventLog, cursor: str) -> None:
    with pytest.raises(BadRequest, match="cursor"):
        await log.sessions(LOCAL, cursor)


async def test_kin_are_derived_sessions_of_the_same_agent_with_events(log: EventLog) -> None:
    async def make(name: str, how: str, agent: str, at: int, *, events: bool = True) -> None:
        await log.touch([Seen(key_of(name), agent, how, at)])
        if events:
            await log.append(key_of(name), [mode_set("plan", at=at)])

    await make("kin", "derived", "a/1", 100)
    await make("old", "derived", "a/1", 99)
    await make("given", "path", "a/1", 100)
    await make("other", "derived", "b/1", 100)
    await make("silent", "derived", "a/1", 100, events=False)
    # Known as derived by its own log only: the row's batch was lost.
    opened = SessionOpen("a/1", "/v1/x", "derived", derived=True)
    await log.append(key_of("logged"), [entry(opened, at=100)])
    # Named by a person later on: it was derived all the same.
    await make("named", "derived", "a/1", 90)
    await log.touch([Seen(key_of("named"), "b/1", "path", 200)])
    found = await log.derived_siblings(LOCAL, "a/1", 100)
    assert sorted(key.session for key in found) == ["kin", "logged", "named"]
    assert await log.derived_siblings(Tenant("other"), "a/1", 0) == []
    assert await log.derived_siblings(LOCAL, "c/1", 0) == []


async def test_keeps_the_newest_checkpoint(log: EventLog) -> None:
    assert await log.load_checkpoint(S) is None
    await log.save_checkpoint(S, Seq(9), b"nine")
    await log.save_checkpoint(S, Seq(10), b"\x00ten")
    await log.save_checkpoint(S, Seq(2), b"two")
    assert await log.load_checkpoint(S) == (10, b"\x00ten")
    assert await log.load_checkpoint(key_of("t")) is None


async def test_checkpoints_of_another_version_are_not_seen(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.save_checkpoint(S, Seq(1), b"old")
    for module in ("log.sqlite", "log.redis_keys"):
        monkeypatch.setattr(f"modegate.server.{module}.CHECKPOINT_VERSION", 99)
    assert await log.load_checkpoint(S) is None


async def test_keeps_bodies_beside_the_log(log: EventLog) -> None:
    await log.put_blob(S, "one", b"\x00body", 60_000)
    await log.put_blob(S, "two", b"", 60_000)
    found = await log.get_blobs(S, ["two", "three", "one"])
    assert found == {"one": b"\x00body", "two": b""}
    assert await log.get_blobs(key_of("t"), ["one"]) == {}
    assert await log.get_blobs(S, []) == {}


async def test_answers_a_ping(log: EventLog) -> None:
    await log.ping()


@pytest.mark.parametrize("url", ["", "sqlite:", "redis:host", "mysql://u:secret@h/", "log.db"])
def test_refuses_a_url_of_no_store_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="names no store") as raised:
        open_log(url)
    assert "secret" not in str(raised.value)


def asked(name: str, expires: int, at: int = 1_000) -> Entry:
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    return entry(ApprovalAsked(name, *place, "exit", "# Plan", (), expires), at=at)


async def test_a_question_is_found_by_its_id(log: EventLog) -> None:
    other = SessionKey(Tenant("other"), SessionId("s:1"))
    await log.append(S, [mode_set("plan"), asked("a", 5_000), asked("b", 4_000)])
    await log.append(other, [asked("c", 5_000)])
    assert await log.asked_in(LOCAL, "a") == S
    assert await log.asked_in(Tenant("other"), "c") == other
    assert await log.asked_in(LOCAL, "c") is None
    assert await log.asked_in(LOCAL, "") is None


async def test_questions_are_listed_until_they_expire(log: EventLog) -> None:
    await log.append(S, [asked("a", 5_000), asked("b", 7_000)])
    await log.append(key_of("t"), [asked("c", 6_000)])
    found = await log.questions(LOCAL, 1_000)
    assert found == [
        Question(S, "b", 7_000),
        Question(key_of("t"), "c", 6_000),
        Question(S, "a", 5_000),
    ]
    assert [one.id for one in await log.questions(LOCAL, 5_000)] == ["b", "c"]
    assert [one.id for one in await log.questions(LOCAL, 0, limit=1)] == ["b"]
    assert await log.questions(LOCAL, 7_000) == []
    assert await log.questions(Tenant("other"), 0) == []


async def test_questions_are_forgotten_a_day_after_they_expired(log: EventLog) -> None:
    await log.append(S, [asked("a", 5_000), asked("b", 5_001)])
    await log.append(S, [asked("c", 10**9, at=5_000 + KEEP_QUESTIONS_MS)])
    assert await log.asked_in(LOCAL, "a") is None
    assert await log.asked_in(LOCAL, "b") == S
    assert [one.id for one in await log.questions(LOCAL, 0)] == ["c", "b"]


async def test_a_question_that_was_not_appended_is_in_no_log(log: EventLog) -> None:
    await log.append(S, [mode_set("plan")])
    with pytest.raises(Conflict):
        await log.append(S, [asked("a", 5_000)], expect=Seq(0))
    assert len(await log.read(S)) == 1
