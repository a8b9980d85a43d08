"""A list of tools in a mode: the same for every API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tool_filter import exit_edit, keep_edits, may_stay, names_of
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect, Rule
from modegate.core.policy.when import When
from modegate.core.wire.json_spans import apply
from modegate.core.wire.request_body import RequestBody
from support.playbook import Session, mode, policy


class Tools(Body):
    """An object with tools."""

    TOOLS = GATED = frozenset({"tools"})

    def read(self) -> None:
        self.tools = self.declarations(self.objects("tools"))


def of(*tools: Any) -> Tools:
    return Tools(RequestBody(json.dumps({"tools": tools}).encode()))


SOME = Rule(Effect.ALLOW, "*", When({"q": Equals("x")}, others_any=True))


@pytest.mark.parametrize(
    ("tool", "rule", "stays"),
    [
        ({"name": "read"}, Rule(Effect.ALLOW, "read"), True),
        ({"name": "read"}, Rule(Effect.ASK, "read"), True),
        ({"name": "read"}, SOME, True),
        ({"name": "read"}, Rule(Effect.DENY, "read"), False),
        ({"name": "read"}, Rule(Effect.ALLOW, "other"), False),
        ({"type": "web_search"}, Rule(Effect.ALLOW, "web_search"), True),
        ({"type": "web_search"}, Rule(Effect.ASK, "web_search"), False),
        ({"type": "web_search"}, SOME, False),
        ({"name": "read", "function": {"name": "write"}}, Rule(Effect.ALLOW, "read"), False),
        ({}, Rule(Effect.ALLOW, "*"), False),
        ({"name": "exit_plan_mode"}, Rule(Effect.ALLOW, "*"), False),
        ({"name": "ExitPlanMode"}, Rule(Effect.ALLOW, "*"), False),
    ],
)
def test_what_may_stay(tool: dict[str, Any], rule: Rule, stays: bool) -> None:
    in_force = Session(rules=policy(mode("plan", rule))).in_force()
    assert may_stay(of(tool).tools[0], in_force) is stays


def test_a_native_exit_tool_is_hidden_only_in_a_mode() -> None:
    assert may_stay(of({"name": "ExitPlanMode"}).tools[0], Session("default").in_force())


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("tools", "keep", "left"),
    [
        ([{"name": "a"}, {"name": "b"}], "ab", [{"name": "a"}, {"name": "b"}]),
        ([{"name": "a"}, {"name": "b"}], "b", [{"name": "b"}]),
        ([{"name": "a"}, {"name": "b"}], "", []),
        ([{"name": "a"}, {"name": "b", **MARK}], "a", [{"name": "a", **MARK}]),
        (
            [{"name": "a", **MARK}, {"name": "b"}, {"name": "c"}],
            "bc",
            [{"name": "b"}, {"name": "c", **MARK}],
        ),
        ([{"name": "a", **MARK}, {"name": "b", **MARK}], "a", [{"name": "a", **MARK}]),
    ],
)
def test_what_is_not_kept_goes_and_its_marker_moves(
    tools: list[Any], keep: str, left: list[Any]
) -> None:
    body = of(*tools)
    kept = [tool for tool in body.tools if tool.names[0] in keep]
    assert json.loads(apply(body.body, keep_edits(body, body.tools, kept))) == {"tools": left}
    assert names_of(kept) == tuple(keep)


def test_the_exit_tool_stands_behind_what_is_kept_or_in_its_place() -> None:
    body = of({"name": "a"}, {"name": "b"})
    edits = [
        *keep_edits(body, body.tools, body.tools[:1]),
        exit_edit(body.tools, b"0", any_kept=True),
    ]
    assert json.loads(apply(body.body, edits)) == {"tools": [{"name": "a"}, 0]}
    alone = apply(body.body, [exit_edit(body.tools, b"0", any_kept=False)])
    assert json.loads(alone) == {"tools": [0]}
