"""The `modes` of a policy file: the rules of each, with conditions on arguments, and how it is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy import shell_section
from modegate.core.policy.conditions_file import read_when
from modegate.core.policy.document import YamlValue
from modegate.core.policy.mistakes.noted import note_mistakes
from modegate.core.policy.model import EXIT_TOOL, Effect, Exit, ExitOption, Mode, Rule
from modegate.core.policy.reuse import Written, extended, mode_to_extend, used
from modegate.core.policy.schema import (
    NAME,
    NAMED,
    Field,
    Section,
    choice,
    list_of,
    mapping_of,
    mode_reference,
    takes,
)
from modegate.core.policy.shell_table import ShellTable

MAX_ALIAS = 256
USE = "use"


def read_tools(value: YamlValue) -> tuple[tuple[Rule, ...], bool]:
    """Read a mode's `tools`: its rules, and whether it names the exit tool."""
    rules: list[Rule] = []
    names_exit = False
    for index, entry in enumerate(value.sequence() or ()):
        for rule in _rules(entry, index):
            if rule.pattern != EXIT_TOOL:
                rules.append(rule)
            elif rule.effect is Effect.ALLOW and rule.when is None:
                names_exit = True
            else:
                entry.problem(
                    f"{EXIT_TOOL} can only be named alone, which switches the exit on: "
                    "each call of it asks a person"
                )
    return tuple(rules), names_exit


def _rules(entry: YamlValue, index: int) -> Sequence[Rule]:
    """Read one entry: a rule, or those of the packs that it names."""
    if not entry.is_mapping():
        pattern = entry.string()
        return () if pattern is None else [Rule(Effect.ALLOW, pattern, at=index)]
    values = _RULE.open(entry) or {}
    if USE in values:
        if len(values) > 1:
            entry.problem(f"{USE} stands alone: write other rules as entries of their own")
        return used(values[USE], index)
    effects = [effect for effect in Effect if effect in values]
    if len(effects) != 1:
        entry.problem(f"needs exactly one of {', '.join(Effect)} and {USE}")
        return ()
    found = _RULE.read(values)
    (effect,) = effects
    when = found.get("when")
    if (
        effect is not Effect.ALLOW
        and when is not None
        and when.others is None
        and not when.others_any
    ):
        values["when"].problem(
            f"needs the key 'others' under {effect}: write `others: any`, so that no other argument gets "
            "around the rule"
        )
    return [Rule(effect, found[effect], when, index)] if effect in found else ()


_RULE = Section(
    "modes.*.tools[]",
    *(Field(effect.value, YamlValue.string) for effect in Effect),
    Field("when", read_when),
    Field(USE, YamlValue.string),
)
_OPTION = Section(
    "modes.*.exit.options[]", Field("label", YamlValue.string), Field("to", mode_reference)
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
    return Exit((ExitOption("Approve", mode),))


def _exit(value: YamlValue) -> Exit | None:
    values = _EXIT.open(value)
    if values is None:
        return None
    if "to" in values and "options" in values:
        value.problem("takes either to or options, not both")
    found = _EXIT.read(values)
    return replace(_exit_to(found.pop("to", DEFAULT_MODE)), **found)


def alias(value: YamlValue) -> str | None:
    """Read another id of a mode, which no mode of the file has by now.

    Any text will do, since some clients send the address of a page as the id of a mode.
    """
    name = value.string()
    taken = value.document.names.setdefault("aliases", [])
    if name is None:
        return None
    if len(name) > MAX_ALIAS:
        value.problem(f"must have {MAX_ALIAS} characters at most")
    elif name in taken or name in value.document.names.get("modes", ()):
        value.problem("names a mode already; an alias must lead to one mode only")
    else:
        taken.append(name)
        return name
    return None


def _shell(value: YamlValue) -> ShellTable | None:
    section = shell_section.read(value)
    return None if section is None else ShellTable((section,))


_MODE = Section(
    "modes.*",
    Field("name", YamlValue.string),
    Field("description", YamlValue.string),
    Field("extends", mode_to_extend),
    Field("section", YamlValue.string),
    Field("section_in", choice("instructions", "input")),
    Field("tools", read_tools),
    Field("shell", _shell),
    Field("exit", _exit),
    Field("without_tools", choice("pass", "guide", "refuse")),
    Field("text_calls", choice("pass", "refuse")),
    Field("aliases", list_of(alias)),
)


def _written(value: YamlValue) -> Written:
    """Read what a mode says itself."""
    values = _MODE.open(value) or {}
    says = _MODE.read(values)
    for key in ("section", "tools"):
        if value.is_mapping() and key not in values and "extends" not in values:
            value.key_problem(f"needs the key {key!r}")
    says["rules"], names_exit = says.pop("tools", ((), False))
    return Written(value, values, says | ({"names_exit": True} if names_exit else {}))


def _mode(name: str, written: Mapping[str, Written]) -> Mode:
    """Return a mode with what it takes over."""
    found = {"name": name, "description": "", "section": ""} | extended(name, written)
    found.pop("extends", None)
    if found.pop("names_exit", False):
        found.setdefault("exit", _exit_to(DEFAULT_MODE))
    values = written[name].values
    note_mistakes(values, found["rules"])
    if EXIT_TOOL in found["section"] and "exit" not in {*found, *values} and "section" in values:
        values["section"].problem(f"names {EXIT_TOOL}, but the mode has no exit")
    return Mode(id=ModeId(name), **found)


def mode_name(value: YamlValue, name: str) -> ModeId | None:
    """Check the key under which a mode is defined."""
    if name == DEFAULT_MODE:
        value.key_problem("'default' is reserved: it means no policy and cannot be defined")
    elif not NAME.fullmatch(name):
        value.key_problem(
            "not a mode id: 1 to 64 letters, digits and ._-, beginning with a letter or a digit"
        )
    else:
        return ModeId(name)
    return None


@takes(mapping_of(_MODE.form(), {**NAMED, "not": {"const": DEFAULT_MODE}}))
def read_modes(value: YamlValue) -> dict[ModeId, Mode]:
    """Read `modes`; what is wrong is noted, and left out."""
    entries = value.mapping()
    if entries == {}:
        value.problem("needs at least one mode")
    others = (name for name in entries or () if name != DEFAULT_MODE)
    value.document.names["modes"] = [DEFAULT_MODE, *others]
    written = {name: _written(entry) for name, entry in (entries or {}).items()}
    modes = {name: _mode(name, written) for name in written}
    return {
        mode_id: modes[name]
        for name, one in written.items()
        if (mode_id := mode_name(one.value, name)) is not None
    }
