"""Questions to people on both stores: one answer wins, wherever it came in (L9, L11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from modegate.core.errors import (
    BadOption,
    Conflict,
    LogUnavailable,
    NotOpen,
    SessionUnreadable,
    UnknownMode,
)
from modegate.core.ids import (
    DEFAULT_MODE,
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
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    Option,
)
from modegate.core.log.approvals import Approval, Status, opened
from modegate.core.log.events import ModeSet
from modegate.core.log.fold import State, fold_all
from modegate.core.log.records import NAMES
from modegate.core.policy.model import Waits
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog
from modegate.server.log.redis import RedisLog
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.watchers import Watchers
from support.approver import OPTIONS, PLAN, plan
from support.redis_server import RedisServer, redis_server
from support.stores import Store, entry, key_of, mode_set, replica
from support.waiting import PATIENCE

S = key_of("s")
NOT_DRAINING = asyncio.Event
STEP = StepId("s")


class Time(SystemClock):
    """A clock that goes on by `tick` seconds whenever it is looked at."""

    def __init__(self, tick: float = 0.0) -> None:
        self.seconds = 1_000.0
        self.tick = tick

    def monotonic(self) -> float:
        self.seconds += self.tick
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1_000)


@dataclass
class Replica:
    """One process's approvals on a store that several use."""

    log: EventLog
    clock: Time = field(default_factory=Time)
    waits: Waits = field(default_factory=Waits)

    def __post_init__(self) -> None:
        self.folds = Folds(self.log, self.clock)
        self.approvals = Approvals(
            self.folds, self.log, self.clock, waits=lambda: self.waits, look=0.002
        )  # fmt: skip

    async def wait(
        self,
        name: str = "a",
        *,
        step: StepId = STEP,
        streamed: bool = True,
        draining: asyncio.Event | None = None,
    ) -> Approval:
        known = await self.approvals.look(S, name)
        return await self.approvals.wait(
            S, known, step=step, streamed=streamed, draining=draining or asyncio.Event()
        )

    async def answer(self, option: str = "approve", name: str = "a", comment: str = "") -> Approval:
        return await self.approvals.answer(
            S, name, option, comment=comment, by="person:cli", modes={PLAN}
        )


@pytest.fixture
def one(store: Store) -> Replica:
    return Replica(store.open())


@pytest.fixture
def two(store: Store) -> Replica:
    return Replica(store.open())


async def in_plan(one: Replica, asked: ApprovalAsked | None = None) -> ApprovalAsked:
    """Set plan mode and ask about a plan."""
    await one.log.append(S, [mode_set("plan")])
    asked = asked or plan()
    await one.approvals.ask(S, asked)
    return asked


async def spoil(monkeypatch: pytest.MonkeyPatch, log: EventLog, session: str) -> None:
    """Append what only a later version understands."""
    with monkeypatch.context() as patch:
        patch.setitem(NAMES, ModeSet, "mode/later")
        await log.append(key_of(session), [mode_set("x")])


async def state_of(log: EventLog) -> State:
    return fold_all(await log.read(S))


async def types(log: EventLog) -> list[str]:
    return [type(record.event).__name__ for record in await log.read(S)]


def call(name: str = "a") -> ApprovalAsked:
    place = (StepId("s"), Lane("main"), CallId("c"), ToolName("web_fetch"))
    options = (Option("allow_once", "Allow once", "allow_once"), OPTIONS[1])
    return ApprovalAsked(name, *place, "ask", "{}", options, 1 << 50)


# Asking.


async def test_a_question_is_in_the_log_before_anyone_waits(one: Replica) -> None:
    asked = await in_plan(one)
    assert (await state_of(one.log)).approvals["a"] == opened(asked, 1_000_000)


async def test_the_same_plan_joins_from_another_replica(one: Replica, two: Replica) -> None:
    await in_plan(one)
    joined = await two.approvals.ask(S, plan("b"))
    assert (joined.asked.id, joined.status) == ("a", Status.ASKED)
    assert list((await state_of(one.log)).approvals) == ["a"]


async def test_b029_another_plan_takes_its_place(one: Replica, two: Replica) -> None:
    await in_plan(one)
    await two.approvals.ask(S, plan("b", "v2"))
    with pytest.raises(NotOpen, match="closed: superseded"):
        await one.answer(name="a")
    assert (await state_of(one.log)).mode == PLAN
    await one.answer(name="b")
    assert (await state_of(one.log)).mode == DEFAULT_MODE
    assert (await types(one.log)).count("ModeSet") == 2


async def test_nothing_is_asked_about_a_mode_that_was_left(one: Replica, two: Replica) -> None:
    await one.log.append(S, [mode_set("plan")])
    await two.log.append(S, [mode_set("review")])
    found = await one.approvals.ask(S, plan(), mode_seq=Seq(1))
    assert (found.status, found.why, found.approved) == (Status.CLOSED, "superseded", False)
    assert await types(one.log) == ["ModeSet", "ModeSet"]
    assert (await one.approvals.ask(S, plan(), mode_seq=Seq(2))).status is Status.ASKED


async def test_two_that_ask_the_same_at_once_ask_once(one: Replica, two: Replica) -> None:
    await one.log.append(S, [mode_set("plan")])
    both = await asyncio.gather(*(r.approvals.ask(S, plan(n)) for r, n in ((one, "a"), (two, "b"))))
    assert len({found.asked.id for found in both}) == 1
    assert (await types(one.log)).count("ApprovalAsked") == 1


async def test_an_unreadable_session_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch, one: Replica
) -> None:
    await spoil(monkeypatch, one.log, "s")
    with pytest.raises(SessionUnreadable):
        await one.approvals.ask(S, plan())


# Answering.


async def test_an_approval_and_its_mode_are_appended_together(one: Replica) -> None:
    await in_plan(one)
    found = await one.answer(comment="go")
    assert (found.status, found.approved, found.to) == (Status.ANSWERED, True, DEFAULT_MODE)
    records = (await one.log.read(S))[2:]
    assert [record.event for record in records] == [
        ApprovalAnswered("a", "approve", "go"),
        ModeSet(DEFAULT_MODE),
    ]
    assert {record.by for record in records} == {"person:cli"}
    forgotten = replace(found, asked=replace(found.asked, text=""))
    assert forgotten == (await state_of(one.log)).approvals["a"]


async def test_b027_a_rejection_changes_no_mode(one: Replica) -> None:
    await in_plan(one)
    found = await one.answer("reject", comment="smaller steps")
    assert (found.approved, found.comment) == (False, "smaller steps")
    assert (await state_of(one.log)).mode == PLAN


@pytest.mark.parametrize(
    ("option", "name", "error"),
    [("yes", "a", BadOption), ("approve", "b", NotOpen), ("", "a", BadOption)],
)
async def test_what_answers_nothing_appends_nothing(
    one: Replica, option: str, name: str, error: type[Exception]
) -> None:
    await in_plan(one)
    with pytest.raises(error):
        await one.answer(option, name)
    assert await types(one.log) == ["ModeSet", "ApprovalAsked"]


async def test_a_mode_that_is_gone_is_not_set(one: Replica) -> None:
    gone = (Option("approve", "Approve", "approve", ModeId("build")),)
    await in_plan(one, replace(plan(), options=gone))
    with pytest.raises(UnknownMode):
        await one.answer()
    state = await state_of(one.log)
    assert (state.mode, state.approvals["a"].open) == (PLAN, True)


async def test_an_expired_question_is_not_answered(one: Replica) -> None:
    await in_plan(one, plan(expires=1_000_500))
    one.clock.seconds += 0.5
    with pytest.raises(NotOpen, match="expired"):
        await one.answer()
    assert (await state_of(one.log)).mode == PLAN


def hold(monkeypatch: pytest.MonkeyPatch, log: EventLog) -> tuple[asyncio.Event, asyncio.Event]:
    """Stop a replica in front of its next append: it has decided, and tells so; then it may go on."""
    append, decided, go = log.append, asyncio.Event(), asyncio.Event()

    async def held(*args: Any, **named: Any) -> Seq:
        decided.set()
        await go.wait()
        return await append(*args, **named)

    monkeypatch.setattr(log, "append", held)
    return decided, go


@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("winner", [0, 1])
async def test_two_answers_at_once_the_first_in_the_log_wins(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica, winner: int, first: str
) -> None:
    """Both have found the question open before either appends."""
    await in_plan(one)
    quick, slow = (one, two) if winner == 0 else (two, one)
    second = "reject" if first == "approve" else "approve"
    decided, go = hold(monkeypatch, slow.log)
    async with asyncio.TaskGroup() as group:
        late = group.create_task(outcome(slow.answer(second)))
        await decided.wait()
        won = await quick.answer(first)
        go.set()
    assert won.option == first
    assert f"already answered with '{first}'" in late.result()
    state = await state_of(one.log)
    assert state.approvals["a"].option == first
    assert state.mode == (DEFAULT_MODE if first == "approve" else PLAN)
    assert (await types(one.log)).count("ApprovalAnswered") == 1


async def outcome(answering: Any) -> str:
    try:
        await answering
    except NotOpen as error:
        return str(error)
    return "won"


async def test_many_answers_at_once_one_wins(one: Replica, two: Replica) -> None:
    await in_plan(one)
    answers = (who.answer(what) for who in (one, two) for what in ("approve", "reject") * 2)
    ends = await asyncio.gather(*map(outcome, answers))
    assert ends.count("won") == 1
    assert (await types(one.log)).count("ApprovalAnswered") == 1


async def test_a_mode_set_meanwhile_closes_the_question_under_the_answer(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    await in_plan(one)
    decided, go = hold(monkeypatch, one.log)
    async with asyncio.TaskGroup() as group:
        late = group.create_task(outcome(one.answer()))
        await decided.wait()
        await two.folds.set_mode(S, ModeId("review"), "person:cli")
        go.set()
    assert "closed: superseded" in late.result()
    assert (await state_of(two.log)).mode == "review"


async def test_others_that_keep_appending_are_told_of(
    monkeypatch: pytest.MonkeyPatch, one: Replica
) -> None:
    await in_plan(one)

    async def conflict(*_: Any, **__: Any) -> Seq:
        raise Conflict("somebody was faster")

    monkeypatch.setattr(one.log, "append", conflict)
    with pytest.raises(Conflict, match="too fast"):
        await one.answer()
    # An agent's step fails as where the log is gone: that somebody was faster means nothing to it.
    with pytest.raises(LogUnavailable, match="too fast"):
        await one.approvals.ask(S, plan("b"))


# Waiting.


async def test_an_answer_at_another_replica_wakes_the_waiter(one: Replica, two: Replica) -> None:
    await in_plan(one)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait())
        await two.answer(comment="well done")
    assert (waiting.result().approved, waiting.result().waited) == (True, True)
    assert waiting.result().comment == "well done"


async def test_all_who_joined_hear_the_answer(one: Replica, two: Replica) -> None:
    await in_plan(one)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(who.wait()) for who in (one, two, one)]
        await two.answer("reject")
    assert {task.result().option for task in waiting} == {"reject"}


async def test_without_anybody_there_it_goes_on_and_stays_open(one: Replica, two: Replica) -> None:
    await in_plan(one)
    one.clock.tick = 0.25
    began = one.clock.seconds
    found = await one.wait()
    assert (found.status, found.why, found.approved) == (Status.DETACHED, "nobody", False)
    assert 2.0 <= one.clock.seconds - began < 4.0
    state = await state_of(one.log)
    assert (state.mode, state.approvals["a"].status) == (PLAN, Status.DETACHED)
    late = await two.answer()
    assert (late.approved, late.waited) == (True, False)
    assert (await state_of(one.log)).mode == DEFAULT_MODE


@pytest.mark.parametrize(("streamed", "limit"), [(True, 3600.0), (False, 60.0)])
async def test_who_was_shown_it_is_waited_for(
    one: Replica, two: Replica, streamed: bool, limit: float
) -> None:
    await in_plan(one)
    assert (await two.approvals.delivered(S, "a", "acp")).status is Status.DELIVERED
    assert (await two.approvals.delivered(S, "a", "cli")).status is Status.DELIVERED
    one.clock.tick = 5.0
    began = one.clock.seconds
    found = await one.wait(streamed=streamed)
    assert (found.status, found.why) == (Status.DETACHED, "timeout")
    assert limit <= one.clock.seconds - began <= limit + 15
    assert (await types(one.log)).count("ApprovalDelivered") == 2


async def test_r7_a_changed_limit_holds_for_who_waits_already(one: Replica) -> None:
    one.waits = Waits(nobody=PATIENCE, streamed=3600.0)
    await in_plan(one)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait())
        await asyncio.sleep(0)
        one.waits = Waits(streamed=0.0)
    found = waiting.result()
    assert (found.status, found.why) == (Status.DETACHED, "timeout")


async def test_a_shutdown_detaches(one: Replica) -> None:
    await in_plan(one)
    draining = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait(draining=draining))
        await asyncio.sleep(0)
        draining.set()
    assert (waiting.result().status, waiting.result().why) == (Status.DETACHED, "shutdown")
    assert (await state_of(one.log)).mode == PLAN


async def test_a_question_that_expires_is_closed(one: Replica) -> None:
    await in_plan(one, plan(expires=1_000_500))
    one.clock.seconds += 0.5
    found = await one.wait()
    assert (found.status, found.why) == (Status.CLOSED, "expired")


async def test_a_mode_change_ends_the_wait(one: Replica, two: Replica) -> None:
    await in_plan(one)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait())
        await two.folds.set_mode(S, DEFAULT_MODE, "person:cli")
    assert (waiting.result().status, waiting.result().approved) == (Status.CLOSED, False)


async def test_an_answer_that_came_before_the_end_of_the_wait_wins(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    await in_plan(one)
    decided, go = hold(monkeypatch, one.log)
    one.clock.tick = 5.0
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait())
        await decided.wait()
        await two.answer()
        go.set()
    assert waiting.result().approved
    assert (await types(one.log)).count("ApprovalDetached") == 0


async def test_an_answer_that_came_after_the_end_of_the_wait_still_counts(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    await in_plan(one)
    decided, go = hold(monkeypatch, two.log)
    async with asyncio.TaskGroup() as group:
        answering = group.create_task(two.answer())
        await decided.wait()
        one.clock.tick = 5.0
        assert (await one.wait()).status is Status.DETACHED
        go.set()
    assert (answering.result().approved, answering.result().waited) == (True, False)
    assert (await state_of(one.log)).mode == DEFAULT_MODE


async def test_two_that_wait_detach_it_once(one: Replica, two: Replica) -> None:
    await in_plan(one)
    one.clock.tick = two.clock.tick = 0.5
    ends = await asyncio.gather(one.wait(), two.wait())
    assert {found.status for found in ends} == {Status.DETACHED}
    assert (await types(one.log)).count("ApprovalDetached") == 1


async def test_there_is_nothing_to_wait_for(one: Replica) -> None:
    with pytest.raises(NotOpen):
        await one.wait()


async def test_a_log_that_is_gone_as_soon_as_it_was_asked_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    """A person is told by the feed, and may be there before the step has looked once."""
    known = await one.approvals.ask(S, plan())
    look = one.approvals.look
    tries: list[str] = []

    async def gone_at_first(key: SessionKey, name: str) -> Approval:
        tries.append(name)
        if len(tries) == 1:
            await two.answer()
            raise LogUnavailable("gone")
        return await look(key, name)

    monkeypatch.setattr(one.approvals, "look", gone_at_first)
    async with asyncio.timeout(PATIENCE):
        found = await one.approvals.wait(
            S, known, step=STEP, streamed=True, draining=asyncio.Event()
        )
    assert found.approved
    assert len(tries) == 2


async def test_a_log_that_is_gone_for_a_while_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    await in_plan(one)
    changes, failures, back = one.log.changes, 0, asyncio.Event()

    async def broken(*args: Any, **named: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise LogUnavailable("gone")
        back.set()
        return await changes(*args, **named)

    async with asyncio.TaskGroup() as group:
        waiting = await begin(group, one)
        monkeypatch.setattr(one.log, "changes", broken)
        await back.wait()
        await two.answer()
    assert waiting.result().approved


async def test_a_log_that_stays_gone_is_told(monkeypatch: pytest.MonkeyPatch, one: Replica) -> None:
    await in_plan(one)

    async def broken(*_: Any, **__: Any) -> Any:
        raise LogUnavailable("gone")

    with pytest.RaisesGroup(pytest.RaisesExc(LogUnavailable, match="gone")):
        async with asyncio.TaskGroup() as group:
            waiting = await begin(group, one)
            assert not waiting.done()
            monkeypatch.setattr(one.log, "changes", broken)
            one.clock.tick = 50.0


async def begin(group: asyncio.TaskGroup, one: Replica) -> asyncio.Task[Approval]:
    """Start a wait, and go on when it has been waiting for a while."""
    await one.approvals.delivered(S, "a", "cli")
    began = one.clock.seconds
    one.clock.tick = 1.0
    waiting = group.create_task(one.wait())
    while one.clock.seconds < began + 10:  # noqa: ASYNC110 -- the clock goes on when it is looked at
        await asyncio.sleep(0)
    one.clock.tick = 0.0
    return waiting


# The client goes.


async def test_b007_a_client_that_goes_approves_nothing(one: Replica, two: Replica) -> None:
    await in_plan(one)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await one.wait()
    await one.approvals.leave(S, STEP)
    await one.approvals.leave(S, STEP)
    await one.approvals.leave(S, StepId("another"))
    assert (await types(one.log)).count("ApprovalDropped") == 1
    one.clock.seconds = two.clock.seconds = one.clock.seconds + 61.0
    with pytest.raises(NotOpen, match="went away and did not come back"):
        await two.answer()
    assert (await state_of(one.log)).mode == PLAN


async def test_a_client_that_goes_takes_no_answer_back(one: Replica, two: Replica) -> None:
    await in_plan(one)
    await two.answer()
    await one.approvals.leave(S, STEP)
    state = await state_of(one.log)
    assert (state.mode, state.approvals["a"].approved) == (DEFAULT_MODE, True)


OTHER = StepId("t")


async def test_r1_a_step_of_another_process_joins_the_question_and_hears_its_answer(
    one: Replica, two: Replica
) -> None:
    """The client dropped its request and sent it again, which came to another process."""
    asked = await in_plan(one)
    await one.approvals.delivered(S, "a", "acp")
    await one.approvals.leave(S, STEP)
    assert (await two.approvals.of(S))[0].approval.shown == ("acp",)
    joined = await two.approvals.ask(S, replace(asked, id="b", step=OTHER))
    assert (joined.asked.id, joined.waiting, joined.shown) == ("a", (OTHER,), ("acp",))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(two.wait(step=OTHER))
        await one.answer()
    assert waiting.result().approved
    assert (await types(one.log)).count("ApprovalAsked") == 1


async def test_r1_of_two_steps_the_one_that_stays_keeps_the_question(
    one: Replica, two: Replica
) -> None:
    asked = await in_plan(one)
    await two.approvals.ask(S, replace(asked, id="b", step=OTHER))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(two.wait(step=OTHER))
        await two.approvals.delivered(S, "a", "cli")
        await one.approvals.leave(S, STEP)
        one.clock.seconds += 100.0
        two.clock.seconds += 100.0
        await one.answer()
    assert waiting.result().approved
    assert waiting.result().waited


async def test_r1_of_two_steps_one_whose_time_is_over_goes_on_alone(
    one: Replica, two: Replica
) -> None:
    """A request that is not streamed beside one that is."""
    asked = await in_plan(one)
    await two.approvals.ask(S, replace(asked, id="b", step=OTHER))
    await two.approvals.delivered(S, "a", "cli")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(two.wait(step=OTHER))
        one.clock.tick = 61.0
        gone = await one.wait(streamed=False)
        assert (gone.status, gone.why) == (Status.DETACHED, "timeout")
        one.clock.tick = 0.0
        assert (await two.approvals.of(S))[0].approval.waiting == (OTHER,)
        await two.answer()
    assert waiting.result().approved


async def test_r1_what_nobody_comes_back_for_is_closed_in_time(store: Store) -> None:
    """By the process that the client left, so that dialogs are withdrawn; a step that came back keeps it."""
    clock = SystemClock()
    log = store.open()
    watchers = Watchers(log)
    folds = Folds(log, clock)
    folds.on_append.append(watchers.changed)
    waits = Waits(nobody=NEVER, streamed=NEVER, whole=NEVER, back=0.05)
    approvals = Approvals(folds, log, clock, waits=lambda: waits, watchers=watchers)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        closing = group.create_task(approvals.run())
        await log.append(S, [mode_set("plan")])
        with watchers.wake(S) as woken:
            await approvals.ask(S, plan())
            await approvals.leave(S, STEP)
            await approvals.keep(S, OTHER, ["a"])
            await approvals.leave(S, OTHER, ["a"])
            while (found := await approvals.look(S, "a")).open:
                await woken.wait()
                woken.clear()
        closing.cancel()
    assert (found.status, found.why) == (Status.CLOSED, "abandoned")
    assert (await types(log)).count("ApprovalClosed") == 1


async def test_r1_a_question_that_was_kept_stays_as_long_as_its_step(one: Replica) -> None:
    await in_plan(one)
    await one.approvals.leave(S, STEP)
    await one.approvals.keep(S, OTHER, ["a"])
    one.clock.seconds += 500.0
    await one.answer()
    assert (await state_of(one.log)).mode == DEFAULT_MODE


async def test_r1_a_client_that_goes_while_its_question_is_written_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch, one: Replica
) -> None:
    """A write that is under way goes on when its step is cancelled, so the step waits for it."""
    await one.log.append(S, [mode_set("plan")])
    begun, go_on, append = asyncio.Event(), asyncio.Event(), one.log.append
    writes: list[asyncio.Future[Seq]] = []

    async def slowly(*given: Any, **more: Any) -> Seq:
        async def write() -> Seq:
            await go_on.wait()
            return await append(*given, **more)

        writes.append(asyncio.ensure_future(write()))
        begun.set()
        return await asyncio.shield(writes[-1])

    async def asks() -> None:
        try:
            await one.approvals.ask(S, plan())
        finally:
            await asyncio.shield(one.approvals.leave(S, STEP))

    monkeypatch.setattr(one.log, "append", slowly)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        step = group.create_task(asks())
        await begun.wait()
        step.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait([step])
        await asyncio.gather(*writes)
    found = (await state_of(one.log)).approvals["a"]
    assert (found.waiting, found.until > 0) == ((), True)


# What is open.


async def test_what_is_open_is_listed_over_all_sessions(
    monkeypatch: pytest.MonkeyPatch, one: Replica, two: Replica
) -> None:
    other, foreign = key_of("t"), SessionKey(Tenant("other"), SessionId("s"))
    await in_plan(one)
    one.clock.seconds += 1
    await one.approvals.ask(other, plan("b"))
    await one.approvals.ask(foreign, plan("c"))
    await one.log.append(key_of("unreadable"), [entry(plan("d"))])
    await spoil(monkeypatch, one.log, "unreadable")
    found = await two.approvals.open_ones(LOCAL)
    assert [(p.key, p.approval.asked.id) for p in found] == [(S, "a"), (other, "b")]
    assert [p.approval.asked.id for p in await two.approvals.open_ones(Tenant("other"))] == ["c"]
    assert await two.approvals.find(LOCAL, "b") == other
    assert await two.approvals.find(LOCAL, "c") is None
    assert await two.approvals.find(LOCAL, "x") is None


SETTLING = {
    "answered": (ApprovalAnswered("a", "reject"), 0),
    "closed": (ApprovalClosed("a", "abandoned"), 0),
    "the mode was set": (ModeSet(ModeId("review")), 0),
    "delivered": (ApprovalDelivered("a", "cli"), 1),
    "detached": (ApprovalDetached("a", "nobody"), 1),
}


@pytest.mark.parametrize(("event", "count"), SETTLING.values(), ids=SETTLING.keys())
async def test_what_is_settled_is_not_listed_and_still_found(
    one: Replica, two: Replica, event: Any, count: int
) -> None:
    await in_plan(one)
    await one.log.append(S, [entry(event)])
    assert len(await two.approvals.open_ones(LOCAL)) == count
    assert await two.approvals.find(LOCAL, "a") == S


async def test_what_is_expired_is_not_listed(one: Replica) -> None:
    await in_plan(one, plan(expires=1_000_500))
    assert len(await one.approvals.open_ones(LOCAL)) == 1
    one.clock.seconds += 0.5
    assert await one.approvals.open_ones(LOCAL) == []


async def test_a_call_whose_step_went_on_is_not_listed(one: Replica) -> None:
    await in_plan(one, call())
    assert len(await one.approvals.open_ones(LOCAL)) == 1
    one.clock.tick = 5.0
    assert (await one.wait()).status is Status.DETACHED
    assert await one.approvals.open_ones(LOCAL) == []


# Kill -9.


async def test_the_replica_that_waits_is_killed(store: Store, one: Replica) -> None:
    """The question outlives it: nothing is approved, it can be answered, and the same plan joins it."""
    await one.log.append(S, [mode_set("plan")])
    with replica("support.approver", store.url, "s", "wait", "a") as waiter:
        assert waiter.line() == "asked"
        waiter.kill()
    assert (await state_of(one.log)).mode == PLAN
    assert [p.approval.asked.id for p in await one.approvals.open_ones(LOCAL)] == ["a"]
    assert (await one.approvals.ask(S, plan("b"))).asked.id == "a"
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(one.wait())
        await one.answer()
    assert waiting.result().approved
    assert (await state_of(one.log)).mode == DEFAULT_MODE
    assert (await types(one.log)).count("ApprovalAnswered") == 1


async def test_a_replica_that_waits_hears_of_the_answer(store: Store, one: Replica) -> None:
    await one.log.append(S, [mode_set("plan")])
    with replica("support.approver", store.url, "s", "wait", "a") as waiter:
        assert waiter.line() == "asked"
        await one.answer()
        assert await asyncio.to_thread(waiter.line) == "answered approve"


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.006, None])
async def test_the_replica_that_answers_is_killed(
    store: Store, one: Replica, delay: float | None
) -> None:
    """At whatever moment: the answer and its mode are both there or neither, and a confirmed one is."""
    await in_plan(one)
    with replica("support.approver", store.url, "s", "answer", "a") as answerer:
        answerer.go()
        if delay is None:
            assert answerer.line() == "done"
        else:
            # The moment is not to be hit; any of them will do.
            threading.Event().wait(delay)
        answerer.kill()
        confirmed = delay is None or answerer.line() == "done"
    state = await state_of(one.log)
    landed = state.approvals["a"].status is Status.ANSWERED
    assert landed or not confirmed
    assert state.mode == (DEFAULT_MODE if landed else PLAN)
    end = await outcome(one.answer("reject"))
    assert end == "won" if not landed else "already answered with 'approve'" in end
    assert (await types(one.log)).count("ApprovalAnswered") == 1
    assert (await state_of(one.log)).mode == (DEFAULT_MODE if landed else PLAN)


async def test_an_answer_that_the_feed_was_not_told_of_is_found(
    monkeypatch: pytest.MonkeyPatch, redis: RedisServer, databases: Iterator[int]
) -> None:
    """Killed between the log and the feed: others conflict, read the log, and believe it."""
    store = Store(redis.url.removesuffix("/0") + f"/{next(databases)}")
    one, two = Replica(store.open()), Replica(store.open())
    await in_plan(one)
    assert len(await one.approvals.open_ones(LOCAL)) == 1

    async def killed(*_: Any) -> None:
        raise LogUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr(RedisLog, "_publish", killed)
        with pytest.raises(LogUnavailable):
            await two.answer()
    assert "already answered with 'approve'" in await outcome(one.answer("reject"))
    one.clock.tick = 5.0
    assert (await one.wait()).approved
    assert (await one.folds.state(S)).mode == DEFAULT_MODE
    await store.close()


async def test_redis_is_killed_between_question_and_answer(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path, *options) as server:
        store = Store(server.url)
        one, two = Replica(store.open()), Replica(store.open())
        await in_plan(one)
        async with asyncio.TaskGroup() as group:
            waiting = await begin(group, one)
            server.kill()
            with pytest.raises(LogUnavailable):
                await two.answer()
            assert not waiting.done()
            server.start()
            assert (await two.folds.state(S)).mode == PLAN
            await two.answer()
        assert waiting.result().approved
        server.kill()
        server.start()
        third = Replica(store.open())
        assert (await third.folds.state(S)).mode == DEFAULT_MODE
        assert "already answered with 'approve'" in await outcome(third.answer("reject"))
        await store.close()


NEVER = 3_600.0


@asynccontextmanager
async def woken(log: EventLog) -> AsyncIterator[tuple[Approvals, Folds, Watchers]]:
    """Give approvals that look at nothing unless there is news, which is followed."""
    clock = Time()
    folds, watchers = Folds(log, clock), Watchers(log)
    folds.on_append.append(watchers.changed)
    waits = Waits(nobody=NEVER, streamed=NEVER, whole=NEVER)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(watchers.run())
        yield (
            Approvals(folds, log, clock, waits=lambda: waits, look=NEVER, watchers=watchers),
            folds,
            watchers,
        )
        following.cancel()


async def test_h26_a_waiting_step_is_woken_and_looks_at_nothing_meanwhile(
    store: Store, two: Replica
) -> None:
    """By what another process appends; events of other sessions do not wake it."""
    async with asyncio.timeout(PATIENCE), woken(store.open()) as (approvals, folds, _):
        await two.log.append(S, [mode_set("plan")])
        known = await approvals.ask(S, plan())
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                approvals.wait(S, known, step=STEP, streamed=True, draining=over)
            )
            await two.approvals.delivered(S, "a", "watch")
            assert (await folds.state(S)).approvals["a"].shown
            reads = folds.feed.reads
            other = key_of("other")
            for number in range(20):
                await two.log.append(other, [mode_set("plan" if number % 2 else "default")])
            assert folds.feed.reads <= reads + 2
            await two.answer()
            assert (await waiting).approved


async def test_h26_what_this_process_appends_wakes_at_once(store: Store) -> None:
    log = store.open()
    async with asyncio.timeout(PATIENCE), woken(log) as (approvals, _folds, _):
        await log.append(S, [mode_set("plan")])
        known = await approvals.ask(S, plan())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                approvals.wait(S, known, step=STEP, streamed=True, draining=asyncio.Event())
            )
            await approvals.answer(S, "a", "approve", by="person:cli", modes={PLAN})
            assert (await waiting).approved


async def test_h26_the_end_of_the_process_wakes_all(store: Store) -> None:
    log = store.open()
    async with asyncio.timeout(PATIENCE), woken(log) as (approvals, _, watchers):
        await log.append(S, [mode_set("plan")])
        known = await approvals.ask(S, plan())
        draining = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                approvals.wait(S, known, step=STEP, streamed=True, draining=draining)
            )
            await asyncio.sleep(0)
            draining.set()
            watchers.wake_all()
            assert (await waiting).why == "shutdown"
