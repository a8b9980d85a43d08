"""The table of programs as docs/commands.md shows it; `python -m support.command_table` writes it there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from modegate.core.argument.shell.entry import Entry
from modegate.core.argument.shell.programs import STANDARD

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
BEGIN, END = "<!-- the table: begin -->\n", "<!-- the table: end -->\n"


def walk(
    known: Mapping[str, Entry] = STANDARD.entries, parent: str = ""
) -> Iterator[tuple[str, Entry]]:
    """Yield every program and subcommand with its entry."""
    for name, entry in sorted(known.items()):  # names come from sets, and test workers must agree
        yield f"{parent}{name}", entry
        yield from walk(entry.commands, f"{parent}{name} ")


def shown() -> str:
    """Return the table as markdown."""
    plain = [name for name, entry in STANDARD.entries.items() if _is_any(entry)]
    lines = [
        "Any option and any operand: " + ", ".join(f"`{name}`" for name in sorted(plain)) + ".",
        "",
        "| program | passes with | refused |",
        "|---|---|---|",
        *_rows(STANDARD.entries, ""),
    ]
    return "\n".join(lines) + "\n"


def page_with_table() -> str:
    """Return the page with the table as it is now."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + shown() + "\n" + END + rest.partition(END)[2]


def _is_any(entry: Entry) -> bool:
    return entry.any_options and entry.check is None


def _rows(entries: Mapping[str, Entry], parent: str) -> Iterator[str]:
    groups: list[tuple[Entry, list[str]]] = []
    for name, entry in entries.items():
        if _is_any(entry) and not parent:
            continue
        for known, names in groups:
            if known == entry:
                names.append(name)
                break
        else:
            groups.append((entry, [name]))
    for entry, names in sorted(groups, key=lambda group: min(group[1])):
        names.sort()
        called = ", ".join(f"`{parent}{name}`" for name in names)
        yield f"| {called} | {_passes(entry)} | {_refused(entry)} |"
        yield from _rows(entry.commands, f"{parent}{names[0]} ")


def _passes(entry: Entry) -> str:
    if entry.any_options:
        return "what is read by itself, see above" if entry.check else "anything"
    parts = [" ".join(f"`{name}`" for name in sorted(entry.options))]
    if entry.numbers:
        parts.append("a number: `-20`")
    if entry.values:
        parts.append("with a value: " + " ".join(f"`{name}`" for name in sorted(entry.values)))
    if entry.optional:
        parts.append("with or without: " + " ".join(f"`{name}`" for name in sorted(entry.optional)))
    parts += [
        f"`{name}` only {' or '.join(f'`{value}`' for value in values)}"
        for name, values in entry.choices.items()
    ]
    parts.append(_operands(entry))
    if entry.needs:
        groups = (" ".join(f"`{name}`" for name in group) for group in entry.needs)
        parts.append("**needs** " + " or ".join(groups))
    return "; ".join(part for part in parts if part) or "operands"


def _operands(entry: Entry) -> str:
    most = entry.operands
    if entry.commands and not entry.alone:
        return "a subcommand"
    text = "" if most is None else "no operands" if most == 0 else f"at most {most} operand"
    if entry.operand:
        text += f" like {', '.join(f'`{glob}`' for glob in entry.operand)}"
    if entry.listing:
        text += f", any with {' '.join(f'`{name}`' for name in sorted(entry.listing))}"
    return text


def _refused(entry: Entry) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in entry.refused.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    parts = [f"{' '.join(names)} {why}" for why, names in reasons.items()]
    return "; ".join([*parts, *(f"operand `{glob}`" for glob in entry.not_operand)])


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), "utf-8")
    sys.stdout.write(f"{PAGE}\n")
