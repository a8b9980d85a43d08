"""The body of one request: what it is made of is found out once, for all who read it."""

from __future__ import annotations

from functools import cached_property

from modegate.core.wire.json_spans import Member, members
from modegate.core.wire.surrogates import without_lone_surrogates
from modegate.core.wire.weight import REQUEST_VALUES, cost, is_dense


class RequestBody:
    """A request's body, as it came and without its content-encoding."""

    def __init__(self, raw: bytes, decoded: bytes | None = None) -> None:
        """Take the bytes; `decoded` where they have a content-encoding."""
        self.raw = raw
        self.decoded = raw if decoded is None else decoded

    @cached_property
    def cost(self) -> int:
        """What it costs to read, as bytes of ordinary text."""
        return cost(self.decoded)

    @cached_property
    def dense(self) -> bool:
        """Whether it holds too many values to be read at all (`weight.TOO_DENSE`)."""
        return is_dense(self.decoded, REQUEST_VALUES)

    @cached_property
    def readable(self) -> bytes:
        """What decoders get, with everything at the same place; raises `ValueError` for too many halves."""
        return without_lone_surrogates(self.decoded)

    @property
    def members(self) -> list[Member]:
        """Where its members stand, duplicates included, in `decoded`; raises `ValueError` if it has none."""
        if isinstance(self._found, str):
            raise ValueError(self._found)  # noqa: TRY004 -- what was found is no type of the text
        return self._found

    @cached_property
    def _found(self) -> list[Member] | str:
        try:
            return members(self.readable)
        except ValueError as error:
            return str(error)
