"""The JSON Schema takes every policy that is read, and refuses what is plainly none."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from modegate.core.policy.file.json_schema import json_schema
from modegate.core.policy.file.policy import POLICY
from modegate.core.policy.file.problems import PolicyProblems
from support.policies import KEYS, parse

ROOT = Path(__file__).parents[5]
SCHEMA = json_schema()
VALIDATOR = Draft7Validator(SCHEMA)
PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEST_TEXT = re.compile(r'"""\n?((?:version|modes):.*?)"""', re.DOTALL)


SHIPPED = "docs/policies.schema.json"


def test_the_shipped_schema_is_this_one() -> None:
    text = (ROOT / SHIPPED).read_text("utf-8")
    assert json.loads(text) == SCHEMA, f"run: modegate schema > {SHIPPED}"


def test_the_shipped_policy_names_it_in_its_first_line() -> None:
    first = (ROOT / "policies.yaml").read_text("utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={SHIPPED}"


def refusals(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))]


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


def written() -> Iterator[Any]:
    """Yield all policies of the documentation and the tests that are read."""
    for page in (ROOT / "policies.yaml", *PAGES, *(ROOT / "tests").rglob("*.py")):
        text = page.read_text("utf-8")
        form = TEST_TEXT if page.suffix == ".py" else BLOCK
        found = [text] if page.suffix == ".yaml" else form.findall(text)
        for number, policy in enumerate(found):
            try:
                parse(policy)
            except PolicyProblems:
                continue
            yield pytest.param(policy, id=f"{page.name}-{number}")


@pytest.mark.parametrize("text", list(written()))
def test_every_policy_that_is_read_fits_the_schema(text: str) -> None:
    assert refusals(text) == []


RULE = "modes: {{plan: {{section: x, tools: [{}]}}}}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_policy_that_is_shown_to_people_gets_a_warning(page: Path) -> None:
    for text in BLOCK.findall(page.read_text("utf-8")):
        with contextlib.suppress(PolicyProblems):
            assert parse(text).warnings == (), text


GOOD = "modes: {plan: {section: x, tools: [read]}}\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("modes: {}\nother: 1\n", id="unknown key"),
        pytest.param("version: 1\n", id="no modes"),
        pytest.param("modes: []\n", id="a list for a mapping"),
        pytest.param("modes: {plan: {section: x}}\n", id="a mode without tools"),
        pytest.param("modes: {default: {section: x, tools: [read]}}\n", id="the default mode"),
        pytest.param("modes: {'a b': {section: x, tools: [read]}}\n", id="no id"),
        pytest.param("modes: {plan: {section: x, tools: []}}\n", id="no rules"),
        pytest.param(RULE.format("{alow: read}"), id="another effect"),
        pytest.param(RULE.format("{}"), id="a rule that says nothing"),
        pytest.param(RULE.format("{allow: a, when: {}}"), id="no condition"),
        pytest.param(RULE.format("{allow: a, when: {b: c}}"), id="a condition without a form"),
        pytest.param(RULE.format("{allow: a, when: {b: {equal: c}}}"), id="another form"),
        pytest.param(RULE.format("{allow: a, when: {b: {equals: c, glob: c}}}"), id="two forms"),
        pytest.param(RULE.format("{allow: a, when: {b: {not: {equal: c}}}}"), id="under not"),
        pytest.param(RULE.format("{allow: a, when: {b: {shell: all}}}"), id="another shell"),
        pytest.param(RULE.format("{allow: a, when: {b: {range: {least: 1}}}}"), id="other bounds"),
        pytest.param(RULE.format("{allow: a, when: {b: {path: docs}}}"), id="no under"),
        pytest.param(RULE.format("{allow: a, when: {b: {glob: c}, others: all}}"), id="others"),
        pytest.param(GOOD[:-3] + ", exit: {options: [{label: x}]}}}\n", id="an exit to nowhere"),
        pytest.param(GOOD[:-3] + ", without_tools: maybe}}\n", id="without tools, what"),
        pytest.param(GOOD + "version: 2\n", id="another version"),
        pytest.param(GOOD + "narrate: 3\n", id="a number for a boolean"),
        pytest.param(GOOD + "limits: {hops: 33}\n", id="too many"),
        pytest.param(GOOD + "limits: {hops: '3'}\n", id="a text for a number"),
        pytest.param(GOOD + "limits: {body: 5 MB}\n", id="another unit"),
        pytest.param(GOOD + "limits: {body: 0}\n", id="nothing"),
        pytest.param(GOOD + "approvals: {timeout: soon}\n", id="no time"),
        pytest.param(GOOD + "sessions: {identify: [cookie:x]}\n", id="no source"),
        pytest.param(GOOD + "sessions: {identify: []}\n", id="an empty list"),
        pytest.param(GOOD + "sessions: {when_missing: guess}\n", id="another word"),
        pytest.param(GOOD + "sessions: {initial_mode: {plan: 1}}\n", id="unknown key further in"),
        pytest.param(
            GOOD + "control: {tokens: [{name: a, env: 'A B', level: full}]}\n", id="no variable"
        ),
        pytest.param(GOOD + "control: {tokens: [{name: a, level: full}]}\n", id="a key is lacking"),
        pytest.param(GOOD + "routes: [{dialect: chat}]\n", id="a route to nowhere"),
        pytest.param(
            GOOD + "upstreams: {a: {url: 'http://a', key: abc}}\nroutes: [{upstream: a}]\n",
            id="a secret",
        ),
        pytest.param(
            GOOD + "upstreams: {a: {url: 'http://a', ca: a.pem}}\nroutes: [{upstream: a}]\n",
            id="a path that is not absolute",
        ),
    ],
)
def test_what_is_plainly_wrong_is_refused_by_both(text: str) -> None:
    with pytest.raises(PolicyProblems):
        parse(text)
    assert refusals(text)


def keys(form: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key that the schema names, with its form."""
    if isinstance(form, dict):
        yield from form.get("properties", {}).items()
        for inner in form.values():
            yield from keys(inner)
    elif isinstance(form, list):
        for inner in form:
            yield from keys(inner)


def test_every_key_is_in_the_schema_and_explained() -> None:
    found = list(keys(SCHEMA))
    places = [place for place in KEYS if place.partition(".")[0].rstrip("[]") in ("", *POLICY.keys)]
    assert {key for place in places for key in KEYS[place]} - {name for name, _ in found} == set()
    assert [name for name, form in found if not form.get("description", "").endswith(".")] == []
