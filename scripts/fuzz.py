"""Let a fuzzer mutate streamed answers of an upstream, and look for one that gets past the gate.

Each run is a whole step in plan mode, without a server. Whatever the upstream sends, the step must end by
itself, and nothing that the client gets may be a call of the tool that the mode refuses. Atheris guides
the mutations by the branches that they reach; see `make fuzz-guided`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "proxy"), str(ROOT / "tests")]

with atheris.instrument_imports(include=["modegate.core"]):
    from modegate.core.policy.model import Limits
    from modegate.scripted.model import ScriptedCall, Turn
    from support.playbook import Reply, cut_at, mode, policy
    from support.speech import Agent, Speech
    from support.speeches import SPEECHES

REFUSED = "write_the_file"
POLICY = policy(mode("plan", "read"), limits=Limits(held=200_000, frame=200_000, hops=2))
STREAMED = {speech.name: speech for speech in SPEECHES if speech.streamed}


def turns() -> Iterator[Turn]:
    """Yield what a model might say, as a beginning."""
    write = ScriptedCall(REFUSED, '{"path": "a", "text": "b"}')
    read = ScriptedCall("read", '{"path": "a"}')
    yield Turn("hello", "hm", (write,))
    yield Turn("hello", "", (read, write, read))
    yield Turn("", "", (write, ScriptedCall("read", "free text", custom=True)))
    yield Turn("only text", "thought of before")


def asked(speech: Speech) -> bytes:
    """Return a request that declares both tools."""
    history = [speech.api.user("go on")]
    request = speech.api.request(history, ["read", REFUSED], streamed=True)
    return json.dumps(request).encode()


def values(body: bytes) -> Iterator[Any]:
    """Yield the JSON of every data line that has some, as a client that is not strict reads them."""
    for line in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                yield json.loads(line[5:])
            except (ValueError, RecursionError):
                continue


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in it, however deep."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def pieces(value: Any) -> Iterator[Any]:
    """Yield what a client of chat completions takes for a call, or a piece of one."""
    choices = value.get("choices") if isinstance(value, dict) else None
    for choice in choices if isinstance(choices, list) else []:
        for key in ("delta", "message"):
            body = choice.get(key) if isinstance(choice, dict) else None
            if isinstance(body, dict):
                calls = body.get("tool_calls")
                yield from calls if isinstance(calls, list) else []
                yield {"function": body.get("function_call")}


def is_call(value: Any) -> bool:
    """Return whether some client could run the refused tool for this frame."""
    for piece in pieces(value):
        for key in ("function", "custom"):
            inner = piece.get(key) if isinstance(piece, dict) else None
            if isinstance(inner, dict) and inner.get("name") == REFUSED:
                return True
    return any(
        one.get("name") == REFUSED and str(one.get("type")).endswith(("_call", "tool_use"))
        for one in objects(value)
    )


class Target:
    """One dialect under fire."""

    def __init__(self, speech: Speech) -> None:
        """Prepare what stays the same."""
        self._speech = speech
        self._asked = asked(speech)
        self._fine = speech.reply(Turn("fine"), self._asked)

    def seeds(self) -> Iterator[bytes]:
        """Yield answers to begin with; the first two bytes say where they are cut."""
        for turn in turns():
            yield b"\x00\x40" + self._speech.reply(turn, self._asked).body

    def __call__(self, data: bytes) -> None:
        """Live through one step."""
        cut, body = cut_at(int.from_bytes(data[:2], "big")), data[2:]
        session = Agent(self._speech, POLICY).session
        got = session.step(self._asked, [Reply(body), self._fine], cut=cut)
        for value in values(got.body):
            if is_call(value):
                raise AssertionError(f"the client got a refused call: {got.body!r}")


def main() -> None:
    """Fuzz one dialect for a while."""
    parser = argparse.ArgumentParser(prog="make fuzz-guided", description=__doc__)
    parser.add_argument("--dialect", choices=STREAMED, default="chat")
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument(
        "--corpus", type=Path, help="folder in which finds are kept and gone on from"
    )
    args = parser.parse_args()
    target = Target(STREAMED[args.dialect])
    with tempfile.TemporaryDirectory() as folder:
        corpus = args.corpus or Path(folder)
        corpus.mkdir(exist_ok=True)
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
        options = [
            f"-max_total_time={args.seconds}",
            "-max_len=20000",
            "-timeout=20",
            "-rss_limit_mb=2048",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus)], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
