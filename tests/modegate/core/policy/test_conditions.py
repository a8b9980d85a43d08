"""Each form of condition: what is met, what is not, and what is not clear and so opens nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.argument.javascript import InnerCall
from modegate.core.argument.shell.programs import STANDARD
from modegate.core.policy.conditions import Absent, Equals, Glob, Matches, Not, OneOf, Range
from modegate.core.policy.file.document import read_document
from modegate.core.policy.file.modes import read_tools
from modegate.core.policy.findings import Answer, Commands, Condition
from modegate.core.policy.understood import Calls, PatchUnder, ReadOnly, Under

MET, UNMET, UNCLEAR = Answer

DOCS = Under(("docs/", "plans/"))
HOME = Under(("/home/me/docs/",))
PATCH = PatchUnder(("docs/",))


class Reading:
    """A mode in which a program may make calls of `read` alone."""

    programs = STANDARD

    @property
    def commands(self) -> Commands:
        return Commands()

    def why_not_released(self, call: InnerCall) -> str:
        return "" if call.name == "read" else f"{call.name} is not released"


def patch(*files: str) -> str:
    sections = "".join(f"*** Add File: {one}\n+x\n" for one in files)
    return f"*** Begin Patch\n{sections}*** End Patch\n"


CASES: list[tuple[Condition, Any, Answer]] = [
    (Equals("a"), "a", MET),
    (Equals("a"), "b", UNMET),
    (Equals("a"), ["a"], UNCLEAR),
    (Equals("a"), None, UNMET),
    (Equals("1"), 1, UNCLEAR),
    (Equals(1), 1.0, MET),
    (Equals(1), 2.5, UNMET),
    (Equals(1), True, UNCLEAR),
    (Equals(1), "1", UNCLEAR),
    (Equals(True), False, UNMET),
    (Equals(True), "true", UNCLEAR),
    (Equals(True), 1, UNCLEAR),
    (Equals(None), None, MET),
    (Equals(None), "a", UNMET),
    (OneOf((None, False)), None, MET),
    (OneOf((None, False)), True, UNMET),
    (OneOf((None, False)), 0, UNCLEAR),
    (OneOf(("a", 1)), "b", UNMET),
    (OneOf(("a", 1)), True, UNCLEAR),
    (Glob(("a*", "b")), "b", MET),
    (Glob(("a*", "b")), "bc", UNMET),
    (Glob(("a*",)), "a\nb", MET),
    (Glob(("a*",)), None, UNMET),
    (Glob(("*",)), ["a"], UNCLEAR),
    (Glob(("*",)), 1, UNCLEAR),
    (Glob(("*",)), True, UNCLEAR),
    (Glob(("*",) * 17), "a" * 2**20, UNCLEAR),
    (Matches("a+"), "aa", MET),
    (Matches("a+"), "baa", UNMET),
    (Matches("a+"), "aa\n", UNMET),
    (Matches("a.+"), "a\nb", UNMET),
    (Matches("a+"), None, UNMET),
    (Matches(".*"), ["a"], UNCLEAR),
    (Matches(".*"), "\ud83d", UNCLEAR),
    (Matches("(a|b|ab){0,100}c"), "ab" * 2**20, UNCLEAR),
    (Range(1, 2), 1, MET),
    (Range(1, 2), 2.0, MET),
    (Range(1, 2), 2.5, UNMET),
    (Range(1, 2), 0, UNMET),
    (Range(0), 10**400, MET),
    (Range(most=0.5), 10**400, UNMET),
    (Range(0, 1), True, UNCLEAR),
    (Range(0, 1), "1", UNCLEAR),
    (Range(0, 1), None, UNMET),
    (Absent(), None, UNMET),
    (Not(Equals("a")), "b", MET),
    (Not(Equals("a")), "a", UNMET),
    (Not(Equals(True)), "true", UNCLEAR),
    (Not(Glob(("*.env",))), ["x.env"], UNCLEAR),
    (Not(Range(0, 1)), "0", UNCLEAR),
    (Not(Under(("secret/",))), "docs/a", MET),
    (Not(Under(("secret/",))), "secret/a", UNMET),
    (Not(Under(("secret/",))), "docs/../../secret/a", UNCLEAR),
    (Not(Under(("secret/",))), "/home/me/secret/a", UNCLEAR),
    (Not(Under(("secret/",))), "Secret/a", UNCLEAR),
    (Not(Under(("secret/",))), "\uff53ecret/a", UNCLEAR),
    (Not(Under(("secret/",))), "secret", UNCLEAR),
    (Not(Under(("secret/",))), ".", UNCLEAR),
    (Not(Under(("a/secret/",))), "a", UNCLEAR),
    (Not(Under(("a/secret/",))), "a/b", MET),
    (Not(Under(("secret/",))), "Secret/" + ("\ufdfa" * 20 + "/") * 15, UNCLEAR),
    (DOCS, "docs/a", MET),
    (DOCS, "docs", UNCLEAR),
    (DOCS, "./plans/../docs/a", MET),
    (DOCS, "src/a", UNMET),
    (DOCS, "docsx/a", UNMET),
    (DOCS, "docs/../src/a", UNMET),
    (DOCS, "../docs/a", UNCLEAR),
    (DOCS, "~/docs/a", UNCLEAR),
    (DOCS, "/docs/a", UNCLEAR),
    (DOCS, "docs\\..\\a", UNCLEAR),
    (DOCS, "C:docs/a", UNCLEAR),
    (DOCS, "docs/a\0", UNCLEAR),
    (DOCS, ["docs/a"], UNCLEAR),
    (DOCS, None, UNMET),
    (HOME, "/home/me/docs/a", MET),
    (HOME, "/home/me/a", UNMET),
    (HOME, "docs/a", UNCLEAR),
    (HOME, "/home/me", UNCLEAR),
    (HOME, ".", UNCLEAR),
    (PATCH, patch("docs/a", "docs/b"), MET),
    (PATCH, patch("src/a"), UNMET),
    (PATCH, patch("docs/a", "src/a"), UNCLEAR),
    (PATCH, "docs/a", UNCLEAR),
    (PATCH, "", UNCLEAR),
    (PATCH, ["apply_patch", patch("docs/a")], UNCLEAR),
    (PATCH, None, UNMET),
    (ReadOnly(), "ls -l | wc -l", MET),
    (ReadOnly(), ["bash", "-lc", "git log -3"], MET),
    (ReadOnly(), ["grep", "-r", "a b"], MET),
    (ReadOnly(), ["grep", "-r", "a;b"], UNCLEAR),
    (ReadOnly(), "sort -o a b", UNCLEAR),
    (ReadOnly(), ["bash", "-lc", "rm a"], UNCLEAR),
    (ReadOnly(), "", UNCLEAR),
    (ReadOnly(), [], UNCLEAR),
    (ReadOnly(), None, UNCLEAR),
    (ReadOnly(), {"cmd": "ls"}, UNCLEAR),
    (Calls(), "await tools.read({path: 'a'});", MET),
    (Calls(), "text('no call')", MET),
    (Calls(), "await tools.read({}); await tools.write({});", UNCLEAR),
    (Calls(), "for (;;) {}", UNCLEAR),
    (Calls(), None, UNCLEAR),
    (Calls(), ["await tools.read({})"], UNCLEAR),
    (Not(PATCH), patch("src/a"), MET),
    (Not(PATCH), patch("docs/a", "src/a"), UNCLEAR),
]


@pytest.mark.parametrize(
    ("condition", "value", "answer"),
    CASES,
    ids=[f"{at}-{c.written()}" for at, (c, _, _) in enumerate(CASES)],
)
def test_a_value_meets_a_condition_or_not(condition: Condition, value: Any, answer: Answer) -> None:
    found = condition.judge(value, Reading())
    assert found.answer is answer
    assert bool(found.why) is (answer is not MET or isinstance(condition, Not))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("{equals: null}", Equals(None)),
        ("{one_of: [a, 1]}", OneOf(("a", 1))),
        ("{glob: a}", Glob(("a",))),
        ('{glob: [a, "*b"]}', Glob(("a", "*b"))),
        ('{matches: "[a-z]+"}', Matches("[a-z]+")),
        ("{range: {min: 1}}", Range(1, None)),
        ("{range: {min: -0.5, max: 2}}", Range(-0.5, 2)),
        ("{absent: true}", Absent()),
        ("{not: {one_of: [a]}}", Not(OneOf(("a",)))),
        ("{not: {path: {under: a/}}}", Not(Under(("a/",)))),
        ("{path: {under: [docs/, plans/]}}", DOCS),
        ("{patch: {under: docs/}}", PATCH),
        ("{shell: read-only}", ReadOnly()),
        ("{calls: javascript}", Calls()),
    ],
)
def test_each_form_is_read_and_written(text: str, condition: Condition) -> None:
    place = read_document(f"[{{allow: a, when: {{x: {text}}}}}]")
    ((rule,), _) = read_tools(place)
    assert place.document.problems == []
    assert rule.when is not None
    assert rule.when.conditions == {"x": condition}
    again = read_document(f"[{{allow: a, when: {{x: {json.dumps(condition.written())}}}}}]")
    assert read_tools(again) == read_tools(place)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ('{matches: "("}', ".matches", "cannot read the pattern"),
        ('{matches: "(?=a)"}', ".matches", "no lookaround"),
        ("{shell: any}", ".shell", "must be one of: read-only"),
        ("{calls: python}", ".calls", "must be one of: javascript"),
        ("{not: {shell: read-only}}", ".not.shell", "cannot stand under not"),
        ("{not: {calls: javascript}}", ".not.calls", "cannot stand under not"),
        ("{path: docs/}", ".path", "must be a mapping"),
        ("{path: {in: docs/}}", ".path.in", "unknown key"),
        ("{path: {under: ../docs}}", ".path.under", "is no folder"),
        ("{path: {under: [docs, ~/docs]}}", ".path.under[1]", "is no folder"),
        ("{patch: {under: []}}", ".patch.under", "must not be empty"),
        ("{not: {path: {under: '*'}}}", ".not.path.under", "is no folder"),
    ],
)
def test_what_is_no_condition_is_a_problem(text: str, path: str, message: str) -> None:
    place = read_document(f"[{{allow: a, when: {{x: {text}}}}}]")
    read_tools(place)
    problem = place.document.problems[0]
    assert problem.path == f"[0].when.x{path}"
    assert message in problem.message
