"""`shell` of a mode and of the file: programs that are added to the table of those that only read.

An entry has the form of the table's own (`core.argument.shell.entry`), so that an operator can say of a
program whatever the table says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from modegate.core.argument.shell.entry import ANY, Entry, ShellSection
from modegate.core.policy.file.document import YamlValue, suggestion
from modegate.core.policy.file.schema import (
    TEXT,
    Field,
    Form,
    Section,
    choice,
    list_of,
    mapping_of,
    takes,
)

MAX_DEPTH = 4
"""Subcommands within subcommands."""
_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}(?: [A-Za-z0-9][A-Za-z0-9_.+-]{0,63}){0,3}", re.ASCII
)
_OPTION = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_LISTS = ("options", "values", "optional")
_RUNNERS = frozenset(
    [
        *["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"],
        *["builtin", "command", "eval", "exec", "source"],
        *["chroot", "doas", "env", "flock", "ionice", "nice", "nohup", "parallel", "setsid", "ssh"],
        *["stdbuf", "strace", "su", "sudo", "time", "timeout", "unshare", "watch", "xargs"],
    ]
)
"""They run what stands behind them."""

_OPTION_FORM = {"type": "string", "pattern": f"^{_OPTION.pattern}$"}
_ENTRY_FORM = {"$ref": "#/definitions/command"}


@takes(_OPTION_FORM)
def _option(value: YamlValue) -> str | None:
    name = value.string()
    if name is not None and not _OPTION.fullmatch(name):
        value.problem("must be an option with its dashes, such as -n or --lines")
        return None
    return name


@takes({"enum": ["any", "none", *range(65)]})
def _operands(value: YamlValue) -> tuple[int | None] | None:
    text = value.plain()
    if text in ("any", "none"):
        return (None if text == "any" else 0,)
    if (
        text is not None
        and text.isdecimal()
        and text.isascii()
        and len(text) <= 2
        and int(text) <= 64
    ):
        return (int(text),)
    value.problem("must be any, none, or how many operands there may be, up to 64")
    return None


@takes(
    {"type": "array", "items": {"anyOf": [_OPTION_FORM, {"type": "array", "items": _OPTION_FORM}]}}
)
def _needs(value: YamlValue) -> tuple[tuple[str, ...], ...]:
    groups = (
        list_of(_option)(group) if group.is_sequence() else (_option(group),)
        for group in value.sequence() or ()
    )
    return tuple(group for group in groups if group and None not in group)  # type: ignore[misc]


@takes(mapping_of({"type": "array", "items": TEXT}, _OPTION_FORM))
def _choices(value: YamlValue) -> dict[str, tuple[str, ...]]:
    return {name: list_of(YamlValue.string)(entry) for name, entry in _by_option(value)}


@takes(mapping_of(TEXT, _OPTION_FORM))
def _refused(value: YamlValue) -> dict[str, str]:
    read = {name: entry.string() for name, entry in _by_option(value)}
    return {name: why for name, why in read.items() if why is not None}


def _by_option(value: YamlValue) -> Iterator[tuple[str, YamlValue]]:
    for name, entry in (value.mapping() or {}).items():
        if _OPTION.fullmatch(name):
            yield name, entry
        else:
            entry.key_problem("must be an option with its dashes, such as -n or --lines")


@takes(mapping_of(_ENTRY_FORM))
def _commands(value: YamlValue) -> dict[str, Entry] | None:
    if value.path.count("commands") > MAX_DEPTH:
        value.problem(f"has more than {MAX_DEPTH} levels of commands")
        return None
    read = {
        name: _entry(entry, name)
        for name, entry in (value.mapping() or {}).items()
        if _is_name(entry, name)
    }
    return {name: entry for name, entry in read.items() if entry is not None}


def _is_name(value: YamlValue, name: str) -> bool:
    if _NAME.fullmatch(name):
        return True
    value.key_problem("must be a program's plain name, or with its subcommand, such as git fetch")
    return False


def _entry(value: YamlValue, name: str) -> Entry | None:
    if value.plain() == "any":
        entry = ANY
    elif value.is_mapping():
        values = _ENTRY.open(value) or {}
        found = _ENTRY.read(values)
        (found["operands"],) = found.get("operands", (None,))
        entry = Entry(
            **{**found, **{key: frozenset(found.get(key, ())) for key in (*_LISTS, "listing")}}
        )
        _check(entry, values)
    else:
        value.problem("must be `any` (no option of it matters), or a mapping with its options")
        return None
    if name in _RUNNERS and entry.operands != 0:
        value.key_problem("runs what stands behind it; it can only be added with operands: none")
        return None
    return entry


def _check(entry: Entry, values: dict[str, YamlValue]) -> None:
    """Note what contradicts itself in an entry."""
    known = sorted(entry.options | entry.values | entry.optional)
    _check_lists(entry, values)
    used = {
        "choices": entry.choices,
        "listing": entry.listing,
        "needs": [name for group in entry.needs for name in group],
    }
    for key, names in used.items():
        for name in names:
            if name not in known:
                values[key].problem(
                    f"{name!r} is in none of {', '.join(_LISTS)}; {suggestion(name, known)}"
                )
    for name in entry.refused:
        if name in known:
            values["refused"].problem(f"{name!r} is refused here and allowed above")
    if entry.alone and entry.operands is None and not entry.operand:
        values["alone"].problem(
            "would let every unknown subcommand through as an operand; say operands: none as well"
        )


def _check_lists(entry: Entry, values: dict[str, YamlValue]) -> None:
    seen: set[str] = set()
    for key in _LISTS:
        for name in sorted(getattr(entry, key)):
            if entry.style == "gnu" and name[1] != "-" and len(name) > 2:
                values[key].problem(
                    f"{name!r} is several options, as they are written together; list each, "
                    "or say style: one-dash"
                )
            if name in seen:
                values[key].problem(f"{name!r} stands in two lists")
            seen.add(name)


_OPTIONS = list_of(_option)
_GLOBS = list_of(YamlValue.string)
_ENTRY = Section(
    "shell.commands.*",
    Field("options", _OPTIONS, about="Options that take no value."),
    Field("values", _OPTIONS, about="Options that take a value, joined or as the next word."),
    Field("optional", _OPTIONS, about="Options that may have a value, only joined or behind `=`."),
    Field("choices", _choices, about="The only values that an option may have."),
    Field("needs", _needs, about="One of these must be there; a list in the list: all of them."),
    Field(
        "refused", _refused, about="What a dangerous option does; people and the model are told."
    ),
    Field("numbers", YamlValue.boolean, about="A number is an option, as in `-20`."),
    Field("globs", YamlValue.boolean, about="A glob that could become an option passes."),
    Field(
        "style", choice("gnu", "one-dash"), about="one-dash: `-name` is one option and not several."
    ),
    Field("joined", YamlValue.boolean, about="Whether `-ovalue` is an option with its value."),
    Field("ends", YamlValue.boolean, about="Whether `--` ends the options."),
    Field("operands", _operands, about="How many operands there may be: any, none or a number."),
    Field("operand", _GLOBS, about="Each operand must match one of these globs."),
    Field("not_operand", _GLOBS, about="No operand may match one of these globs."),
    Field("listing", _OPTIONS, about="With one of these, the limits on operands do not hold."),
    Field("commands", _commands, about="Its subcommands, in the same form."),
    Field("alone", YamlValue.boolean, about="Whether it may be called without a subcommand."),
)

COMMAND_FORM: Form = {"anyOf": [{"const": "any"}, _ENTRY.form()]}
"""What a program may do, whose subcommands have the same form."""


def _without(value: YamlValue) -> tuple[str, ...]:
    from modegate.core.argument.shell.programs import STANDARD

    names = []
    for entry in value.sequence() or ():
        name = entry.string()
        if name is None:
            continue
        if STANDARD.find(name.split()) is None:
            entry.problem(f"is not in the table; {_nearest(name, sorted(STANDARD.entries))}")
        else:
            names.append(name)
    return tuple(names)


def _nearest(name: str, known: list[str]) -> str:
    near = suggestion(name, known)
    return near if near.startswith("did") else "docs/commands.md lists what is"


_SHELL = Section(
    "shell",
    Field(
        "commands",
        _commands,
        about="Programs that only read, and with which options.",
    ),
    Field("without", _without, about="Programs of the table that are not let through."),
)


@takes(_SHELL.form())
def read(value: YamlValue) -> ShellSection | None:
    """Read the section; None if it is none."""
    values = _SHELL.open(value)
    if values is None:
        return None
    found = ShellSection(**_SHELL.read(values))
    for name in found.without:
        if name in found.commands:
            values["without"].problem(f"{name!r} is added by commands")
    return found
