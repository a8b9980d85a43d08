"""The `modes` of a policy file, and how each is left."""

from __future__ import annotations

from dataclasses import replace

from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy.document import YamlValue
from modegate.core.policy.model import EXIT_TOOL, Exit, ExitOption, Mode
from modegate.core.policy.rules import NO_TOOLS, read_tools
from modegate.core.policy.schema import (
    Field,
    Section,
    alias,
    choice,
    list_of,
    mode_name,
    mode_reference,
)

_APPROVE = "Approve"

_OPTION = Section(
    "modes.*.exit.options[]",
    Field("label", YamlValue.string),
    Field("to", mode_reference),
)


def _option(value: YamlValue) -> ExitOption | None:
    values = _OPTION.open(value)
    if values is None:
        return None
    if len(values) < 2:
        value.problem("needs both label and to")
    found = _OPTION.read(values)
    return ExitOption(**found) if len(found) == 2 else None


_EXIT = Section(
    "modes.*.exit",
    Field("to", mode_reference),
    Field("options", list_of(_option)),
    Field("native", YamlValue.boolean),
)


def _exit_to(mode: ModeId) -> Exit:
    return Exit((ExitOption(_APPROVE, mode),))


def _exit(value: YamlValue) -> Exit | None:
    values = _EXIT.open(value)
    if values is None:
        return None
    if "to" in values and "options" in values:
        value.problem("takes either to or options, not both")
    found = _EXIT.read(values)
    return replace(_exit_to(found.pop("to", DEFAULT_MODE)), **found)


_MODE = Section(
    "modes.*",
    Field("name", YamlValue.string),
    Field("description", YamlValue.string),
    Field("section", YamlValue.string, required=True),
    Field("section_in", choice("instructions", "input")),
    Field("tools", read_tools, required=True),
    Field("exit", _exit),
    Field("without_tools", choice("pass", "guide", "refuse")),
    Field("text_calls", choice("pass", "refuse")),
    Field("aliases", list_of(alias)),
)


def _mode(value: YamlValue, mode_id: ModeId) -> Mode | None:
    values = _MODE.open(value)
    if values is None:
        return None
    found = {"name": mode_id, "description": "", "section": "", "exit": None} | _MODE.read(values)
    tools = found.pop("tools", NO_TOOLS)
    if found["exit"] is None and tools.names_exit:
        found["exit"] = _exit_to(DEFAULT_MODE)
    if EXIT_TOOL in found["section"] and found["exit"] is None and "exit" not in values:
        values["section"].problem(f"names {EXIT_TOOL}, but the mode has no exit")
    return Mode(id=mode_id, rules=tools.rules, **found)


def read_modes(value: YamlValue) -> dict[ModeId, Mode]:
    """Read `modes`; what is wrong is noted, and left out."""
    entries = value.mapping()
    if entries == {}:
        value.problem("needs at least one mode")
    others = (name for name in entries or () if name != DEFAULT_MODE)
    value.document.names["modes"] = [DEFAULT_MODE, *others]
    modes: dict[ModeId, Mode] = {}
    for name, entry in (entries or {}).items():
        mode_id = mode_name(entry, name)
        mode = _mode(entry, mode_id or ModeId(name))
        if mode_id is not None and mode is not None:
            modes[mode_id] = mode
    return modes


SECTIONS = (_MODE, _EXIT, _OPTION)
