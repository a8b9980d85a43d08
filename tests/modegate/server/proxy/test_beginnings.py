"""How a session begins: the table of docs/architecture.md, cell by cell, for both stores and two processes.

Each cell is what is known of a session, and what fails. Two processes serve the session meanwhile and
afterwards, and once more after a restart.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from modegate.core.errors import Conflict, LogUnavailable, SessionUnreadable
from modegate.core.identify.session import Identified
from modegate.core.ids import ModeId, Seq, SessionId, SessionKey
from modegate.core.log.events import SessionOpen
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import Level, Mode, Policy
from modegate.core.policy.model import Sessions as Rules
from modegate.server.clock import SystemClock
from modegate.server.control.mode_setter import ModeSetter
from modegate.server.log import redis_clients
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog, Seen
from modegate.server.log.trusted_store import TrustedStore
from modegate.server.proxy.sessions import Sessions
from support.beginnings import admin, fill, free
from support.redis_server import RedisServer, redis_server
from support.stores import entry, key_of, mode_set
from support.waiting import PATIENCE

PLAN = ModeId("plan")
MODES = {PLAN: Mode(PLAN, "Plan", "", "", ())}
SAYS_DEFAULT = Policy("d", MODES)
SAYS_PLAN = Policy("p", MODES, sessions=Rules(initial_mode=PLAN))
SAYS_PLAN_FOR_AGENT = Policy("a", MODES, sessions=Rules(initial_mode_by_agent={"agent/*": PLAN}))
S, KIN, PARENT = key_of("s"), key_of("d-kin"), key_of("parent")
AGENT = "agent/1"
DATABASES = 400
AT_ONCE = 5
TURNS = 40


@dataclass
class Process:
    """What one process of the proxy knows, and how it lets a request begin."""

    log: EventLog
    folds: Folds
    batch_writer: BatchWriter
    sessions: Sessions

    @classmethod
    def of(cls, url: str, home: Path) -> Process:
        """Start it."""
        clock = SystemClock()
        log = open_log(url, clock, TrustedStore(home))
        folds = Folds(log, clock)
        batch_writer = BatchWriter(folds, clock)
        return cls(log, folds, batch_writer, Sessions(log, folds, batch_writer, clock))


@dataclass
class World:
    """A store, its server if it has one, and the processes on it."""

    url: str
    folder: Path
    server: RedisServer | None
    db: int
    processes: list[Process] = field(default_factory=list)
    opened: list[EventLog] = field(default_factory=list)

    def start(self, number: int = 2) -> None:
        """Start processes in place of those that there are, with nothing in memory."""
        self.processes = [Process.of(self.url, self.folder / "log-id") for _ in range(number)]
        self.opened += [process.log for process in self.processes]

    @property
    def file(self) -> Path:
        """The embedded store's file."""
        return self.folder / "log.db"

    def rows(self, *statements: str) -> None:
        """Do as somebody who writes to the file by hand."""
        db = sqlite3.connect(self.file)
        with db:
            for statement in statements:
                db.execute(statement)
        db.close()

    async def keys(self, *command: str) -> None:
        """Do as an operator of the server."""
        assert self.server
        await admin(self.server, *command, db=self.db)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    options = ("--databases", str(DATABASES), "--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path_factory.mktemp("redis"), *options) as server:
        yield server


@pytest.fixture(scope="module")
def databases() -> Iterator[int]:
    return iter(range(DATABASES))


@pytest.fixture(params=["embedded", "redis"])
async def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    databases: Iterator[int],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    if request.param == "embedded":
        made = World(f"sqlite:{tmp_path / 'log.db'}", tmp_path, None, 0)
    else:
        # On a busy machine a server that is well can take a second to be reached.
        monkeypatch.setattr(redis_clients, "CONNECT_TIMEOUT_S", PATIENCE)
        server: RedisServer = request.getfixturevalue("redis")
        db = next(databases)
        made = World(server.url.removesuffix("/0") + f"/{db}", tmp_path, server, db)
    yield made
    for log in made.opened:
        await log.close()


# What is known.


@dataclass(frozen=True)
class Known:
    """What there is of a session before its next step, and the policy of that step."""

    policy: Policy
    before: Callable[[EventLog], Awaitable[None]]
    derived: bool = False
    parent: SessionId | None = None
    owner: SessionKey = S
    """Whose events say in which mode it is."""

    @property
    def found(self) -> Identified:
        """The session as its request names it."""
        how = "derived" if self.derived else "path"
        return Identified(S, how, not self.derived, self.derived, self.parent, AGENT)


OPENED = entry(SessionOpen(AGENT, "/v1/chat/completions", "path"))


async def nothing(log: EventLog) -> None:
    # Of this session: others have been there.
    await log.append(key_of("other"), [OPENED])


async def a_mode(log: EventLog) -> None:
    await log.append(S, [OPENED, mode_set("plan")])


async def left(log: EventLog) -> None:
    await log.append(S, [OPENED, mode_set("plan"), mode_set("default")])


async def seen(log: EventLog) -> None:
    await log.append(key_of("other"), [OPENED])
    await log.touch([Seen(S, AGENT, "path", SystemClock().now_ms())])


async def kin_in_plan(log: EventLog) -> None:
    now = SystemClock().now_ms()
    await log.touch([Seen(KIN, AGENT, "derived", now)])
    await log.append(KIN, [mode_set("plan", at=now)])


async def parent_in_plan(log: EventLog) -> None:
    await log.append(PARENT, [mode_set("plan")])


KNOWN = {
    "its log: a mode is in force": Known(SAYS_DEFAULT, a_mode),
    "its log: a mode was left": Known(SAYS_PLAN, left),
    "the index: it was seen, before the policy said a mode": Known(SAYS_PLAN, seen),
    "nothing, and the policy says default": Known(SAYS_DEFAULT, nothing),
    "nothing, and the policy says a mode": Known(SAYS_PLAN, nothing),
    "nothing, and kin of its derived id are in a mode": Known(
        SAYS_DEFAULT, kin_in_plan, derived=True, owner=KIN
    ),
    "nothing, and its parent is in a mode": Known(
        SAYS_DEFAULT, parent_in_plan, parent=PARENT.session, owner=PARENT
    ),
}

# What fails.


async def step(process: Process, known: Known) -> str:
    """Let a request begin, and give the word of the table for it."""
    try:
        in_force: ModesInForce = await process.sessions.enter(known.found, known.policy, "/v1/x")
    except LogUnavailable:
        return "503"
    except SessionUnreadable:
        return "400"
    await process.batch_writer.flush()
    return "mode" if in_force.gated else "default"


async def steps(world: World, known: Known) -> set[str]:
    return {await step(process, known) for process in world.processes}


async def fails_nothing(world: World, known: Known) -> set[str]:
    return await steps(world, known)


async def cannot_be_read(world: World, known: Known) -> set[str]:
    away = world.file.with_suffix(".away")
    if world.server:
        world.server.kill()
    else:
        os.rename(world.file, away)
    words = await steps(world, known) | await steps(world, known)
    if world.server:
        world.server.start()
    else:
        os.rename(away, world.file)
    return words


async def cannot_be_written(world: World, known: Known) -> set[str]:
    for process in world.processes:
        await fill(process.log, world.server)
    try:
        return await steps(world, known) | await steps(world, known)
    finally:
        for process in world.processes:
            await free(process.log, world.server)


async def client_hangs_up(world: World, known: Known) -> set[str]:
    """At each turn of the loop, until one is through."""
    words: set[str] = set()
    for turns in range(TURNS):
        stepping = asyncio.ensure_future(step(world.processes[0], known))
        for _ in range(turns):
            await asyncio.sleep(0)
        stepping.cancel()
        await asyncio.wait([stepping])
        if turns % 10 == 9:
            words |= await steps(world, known)
            world.start()
    return words | await steps(world, known)


async def first_requests_at_once(world: World, known: Known) -> set[str]:
    each = world.processes * AT_ONCE
    return set(await asyncio.gather(*(step(process, known) for process in each)))


async def is_empty(world: World, known: Known) -> set[str]:
    if world.server:
        await world.keys("FLUSHDB")
    else:
        for file in world.folder.glob("log.db*"):
            file.unlink()
    words = await steps(world, known)
    world.start()
    return words | await steps(world, known)


async def its_keys_are_lost(world: World, known: Known) -> set[str]:
    """As by eviction: of that which says in which mode the session is, or that it was seen."""
    key = known.owner
    if world.server:
        await world.keys("DEL", f"modegate:{{{key}}}:events")
        if known.before is seen:
            await world.keys("DEL", "modegate:{local}:times")
    else:
        world.rows(
            f"delete from events where key = '{key}'",
            f"delete from sessions where session = '{key.session}'"
            if known.before is seen
            else "delete from events where key = ''",
        )
    world.start()
    return await steps(world, known)


FAILS = {
    "nothing fails": fails_nothing,
    "cannot be read": cannot_be_read,
    "cannot be written": cannot_be_written,
    "client hangs up, restart": client_hangs_up,
    "first requests at once": first_requests_at_once,
    "is empty, or another": is_empty,
    "lost what it knew of it": its_keys_are_lost,
}
HEALS = {
    "cannot be read",
    "cannot be written",
    "client hangs up, restart",
    "first requests at once",
}


def the_table() -> dict[tuple[str, str], str]:
    """Read the table of the documentation."""
    text = (Path(__file__).parents[4] / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, after = text.partition("## How a session begins")
    lines = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        (row[0], column): word
        for row in rows
        for column, word in zip(head[1:], row[1:], strict=True)
    }


TABLE = the_table()


def test_the_table_has_every_cell() -> None:
    assert set(TABLE) == {(known, fails) for known in KNOWN for fails in FAILS}
    assert all(re.fullmatch("mode|default|503|400", word) for word in TABLE.values())


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize(("known", "fails"), TABLE, ids=[" / ".join(cell) for cell in TABLE])
async def test_h1_s1_o1_s4_a_session_begins_as_the_table_says(
    world: World, known: str, fails: str, warm: bool
) -> None:
    row = KNOWN[known]
    world.start(1)
    await row.before(world.processes[0].log)
    world.start()
    if warm:
        for process in world.processes:
            await process.folds.state(S)
    assert await FAILS[fails](world, row) == {TABLE[known, fails]}
    if fails in HEALS:
        healed = {TABLE[known, "nothing fails"]}
        assert await steps(world, row) == healed
        world.start()
        assert await steps(world, row) == healed


async def test_g13_an_opening_that_never_comes_through_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 503, as where the log is gone: not gone on with, as if there were nothing to be opened."""
    world.start(1)
    (process,) = world.processes

    async def conflict(*_: object, **__: object) -> Seq:
        raise Conflict("somebody was faster")

    monkeypatch.setattr(process.folds, "append", conflict)
    assert await step(process, KNOWN["nothing, and the policy says a mode"]) == "503"
    assert await step(process, KNOWN["nothing, and its parent is in a mode"]) == "503"


async def test_a_mode_set_before_the_index_knows_whose_session_it_is(world: World) -> None:
    """Rows of the index are written in batches: kin is found though the row was lost, or has not come yet."""
    known = KNOWN["nothing, and kin of its derived id are in a mode"]
    world.start()
    a, b = world.processes
    await a.folds.set_mode(KIN, PLAN, "person:cli")
    assert await step(b, known) == "mode"


async def test_what_is_known_of_an_agent_is_not_kin_of_another(world: World) -> None:
    known = KNOWN["nothing, and kin of its derived id are in a mode"]
    world.start()
    a, b = world.processes
    await a.log.touch([Seen(KIN, "another/1", "derived", SystemClock().now_ms())])
    await a.folds.set_mode(KIN, PLAN, "person:cli")
    assert await step(b, known) == "default"


@pytest.mark.parametrize("policy", [SAYS_DEFAULT, SAYS_PLAN], ids=["default", "plan"])
@pytest.mark.parametrize("wanted", ["default", "plan"])
async def test_a_mode_that_a_person_sets_before_the_first_request_is_where_it_begins(
    world: World, policy: Policy, wanted: str
) -> None:
    """Whatever the policy says, and if it is changed in between."""
    world.start()
    for process in world.processes:
        setter = ModeSetter(process.log, process.folds, Fixed(policy))
        change = await setter.set_mode(S, ModeId(wanted), by="person:cli", allow=lambda *_: None)
        assert change.state.mode == wanted
    # Where default is in force already, nothing is appended, and a policy that says plan by now holds.
    later = (
        [policy] if policy is SAYS_DEFAULT and wanted == "default" else [SAYS_DEFAULT, SAYS_PLAN]
    )
    for one in later:
        words = await steps(world, Known(one, nothing))
        assert words == {"mode" if wanted == "plan" else "default"}


async def test_leaving_the_initial_mode_before_the_first_request_loosens(world: World) -> None:
    """So that a token that may only tighten cannot do it; and it is told what would be in force."""
    world.start()
    levels: list[Level] = []
    process = world.processes[0]
    setter = ModeSetter(process.log, process.folds, Fixed(SAYS_PLAN))
    change = await setter.set_mode(
        S, ModeId("default"), by="person:cli", allow=lambda level, _: levels.append(level)
    )
    assert (change.was, change.changed, levels) == ("plan", True, [Level.FULL])


@pytest.mark.parametrize(
    ("first", "begins"), [(AGENT, "plan"), ("another/1", "default")], ids=["named", "another"]
)
async def test_the_agent_of_the_first_request_decides_where_the_session_begins(
    world: World, first: str, begins: str
) -> None:
    """What comes later, of whatever agent and under whatever policy, changes nothing."""
    world.start()
    for agent in (first, AGENT, "another/1"):
        found = Identified(S, "path", given=True, derived=False, parent=None, agent=agent)
        for process in world.processes:
            for policy in (SAYS_PLAN_FOR_AGENT, SAYS_DEFAULT, SAYS_PLAN)[
                : 1 if agent is first else 3
            ]:
                in_force = await process.sessions.enter(found, policy, "/v1/x")
                await process.batch_writer.flush()
                assert in_force.label == begins


async def test_before_the_first_request_a_person_is_told_of_the_tightest_beginning(
    world: World,
) -> None:
    """Nobody knows which agent will come, so that default has to be said, and is then in force."""
    world.start()
    process, levels = world.processes[0], list[Level]()
    setter = ModeSetter(process.log, process.folds, Fixed(SAYS_PLAN_FOR_AGENT))
    change = await setter.set_mode(
        S, ModeId("default"), by="person:cli", allow=lambda level, _: levels.append(level)
    )
    assert (change.was, change.changed, levels) == ("plan", True, [Level.FULL])
    assert await steps(world, Known(SAYS_PLAN_FOR_AGENT, nothing)) == {"default"}


@dataclass
class Fixed:
    """Policies that stay as they are."""

    current: Policy


@pytest.mark.parametrize(
    "known",
    ["nothing, and the policy says a mode", "nothing, and kin of its derived id are in a mode"],
)
@pytest.mark.parametrize("where", ["before the index is asked", "before it is appended"])
async def test_s1_another_process_opens_it_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch, known: str, where: str
) -> None:
    """What the index knows then is the other's opening, and no proof that the session began in default."""
    row = KNOWN[known]
    world.start()
    await row.before(world.processes[0].log)
    slow, quick = world.processes
    owner, name = (slow.log, "was_seen") if "index" in where else (slow.folds, "append")
    real = getattr(owner, name)

    async def late(*given: object, **more: object) -> object:
        assert await step(quick, row) == "mode"
        return await real(*given, **more)

    monkeypatch.setattr(owner, name, late)
    assert await step(slow, row) == "mode"
    records = await quick.log.read(S)
    assert [record.seq for record in records] == [1, 2]
