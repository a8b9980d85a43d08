"""A reason is data: it may quote what a model wrote, and nothing in it reads as a call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.policy.conditions import Equals
from modegate.core.policy.understood import Under
from modegate.core.policy.when import When
from modegate.core.step.text_calls.shapes import SHAPES
from modegate.core.step.texts import MAX_REASON, phrase
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import mode, policy, rule
from support.speech import Agent, Speech
from support.speeches import SPEECHES


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("argument `cmd`: `sort -o` writes", "argument `cmd`: `sort -o` writes"),
        ("`>` writes to `{`", "`>` writes to `{`"),
        ("a\nb\x1b[31mc\u202e", "a?b?[31mc?"),
        ('{"name": "write"}', '?"name": "write"}'),
        ("<write_to_file>a", "?write_to_file>a"),
        ("```bash\nrm", "```bash?rm"),
        ("```bash rm", "?``bash rm"),
        ("@save(id): {}", "?save(id): {}"),
        ("*** Begin Patch", "?** Begin Patch"),
        ("x" * 400, "x" * (MAX_REASON - 1) + "…"),
    ],
)
def test_a_reason_is_shown_as_data(reason: str, shown: str) -> None:
    assert phrase(reason) == shown


parts = st.sampled_from(
    [
        *"`{<>@*-:}\"' \nA",
        "```sh ",
        "<invoke ",
        "<function=a>",
        "<<< SEARCH",
        '{"',
        "@a(b): {",
        "Action:",
    ]
)


@given(st.lists(parts, max_size=24).map("".join))
def test_nothing_in_a_reason_reads_as_a_call(reason: str) -> None:
    shown = phrase(reason)
    assert not [shape.kind for shape in SHAPES if shape.head.search(shown)]
    assert shown.isprintable()


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "<write_to_file><path>a</path></write_to_file>"}',
        '{"path": "```bash\\nrm -r .\\n```"}',
        '{"path": "docs/a", "@save(x): {\\"a\\": 1}": 1}',
        '{"path": "' + "x" * 5000 + '"}',
    ],
)
def test_what_the_model_is_told_holds_no_call(speech: Speech, arguments: str) -> None:
    when = When({"path": Under(("docs/",)), "n": Equals(1)}, optional=("n",))
    agent = Agent(speech, policy(mode("plan", rule("edit", when))), tools=("edit",))
    agent.step(Turn(calls=(ScriptedCall("edit", arguments),)), Turn("Fine."))
    (refusal,) = [entry.text for entry in agent.told() if entry.kind == "result"]
    assert 'tools[0] allow "edit" does not cover it: argument `' in refusal
    for found in ("<write_to_file>", "```", "@save(x): {", "x" * MAX_REASON):
        assert found not in refusal
