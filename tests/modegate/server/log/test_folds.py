"""Strict reads: shared, never older than the call, bounded in memory, closed on any doubt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from modegate.core.errors import AnotherLog, Conflict, LogUnavailable, SessionUnreadable
from modegate.core.ids import CallId, Lane, ModeId, Seq, SessionId, SessionKey, StepId, ToolName
from modegate.core.log.events import CallJudged, Event, ModeSet, RequestHeader, SessionOpen
from modegate.core.log.fold import State, fold_all
from modegate.core.log.records import Entry, Record
from modegate.server.clock import SystemClock
from modegate.server.log.folds import ATTEMPTS, CHECKPOINT_EVERY, Folds
from modegate.server.log.open import open_log
from modegate.server.log.protocol import Changes, EventLog
from modegate.server.log.redis import RedisLog
from modegate.server.log.redis_keys import FEED, STORE
from modegate.server.log.sqlite import EmbeddedLog
from support.redis_server import RedisServer, redis_server
from support.stores import Store, entry, key_of, mode_set

S = key_of("s")
PLAN = ModeId("plan")
DEFAULT = ModeId("default")


def folds_of(store: Store, max_sessions: int = 10_000) -> Folds:
    return Folds(store.open(), SystemClock(), max_sessions=max_sessions)


def header(n: int) -> Entry:
    return entry(RequestHeader(Lane("main"), "plan", "p", (ToolName(f"tool-{n}"),), "s"))


async def test_a_session_without_events_is_in_default(store: Store) -> None:
    assert await folds_of(store).state(S) == State()


async def test_B024_two_processes_see_each_others_changes_at_once(store: Store) -> None:
    a, b = folds_of(store), folds_of(store)
    for n in range(50):
        mode = ModeId(f"m{n}")
        setter, reader = (a, b) if n % 2 else (b, a)
        _, changed = await setter.set_mode(S, mode, "person:cli")
        assert changed
        assert (await reader.state(S)).mode == mode
        assert await reader.state(S) == await setter.state(S)


async def test_fifty_concurrent_calls_share_two_reads_of_the_feed(store: Store) -> None:
    folds = folds_of(store)
    await folds.set_mode(S, PLAN, "person:cli")
    feed, pages = folds.feed.reads, folds.log_reads
    states = await asyncio.gather(*(folds.state(S) for _ in range(50)))
    assert {state.mode for state in states} == {PLAN}
    assert folds.log_reads == pages
    # The embedded store answers without waiting, so that no two calls are ever in flight at once.
    if isinstance(folds.log, RedisLog):
        assert folds.feed.reads - feed <= 2


async def test_fifty_concurrent_calls_fold_a_cold_session_once(store: Store) -> None:
    await store.open().append(S, [mode_set("plan")])
    folds = folds_of(store)
    await asyncio.gather(*(folds.state(S) for _ in range(50)))
    assert folds.log_reads == 1


async def test_o13_what_a_person_sets_leaves_a_log_line(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it is durable, and once; with an approval as well, which is appended with the mode it sets."""
    folds = folds_of(store)
    with caplog.at_level(logging.INFO, "modegate.server.log.folds"):
        await folds.set_mode(S, PLAN, "person:cli")
        await folds.set_mode(S, PLAN, "person:cli")
        await folds.append(S, [Entry(1, "person:acp/phone", ModeSet(DEFAULT))])
        await folds.append(key_of("t"), [Entry(1, "policy", ModeSet(PLAN))])
        with pytest.raises(Conflict):
            await folds.append(S, [Entry(1, "person:cli", ModeSet(PLAN))], expect=Seq(7))
    assert [record.getMessage() for record in caplog.records] == [
        "session s: mode 'plan' set by person:cli",
        "session s: mode 'default' set by person:acp/phone",
    ]


async def test_an_unchanged_session_is_served_from_memory(store: Store) -> None:
    folds, other = folds_of(store), store.open()
    await other.append(S, [mode_set("plan")])
    first = await folds.state(S)
    await other.append(key_of("t"), [mode_set("plan")])
    pages = folds.log_reads
    assert await folds.state(S) is first
    assert folds.log_reads == pages


async def test_its_own_appends_need_no_read(store: Store) -> None:
    folds = folds_of(store)
    await folds.state(S)
    pages = folds.log_reads
    await folds.append(S, [mode_set("plan"), header(1)])
    await folds.append(S, [header(2)])
    state = await folds.state(S)
    assert folds.log_reads == pages
    assert state == fold_all(await store.open().read(S))


async def test_an_append_after_anothers_is_read(store: Store) -> None:
    folds, other = folds_of(store), store.open()
    await folds.state(S)
    await other.append(S, [mode_set("plan")])
    await folds.append(S, [header(1)])
    assert await folds.state(S) == fold_all(await other.read(S))


async def test_B128_an_evicted_session_is_still_in_plan(store: Store) -> None:
    folds = folds_of(store, max_sessions=5)
    for n in range(30):
        await folds.set_mode(key_of(f"s{n}"), PLAN, "person:cli")
        assert len(folds) <= 5
    states = [await folds.state(key_of(f"s{n}")) for n in range(30)]
    assert {state.mode for state in states} == {PLAN}
    assert len(folds) == 5


async def test_more_concurrent_sessions_than_memory_holds(store: Store) -> None:
    folds, other = folds_of(store, max_sessions=2), store.open()
    for n in range(20):
        await other.append(key_of(f"s{n}"), [mode_set(f"m{n}")])
    states = await asyncio.gather(*(folds.state(key_of(f"s{n % 20}")) for n in range(60)))
    assert [state.mode for state in states] == [f"m{n % 20}" for n in range(60)]


async def test_nothing_stale_while_all_change_everything(store: Store) -> None:
    """Each reader knows what was acknowledged before its call, and must not be given less."""
    instances = [folds_of(store, max_sessions=2) for _ in range(2)]
    acknowledged = dict.fromkeys((key_of(name) for name in "abc"), Seq(0))

    async def change(folds: Folds, key: SessionKey) -> None:
        for _ in range(15):
            last = await folds.append(key, [header(1)])
            acknowledged[key] = max(acknowledged[key], last)

    async def check(folds: Folds) -> None:
        for _ in range(15):
            for key in acknowledged:
                known = acknowledged[key]
                assert (await folds.state(key)).seq >= known

    async with asyncio.TaskGroup() as group:
        for folds in instances:
            for key in acknowledged:
                group.create_task(change(folds, key))
            group.create_task(check(folds))
            group.create_task(check(folds))


async def test_a_checkpoint_is_written_and_used(store: Store) -> None:
    folds, log = folds_of(store), store.open()
    await folds.set_mode(S, PLAN, "person:cli")
    await log.append(S, [header(n) for n in range(2 * CHECKPOINT_EVERY)])
    whole = await folds.state(S)
    saved = await log.load_checkpoint(S)
    assert saved
    assert saved[0] == 2 * CHECKPOINT_EVERY + 1
    cold = folds_of(store)
    assert await cold.state(S) == whole
    assert await log.read(S, saved[0]) == []


async def test_own_appends_write_checkpoints_too(store: Store) -> None:
    folds, log = folds_of(store), store.open()
    await folds.state(S)
    for _ in range(3):
        await folds.append(S, [header(n) for n in range(CHECKPOINT_EVERY // 2)])
    saved = await log.load_checkpoint(S)
    assert saved
    assert saved[0] == CHECKPOINT_EVERY


async def test_a_long_log_is_folded_in_pages(store: Store) -> None:
    log = store.open()
    await log.append(S, [mode_set("plan"), *(header(n) for n in range(2_499))])
    folds = folds_of(store)
    state = await folds.state(S)
    assert (state.mode, state.seq, folds.log_reads) == (PLAN, 2_500, 3)


async def test_a_checkpoint_that_cannot_be_read_is_ignored(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    log = store.open()
    await log.append(S, [mode_set("plan")])
    await log.save_checkpoint(S, Seq(1), b"?")
    assert (await folds_of(store).state(S)).mode == PLAN
    assert "checkpoint of session local/s is ignored" in caplog.text


async def test_an_unreadable_state_is_not_kept_for_a_version_that_could_read_it(
    tmp_path: Path,
) -> None:
    log = EmbeddedLog(tmp_path / "log.db", SystemClock())
    await log.append(S, [header(n) for n in range(CHECKPOINT_EVERY)])
    log._file.writer.execute(
        "update events set envelope = replace(envelope, 'request/header', 'mode/later') where seq = 9"
    )
    folds = Folds(log, SystemClock())
    assert (await folds.state(S)).unreadable
    assert await log.load_checkpoint(S) is None
    with pytest.raises(SessionUnreadable, match="event 9"):
        await folds.set_mode(S, PLAN, "person:cli")
    await log.close()


async def test_setting_the_mode_in_force_appends_nothing(store: Store) -> None:
    folds = folds_of(store)
    state, changed = await folds.set_mode(S, DEFAULT, "person:cli")
    assert (state, changed) == (State(), False)
    first, changed = await folds.set_mode(S, PLAN, "person:cli")
    assert (first.mode, first.seq, changed) == (PLAN, 1, True)
    assert await folds.state(S) == first
    again, changed = await folds.set_mode(S, PLAN, "person:acp")
    assert (again, changed) == (first, False)
    assert len(await store.open().read(S)) == 1


async def test_a_person_who_sets_a_childs_mode_ends_its_following(store: Store) -> None:
    folds = folds_of(store)
    opened = SessionOpen("a/1", "/v1/x", "path", parent=SessionId("parent"))
    await folds.append(S, [entry(opened)])
    _, changed = await folds.set_mode(S, DEFAULT, "policy")
    assert not changed
    state, changed = await folds.set_mode(S, DEFAULT, "person:cli")
    assert (state.set_by_person, changed) == (True, True)
    _, changed = await folds.set_mode(S, DEFAULT, "person:cli")
    assert not changed


async def test_many_who_set_the_same_mode_append_it_once(store: Store) -> None:
    instances = [folds_of(store) for _ in range(4)]
    done = await asyncio.gather(*(f.set_mode(S, PLAN, "person:cli") for f in instances * 3))
    assert [changed for _, changed in done].count(True) == 1
    assert len(await store.open().read(S)) == 1


class Rival(EmbeddedLog):
    """A store in which somebody else always appends first."""

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        if expect is not None:
            await super().append(key, [header(1)])
        return await super().append(key, entries, expect=expect)


async def test_setting_a_mode_gives_up_after_some_conflicts(tmp_path: Path) -> None:
    log = Rival(tmp_path / "log.db", SystemClock())
    with pytest.raises(Conflict, match="changes too fast"):
        await Folds(log, SystemClock()).set_mode(S, PLAN, "person:cli")
    await log.close()


async def test_g13_only_a_person_is_told_that_others_were_faster(tmp_path: Path) -> None:
    """To an agent it is the log that fails: its step must not go on as if there were nothing to append."""
    log = Rival(tmp_path / "log.db", SystemClock())
    folds = Folds(log, SystemClock())
    seen: list[State] = []

    def decide(state: State) -> list[Event]:
        seen.append(state)
        return [ModeSet(PLAN)]

    with pytest.raises(LogUnavailable, match="changes too fast"):
        await folds.decide(S, lambda _: "agent", decide)
    # Each time on what the others had appended by then.
    assert [state.seq for state in seen] == list(range(ATTEMPTS))
    await log.close()


async def test_what_is_decided_is_folded_and_nothing_is_appended_for_nothing(store: Store) -> None:
    folds = folds_of(store)
    decided = await folds.decide(S, lambda _: "policy", lambda _: [ModeSet(PLAN)])
    assert (decided.before, decided.after) == (State(), await folds.state(S))
    assert [(r.by, r.event) for r in await folds.log.read(S)] == [("policy", ModeSet(PLAN))]
    nothing = await folds.decide(S, "gate", lambda _: [])
    assert nothing.after is nothing.before
    assert len(await folds.log.read(S)) == 1


async def test_a_gap_drops_what_is_in_memory(tmp_path: Path) -> None:
    class Gaps(EmbeddedLog):
        async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
            found = await super().changes(position, wait=wait)
            return Changes(found.position, (), gap=True)

    log = Gaps(tmp_path / "log.db", SystemClock())
    folds = Folds(log, SystemClock())
    for n in range(1, 4):
        await log.append(S, [mode_set(f"m{n}")])
        assert (await folds.state(S)).seq == n
        assert folds.log_reads == n
    await log.close()


class HeldLog(EmbeddedLog):
    """A log whose answers are made at once and delivered when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SystemClock())
        self.hold: str | None = None
        self.made = asyncio.Event()
        self.deliver = asyncio.Event()
        self.gap = False

    async def _held(self, what: str) -> None:
        if self.hold == what:
            self.hold = None
            self.made.set()
            await self.deliver.wait()

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        found = await super().changes(position, wait=wait)
        if self.gap:
            self.gap = False
            found = Changes(found.position, (), gap=True)
        await self._held("changes")
        return found

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        found = await super().read(key, after, limit)
        await self._held("read")
        return found


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldLog]:
    log = HeldLog(tmp_path / "log.db")
    yield log
    await log.close()


async def test_a_call_does_not_share_a_read_that_began_before_it(held: HeldLog) -> None:
    folds = Folds(held, SystemClock())
    await folds.state(S)
    held.hold = "changes"
    async with asyncio.TaskGroup() as group:
        early = group.create_task(folds.state(S))
        await held.made.wait()
        await held.append(S, [mode_set("plan")])
        late = [group.create_task(folds.state(S)) for _ in range(5)]
        await asyncio.wait(late, timeout=0.01)
        before = folds.feed.reads
        held.deliver.set()
    assert {task.result().mode for task in late} == {PLAN}
    assert early.done()
    # All the late ones shared one.
    assert folds.feed.reads - before == 1


async def test_a_call_does_not_share_a_fold_that_misses_what_was_acknowledged_since(
    held: HeldLog,
) -> None:
    folds = Folds(held, SystemClock())
    held.hold = "read"
    async with asyncio.TaskGroup() as group:
        early = group.create_task(folds.state(S))
        await held.made.wait()
        await held.append(S, [mode_set("plan")])
        late = group.create_task(folds.state(S))
        await asyncio.wait([late], timeout=0.01)
        held.deliver.set()
    assert early.result().mode == DEFAULT
    assert late.result().mode == PLAN


async def test_a_fold_under_way_at_a_gap_begins_again(held: HeldLog) -> None:
    folds = Folds(held, SystemClock())
    await held.append(S, [mode_set("old")])
    held.hold = "read"
    async with asyncio.TaskGroup() as group:
        early = group.create_task(folds.state(S))
        await held.made.wait()
        # Another server answers from now on, whose log is another one.
        held._file.writer.execute("update events set envelope = replace(envelope, 'old', 'new')")
        held.gap = True
        assert (await folds.state(S)).mode == "new"
        held.deliver.set()
    assert early.result().mode == "new"


async def test_a_checkpoint_that_cannot_be_saved_stops_nobody(
    held: HeldLog, caplog: pytest.LogCaptureFixture
) -> None:
    await held.append(S, [header(n) for n in range(CHECKPOINT_EVERY)])
    held._file.writer.execute("drop table checkpoints")
    held._file.reader.execute("create temp table checkpoints (key, version, seq, state)")
    folds = Folds(held, SystemClock())
    assert (await folds.state(S)).seq == CHECKPOINT_EVERY
    assert "checkpoint of session local/s was not saved" in caplog.text


async def test_a_checkpoint_whose_log_is_gone_is_not_trusted(held: HeldLog) -> None:
    await Folds(held, SystemClock()).state(S)
    await held.append(S, [header(n) for n in range(CHECKPOINT_EVERY)])
    await Folds(held, SystemClock()).state(S)
    assert await held.load_checkpoint(S)
    held._file.writer.execute("delete from events")
    held._file.writer.execute("delete from sessions")
    with pytest.raises(SessionUnreadable, match="has lost its event 500"):
        await Folds(held, SystemClock()).state(S)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
async def redis_folds(own_server: RedisServer) -> AsyncIterator[Folds]:
    log = open_log(own_server.url)
    yield Folds(log, SystemClock())
    await log.close()


async def test_a_strict_read_fails_while_redis_is_down_and_works_again_after(
    own_server: RedisServer, redis_folds: Folds
) -> None:
    await redis_folds.set_mode(S, PLAN, "person:cli")
    await redis_folds.state(S)
    own_server.kill()
    failed = await asyncio.gather(
        *(redis_folds.state(S) for _ in range(50)), return_exceptions=True
    )
    assert {type(error) for error in failed} == {LogUnavailable}
    own_server.start()
    assert (await redis_folds.state(S)).mode == PLAN


async def test_fifty_calls_share_one_failed_read_of_the_feed(
    own_server: RedisServer, redis_folds: Folds
) -> None:
    await redis_folds.state(S)
    own_server.kill()
    before = redis_folds.feed.reads
    await asyncio.gather(*(redis_folds.state(S) for _ in range(50)), return_exceptions=True)
    assert redis_folds.feed.reads - before <= 2


async def test_a_cancelled_call_takes_no_other_with_it(
    own_server: RedisServer, redis_folds: Folds
) -> None:
    await redis_folds.set_mode(S, PLAN, "person:cli")
    own_server.pause()
    calls = [asyncio.ensure_future(redis_folds.state(S)) for _ in range(10)]
    await asyncio.wait(calls, timeout=0.05)
    calls[0].cancel()
    calls[5].cancel()
    await asyncio.wait(calls, timeout=0.05)
    own_server.resume()
    done = await asyncio.gather(*calls, return_exceptions=True)
    cancelled = [n for n, state in enumerate(done) if isinstance(state, asyncio.CancelledError)]
    assert cancelled == [0, 5]
    assert {state.mode for state in done if isinstance(state, State)} == {PLAN}


async def test_a_mode_whose_feed_failed_is_told_when_it_is_set_again(
    own_server: RedisServer, redis_folds: Folds
) -> None:
    other = open_log(own_server.admin_url)
    reader = Folds(other, SystemClock())
    await redis_folds.state(S)
    await reader.state(S)
    raw = other._reader if isinstance(other, RedisLog) else None
    assert raw
    feed = await raw.dump(FEED)
    await raw.set(FEED, "not a stream")
    with pytest.raises(LogUnavailable):
        await redis_folds.append(S, [mode_set("plan")], expect=Seq(0))
    await raw.restore(FEED, 0, feed, replace=True)
    # The one who got the error knows that it may have landed; the other was told nothing yet.
    assert (await redis_folds.state(S)).mode == PLAN
    assert (await reader.state(S)).mode == DEFAULT
    _, changed = await redis_folds.set_mode(S, PLAN, "person:cli")
    assert not changed
    assert (await reader.state(S)).mode == PLAN
    await other.close()


async def test_B135_trimming_by_an_operator_never_gives_default(
    own_server: RedisServer, redis_folds: Folds
) -> None:
    await redis_folds.set_mode(S, PLAN, "person:cli")
    other = open_log(own_server.admin_url)
    assert isinstance(other, RedisLog)
    await other._writer.xtrim("modegate:{local/s}:events", maxlen=0, approximate=False)
    with pytest.raises(SessionUnreadable):
        await Folds(other, SystemClock()).state(S)
    await other.append(S, [header(1)])
    for folds in (redis_folds, Folds(other, SystemClock())):
        with pytest.raises(SessionUnreadable):
            await folds.state(S)
    await other.close()


@pytest.mark.parametrize("lost", ["all", "the last"])
async def test_B140_a_log_that_went_back_never_gives_default(
    own_server: RedisServer, redis_folds: Folds, lost: str
) -> None:
    """As after a failover to a replica that lacks what was acknowledged."""
    await redis_folds.append(S, [header(1)])
    await redis_folds.set_mode(S, PLAN, "person:cli")
    await redis_folds.state(S)
    log: EventLog = redis_folds.log
    assert isinstance(log, RedisLog)
    async with Redis.from_url(own_server.admin_url) as raw:
        identity = await raw.hget(STORE, "id")
        await raw.flushall()
        with pytest.raises(AnotherLog):
            await redis_folds.state(S)
        # It is the same store, and what came last is not in it.
        await raw.hset(STORE, "id", identity)
    if lost == "the last":
        await log.append(S, [header(1)])
    for _ in range(2):
        with pytest.raises(SessionUnreadable, match="ended at 2 and now ends at"):
            await redis_folds.state(S)


@pytest.mark.parametrize("known", ["in memory", "evicted", "by the feed alone"])
async def test_B140_what_the_feed_has_told_is_remembered_too(
    own_server: RedisServer, redis_folds: Folds, known: str
) -> None:
    """A mode that another process sets, of which this one has read in the feed before the failover."""
    other = open_log(own_server.admin_url)
    assert isinstance(other, RedisLog)
    raw = other._writer
    folds = (
        Folds(redis_folds.log, SystemClock(), max_sessions=1) if known == "evicted" else redis_folds
    )
    await folds.state(key_of("t"))
    if known == "in memory":
        await folds.state(S)
    before = await raw.xlen(FEED)
    await other.append(S, [mode_set("plan")])
    await folds.state(S if known == "evicted" else key_of("t"))
    await folds.state(key_of("t"))
    # What the replica lacks that is the master now.
    for place, _ in (await raw.xrange(FEED))[before:]:
        await raw.xdel(FEED, place)
    await raw.delete("modegate:{local/s}:events")
    await raw.zrem("modegate:{local}:ends", "s")
    await raw.zrem("modegate:{local}:times", "s")
    for _ in range(2):
        with pytest.raises(SessionUnreadable, match="ended at 1 and now ends at 0"):
            await folds.state(S)
    await other.close()


def judged(n: int) -> Entry:
    event = CallJudged(
        StepId("x"), CallId(f"c{n}"), ToolName("t"), "h", "release", "r", PLAN, Seq(1), "p", ""
    )
    return entry(event)


@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.sampled_from(["plan", "default", "judged", "header"]), max_size=3),
            st.booleans(),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_what_is_in_memory_equals_the_fold_of_the_log(
    batches: list[tuple[list[str], bool, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    make = {"plan": mode_set("plan"), "default": mode_set("default")}
    make |= {"judged": judged(1), "header": header(1)}

    async def scenario() -> None:
        log = EmbeddedLog(tmp_path_factory.mktemp("log") / "log.db", SystemClock())
        a, b = Folds(log, SystemClock()), Folds(log, SystemClock(), max_sessions=1)
        for kinds, by_a, evict in batches:
            await (a if by_a else b).append(S, [make[kind] for kind in kinds])
            if evict:
                await b.state(key_of("t"))
            whole = fold_all(await log.read(S))
            assert await a.state(S) == whole
            assert await b.state(S) == whole
        await log.close()

    asyncio.run(scenario())
