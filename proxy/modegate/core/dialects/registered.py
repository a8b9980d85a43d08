"""The dialects that modegate speaks: a new one is a package beside the others, and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.endpoints import Apis, Endpoint
from modegate.core.errors import DialectName
from modegate.core.step.dialect import AnyDialect


class Dialects:
    """Some dialects, by what requests say of them."""

    def __init__(self, dialects: Iterable[AnyDialect]) -> None:
        """Take at least one; the first is meant where nothing says which."""
        self._by_name = {dialect.name: dialect for dialect in dialects}
        self.apis = Apis([dialect.api for dialect in self])
        self.names = tuple(self._by_name)

    def __iter__(self) -> Iterator[AnyDialect]:
        return iter(self._by_name.values())

    def named(self, name: DialectName) -> AnyDialect:
        return self._by_name[name]

    def of(self, endpoint: Endpoint) -> AnyDialect | None:
        """Return what the gate reads an endpoint's requests with; None where it cannot."""
        if endpoint.operation is None:
            return None
        dialect = self.named(endpoint.dialect)
        return dialect.variants.get(endpoint.operation.name, dialect)

    def keeper(self, endpoint: Endpoint) -> AnyDialect | None:
        """Return the dialect whose stored answer an endpoint is for."""
        return self.named(endpoint.stores.name) if endpoint.stores is not None else None


DIALECTS = Dialects((CHAT, RESPONSES, MESSAGES))
