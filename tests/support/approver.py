"""A replica that asks a person or answers for one, and can be killed at any moment.

python -m support.approver URL SESSION wait ID     asks, says `asked`, waits, says how it ended
python -m support.approver URL SESSION answer ID   says `ready`, waits for a line, approves, says `done`
"""

from __future__ import annotations

import asyncio
import sys

from modegate.core.ids import DEFAULT_MODE, CallId, Lane, ModeId, StepId, ToolName
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.policy.model import Waits
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.log.open import open_log
from modegate.server.proxy.approvals import Approvals
from support.stores import key_of

PLAN = ModeId("plan")
OPTIONS = (
    Option("approve", "Approve", "approve", DEFAULT_MODE),
    Option("reject", "Reject", "reject"),
)
FOREVER = Waits(nobody=3_600, streamed=3_600, whole=3_600)


def plan(name: str = "a", text: str = "# Plan", expires: int = 1 << 50) -> ApprovalAsked:
    """Make the question about a plan."""
    place = (StepId("s"), Lane("main"), CallId("c"), ToolName("exit_plan_mode"))
    return ApprovalAsked(name, *place, "exit", text, OPTIONS, expires)


async def main(url: str, session: str, what: str, name: str) -> None:
    """Do what the module says."""
    clock, key = SystemClock(), key_of(session)
    log = open_log(url)
    approvals = Approvals(Folds(log, clock), log, clock, waits=lambda: FOREVER, look=0.01)
    if what == "wait":
        known = await approvals.ask(key, plan(name))
        print("asked", flush=True)  # noqa: T201 -- the protocol of this process
        over = asyncio.Event()
        found = await approvals.wait(key, known, step=StepId("s"), streamed=True, draining=over)
        print(found.status, found.option, flush=True)  # noqa: T201
    else:
        await log.ping()
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        await approvals.answer(key, name, "approve", by="person:cli", modes={PLAN})
        print("done", flush=True)  # noqa: T201
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]))
