"""The text of policies.yaml to a `Policy`, or to every problem that is in it.

The keys are described in docs/policies.md. Nothing is guessed: an unknown key, a key given twice or
a word that YAML takes for a boolean is a problem, since each of them can mean that a rule is not what its
author believes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import msgspec

from modegate.core.errors import DialectName, UnknownTenant
from modegate.core.ids import ModeId, Tenant, parse_tenant
from modegate.core.policy.document import YamlValue, read_document
from modegate.core.policy.model import (
    EXPIRES_MS,
    OWN_TOKEN,
    WAITS,
    AcpControl,
    Control,
    Level,
    Limits,
    Policy,
    Sessions,
    Token,
    Waits,
)
from modegate.core.policy.modes import read_modes
from modegate.core.policy.packs import Packs
from modegate.core.policy.problems import PolicyProblems, in_order
from modegate.core.policy.schema import (
    NAME,
    Field,
    Section,
    choice,
    count,
    duration,
    list_of,
    mode_reference,
    size,
    source,
    variable,
)
from modegate.core.policy.upstreams_file import read_routes, read_upstreams

VERSION = 1
MAX_HOPS = 32
"""A model that was refused so often will not give in; each hop costs a whole request."""


def parse(text: str | bytes, dialects: Iterable[DialectName], packs: Packs) -> Policy:
    """Read a policy, whose routes may name these dialects and whose modes may use these packs.

    Its `warnings` are what can hardly be meant.

    Raises:
        PolicyProblems: with all that is wrong.
    """
    root = read_document(text)
    root.document.names["dialects"] = list(dialects)
    root.document.packs = packs
    policy = _policy(root)
    found = root.document
    if found.problems:
        raise PolicyProblems(found.problems, found.warnings)
    return replace(policy, hash=meaning(policy), warnings=in_order(found.warnings))


def meaning(policy: Policy) -> str:
    """Return the first 16 hex digits of the SHA-256 of what a policy says, without comments and layout.

    A key that is newer than the hash counts only if its value is not the default.
    """
    modes = {
        name: replace(mode, rules=tuple(replace(rule, at=None) for rule in mode.rules))
        for name, mode in policy.modes.items()
    }
    content: dict[str, Any] = {
        "modes": modes,
        "sessions": policy.sessions,
        "limits": _hashed(policy.limits),
    }
    if not policy.narrate:
        content["narrate"] = False
    if policy.upstreams:
        content["upstreams"] = [policy.upstreams, policy.routes]
    if policy.control != Control():
        content["control"] = policy.control
    if policy.approvals != WAITS:
        content["approvals"] = policy.approvals
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


def _hashed(limits: Limits) -> dict[str, Any]:
    first = ("body", "frame", "held", "hops", "drain")
    defaults = asdict(Limits())
    return {
        key: value
        for key, value in asdict(limits).items()
        if key in first or value != defaults[key]
    }


def _version(value: YamlValue) -> None:
    if value.plain() != str(VERSION):
        value.problem(f"must be {VERSION}: this modegate reads no other version")


def _by_tenant(value: YamlValue) -> dict[Tenant, ModeId]:
    read = {
        tenant: mode_reference(mode)
        for name, mode in (value.mapping() or {}).items()
        if (tenant := _known_tenant(mode, name))
    }
    return {tenant: mode for tenant, mode in read.items() if mode is not None}


_INITIAL = Section(
    "sessions.initial_mode",
    Field("default", mode_reference, "initial_mode"),
    Field("tenants", _by_tenant, "initial_mode_by_tenant"),
)


def _initial(value: YamlValue) -> dict[str, Any]:
    if value.is_mapping():
        return _INITIAL.read(_INITIAL.open(value) or {})
    mode = mode_reference(value)
    return {"initial_mode": mode} if mode else {}


def _sessions(initial_mode: dict[str, Any] | None = None, **found: Any) -> Sessions:
    return Sessions(**found, **(initial_mode or {}))


_SESSIONS = Section(
    "sessions",
    Field("identify", list_of(source())),
    Field("parent", list_of(source(headers_only=True))),
    Field("when_missing", choice("derive", "reject")),
    Field("initial_mode", _initial),
)
_LIMITS = Section(
    "limits",
    Field("body", size),
    Field("frame", size),
    Field("held", size),
    Field("hops", count(1, MAX_HOPS)),
    Field("drain", duration()),
    Field("memory", size),
)
_APPROVALS = Section(
    "approvals",
    Field("timeout", duration(EXPIRES_MS / 1000), "streamed"),
    Field("timeout_whole", duration(EXPIRES_MS / 1000), "whole"),
)


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
    return None if name is None else _known_tenant(value, name)


def _known_tenant(value: YamlValue, name: str) -> Tenant | None:
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
_POLICY = Section(
    "",
    Field("version", _version),
    Field("modes", read_modes, required=True),
    Field("sessions", _SESSIONS.into(_sessions)),
    Field("limits", _LIMITS.into(Limits)),
    Field("approvals", _APPROVALS.into(Waits)),
    Field("narrate", YamlValue.boolean),
    Field("control", _CONTROL.into(Control)),
    Field("upstreams", read_upstreams),
    Field("routes", read_routes),
)


def _policy(root: YamlValue) -> Policy:
    values = _POLICY.open(root)
    if values is None:
        return Policy("", {})
    found = _POLICY.read(values)
    if "upstreams" in values and "routes" not in values:
        values["upstreams"].key_problem("needs routes that lead there; see the key 'routes'")
    return Policy(**{"hash": "", "modes": {}} | found)
