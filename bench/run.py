"""Measure what modegate adds to a request, as ratios to nginx in the same run.

The proxies run on one core, the mock model and the load generator on another. Every round measures each
target once per workload, in turn and in alternating order, and compares only figures of one round, so that
a machine that slows down slows all of them. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

import acp
import conditions
import neighbours
import report
import targets
from rounds import FEW, LONG, MANY, WORKLOADS, Bench, say
from targets import BenchError, Cores

REPO = targets.HERE.parent

EXAMPLES = """\
examples:
  make bench                                   the whole table, in about five minutes
  make bench ARGS="--long"                     more and longer rounds, in about twenty
  make bench ARGS="--only json --rounds 3"     workloads whose name holds "json"
  make bench ARGS="--targets nginx,default"    without plan mode
  make bench ARGS="--neighbours"               what the worst bodies cost others, alone
  make bench ARGS="--conditions"               what rules that read arguments cost, alone
  make bench ARGS="--acp"                      1,000 ACP connections and 100 flips a second instead
  make bench ARGS="--modegate ../old/.venv/bin/modegate --json" > old.json
"""


def start(stack: ExitStack, args: argparse.Namespace, folder: Path) -> Bench:
    """Build the tools and start every server that the targets need."""
    cores = Cores.choose()
    if cores.proxy == cores.rest:
        say("one core only: mock, load generator and proxies share it, so throughput says little")
    targets.compile_tool("load")
    direct = stack.enter_context(targets.mock(folder, cores.rest))
    servers = {"direct": direct}
    if "nginx" in args.targets:
        servers["nginx"] = stack.enter_context(targets.nginx(folder, cores.proxy, direct.port))
    if own := [target for target in ("default", "plan") if target in args.targets]:
        files = {"command": args.modegate.absolute(), "policies": args.policies.absolute()}
        proxy = stack.enter_context(targets.modegate(folder, cores.proxy, direct.port, **files))
        servers |= dict.fromkeys(own, proxy)
    return Bench(args, folder, cores, servers, report.Results())


def show(bench: Bench, took: float) -> None:
    """Print what was found."""
    results = bench.results
    if bench.args.json:
        print(json.dumps(results.as_json(), indent=2))
        return
    if results.runs:
        print(report.latency_table(results, FEW))
        print(report.throughput_table(results, MANY))
    if results.streams:
        print(report.stream_table(results))
    print(report.memory_table(results))
    print(
        f"Ratios: median of {bench.args.rounds} rounds (min-max), each to nginx in its round; {took:.0f} s."
    )


def others(folder: Path, args: argparse.Namespace) -> str:
    """Return what the worst bodies cost a neighbour."""
    files = (args.modegate.absolute(), args.policies.absolute())
    return neighbours.run(folder, *files, args.only, as_json=args.json)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--targets", default="nginx,default,plan", help="any of nginx, default, plan (default: all)"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only workloads whose name holds TEXT"
    )
    parser.add_argument("--rounds", type=int, help="rounds (default: 5; with --long: 15)")
    parser.add_argument(
        "--seconds", type=float, help="length of one measurement (default: 0.5; with --long: 2)"
    )
    parser.add_argument("--long", action="store_true", help="more and longer rounds")
    parser.add_argument(
        "--headroom",
        type=float,
        default=5,
        help="how many times as fast the mock must be (default: 5)",
    )
    parser.add_argument(
        "--timeout",
        type=int,
        help="give up after so many seconds (default: 420; with --long: 2400)",
    )
    parser.add_argument(
        "--modegate", type=Path, default=REPO / ".venv/bin/modegate", help="the modegate to measure"
    )
    parser.add_argument(
        "--policies", type=Path, default=REPO / "policies.yaml", help="its policy, with a mode plan"
    )
    parser.add_argument(
        "--acp",
        action="store_true",
        help="measure memory and lag of ACP connections instead, in about a minute",
    )
    parser.add_argument(
        "--neighbours",
        action="store_true",
        help="measure only what the worst bodies cost others, in about two minutes",
    )
    parser.add_argument(
        "--conditions",
        action="store_true",
        help="measure only what the conditions of rules cost, in about a minute",
    )
    parser.add_argument(
        "--json", action="store_true", help="print every figure as JSON instead of tables"
    )
    args = parser.parse_args(argv)
    for name, quick, long in (("rounds", 5, 15), ("seconds", 0.5, 2.0), ("timeout", 420, 2400)):
        if getattr(args, name) is None:
            setattr(args, name, long if args.long else quick)
    args.targets = args.targets.split(",")
    if unknown := set(args.targets) - {"nginx", "default", "plan"}:
        parser.error(f"unknown target: {', '.join(sorted(unknown))}")
    names = (*WORKLOADS, LONG)
    if not args.neighbours and not any(args.only in workload.name for workload in names):
        parser.error(
            f"no workload's name holds {args.only!r}: {', '.join(w.name for w in (*WORKLOADS, LONG))}"
        )
    return args


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 0 if its figures can be trusted."""
    args = parse(argv)

    def stop(signum: int, _frame: FrameType | None) -> NoReturn:
        raise BenchError(
            f"not done after {args.timeout} s" if signum == signal.SIGALRM else "stopped"
        )

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(args.timeout)
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="modegate-bench-"))
            )
            try:
                if args.conditions:
                    print(conditions.run(as_json=args.json))
                    return 0
                if args.neighbours:
                    print(others(folder, args))
                    return 0
                if args.acp:
                    print(acp.run(folder, args.modegate.absolute(), as_json=args.json))
                    return 0
                with ExitStack() as servers:
                    bench = start(servers, args, folder)
                    bench.run()
                found = "" if args.only or args.json else others(folder, args)
            except BenchError as error:
                raise BenchError(f"{error}\n{targets.last_words(folder)}".rstrip()) from error
    except BenchError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    show(bench, time.monotonic() - began)
    if found:
        print(found)
    for reason in bench.results.void:
        say(f"VOID: {reason}")
    return 1 if bench.results.void else 0


if __name__ == "__main__":
    sys.exit(main())
