"""policies.yaml as JSON Schema, for editors: made of the same tables that read the file.

It takes all that is read, and more: what a schema cannot say, such as that a mode exists, is left to
`modegate check`.
"""

from __future__ import annotations

from typing import Any

from modegate.core.policy.file.conditions import CONDITION_FORM
from modegate.core.policy.file.policy import POLICY
from modegate.core.policy.file.shell_section import COMMAND_FORM

DRAFT = "http://json-schema.org/draft-07/schema#"
"""What editors know best."""


def json_schema() -> dict[str, Any]:
    """Return the schema of the whole file."""
    return {
        "$schema": DRAFT,
        "title": "modegate policies",
        "description": "What a coding agent may do in each mode; see docs/policies.md of modegate.",
        **POLICY.form(),
        "definitions": {"condition": CONDITION_FORM, "command": COMMAND_FORM},
    }
