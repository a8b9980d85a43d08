"""The model of every back end: what the user asks for says what it does, and results say how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.backends.speak import Call, Turn
from support.backends.told import Told

READ = Call("read", '{"path": "a.py"}')
WRITE = Call("write", '{"path": "S3CRET", "text": "no"}')
AGAIN = Call("write", '{"path": "S3CRET-2", "text": "no"}')
OPEN = Call("write", '{"path": "b.py", "text": "yes"}')
PLAN = Call("exit_plan_mode", '{"plan": "# Rename foo"}')

NOTICE = "[modegate] The user changed the mode"
"""How a notice begins."""


def knows(told: Sequence[Told]) -> Turn:
    """Say what the history holds that the client never saw."""
    refused = sum(one.kind == "result" and "refused" in one.text for one in told)
    rejected = sum(one.kind == "result" and "rejected" in one.text for one in told)
    return Turn(f"I know of {refused} refused and {rejected} rejected.")


def reads(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Read a file."""
    return Turn("", (READ,)) if not results else Turn(f"It says: {results[-1]}.")


def writes(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Try to write, and give in."""
    if not results:
        return Turn("", (WRITE,))
    return Turn("Then I only plan." if "refused" in results[-1] else "Written.")


def both(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Read and write in one answer."""
    if not results:
        return Turn("Both at once.", (READ, WRITE))
    said = ["refused" if "refused" in one else one for one in results]
    return Turn(f"It came to: {', '.join(said)}.")


def several(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Write, read and write in one answer."""
    return Turn("All at once.", (WRITE, READ, AGAIN)) if not results else both((), results)


def insists(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Try to write, then otherwise, and give in."""
    tries = (Turn("", (WRITE,)), Turn("Then so.", (AGAIN,)))
    return tries[len(results)] if len(results) < len(tries) else Turn("Then I only plan.")


def plans(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Submit a plan, and carry it out once it is approved."""
    if not results:
        return Turn("Here is my plan.", (PLAN,))
    if "rejected" in results[-1]:
        return Turn("I change it.")
    if "approved" in results[-1]:
        return Turn("Now I write.", (OPEN,))
    return Turn("It is done.")


def opens(_told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Write what may be written."""
    return Turn("I write it now.", (OPEN,)) if not results else Turn("It is done.")


def looks(told: Sequence[Told], results: Sequence[str]) -> Turn:
    """Read, and say what became of the mode meanwhile."""
    if not results:
        return Turn("I look.", (READ,))
    noticed = any(NOTICE in one.text for one in told)
    return Turn("The mode has changed." if noticed else "I have looked.")


STORIES: dict[str, Callable[[Sequence[Told], Sequence[str]], Turn]] = {
    "hello": lambda _told, _results: Turn("Hello there."),
    "what do you know": lambda told, _results: knows(told),
    "read": reads,
    "write": writes,
    "both": both,
    "several": several,
    "insist": insists,
    "plan": plans,
    "write now": opens,
    "look": looks,
}


def think(told: Sequence[Told]) -> Turn:
    """Return what a model says to a request."""
    words = [(one.text.split("\n")[0], at) for at, one in enumerate(told) if one.kind == "user"]
    asked, at = next((word, at) for word, at in reversed(words) if word in STORIES)
    results = [one.text for one in told[at:] if one.kind == "result"]
    return STORIES[asked](told, results)
