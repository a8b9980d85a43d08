"""The `modes` of a policy file: the rules of each, with conditions on arguments, and how it is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy.file import shell_section
from modegate.core.policy.file.conditions import WHEN_FORM, read_when
from modegate.core.policy.file.document import YamlValue
from modegate.core.policy.file.reuse import Written, extended, mode_to_extend, used
from modegate.core.policy.file.schema import (
    NAME,
    NAMED,
    TEXT,
    Field,
    Form,
    Reader,
    Section,
    choice,
    form_of,
    list_of,
    listed,
    mapping_of,
    mode_reference,
    one_or_more,
    takes,
)
from modegate.core.policy.mistakes.noted import note_mistakes
from modegate.core.policy.model import EXIT_TOOL, Effect, Exit, ExitOption, Mode, Rule
from modegate.core.policy.shell_table import ShellTable

MAX_ALIAS = 256
USE = "use"
_KINDS = (*map(str, Effect), USE)


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
    if (key := _RULE.one_of(entry, values, _KINDS)) is None:
        return ()
    effect = Effect(key)
    problems = entry.document.problems
    before = len(problems)
    found = _RULE.read(values)
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
    # A rule with a mistake says nothing of others: without its conditions it would seem to take all calls.
    return [Rule(effect, found[effect], when, index)] if len(problems) == before else ()


@takes(TEXT)
def _pattern(value: YamlValue) -> str | None:
    if value.is_sequence():
        value.problem("must be one name or glob; write an entry for each")
        return None
    return value.string()


_EFFECTS = {
    Effect.ALLOW: "A name or glob; such a call is allowed.",
    Effect.ASK: "A name or glob; such a call waits for a person, who decides call by call.",
    Effect.DENY: "A name or glob; such a call is refused. Stands in front of what it limits.",
}
_RULE = Section(
    "modes.*.tools[]",
    *(Field(effect.value, _pattern, about=_EFFECTS[effect]) for effect in Effect),
    Field("when", Reader(read_when, WHEN_FORM), about="Conditions on arguments, by their names."),
    Field(
        USE,
        Reader(YamlValue.string, one_or_more(TEXT)),
        about="A pack, or a list of packs; `modegate packs` lists them.",
    ),
)
_OPTION = Section(
    "modes.*.exit.options[]",
    Field("label", YamlValue.string, required=True, about="What the person is shown."),
    Field("to", mode_reference, required=True, about="The mode after that."),
)
_EXIT = Section(
    "modes.*.exit",
    Field("to", mode_reference, about="The mode after the plan is approved."),
    Field(
        "options",
        list_of(_OPTION.into(ExitOption)),
        about="What a person can choose besides rejecting; instead of `to`.",
    ),
    Field("native", YamlValue.boolean, about="Whether the agent's own exit tool stays."),
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
    Field("name", YamlValue.string, about="What people are shown."),
    Field("description", YamlValue.string, about="One sentence for people who choose a mode."),
    Field(
        "extends",
        Reader(mode_to_extend, NAMED),
        about="The mode whose rules and settings this one takes over.",
    ),
    Field(
        "section",
        YamlValue.string,
        about="What the model is told, put behind the agent's own instructions.",
    ),
    Field(
        "section_in",
        choice("instructions", "input"),
        about="Where the section goes in the Responses API.",
    ),
    Field(
        "tools",
        Reader(read_tools, listed({"anyOf": [TEXT, {**_RULE.form(), "minProperties": 1}]})),
        about="What is allowed: the first rule that matches wins, and no match refuses.",
    ),
    Field(
        "shell",
        Reader(_shell, form_of(shell_section.read)),
        about="Programs that `shell: read-only` knows in this mode, beside or without the table's.",
    ),
    Field("exit", Reader(_exit, _EXIT.form()), about="How the model asks to leave the mode."),
    Field(
        "without_tools",
        choice("pass", "guide", "refuse"),
        about="What becomes of a request that declares no tools.",
    ),
    Field(
        "text_calls",
        choice("pass", "refuse"),
        about="What becomes of calls that stand in an answer's text.",
    ),
    Field(
        "aliases",
        list_of(Reader(alias, {**TEXT, "maxLength": MAX_ALIAS})),
        about="Other ids that ACP clients send for this mode.",
    ),
)
_MODE_FORM: Form = {
    **_MODE.form(),
    "anyOf": [{"required": ["section", "tools"]}, {"required": ["extends"]}],
}


def _written(value: YamlValue) -> Written:
    """Read what a mode says itself."""
    values = _MODE.open(value) or {}
    says = _MODE.read(values)
    whole = "extends" in values or not value.is_mapping() or value.misspells(_MODE.keys)
    for key in ("section", "tools"):
        if key not in values and not whole:
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
        values["section"].problem(f"names {EXIT_TOOL}, but the mode has no exit: write exit")
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


@takes(mapping_of(_MODE_FORM, {**NAMED, "not": {"const": DEFAULT_MODE}}))
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
