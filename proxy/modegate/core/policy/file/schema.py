"""How policies.yaml is read: sections as tables of fields, and the small values that several fields take.

A reader takes a `YamlValue` and returns what it says. If that is nothing usable, the reader notes the problem
and returns None, and the default stands. A `Reader` also says in JSON Schema what it takes, for editors; that
may be more than it takes, and never less (`json_schema`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy.file.document import YamlValue, suggestion
from modegate.core.policy.model import Source

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""What modes, upstreams and tokens may be called."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SIZE = re.compile(r"([1-9][0-9]{0,11})(?: ?(B|KiB|MiB|GiB))?")
_DURATION = re.compile(r"((?:0|[1-9][0-9]{0,5})(?:\.[0-9]{1,3})?) ?(ms|s|m|h)?")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=str)

Form = Mapping[str, Any]
"""A JSON Schema (draft 7)."""
TEXT: Form = {"type": "string", "pattern": r"\S"}
SCALAR: Form = {"type": ["string", "number", "boolean", "null"]}
NAMED: Form = {"type": "string", "pattern": f"^{NAME.pattern}$"}
"""What `NAME` takes."""


@dataclass(frozen=True, slots=True)
class Reader(Generic[T_co]):
    """A reader, and what it takes."""

    read: Callable[[YamlValue], T_co]
    form: Form

    def __call__(self, value: YamlValue) -> T_co:
        return self.read(value)


def takes(form: Form) -> Callable[[Callable[[YamlValue], T]], Reader[T]]:
    """Say what a reader takes; used as a decorator."""
    return lambda read: Reader(read, form)


def form_of(read: Callable[[YamlValue], Any]) -> Form:
    """Return what a reader takes: anything, unless it says."""
    if isinstance(read, Reader):
        return read.form
    plain: dict[Any, Form] = {
        YamlValue.string: TEXT,
        YamlValue.boolean: {"type": "boolean"},
        YamlValue.json_scalar: SCALAR,
    }
    return plain.get(read, {})


def mapping_of(form: Form, names: Form = TEXT) -> Form:
    """Return the form of a mapping whose keys are names of the author's own."""
    return {"type": "object", "propertyNames": names, "additionalProperties": form}


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section, and the reader of its value."""

    key: str
    read: Callable[[YamlValue], Any]
    name: str = ""
    """What the policy's attribute is called; empty: as the key."""
    required: bool = False
    about: str = ""
    """What it is for, in a sentence or two, for editors."""

    def form(self) -> Form:
        form = form_of(self.read)
        if not self.about:
            return form
        # Beside a reference nothing else counts.
        return {"description": self.about, **({"allOf": [form]} if "$ref" in form else form)}


class Section:
    """A mapping of policies.yaml as a table of its fields, in the order in which they are read."""

    def __init__(self, path: str, *fields: Field) -> None:
        self.path = path
        self.keys = tuple(field.key for field in fields)
        self._fields = fields

    def form(self) -> Form:
        """Return the section as JSON Schema."""
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {field.key: field.form() for field in self._fields},
            "required": [field.key for field in self._fields if field.required],
        }

    def open(self, value: YamlValue) -> dict[str, YamlValue] | None:
        """Return the values by key; note which keys are unknown or lacking."""
        values = value.mapping(self.keys)
        if values is not None and not value.misspells(self.keys):
            for field in self._fields:
                if field.required and field.key not in values:
                    value.key_problem(f"needs the key {field.key!r}")
        return values

    def one_of(self, value: YamlValue, values: Collection[str], names: Sequence[str]) -> str | None:
        """Return which of some keys is given, or note that it is none, or more than one."""
        given = [name for name in names if name in values]
        if len(given) > 1:
            value.problem(f"has both {given[0]} and {given[1]}; only one of them can stand here")
        elif not given and not value.misspells(self.keys):
            value.problem(f"needs one of the keys {', '.join(names)}")
        return given[0] if len(given) == 1 else None

    def read(self, values: dict[str, YamlValue]) -> dict[str, Any]:
        """Read what is given, by the names of the attributes; what has a problem is left out."""
        read = {
            field.name or field.key: field.read(values[field.key])
            for field in self._fields
            if field.key in values
        }
        return {name: value for name, value in read.items() if value is not None}

    def into(self, build: Callable[..., T]) -> Reader[T | None]:
        """Return a reader that builds an object of the attributes; None if a required one is lacking."""
        required = {field.name or field.key for field in self._fields if field.required}

        def reader(value: YamlValue) -> T | None:
            found = self.read(self.open(value) or {})
            return build(**found) if required <= found.keys() else None

        return Reader(reader, self.form())


def list_of(read: Callable[[YamlValue], T | None]) -> Reader[tuple[T, ...]]:
    """Return a reader of a list; entries that have a problem are left out."""

    def reader(value: YamlValue) -> tuple[T, ...]:
        found = (read(entry) for entry in value.sequence() or ())
        return tuple(entry for entry in found if entry is not None)

    return Reader(reader, listed(form_of(read)))


def listed(form: Form) -> Form:
    """Return the form of a list that is not empty."""
    return {"type": "array", "minItems": 1, "items": form}


def one_or_more(form: Form) -> Form:
    """Return the form of a value, or of a list of such values."""
    return {"anyOf": [form, listed(form)]}


def choice(*options: S) -> Reader[S | None]:
    def reader(value: YamlValue) -> S | None:
        word = value.string()
        if word is not None and word not in options:
            value.problem(f"must be one of: {', '.join(options)}")
        return next((option for option in options if option == word), None)

    return Reader(reader, {"enum": list(map(str, options))})


def count(least: int, most: int) -> Reader[int | None]:
    """Return a reader of a whole number within bounds."""

    def reader(value: YamlValue) -> int | None:
        number = value.integer()
        if number is None or least <= number <= most:
            return number
        value.problem(f"must be between {least} and {most}")
        return None

    return Reader(reader, {"type": "integer", "minimum": least, "maximum": most})


@takes({"type": ["integer", "string"], "minimum": 1, "pattern": f"^{_SIZE.pattern}$"})
def size(value: YamlValue) -> int | None:
    """Read bytes: `1048576`, or a string with a unit as `64MiB`; at least one."""
    match = _SIZE.fullmatch(_text(value))
    if not match:
        value.problem('must be bytes as a whole number, or a size like "64MiB" (B, KiB, MiB, GiB)')
        return None
    return int(match[1]) * _UNITS[match[2] or "B"]


def duration(most: float | None = None) -> Reader[float | None]:
    """Return a reader of seconds: `30`, `0.5`, or a string with a unit as `30s` (ms, s, m, h)."""

    def reader(value: YamlValue) -> float | None:
        match = _DURATION.fullmatch(_text(value))
        if not match:
            value.problem('must be seconds as a number, or a time like "30s" (ms, s, m, h)')
            return None
        seconds = float(match[1]) * _SECONDS[match[2] or "s"]
        if most is not None and seconds > most:
            value.problem(f"must be {most / _SECONDS['h']:g}h at most")
            return None
        return seconds

    pattern = f"^{_DURATION.pattern}$"
    return Reader(reader, {"type": ["number", "string"], "minimum": 0, "pattern": pattern})


def source(*, headers_only: bool = False) -> Reader[str | None]:
    """Return a reader of where a session id may stand: `path`, `header:NAME` or `body:dotted.path`."""

    def reader(value: YamlValue) -> str | None:
        text = value.string()
        if text is None:
            return None
        with suppress(ValueError):
            found = Source.parse(text)
            if found.kind == "header" or not headers_only:
                return found.text
        forms = "header:NAME" if headers_only else "path, header:NAME or body:dotted.path"
        value.problem(f"must be {forms}")
        return None

    kinds = "header:" if headers_only else "path$|header:|body:"
    return Reader(reader, {"type": "string", "pattern": f"^({kinds})"})


@takes({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"})
def variable(value: YamlValue) -> str | None:
    """Read the name of an environment variable; what else stands there may be the secret itself."""
    name = value.string()
    if name is None or _VARIABLE.fullmatch(name):
        return name
    value.hidden_problem("must be the name of an environment variable, never a secret")
    return None


@takes(NAMED)
def mode_reference(value: YamlValue) -> ModeId | None:
    """Read the name of a mode that the file defines, or `default`."""
    name = value.string()
    modes = value.document.names.get("modes", [DEFAULT_MODE])
    if name is None or name in modes:
        return None if name is None else ModeId(name)
    value.problem(f"no such mode; {suggestion(name, modes)}")
    return None


def _text(value: YamlValue) -> str:
    text = value.node.value
    return text if isinstance(text, str) else ""
