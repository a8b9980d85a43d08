"""What can be wrong with an answer's JSON: keys, values, places, order; each wrong thing leads to a call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from support.differential.trees import Literal, Obj, dump, objects

NAMES = (
    "write",
    "edit",
    "readgrep",
    "grep",
    "read",
    "fetch",
    "wri",
    "te",
    "",
    "mcp__docs__delete_all",
)
ARGUMENTS = (
    '{"command": "create", "path": "x"}',
    '{"command": "view", "command": "create"}',
    '{"command": "view", "Command": "create"}',
    '{"command": "view", "__proto__": {"command": "create"}}',
    '{"command": "view"}',
    '{"command": "vi',
    'ew", "path": "z"}',
    '{"command": "create"}',
    '{"url": "evil"}',
    ', "command": "create"}',
    "}",
    "",
    '{"command": "view"} {"command": "create"}',
)
PLACES = (0, 1, 2, 7, -1, 0.0, 1.0, 0.5, "0", "1", None, True, 2**31, 2**53, 2**53 + 1, 10**30)
LITERALS = ("1e400", "-0", "0e0", "1.0e0", "9007199254740993.0", "NaN")
IDS = ("call_0", "call_1", "", None, 0, "x")
TYPES = (
    "function",
    "custom",
    "function_call",
    "custom_tool_call",
    "tool_use",
    "tool_call",
    "local_shell_call",
    "apply_patch_call",
    "server_tool_use",
    "text",
    "message",
)
FINISHES = (
    "stop",
    "tool_calls",
    "function_call",
    "length",
    "error",
    "tool_use",
    "end_turn",
    "",
    None,
)
SOURCES = (
    "name",
    "arguments",
    "input",
    "function",
    "custom",
    "function_call",
    "tool_calls",
    "parameters",
    "args",
    "action",
    "operation",
    "partial_json",
    "item",
    "content_block",
    "delta",
    "message",
    "namespace",
    "index",
    "id",
    "call_id",
    "type",
)
"""Keys under which some client could look for something of a call."""

_WEIGHTY = {
    "function",
    "tool_calls",
    "function_call",
    "arguments",
    "name",
    "input",
    "item",
    "content_block",
    "partial_json",
    "call_id",
}


def evil_value(key: str, value: Any, rng: Random) -> Any:
    """Return another value for a key."""
    folded = key.casefold()
    if folded == "name":
        return rng.choice(NAMES)
    if folded in ("arguments", "input", "partial_json"):
        text = rng.choice(ARGUMENTS)
        return Obj([("command", "create"), ("url", "evil")]) if rng.random() < 0.2 else text
    if folded in ("index", "output_index", "sequence_number"):
        return Literal(rng.choice(LITERALS)) if rng.random() < 0.2 else rng.choice(PLACES)
    if folded in ("id", "item_id", "call_id"):
        return rng.choice(IDS)
    if folded == "type":
        return rng.choice(TYPES)
    if folded in ("finish_reason", "stop_reason", "status"):
        return rng.choice(FINISHES)
    if isinstance(value, Obj) and value.pairs:
        value = copy.deepcopy(value)
        for name, inner in list(value.pairs):
            if rng.random() < 0.5:
                value.put(name, evil_value(name, inner, rng))
        return value
    if isinstance(value, list) and value:
        return [evil_value(key, one, rng) for one in value]
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice(["", "\ud83d", value + "x"])
    return _made(folded, rng)


def _made(key: str, rng: Random) -> Any:
    """Make a value for a key that has none."""
    inner = Obj([("name", rng.choice(NAMES)), ("arguments", rng.choice(ARGUMENTS))])
    call = Obj([("index", 0), ("id", "call_0"), ("type", "function"), ("function", inner)])
    item = Obj([("type", rng.choice(TYPES)), ("id", "x"), ("call_id", "x"), *inner.pairs])
    block = Obj(
        [("type", rng.choice(TYPES)), ("id", "x"), ("name", rng.choice(NAMES)), ("input", Obj([]))]
    )
    made: dict[str, Any] = {
        "tool_calls": [call],
        "function": inner,
        "function_call": inner,
        "custom": Obj([("name", rng.choice(NAMES)), ("input", "x")]),
        "content": [item, block],
        "delta": Obj([("tool_calls", [call])]),
        "message": Obj([("role", "assistant"), ("content", None), ("tool_calls", [call])]),
        "item": item,
        "output": [item],
        "content_block": block,
    }
    return made.get(key, rng.choice([None, 0, "", "x", inner]))


def _place(value: Any, rng: Random) -> Obj:
    """Choose an object, one of a call rather than another."""
    found = list(objects(value))
    weights = [1 + 6 * len(_WEIGHTY.intersection(key for key, _ in one.pairs)) for one in found]
    return rng.choices(found, weights)[0]


def _key(one: Obj, rng: Random) -> tuple[str, Any]:
    if not one.pairs:
        return rng.choice(SOURCES), None
    weights = [5 if key in SOURCES else 1 for key, _ in one.pairs]
    return rng.choices(one.pairs, weights)[0]


def _insert(one: Obj, key: str, value: Any, rng: Random) -> None:
    one.pairs.insert(rng.choice([0, len(one.pairs)]), (key, value))


def _twice(one: Obj, rng: Random) -> None:
    key, value = _key(one, rng)
    _insert(one, key, evil_value(key, value, rng), rng)


def _other_case(one: Obj, rng: Random) -> None:
    key, value = _key(one, rng)
    spelled = rng.choice(
        [key.upper(), key.title(), key.replace("_", ""), key.replace("s", "\u017f")]
    )
    _insert(one, spelled, evil_value(key, value, rng), rng)


def _proto(one: Obj, rng: Random) -> None:
    members = [(key, evil_value(key, value, rng)) for key, value in one.pairs]
    key = rng.choice(["__proto__", "__proto__", "constructor", "toString", "length"])
    _insert(one, key, Obj(members), rng)
    if members and rng.random() < 0.5:
        # What is not an own member is looked up in the prototype.
        gone = rng.choice(members)[0]
        one.pairs[:] = [pair for pair in one.pairs if pair[0] != gone]


def _source(one: Obj, rng: Random) -> None:
    key = rng.choice(SOURCES)
    _insert(one, key, evil_value(key, one.get(key), rng), rng)


def _value(one: Obj, rng: Random) -> None:
    key, value = _key(one, rng)
    one.put(key, evil_value(key, value, rng))


def _less(one: Obj, rng: Random) -> None:
    if one.pairs:
        one.pairs.remove(_key(one, rng))


def _lists(value: Any) -> list[list[Any]]:
    return [inner for one in objects(value) for _, inner in one.pairs if isinstance(inner, list)]


def _longer(value: Any, evil: Any, rng: Random) -> None:
    """Put something into a list: again, changed, or from the other answer."""
    mine, other = _lists(value), [one for one in _lists(evil) if one]
    if not mine:
        return
    into = rng.choice(mine)
    source = rng.choice([into, *other]) if other else into
    if not source:
        return
    added = copy.deepcopy(rng.choice(source))
    if isinstance(added, Obj) and rng.random() < 0.5:
        _change(added, rng)
    into.insert(rng.randrange(len(into) + 1), added)


CHANGES: tuple[Callable[[Obj, Random], None], ...] = (
    _twice,
    _other_case,
    _proto,
    _source,
    _value,
    _value,
    _less,
)


def _change(value: Any, rng: Random) -> None:
    rng.choice(CHANGES)(_place(value, rng), rng)


def mutate_value(value: Any, evil: Any, rng: Random) -> None:
    """Change an object, or a list in it, in one place."""
    if rng.random() < 0.25:
        _longer(value, evil, rng)
    else:
        _change(value, rng)


def mutate_frames(frames: list[Any], evil: list[Any], rng: Random) -> None:
    """Change frames, or their order, in one place."""
    at = rng.randrange(len(frames)) if frames else 0
    how = rng.random()
    if not frames or how < 0.15:
        frames.insert(rng.randrange(len(frames) + 1), copy.deepcopy(rng.choice(evil)))
    elif how < 0.22:
        frames.insert(rng.randrange(len(frames) + 1), copy.deepcopy(frames[at]))
    elif how < 0.27:
        del frames[at]
    elif how < 0.32:
        frames.insert(rng.randrange(len(frames)), frames.pop(at))
    elif how < 0.35:
        # The other answer's frames, one with one or one behind the other.
        both = copy.deepcopy(evil)
        frames[:] = frames + both if rng.random() < 0.5 else _zipped(frames, both)
    else:
        _within(frames, evil, rng)


def _zipped(one: list[Any], other: list[Any]) -> list[Any]:
    longest = max(len(one), len(other))
    return [frame for at in range(longest) for frame in (*one[at : at + 1], *other[at : at + 1])]


def _within(frames: list[Any], evil: list[Any], rng: Random) -> None:
    inside = [frame for frame in frames if isinstance(frame.data, Obj)]
    others = [frame for frame in evil if isinstance(frame.data, Obj)]
    if not inside:
        return
    weights = [
        1 + 5 * sum(f'"{word}"' in dump(frame.data) for word in _WEIGHTY) for frame in inside
    ]
    frame = rng.choices(inside, weights)[0]
    mutate_value(frame.data, rng.choice(others).data, rng)
    if rng.random() < 0.1:
        frame.event = rng.choice(others).event
