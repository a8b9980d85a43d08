"""The names of the event log's keys in Redis, and the scripts that must see one of them as a whole.

The keys of a session lie in one hash slot, those of a tenant's index in another, and those of the whole
store in a third, as a Cluster will want.
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from modegate.core.ids import LOCAL, SessionId, SessionKey, Tenant
from modegate.core.log.fold import CHECKPOINT_VERSION

FEED = "modegate:{feed}"
STORE = "modegate:{feed}:store"
"""What is true of the whole store: its identity, and which tenants' indexes it has."""

PROBE = "modegate:{feed}:probe"
PROBE_MS = 60_000

MARK = ""
"""A member of each index of ends, with score 0, as a session never has. An index that is there without it
was made anew after it was lost, for instance because Redis evicted it."""

APPEND = """
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    -- not the last entry's id: a trimmed stream still knows where it ended
    if info[i] == 'last-generated-id' then last = tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
if ARGV[1] ~= '' and tonumber(ARGV[1]) ~= last then return {0, last} end
for i = 2, #ARGV do
  last = last + 1
  redis.call('XADD', KEYS[1], string.format('%d-0', last), 'e', ARGV[i])
end
return {1, last}
"""

CLAIM = """
local known = redis.call('HGET', KEYS[1], 'id')
if known then return known end
redis.call('HSET', KEYS[1], 'id', ARGV[1])
return ARGV[1]
"""

SAVE_CHECKPOINT = """
local kept = redis.call('HGET', KEYS[1], 'seq')
if not kept or tonumber(kept) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'seq', ARGV[1], 'state', ARGV[2])
end
return 1
"""

NOBODY = SessionKey(LOCAL, SessionId("-"))
"""No session has such an id."""


class SessionKeys:
    """The keys of one session, in one hash slot."""

    def __init__(self, key: SessionKey) -> None:
        tag = f"modegate:{{{key}}}"
        self.events = f"{tag}:events"
        self.checkpoint = f"{tag}:checkpoint:{CHECKPOINT_VERSION}"
        self.blob = f"{tag}:blob:"


class Index:
    """The keys of one tenant's index, in one hash slot."""

    def __init__(self, tenant: Tenant) -> None:
        tag = f"modegate:{{{quote(tenant, safe='')}}}"
        self.times = f"{tag}:times"
        self.ends = f"{tag}:ends"
        self.seen = f"{tag}:seen"
        self.questions = f"{tag}:questions"
        self.ask_ends = f"{tag}:ask-ends"
        self._derived = f"{tag}:derived:"

    def derived(self, agent: str) -> str:
        """Name the set of an agent's derived sessions."""
        return self.derived_of(_digest(agent))

    def derived_of(self, digest: str) -> str:
        """Name it by what `derived_mark` has of the agent."""
        return self._derived + digest

    @staticmethod
    def derived_mark(agent: str) -> str:
        """Name the member of the index of ends, with score 0, that says that there is such a set."""
        return f" {_digest(agent)}"


def _digest(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:16]


def marked(tenant: Tenant) -> str:
    """Name the field that says that a tenant's index was marked."""
    return f"marked:{tenant}"


def instead_of(identity: str | None) -> str:
    """Name the field that says that operators adopted this store in place of another."""
    return f"instead-of:{identity}"


def add_derived(pipe: Any, index: Index, agent: str, session: SessionId) -> None:
    """Put a session into the set of its agent, and say in the index of ends that there is such a set."""
    pipe.sadd(index.derived(agent), session)
    pipe.zadd(index.ends, {index.derived_mark(agent): 0})
