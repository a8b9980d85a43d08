"""A script's YAML text to a `Script`, or every problem with its line; the keys are in docs/scripted.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast

import msgspec
import yaml

from modegate.core.policy.file.document import YamlValue, read_document
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.wire.headers import Headers
from modegate.scripted.model import Answer, Fixed, Frames, Script, ScriptedCall, Turn, When

TURN_KEYS = ("text", "reasoning", "calls", "finish", "usage", "chunk", "fragments", "legacy")
FIXED_KEYS = ("status", "body")
COMMON_KEYS = ("when", "times", "headers", "pace", "cut")
ANSWER_KEYS = (*TURN_KEYS, "frames", *FIXED_KEYS, *COMMON_KEYS)
WHEN_KEYS = ("tools", "offers", "lacks", "results", "last", "any", "last_result")
CALL_KEYS = ("name", "arguments", "id", "type", "index", "namespace")

_PACE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s)", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)

T = TypeVar("T")
Places = Mapping[str, YamlValue]


def parse(text: str | bytes, name: str) -> Script:
    """Read a script; `name` is what messages call it.

    Raises:
        PolicyProblems: with everything that is wrong with it.
    """
    root = read_document(text)
    top = root.mapping(("answers",)) or {}
    answers: list[Answer] = []
    if "answers" in top:
        answers = [_answer(place) for place in top["answers"].sequence() or ()]
    elif not root.document.problems:
        root.problem("has no answers")
    if root.document.problems:
        raise PolicyProblems(root.document.problems)
    return Script(name, tuple(answers))


def _get(places: Places, key: str, read: Callable[[YamlValue], T | None], default: T) -> T:
    """Read a key that may be missing; one that cannot be read is noted and replaced by the default."""
    value = read(places[key]) if key in places else None
    return default if value is None else value


def _answer(place: YamlValue) -> Answer:
    keys = place.mapping(ANSWER_KEYS) or {}
    return Answer(
        content=_content(place, keys),
        when=_get(keys, "when", _when, When()),
        times=_get(keys, "times", _positive, None),
        status=_get(keys, "status", _status, 200),
        headers=_get(keys, "headers", _headers, []),
        pace_ms=_get(keys, "pace", _pace, 0),
        cut=_get(keys, "cut", YamlValue.boolean, False),
    )


def _content(place: YamlValue, keys: Places) -> Turn | Frames | Fixed:
    kinds = {"text or calls": TURN_KEYS, "frames": ("frames",), "status or body": FIXED_KEYS}
    found = [kind for kind, names in kinds.items() if any(name in keys for name in names)]
    if len(found) > 1:
        place.problem(f"mixes {' and '.join(found)}; an answer is one of them")
    elif not found:
        place.problem("says nothing: give text, reasoning, calls, frames, status or body")
    if "frames" in keys:
        return Frames(tuple(_frame(item) for item in keys["frames"].sequence() or ()))
    if "status" in keys or "body" in keys:
        return _fixed(keys)
    return _turn(place, keys)


def _turn(place: YamlValue, keys: Places) -> Turn:
    calls = tuple(_call(item) for item in keys["calls"].sequence() or ()) if "calls" in keys else ()
    turn = Turn(
        text=_get(keys, "text", _text, ""),
        reasoning=_get(keys, "reasoning", _text, ""),
        calls=calls,
        finish=_get(keys, "finish", YamlValue.string, None),
        usage=_get(keys, "usage", _json_object, None),
        chunk=_get(keys, "chunk", _positive, Turn().chunk),
        fragments=_get(keys, "fragments", _positive, Turn().fragments),
        legacy=_get(keys, "legacy", YamlValue.boolean, False),
    )
    if turn.legacy and (len(calls) != 1 or calls[0].custom):
        place.problem("legacy needs exactly one call, of type function")
    return turn


def _call(place: YamlValue) -> ScriptedCall:
    keys = place.mapping(CALL_KEYS) or {}
    if "name" not in keys:
        place.problem("a call needs a name")
    return ScriptedCall(
        name=_get(keys, "name", YamlValue.string, ""),
        arguments=_get(keys, "arguments", _arguments, "{}"),
        id=_get(keys, "id", YamlValue.string, None),
        custom=_get(keys, "type", _call_type, "function") == "custom",
        index=_get(keys, "index", YamlValue.integer, None),
        namespace=_get(keys, "namespace", YamlValue.string, None),
    )


def _call_type(place: YamlValue) -> Literal["function", "custom"] | None:
    value = place.string()
    if value not in (None, "function", "custom"):
        place.problem("must be function or custom")
        return None
    return cast(Literal["function", "custom"] | None, value)


def _when(place: YamlValue) -> When:
    keys = place.mapping(WHEN_KEYS) or {}
    return When(
        tools=_get(keys, "tools", YamlValue.boolean, None),
        results=_get(keys, "results", YamlValue.integer, None),
        **{
            name: _get(keys, name, YamlValue.string, None)
            for name in ("offers", "lacks", "last", "any", "last_result")
        },
    )


def _fixed(keys: Places) -> Fixed:
    if "body" not in keys:
        return Fixed(None)
    body = _json(keys["body"])
    if isinstance(body, str):
        return Fixed(body.encode(), json=False)
    return Fixed(msgspec.json.encode(body))


def _frame(place: YamlValue) -> bytes:
    frame = _text(place) or ""
    return (frame if frame.endswith("\n") else f"{frame}\n\n").encode()


def _headers(place: YamlValue) -> Headers:
    lines: Headers = []
    for name, value in (place.mapping() or {}).items():
        text = _text(value)
        if not _HEADER_NAME.fullmatch(name):
            value.key_problem("is no header name")
        elif text is not None and not (text.isascii() and text.isprintable()):
            value.problem("must be printable ASCII")
        elif text is not None:
            lines.append((name.lower().encode(), text.encode()))
    return lines


def _status(place: YamlValue) -> int | None:
    status = place.integer()
    if status is not None and not 200 <= status <= 599:
        place.problem("must be from 200 to 599")
        return None
    return status


def _positive(place: YamlValue) -> int | None:
    number = place.integer()
    if number == 0:
        place.problem("must be at least 1")
        return None
    return number


def _pace(place: YamlValue) -> int | None:
    text = place.node.value
    # Quoted too: a script may be JSON.
    match = _PACE.fullmatch(text) if isinstance(text, str) else None
    if not match:
        place.problem("must be a time such as 20ms or 0.5s")
        return None
    return round(float(match[1]) * (1 if match[2] == "ms" else 1000))


def _text(place: YamlValue) -> str | None:
    """Read a string that may be empty if it is quoted."""
    if place.plain() is not None or not isinstance(place.node, yaml.ScalarNode):
        return place.string()
    boxed = place.json_scalar()
    return str(boxed[0]) if boxed else None


def _arguments(place: YamlValue) -> str | None:
    """Read a mapping as JSON, or a string that is sent as it is."""
    if place.is_mapping():
        return msgspec.json.encode(_json(place)).decode()
    return _text(place)


def _json_object(place: YamlValue) -> dict[str, Any] | None:
    if place.is_mapping():
        return cast(dict[str, Any], _json(place))
    place.problem("must be a mapping")
    return None


def _json(place: YamlValue) -> Any:
    if place.is_mapping():
        return {name: _json(value) for name, value in (place.mapping() or {}).items()}
    if isinstance(place.node, yaml.SequenceNode):
        return [_json(item) for item in place.sequence() or ()] if place.node.value else []
    boxed = place.json_scalar()
    return boxed[0] if boxed else None
