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

from modegate.core.errors import DialectName
from modegate.core.ids import ModeId, Tenant
from modegate.core.policy.file import shell_section
from modegate.core.policy.file.control import CONTROL, known_tenant
from modegate.core.policy.file.document import YamlValue, read_document
from modegate.core.policy.file.modes import read_modes
from modegate.core.policy.file.packs import Packs
from modegate.core.policy.file.problems import PolicyProblems, in_order
from modegate.core.policy.file.schema import (
    NAMED,
    Field,
    Section,
    choice,
    count,
    duration,
    list_of,
    mapping_of,
    mode_reference,
    size,
    source,
    takes,
)
from modegate.core.policy.file.upstreams import read_routes, read_upstreams
from modegate.core.policy.model import (
    EXPIRES_MS,
    WAITS,
    Control,
    Limits,
    Mode,
    Policy,
    Sessions,
    Waits,
)
from modegate.core.policy.shell_table import NO_SHELL, ShellTable

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
    content: dict[str, Any] = {
        "modes": {name: replace(mode, shell=NO_SHELL) for name, mode in policy.modes.items()},
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
    # The order is that of the fields, and of the keys in mappings.
    said = msgspec.to_builtins(content, order="deterministic")
    if not policy.sessions.initial_mode_by_agent:
        del said["sessions"]["initial_mode_by_agent"]
    for name, mode in policy.modes.items():
        said["modes"][name] = _mode_meaning(mode, said["modes"][name])
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]


def _mode_meaning(mode: Mode, said: dict[str, Any]) -> dict[str, Any]:
    for rule, written in zip(mode.rules, said["rules"], strict=True):
        written["at"] = None
        written["when"] = rule.when.meaning() if rule.when else None
    del said["shell"]
    if mode.shell.sections:
        said["shell"] = msgspec.to_builtins(mode.shell.sections, order="deterministic")
    return said


def _hashed(limits: Limits) -> dict[str, Any]:
    first = ("body", "frame", "held", "hops", "drain")
    defaults = asdict(Limits())
    return {
        key: value
        for key, value in asdict(limits).items()
        if key in first or value != defaults[key]
    }


@takes({"const": VERSION})
def _version(value: YamlValue) -> None:
    if value.plain() != str(VERSION):
        quoted = ", without quotes" if value.node.value == str(VERSION) else ""
        value.problem(f"must be {VERSION}{quoted}: this modegate reads no other version")


@takes(mapping_of(NAMED))
def _by_tenant(value: YamlValue) -> dict[Tenant, ModeId]:
    read = {
        tenant: mode_reference(mode)
        for name, mode in (value.mapping() or {}).items()
        if (tenant := known_tenant(mode, name))
    }
    return {tenant: mode for tenant, mode in read.items() if mode is not None}


def _by_agent(value: YamlValue) -> dict[str, ModeId]:
    read = {glob: mode_reference(mode) for glob, mode in (value.mapping() or {}).items()}
    return {glob: mode for glob, mode in read.items() if mode is not None}


_INITIAL = Section(
    "sessions.initial_mode",
    Field("default", mode_reference, "initial_mode", about="For all others."),
    Field("tenants", _by_tenant, "initial_mode_by_tenant", about="By tenant."),
    Field("agents", _by_agent, "initial_mode_by_agent", about="By a glob of the user-agent."),
)


@takes({"anyOf": [NAMED, _INITIAL.form()]})
def _initial(value: YamlValue) -> dict[str, Any]:
    if value.is_mapping():
        return _INITIAL.read(_INITIAL.open(value) or {})
    mode = mode_reference(value)
    return {"initial_mode": mode} if mode else {}


def _sessions(initial_mode: dict[str, Any] | None = None, **found: Any) -> Sessions:
    return Sessions(**found, **(initial_mode or {}))


_SESSIONS = Section(
    "sessions",
    Field(
        "identify",
        list_of(source()),
        about="Where to look for a session's id: path, header:NAME, body:FIELD; the first wins.",
    ),
    Field(
        "parent",
        list_of(source(headers_only=True)),
        about="Where a sub-agent's request names the session that started it: header:NAME.",
    ),
    Field(
        "when_missing",
        choice("derive", "reject"),
        about="For a request without an id: derive one from the first user message, or refuse with 400.",
    ),
    Field("initial_mode", _initial, about="The mode of a new session; `default` means no policy."),
)
_LIMITS = Section(
    "limits",
    Field("body", size, about="The largest request, as bytes or as 64MiB."),
    Field("frame", size, about="The largest event of a stream."),
    Field("held", size, about="What may be held back of one answer at one time."),
    Field("hops", count(1, MAX_HOPS), about="Model requests for one answer, the first included."),
    Field("drain", duration(), about="How long running answers may take to end at shutdown."),
    Field("memory", size, about="What all requests of a process together may hold."),
)
_APPROVALS = Section(
    "approvals",
    Field(
        "timeout",
        duration(EXPIRES_MS / 1000),
        "streamed",
        about="How long a request that streams waits for a person, as 30s, 5m or 1h.",
    ),
    Field(
        "timeout_whole",
        duration(EXPIRES_MS / 1000),
        "whole",
        about="How long a request that does not stream waits; stay below the client's own limit.",
    ),
)


POLICY = Section(
    "",
    Field("version", _version, about="The version of this format."),
    Field("modes", read_modes, required=True, about="The modes by their ids."),
    Field(
        "sessions", _SESSIONS.into(_sessions), about="How a session is found, and its first mode."
    ),
    Field(
        "shell",
        shell_section.read,
        about="Programs that only read, for all modes: added to those that are known, or taken away.",
    ),
    Field("limits", _LIMITS.into(Limits), about="Bytes, seconds and counts."),
    Field("approvals", _APPROVALS.into(Waits), about="How long a request waits for a person."),
    Field(
        "narrate",
        YamlValue.boolean,
        about="Whether the model gets a notice when a person changes the mode.",
    ),
    Field("control", CONTROL.into(Control), about="Who may see and set modes."),
    Field("upstreams", read_upstreams, about="Who can answer model requests, by name."),
    Field(
        "routes",
        read_routes,
        about="Which request goes to which upstream; the first that fits wins.",
    ),
)
"""The whole file."""


def _policy(root: YamlValue) -> Policy:
    values = POLICY.open(root)
    if values is None:
        return Policy("", {})
    found = POLICY.read(values)
    if (shell := found.pop("shell", None)) is not None:
        found["modes"] = {
            name: replace(mode, shell=ShellTable((shell,)).with_(*mode.shell.sections))
            for name, mode in found.get("modes", {}).items()
        }
    if "upstreams" in values and "routes" not in values:
        values["upstreams"].key_problem("needs routes that lead there; see the key 'routes'")
    return Policy(**{"hash": "", "modes": {}} | found)
