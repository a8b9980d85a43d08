"""Run the differential test at length: answers of a hostile upstream, by the gate, into clients of others.

Each number stands for one answer in each API, streamed and whole. What some client would run though the mode
forbids it is printed with its number, and the run fails; `--show NUMBER` prints what came in and went out.
Numbers from a million on stand for servers that announce calls loosely.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "proxy"), str(ROOT / "tests")]

from support.differential.answers import TOOLS  # noqa: E402 -- behind the path
from support.differential.sdks import NodeSdks, PythonSdks  # noqa: E402
from support.differential.trial import (  # noqa: E402
    LOOSE,
    Tally,
    Trial,
    attempt,
    rules,
    told_by_all,
)
from support.speech import Speech  # noqa: E402
from support.speeches import SPEECHES  # noqa: E402

BATCH = 20
"""Numbers that are tried before Node and Python read what came of them."""


def batch(speech: Speech, begin: int, wrong: list[str]) -> list[tuple[int, Trial]]:
    """Try some answers in one API."""
    tried: list[tuple[int, Trial]] = []
    for number in (*range(begin, begin + BATCH), *range(begin + LOOSE, begin + LOOSE + BATCH)):
        try:
            tried.append((number, attempt(speech, rules(), number)))
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is found
            wrong.append(f"{speech} {number}: {type(error).__name__}: {str(error)[:300]}")
    return tried


def show(number: int) -> None:
    """Print what came in and went out for a number."""
    for speech in SPEECHES:
        trial = attempt(speech, rules(), number)
        asked = len(trial.got.requests)
        print(f"== {speech}")
        for reply in trial.replies[:asked]:
            print(f"-- in\n{reply.body.decode(errors='replace')}")
        print(f"-- out\n{trial.body.decode(errors='replace')}")


def run(begin: int, seconds: int, only: str) -> int:
    """Try answers for some time; give how many were wrong."""
    tally, wrong = Tally(), list[str]()
    python, number, until = PythonSdks(), begin, time.monotonic() + seconds
    with NodeSdks(TOOLS) as node:
        while time.monotonic() < until:
            for speech in SPEECHES:
                if only not in str(speech):
                    continue
                tried = batch(speech, number, wrong)
                read = [(at, trial) for at, trial in tried if tally.note(trial)]
                told = told_by_all([trial for _, trial in read], python, node)
                for (at, trial), calls in zip(read, told, strict=True):
                    wrong += [f"{speech} {at}: {why}" for why in tally.judge(trial, calls)]
            number += BATCH
        print(f"numbers {begin} to {number - 1}")
        print("answers:", dict(tally.cases))
        print("calls that each client saw:", dict(tally.calls))
        print("verdicts:", dict(tally.verdicts))
        print("ends:", dict(tally.outcomes))
        print("answers that an SDK could not read:", dict(python.errors | node.errors))
    for one in wrong:
        print("WRONG", one)
    print(f"{len(wrong)} wrong")
    return len(wrong)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--begin", type=int, default=0, help="the first number (0)")
    parser.add_argument("--only", default="", help="a part of a name, as chat-streamed or whole")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print one answer instead")
    args = parser.parse_args()
    if args.show is not None:
        show(args.show)
    elif run(args.begin, args.seconds, args.only):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
