"""The `control` of a policy file: tokens with levels, and what ACP clients may do."""

from __future__ import annotations

import re

from modegate.core.errors import UnknownTenant
from modegate.core.ids import LOCAL, Tenant, parse_tenant
from modegate.core.policy.document import YamlValue
from modegate.core.policy.model import AcpControl, Control, Level, Token
from modegate.core.policy.schema import KEYS, choice

OWN_TOKEN = "control"  # noqa: S105 -- a name, not a secret
"""What the log calls the token of the process itself, so that no other can have the name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def read_control(place: YamlValue) -> Control:
    """Read `control`; what is wrong is noted, and left out."""
    keys = place.mapping(KEYS["control"]) or {}
    return Control(
        tokens=_tokens(keys["tokens"]) if "tokens" in keys else (),
        acp=_acp(keys["acp"]) if "acp" in keys else AcpControl(),
    )


def _acp(place: YamlValue) -> AcpControl:
    keys = place.mapping(KEYS["control.acp"]) or {}
    confirm = keys["confirm_loosening"].boolean() if "confirm_loosening" in keys else True
    return AcpControl(confirm_loosening=confirm is not False)


def _tokens(place: YamlValue) -> tuple[Token, ...]:
    tokens: list[Token] = []
    for entry in place.sequence() or []:
        token = _token(entry)
        if token is None:
            continue
        for other in tokens:
            if other.name == token.name:
                entry.problem(f"a second token of the name {token.name!r}")
            if other.env == token.env:
                entry.problem(f"has the same secret as {other.name!r}")
        tokens.append(token)
    return tuple(tokens)


def _token(place: YamlValue) -> Token | None:
    keys = place.mapping(KEYS["control.tokens[]"])
    if keys is None:
        return None
    for needed in ("name", "env", "level"):
        if needed not in keys:
            place.problem(f"needs the key {needed!r}")
    name = _matching(keys.get("name"), _NAME, "1 to 64 letters, digits and ._-")
    if name == OWN_TOKEN:
        keys["name"].problem(f"{OWN_TOKEN!r} is the name of the proxy's own token")
    env = _matching(
        keys.get("env"), _VARIABLE, "the name of an environment variable, never a secret"
    )
    level = choice(keys["level"], tuple(Level)) if "level" in keys else None
    tenants = _tenants(keys["tenants"]) if "tenants" in keys else (LOCAL,)
    return Token(name, env, Level(level), tenants) if name and env and level else None


def _matching(place: YamlValue | None, pattern: re.Pattern[str], what: str) -> str | None:
    text = place.string() if place is not None else None
    if place is None or text is None or pattern.fullmatch(text):
        return text
    # What was written is not shown: it may be the secret itself.
    place.hidden_problem(f"must be {what}")
    return None


def _tenants(place: YamlValue) -> tuple[Tenant, ...]:
    names = [(entry, entry.string()) for entry in place.sequence() or []]
    return tuple(
        tenant
        for entry, name in names
        if name is not None and (tenant := known_tenant(entry, name))
    )


def known_tenant(place: YamlValue, name: str) -> Tenant | None:
    """Return the tenant of this name, or note that no agent can be of it."""
    try:
        return parse_tenant(name)
    except UnknownTenant as error:
        place.problem(str(error))
        return None
