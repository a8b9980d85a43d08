"""The `control` of a policy file: who may see and set modes; no secret may stand in the file."""

from __future__ import annotations

from modegate.core.errors import UnknownTenant
from modegate.core.ids import Tenant, parse_tenant
from modegate.core.policy.file.document import YamlValue
from modegate.core.policy.file.schema import (
    NAME,
    NAMED,
    TEXT,
    Field,
    Section,
    choice,
    list_of,
    listed,
    takes,
    variable,
)
from modegate.core.policy.model import OWN_TOKEN, AcpControl, Level, Token


@takes(NAMED)
def _name(value: YamlValue) -> str | None:
    name = value.string()
    if name is not None and not NAME.fullmatch(name):
        # What was written is not shown: it may be the secret itself.
        value.hidden_problem("must be 1 to 64 letters, digits and ._-")
        return None
    if name == OWN_TOKEN:
        value.problem(f"{OWN_TOKEN!r} is the name of the proxy's own token")
    return name


@takes(TEXT)
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
    Field("name", _name, required=True, about="What the log calls it."),
    Field(
        "env",
        variable,
        required=True,
        about="The environment variable that holds the secret, which never stands in the file.",
    ),
    Field(
        "level",
        choice(*Level),
        required=True,
        about="observe: read. tighten: also set a mode where none is, and reject. full: everything.",
    ),
    Field("tenants", list_of(_tenant), about="Whose sessions exist for its bearer."),
)


@takes(listed(_TOKEN.form()))
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


_ACP = Section(
    "control.acp",
    Field(
        "confirm_loosening",
        YamlValue.boolean,
        about="Whether a mode change over ACP that loosens needs a yes in a dialog.",
    ),
)
CONTROL = Section(
    "control",
    Field("tokens", _tokens, about="Tokens beside the proxy's own, which may do less."),
    Field("acp", _ACP.into(AcpControl), about="What ACP clients may do."),
)
