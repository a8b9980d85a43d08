"""Bad minutes for modegate: agents work and vanish, people flip and approve, and all that can break breaks.

Three stages: replicas on one Redis, which is killed, paused and filled up, as replicas and workers are; two
replicas on a Redis that fails over; and two processes on one SQLite file, whose disk fills up. Sessions begin
in plan mode. Everybody notes what they asked for and were told, and each stage ends with these notes held
against the log. Fails if the history of any session cannot be, or if memory, tasks or descriptors grow.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from stages import STAGES, Options, play


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--agents", type=int, default=12, help="how many at once (default: 12)")
    parser.add_argument("--faults", type=float, default=0.2, help="part of answers that fail")
    parser.add_argument("--seed", type=int, default=1, help="of the model's failures")
    parser.add_argument("--only", choices=STAGES, help="one stage, for the whole time")
    return parser.parse_args(argv)


async def main(given: argparse.Namespace) -> int:
    """Run the stages, and say how many faults there are in all."""
    names = [given.only] if given.only else list(STAGES)
    whole = sum(STAGES[name].part for name in names)
    began, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="modegate-soak-") as folder:
        for name in names:
            stage = STAGES[name]
            seconds = given.seconds * stage.part / whole
            options = Options(seconds, given.agents, given.faults, given.seed)
            (Path(folder) / name).mkdir()
            wrong += await play(name, stage, options, Path(folder) / name)
    print(
        f"\n{'FAILED' if wrong else 'passed'}: {wrong} faults in {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse())))
