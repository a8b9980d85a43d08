"""Run real coding agents, unchanged, through modegate against a scripted model, in default and in plan mode.

Each run has its own HOME, git folder, modegate, log and script. Nothing but the npm and PyPI packages comes
from outside, and no key is needed. See docs/agents.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import install
from agent import Agent
from catalogue import HERE, NATIVE
from exploring import EXPLORING
from install import REPO, InstallFailed, say
from more_agents import MORE
from proxy import ProxyFailed
from stories import STORIES, TEXT_STORIES
from story import Story
from text_agents import TEXT_AGENTS
from trial import CHECKS, Result, run

MODES = ("default", "plan")
AGENTS = (*NATIVE, *MORE, *TEXT_AGENTS)

EXAMPLES = """\
examples:
  make agents                                       everything, in about half an hour
  make agents ARGS="--only opencode"                one agent
  make agents ARGS="--only qwen --mode plan --story parallel --keep"
"""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make agents",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [agent.name for agent in AGENTS]
    stories = [story.__name__ for story in (*STORIES, *EXPLORING, *TEXT_STORIES)]
    several: dict[str, Any] = {"action": "append", "metavar": "NAME"}
    parser.add_argument("--only", choices=names, **several, help=f"agent: {', '.join(names)}")
    parser.add_argument("--mode", choices=MODES, **several, help="default or plan")
    parser.add_argument("--story", choices=stories, **several, help=f"story: {', '.join(stories)}")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a run may take (120)")
    parser.add_argument("--reads", type=float, default=1, help="seconds over a plan (1)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all runs")
    return parser.parse_args(argv)


def install_for(agents: list[Agent]) -> list[Agent]:
    """Install what the chosen agents need; gives those that can be run."""
    ready = []
    for agent in agents:
        try:
            install.npm_packages(list(agent.npm))
            install.pypi_packages(list(agent.pypi))
        except InstallFailed as error:
            say(f"{agent.name} is not run: {error}")
        else:
            ready.append(agent)
    say("installed: " + ", ".join(f"{name} {v}" for name, v in install.versions().items()))
    return ready


def agent_stories(agent: Agent) -> tuple[Callable[..., Story | None], ...]:
    """Return the stories that fit an agent."""
    of_the_api = (*STORIES, *EXPLORING) if agent.declares else ()
    return of_the_api + (TEXT_STORIES if agent.text else ())


def run_all(args: argparse.Namespace, agents: list[Agent], folder: Path) -> list[Result]:
    """Run every chosen agent, mode and story."""
    results = []
    for agent in agents:
        for mode in args.mode or MODES:
            for make in agent_stories(agent):
                if args.story and make.__name__ not in args.story:
                    continue
                place = folder / f"{agent.name}-{mode}-{make.__name__}"
                story = make(agent, place / "work", plan=mode == "plan")
                if story is None:
                    continue
                say(f"{agent.name}, {mode}: {(make.__doc__ or '').partition(chr(10))[0]}")
                result = run(agent, mode, story, place, args.timeout, args.reads)
                for check, problem in result.problems.items():
                    say(f"    {check}: {problem}")
                results.append(result)
    return results


def parsers(agents: list[Agent], folder: Path) -> int:
    """Hold modegate against the parsers of agents that run text; gives how many have something left."""
    failed = 0
    for package in sorted({name for agent in agents if agent.text for name in agent.pypi}):
        say(f"{package}: what is left of texts, by its own parser")
        done = subprocess.run(
            [str(install.pypi_bin(package) / "python"), str(HERE / "parsers.py"), package],
            env={"PYTHONPATH": str(REPO / "proxy"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
            | {"GPTME_TIKTOKEN_TIMEOUT": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
        )
        print(done.stdout.strip() or f"{package}: its parser could not be run")
        failed += bool(done.returncode)
    return failed


def table(results: list[Result]) -> str:
    """Return a row for each run and a column for each check."""
    head = ("agent", "mode", "story", *CHECKS, "steps", "hops", "seconds")
    rows = [
        (
            *(result.agent, result.mode, result.story),
            *("FAIL" if check in result.problems else "ok" for check in CHECKS),
            *(str(result.steps), str(result.hops), f"{result.seconds:.0f}"),
        )
        for result in results
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )


def main() -> int:
    """Install, run, print; give 1 if anything failed."""
    args = parse()
    began = time.monotonic()
    agents = [agent for agent in AGENTS if not args.only or agent.name in args.only]
    folder = Path(tempfile.mkdtemp(prefix="modegate-agents-"))
    try:
        ready = install_for(agents)
        results = run_all(args, ready, folder)
        left = parsers(ready, folder)
    except ProxyFailed as error:
        say(f"Error: {error}")
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(table(results))
    failed = sum(bool(result.problems) for result in results)
    took = time.monotonic() - began
    missing = [agent.name for agent in agents if agent not in ready]
    print(
        f"{len(results)} runs, {failed} failed, {took:.0f} s"
        + (f"; not run: {', '.join(missing)}" if missing else "")
        + (f"; kept in {folder}" if args.keep else "")
    )
    return 1 if failed or left or missing or not results else 0


if __name__ == "__main__":
    sys.exit(main())
