"""The modes of derived siblings: exact, and not folded anew for each session that begins."""

from __future__ import annotations

import pytest

from modegate.core.errors import SessionUnreadable
from modegate.core.ids import LOCAL, ModeId, SessionKey
from modegate.core.log import records
from modegate.core.log.events import SessionOpen
from modegate.core.policy.model import Mode, Policy
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.proxy.siblings import Siblings
from support.stores import Store, entry, key_of, mode_set

AGENT = "agent/1"
PLAN = ModeId("plan")
POLICY = Policy("p", {PLAN: Mode(PLAN, "Plan", "", "", ())})
SIBLINGS = 200


def opened(agent: str = AGENT) -> SessionOpen:
    return SessionOpen(agent, "/v1/x", "derived", derived=True)


def kin_of(store: Store) -> tuple[Folds, Siblings]:
    clock = SystemClock()
    folds = Folds(store.open(), clock, max_sessions=10)
    return folds, Siblings(folds.log, folds, clock)


async def start(folds: Folds, kin: Siblings, agent: str = AGENT) -> ModeId:
    await folds.state(key_of("d-new"))
    return await kin.start(LOCAL, agent, POLICY)


async def test_h25_siblings_are_folded_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; what changes is folded again, and what was left a day ago does not count."""
    now = SystemClock().now_ms()
    log = store.open()
    for n in range(SIBLINGS):
        await log.append(key_of(f"d-{n}"), [entry(opened(), at=now)])
    folds, kin = kin_of(store)
    assert await start(folds, kin) == "default"
    asked: list[SessionKey] = []
    real = folds.state

    async def counted(key: SessionKey) -> object:
        asked.append(key)
        return await real(key)

    monkeypatch.setattr(folds, "state", counted)
    assert await start(folds, kin) == "default"
    assert asked == [key_of("d-new")]
    await log.append(key_of("d-7"), [mode_set("plan", at=now)])
    assert await start(folds, kin) == "plan"
    assert await start(folds, kin) == "plan"
    assert asked == [key_of(f"d-{name}") for name in ("new", "new", "7", "new")]
    await log.append(key_of("d-7"), [mode_set("default", at=now)])
    assert await start(folds, kin) == "plan"
    assert await start(folds, kin, "another/1") == "default"


async def test_h25_a_sibling_that_left_its_mode_a_day_ago(store: Store) -> None:
    now = SystemClock().now_ms()
    log = store.open()
    long_ago = now - 25 * 60 * 60 * 1000
    changes = [mode_set("plan", at=long_ago), mode_set("default", at=long_ago)]
    await log.append(key_of("d-1"), [entry(opened(), at=long_ago), *changes])
    await log.append(key_of("d-1"), [entry(opened(), at=now)])
    folds, kin = kin_of(store)
    assert await start(folds, kin) == "default"


async def test_h25_nothing_is_believed_after_a_gap(store: Store) -> None:
    log = store.open()
    now = SystemClock().now_ms()
    await log.append(key_of("d-1"), [entry(opened(), at=now)])
    folds, kin = kin_of(store)
    assert await start(folds, kin) == "default"
    await log.append(key_of("d-1"), [mode_set("plan", at=now)])
    folds.begin_anew()
    assert await start(folds, kin) == "plan"


async def test_h1_a_sibling_whose_mode_nobody_knows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer modegate has set a mode in a way that is not known here: it is no default."""
    now = SystemClock().now_ms()
    log = store.open()
    await log.append(key_of("d-1"), [entry(opened(), at=now)])
    folds, kin = kin_of(store)
    assert await start(folds, kin) == "default"
    with monkeypatch.context() as newer:
        newer.setattr(records, "VERSION", records.VERSION + 1)
        await log.append(key_of("d-1"), [mode_set("plan", at=now)])
    for _ in range(2):
        with pytest.raises(SessionUnreadable, match="d-1"):
            await start(folds, kin)
