"""`control` and `aliases` of a policy file: what they mean, and every mistake in them."""

from __future__ import annotations

import pytest

from modegate.core.ids import DEFAULT_MODE, LOCAL, ModeId, Tenant
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.model import AcpControl, Control, Level, Token
from support.policies import parse

MODES = "modes: {plan: {section: s, tools: [read]}}\n"
PHONE = "{name: phone, env: PHONE_TOKEN, level: tighten}"


def tokens(*entries: str) -> str:
    return f"{MODES}control: {{tokens: [{', '.join(entries)}]}}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyProblems) as caught:
        parse(text)
    return [f"{p.path}: {p.message} | {p.found}" for p in caught.value.problems]


@pytest.mark.usefixtures("tenants")
def test_every_key_is_read() -> None:
    text = f"""{MODES}
control:
  tokens:
    - {PHONE}
    - {{name: desk, env: DESK, level: full, tenants: [local, ci]}}
  acp: {{confirm_loosening: false}}
"""
    phone = Token("phone", "PHONE_TOKEN", Level.TIGHTEN, (LOCAL,))
    desk = Token("desk", "DESK", Level.FULL, (LOCAL, Tenant("ci")))
    assert parse(text).control == Control((phone, desk), AcpControl(confirm_loosening=False))


@pytest.mark.parametrize("more", ["", "control: {}\n", "control: {acp: {}}\n"])
def test_without_it_there_are_no_tokens_and_loosening_is_confirmed(more: str) -> None:
    assert parse(MODES + more).control == Control((), AcpControl(confirm_loosening=True))
    assert parse(MODES + more).hash == parse(MODES).hash


def test_a_change_of_it_is_another_policy() -> None:
    """Otherwise a reload would not be noticed."""
    texts = [MODES, tokens(PHONE), tokens(PHONE.replace("tighten", "full"))]
    assert len({parse(text).hash for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (tokens(), ["control.tokens: must not be empty | a list"]),
        (
            tokens("{}"),
            [
                f"control.tokens[0]: needs the key {key!r} | a mapping"
                for key in ("name", "env", "level")
            ],
        ),
        (
            tokens("{name: a b, env: E, level: full}"),
            ["control.tokens[0].name: must be 1 to 64 letters, digits and ._- | "],
        ),
        (
            tokens("{name: control, env: E, level: full}"),
            ["control.tokens[0].name: 'control' is the name of the proxy's own token | 'control'"],
        ),
        (
            tokens(PHONE.replace("tighten", "admin")),
            ["control.tokens[0].level: must be one of: observe, tighten, full | 'admin'"],
        ),
        (
            tokens(PHONE, PHONE.replace("PHONE_", "P_")),
            ["control.tokens[1]: a second token of the name 'phone' | a mapping"],
        ),
        (
            tokens(PHONE, PHONE.replace("phone", "desk")),
            ["control.tokens[1]: has the same secret as 'phone' | a mapping"],
        ),
        (
            tokens(PHONE.replace("}", ", tenants: []}")),
            ["control.tokens[0].tenants: must not be empty | a list"],
        ),
        (
            tokens(PHONE.replace("}", ", tenants: [local, ci]}")),
            [
                "control.tokens[0].tenants[1]: no agent can be of tenant 'ci': modegate does not know keys "
                "of agents yet, so that each request is of tenant 'local'; leave the tenant out | 'ci'"
            ],
        ),
        (
            f"{MODES}control: {{acp: {{confirm_loosening: no}}}}",
            ["control.acp.confirm_loosening: must be true or false | 'no'"],
        ),
        (
            f"{MODES}control: [a]",
            ["control: must be a mapping with keys such as tokens, acp | a list"],
        ),
        (
            tokens("a"),
            [
                "control.tokens[0]: must be a mapping with keys such as name, env, level, … (4 in all) | 'a'"
            ],
        ),
    ],
)
def test_a_mistake_is_named(text: str, expected: list[str]) -> None:
    found = problems(text)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("env", ["sk-secret-123", "$PHONE_TOKEN", '"PHONE TOKEN"', "Ümlaut"])
def test_what_may_be_a_secret_is_not_shown(env: str) -> None:
    (found,) = problems(tokens(PHONE.replace("PHONE_TOKEN", env)))
    assert found == (
        "control.tokens[0].env: must be the name of an environment variable, never a secret | "
    )


def with_aliases(plan: str, review: str = "[]") -> str:
    more = "" if review == "[]" else f", aliases: {review}"
    return (
        f"modes: {{plan: {{section: s, tools: [read], aliases: {plan}}}, "
        f"review: {{section: s, tools: [read]{more}}}}}"
    )


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("plan", "plan"),
        ("review", "review"),
        ("architect", "plan"),
        ("https://clients.example/modes#plan", "plan"),
        ("ask", "review"),
        ("default", DEFAULT_MODE),
        ("Architect", None),
        ("", None),
    ],
)
def test_a_mode_goes_by_its_id_and_its_aliases(name: str, mode: str | None) -> None:
    text = with_aliases('[architect, "https://clients.example/modes#plan"]', "[ask]")
    assert parse(text).mode_named(name) == (None if mode is None else ModeId(mode))


@pytest.mark.parametrize(
    ("plan", "review", "path"),
    [
        ("[default]", "[]", "modes.plan.aliases[0]"),
        ("[plan]", "[]", "modes.plan.aliases[0]"),
        ("[review]", "[]", "modes.plan.aliases[0]"),
        ("[a, a]", "[]", "modes.plan.aliases[1]"),
        ("[a]", "[b, a]", "modes.review.aliases[1]"),
    ],
)
def test_an_alias_leads_to_one_mode(plan: str, review: str, path: str) -> None:
    (found,) = problems(with_aliases(plan, review))
    assert found.startswith(f"{path}: names a mode already")


@pytest.mark.parametrize("aliases", ["[]", "a", "[yes]", f"[{'x' * 257}]"])
def test_what_is_no_list_of_ids_is_a_mistake(aliases: str) -> None:
    assert len(problems(with_aliases(aliases))) == 1
