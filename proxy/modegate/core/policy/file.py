"""The text of policies.yaml to a `Policy`, or to every problem that is in it.

The keys are described in docs/policies.md. Nothing is guessed: an unknown key, a key given twice or
a word that YAML takes for a boolean is a problem, since each of them can mean that a rule is not what its
author believes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, cast

import msgspec

from modegate.core.errors import DialectName
from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy.control import known_tenant, read_control
from modegate.core.policy.document import YamlValue, read_document
from modegate.core.policy.model import (
    EXIT_TOOL,
    EXPIRES_MS,
    WAITS,
    Control,
    Exit,
    ExitOption,
    Limits,
    Mode,
    Policy,
    Sessions,
    Waits,
)
from modegate.core.policy.problems import PolicyProblems
from modegate.core.policy.rules import read_tools
from modegate.core.policy.schema import (
    KEYS,
    aliases,
    choice,
    count,
    duration,
    mode_name,
    mode_reference,
    size,
    source,
)
from modegate.core.policy.upstreams_file import read_routes, read_upstreams

VERSION = 1
MAX_HOPS = 32
"""A model that was refused so often will not give in; each hop costs a whole request."""

_APPROVE = "Approve"
_WHEN_MISSING = ("derive", "reject")
_WITHOUT_TOOLS = ("pass", "guide", "refuse")
_TEXT_CALLS = ("pass", "refuse")
_SECTION_IN = ("instructions", "input")


def parse(text: str | bytes, dialects: Sequence[DialectName]) -> Policy:
    """Read a policy, whose routes may name these dialects.

    Raises:
        PolicyProblems: with all that is wrong.
    """
    root = read_document(text)
    policy = _policy(root, dialects)
    if root.document.problems:
        raise PolicyProblems(root.document.problems)
    return replace(policy, hash=meaning(policy))


def meaning(policy: Policy) -> str:
    """Return the first 16 hex digits of the SHA-256 of what a policy says, without comments and layout."""
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
    """Return the limits as the hash has them: a key that is newer counts where it is not as it always was."""
    first = ("body", "frame", "held", "hops", "drain")
    plain = asdict(Limits())
    return {
        key: value for key, value in asdict(limits).items() if key in first or value != plain[key]
    }


def _policy(root: YamlValue, dialects: Sequence[DialectName]) -> Policy:
    keys = root.mapping(KEYS[""])
    if keys is None:
        return Policy("", {})
    if "version" in keys and keys["version"].plain() != str(VERSION):
        keys["version"].problem(f"must be {VERSION}: this modegate reads no other version")
    modes: dict[ModeId, Mode] = {}
    known: tuple[str, ...] = (DEFAULT_MODE,)
    if "modes" in keys:
        entries = keys["modes"].mapping()
        if entries == {}:
            keys["modes"].problem("needs at least one mode")
        known += tuple(name for name in entries or () if name != DEFAULT_MODE)
        modes = _modes(entries or {}, known)
    else:
        root.problem("needs the key 'modes'")
    narrate = keys["narrate"].boolean() if "narrate" in keys else True
    upstreams = read_upstreams(keys["upstreams"]) if "upstreams" in keys else {}
    if "upstreams" in keys and "routes" not in keys:
        keys["upstreams"].key_problem("needs routes that lead there; see the key 'routes'")
    return Policy(
        hash="",
        modes=modes,
        sessions=_sessions(keys["sessions"], known) if "sessions" in keys else Sessions(),
        limits=_limits(keys["limits"]) if "limits" in keys else Limits(),
        narrate=narrate is not False,
        upstreams=upstreams,
        routes=read_routes(keys["routes"], upstreams, dialects) if "routes" in keys else (),
        control=read_control(keys["control"]) if "control" in keys else Control(),
        approvals=_approvals(keys["approvals"]) if "approvals" in keys else WAITS,
    )


def _modes(entries: dict[str, YamlValue], known: Collection[str]) -> dict[ModeId, Mode]:
    modes: dict[ModeId, Mode] = {}
    taken = set(known)
    for name, place in entries.items():
        mode_id = mode_name(place, name)
        mode = _mode(place, mode_id or ModeId(name), known, taken)
        if mode_id is not None and mode is not None:
            modes[mode_id] = mode
    return modes


def _mode(
    place: YamlValue, mode_id: ModeId, known: Collection[str], taken: set[str]
) -> Mode | None:
    keys = place.mapping(KEYS["modes.*"])
    if keys is None:
        return None
    for needed in ("section", "tools"):
        if needed not in keys:
            place.key_problem(f"needs the key {needed!r}")
    strings = {key: keys[key].string() for key in ("name", "description", "section") if key in keys}
    tools = read_tools(keys["tools"]) if "tools" in keys else None
    leave = _exit(keys["exit"], known) if "exit" in keys else None
    if leave is None and tools is not None and tools.names_exit:
        leave = _exit_to(DEFAULT_MODE)
    section = strings.get("section") or ""
    if EXIT_TOOL in section and leave is None and "exit" not in keys:
        keys["section"].problem(f"names {EXIT_TOOL}, but the mode has no exit")
    return Mode(
        id=mode_id,
        name=strings.get("name") or mode_id,
        description=strings.get("description") or "",
        section=section,
        rules=tools.rules if tools is not None else (),
        exit=leave,
        without_tools=_without_tools(keys.get("without_tools")),
        text_calls=_text_calls(keys.get("text_calls")),
        section_in=_section_in(keys.get("section_in")),
        aliases=aliases(keys["aliases"], taken) if "aliases" in keys else (),
    )


def _without_tools(place: YamlValue | None) -> Literal["pass", "guide", "refuse"]:
    word = choice(place, _WITHOUT_TOOLS) if place is not None else None
    return cast("Literal['pass', 'guide', 'refuse']", word or "pass")


def _text_calls(place: YamlValue | None) -> Literal["pass", "refuse"] | None:
    word = choice(place, _TEXT_CALLS) if place is not None else None
    return cast("Literal['pass', 'refuse'] | None", word)


def _section_in(place: YamlValue | None) -> Literal["instructions", "input"]:
    word = choice(place, _SECTION_IN) if place is not None else None
    return cast("Literal['instructions', 'input']", word or "instructions")


def _exit_to(mode: ModeId) -> Exit:
    return Exit((ExitOption(_APPROVE, mode),))


def _exit(place: YamlValue, known: Collection[str]) -> Exit | None:
    keys = place.mapping(KEYS["modes.*.exit"])
    if keys is None:
        return None
    if "to" in keys and "options" in keys:
        place.problem("takes either to or options, not both")
    leave = _exit_to(DEFAULT_MODE)
    if "to" in keys:
        leave = _exit_to(mode_reference(keys["to"], known) or DEFAULT_MODE)
    if "options" in keys:
        options = [_option(item, known) for item in keys["options"].sequence() or []]
        leave = Exit(tuple(option for option in options if option is not None))
    native = keys["native"].boolean() if "native" in keys else True
    return replace(leave, native=native is not False)


def _option(place: YamlValue, known: Collection[str]) -> ExitOption | None:
    keys = place.mapping(KEYS["modes.*.exit.options[]"])
    if keys is None:
        return None
    if len(keys) < 2:
        place.problem("needs both label and to")
    label = keys["label"].string() if "label" in keys else None
    to = mode_reference(keys["to"], known) if "to" in keys else None
    return ExitOption(label, to) if label and to else None


def _sessions(place: YamlValue, known: Collection[str]) -> Sessions:
    keys = place.mapping(KEYS["sessions"]) or {}
    found: dict[str, Any] = {}
    for key in ("identify", "parent"):
        if key in keys:
            entries = keys[key].sequence() or []
            read = [source(entry, headers_only=key == "parent") for entry in entries]
            found[key] = tuple(entry for entry in read if entry is not None)
    if "when_missing" in keys:
        found["when_missing"] = choice(keys["when_missing"], _WHEN_MISSING)
    if "initial_mode" in keys:
        found |= _initial(keys["initial_mode"], known)
    return Sessions(**found)


def _initial(place: YamlValue, known: Collection[str]) -> dict[str, Any]:
    if not place.is_mapping():
        return {"initial_mode": mode_reference(place, known)}
    keys = place.mapping(KEYS["sessions.initial_mode"]) or {}
    found: dict[str, Any] = {}
    if "default" in keys:
        found["initial_mode"] = mode_reference(keys["default"], known)
    if "tenants" in keys:
        found["initial_mode_by_tenant"] = {
            tenant: mode_reference(to, known)
            for name, to in (keys["tenants"].mapping() or {}).items()
            if (tenant := known_tenant(to, name))
        }
    return found


def _approvals(place: YamlValue) -> Waits:
    keys = place.mapping(KEYS["approvals"]) or {}
    names = {"timeout": "streamed", "timeout_whole": "whole"}
    found = {names[key]: duration(keys[key], most=EXPIRES_MS / 1000) for key in keys}
    return replace(WAITS, **{name: value for name, value in found.items() if value is not None})


def _limits(place: YamlValue) -> Limits:
    keys = place.mapping(KEYS["limits"]) or {}
    found: dict[str, Any] = {
        key: size(keys[key]) for key in ("body", "frame", "held", "memory") if key in keys
    }
    if "hops" in keys:
        found["hops"] = count(keys["hops"], 1, MAX_HOPS)
    if "drain" in keys:
        found["drain"] = duration(keys["drain"])
    return Limits(**found)
