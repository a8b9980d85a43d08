"""The `control` of a policy file: tokens with levels, and what ACP clients may do."""

from __future__ import annotations

from modegate.core.errors import UnknownTenant
from modegate.core.ids import Tenant, parse_tenant
from modegate.core.policy.document import YamlValue
from modegate.core.policy.model import AcpControl, Control, Level, Token
from modegate.core.policy.schema import NAME, Field, Section, choice, list_of, variable

OWN_TOKEN = "control"  # noqa: S105 -- a name, not a secret
"""What the log calls the token of the process itself, so that no other can have the name."""


def _tokens(value: YamlValue) -> tuple[Token, ...]:
    tokens: list[Token] = []
    for entry in value.sequence() or ():
        token = _TOKEN.into(Token)(entry)
        if token is None:
            continue
        for other in tokens:
            if other.name == token.name:
                entry.problem(f"a second token of the name {token.name!r}")
            if other.env == token.env:
                entry.problem(f"has the same secret as {other.name!r}")
        tokens.append(token)
    return tuple(tokens)


def _name(value: YamlValue) -> str | None:
    name = value.string()
    if name is not None and not NAME.fullmatch(name):
        # What was written is not shown: it may be the secret itself.
        value.hidden_problem("must be 1 to 64 letters, digits and ._-")
        return None
    if name == OWN_TOKEN:
        value.problem(f"{OWN_TOKEN!r} is the name of the proxy's own token")
    return name


def _tenant(value: YamlValue) -> Tenant | None:
    name = value.string()
    return None if name is None else known_tenant(value, name)


def known_tenant(value: YamlValue, name: str) -> Tenant | None:
    """Return the tenant of this name, or note that no agent can be of it."""
    try:
        return parse_tenant(name)
    except UnknownTenant as error:
        value.problem(str(error))
        return None


_TOKEN = Section(
    "control.tokens[]",
    Field("name", _name, required=True),
    Field("env", variable, required=True),
    Field("level", choice(*Level), required=True),
    Field("tenants", list_of(_tenant)),
)
_ACP = Section("control.acp", Field("confirm_loosening", YamlValue.boolean))
_CONTROL = Section("control", Field("tokens", _tokens), Field("acp", _ACP.into(AcpControl)))
read_control = _CONTROL.into(Control)
