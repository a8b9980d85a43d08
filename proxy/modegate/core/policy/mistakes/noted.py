"""Mistakes in a mode's rules, noted with the lines in which they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from modegate.core.policy.file.document import YamlValue
from modegate.core.policy.mistakes.dead_rules import Finding, dead_rules
from modegate.core.policy.mistakes.doubtful_conditions import doubtful_conditions
from modegate.core.policy.mistakes.doubtful_names import doubtful_name
from modegate.core.policy.model import Effect, Rule


def note_mistakes(values: Mapping[str, YamlValue], rules: Sequence[Rule]) -> None:
    """Note what cannot be meant in the rules of a mode, which its `tools` spell out or take over.

    Args:
        values: of the mode's keys.
        rules: all of its rules.
    """
    for finding in _findings(rules):
        at = rules[finding.at].at
        if isinstance(at, str):
            _of_another(values, rules[finding.at], finding)
        elif (tools := values.get("tools")) is not None:
            with tools.document.again():
                entry = tools if at is None else _place(tools.item(at), finding.under)
            if finding.grave:
                entry.hidden_problem(finding.message)
            else:
                entry.warning(finding.message)


def _findings(rules: Sequence[Rule]) -> Iterator[Finding]:
    yield from dead_rules(rules)
    for index, rule in enumerate(rules):
        # Others were looked at where they stand; packs come with modegate.
        if not isinstance(rule.at, str):
            if (doubt := doubtful_name(index, rule)) is not None:
                yield doubt
            yield from doubtful_conditions(index, rule)


def _place(entry: YamlValue, under: str) -> YamlValue:
    """Return the line of a rule that is to blame."""
    when = (entry.mapping() or {}).get("when") if under else None
    return ((when.mapping() or {}) if when is not None else {}).get(under, entry)


def _of_another(values: Mapping[str, YamlValue], rule: Rule, finding: Finding) -> None:
    """Note a rule taken over that would refuse and does not; of others not all need to be reached."""
    extends = values.get("extends")
    if finding.grave and rule.effect is not Effect.ALLOW and extends is not None:
        extends.warning(f"of what it takes over, {finding.message}, in this mode's own tools")
