"""Mistakes in a mode's rules, noted with the lines in which they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modegate.core.policy.document import YamlValue
from modegate.core.policy.mistakes.dead_rules import Finding, dead_rules
from modegate.core.policy.model import Effect, Rule


def note_mistakes(values: Mapping[str, YamlValue], rules: Sequence[Rule]) -> None:
    """Note what cannot be meant in the rules of a mode, which its `tools` spell out or take over.

    Args:
        values: of the mode's keys.
        rules: all of its rules.
    """
    for finding in dead_rules(rules):
        at = rules[finding.at].at
        if isinstance(at, str):
            _of_another(values, rules[finding.at], finding)
        elif (tools := values.get("tools")) is not None:
            entry = tools if at is None else tools.item(at)
            if finding.grave:
                entry.hidden_problem(finding.message)
            else:
                entry.warning(finding.message)


def _of_another(values: Mapping[str, YamlValue], rule: Rule, finding: Finding) -> None:
    """Note a rule taken over that would refuse and does not; of others not all need to be reached."""
    extends = values.get("extends")
    if finding.grave and rule.effect is not Effect.ALLOW and extends is not None:
        extends.warning(f"of what it takes over, {finding.message}")
