"""Mistakes in a mode's rules, noted with the lines in which they stand."""

from __future__ import annotations

from collections.abc import Sequence

from modegate.core.policy.document import YamlValue
from modegate.core.policy.mistakes.dead_rules import dead_rules
from modegate.core.policy.model import Rule


def note_mistakes(tools: YamlValue, rules: Sequence[Rule]) -> None:
    """Note what cannot be meant in the rules that a mode's `tools` spells out itself."""
    for finding in dead_rules(rules):
        at = rules[finding.at].at
        entry = tools if at is None else tools.item(at)
        if finding.grave:
            entry.hidden_problem(finding.message)
        else:
            entry.warning(finding.message)
