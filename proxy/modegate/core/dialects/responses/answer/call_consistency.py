"""The forms in which a stream tells of one call, held against each other."""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.call_members import ambiguity, is_index
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.calls import CALLS, ItemCall, call_of, same_arguments
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import paired

ARGUMENT_EVENTS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
    "mcp_call": ("response.mcp_call_arguments", "arguments"),
}
"""For a type of item: how the events of its arguments begin, and under which key they stand whole."""
OWN_ARGUMENTS = tuple(
    f"{begins}." for kind, (begins, _) in ARGUMENT_EVENTS.items() if kind in CALLS
)
"""How the events of arguments begin that the agent's own tools get."""
_OWN = frozenset({"type", "item_id", "output_index", "sequence_number", "name", "command"})
_PIECE = _OWN | {"delta"}
COMMAND = "response.shell_call_command."


def call_type(event: str) -> str:
    """Return the type of the call whose arguments an event brings."""
    begins = event.rpartition(".")[0]
    return next(kind for kind, (of, _) in ARGUMENT_EVENTS.items() if of == begins)


class ConsistencyCheck:
    """A call as it comes: announced, in pieces, whole."""

    def __init__(self, call: ItemCall, first: str) -> None:
        """Take a call as it was announced; `first` are its arguments, unless they are not all there yet."""
        self._call = call
        self._commands: dict[int, list[str]] = {}
        self._first = first
        self._named: list[Any] = []
        self._pieces: list[str] = []
        self._whole: list[str] = []
        call.pieces = []

    def add(self, kind: str, value: dict[str, Any]) -> None:
        """Take an event between its begin and its end, with halves of characters as they are."""
        begins, key = ARGUMENT_EVENTS.get(self._call.type, ("", ""))
        own = _PIECE if kind.endswith(".delta") else _OWN | {key}
        if begins or not self._call.ran:
            # What the provider ran is told of in events of all kinds.
            self._call.odd = self._call.odd or ambiguity(value, own, beside=None)
        if begins and kind == f"{begins}.delta":
            piece = parsing.text_in(value, "delta")
            self._pieces.append(piece)
            if piece and self._whole:
                # Who took them whole puts it behind them.
                self._call.odd = Reason.PIECE_AFTER_WHOLE
        elif begins and kind == f"{begins}.done":
            self._whole.append(parsing.text_in(value, key))
            if value.get("name") is not None:
                self._named.append(value["name"])
        elif self._call.type == "shell_call" and kind.startswith(COMMAND):
            self._command(kind, value)
        elif self._call.type in ARGUMENT_EVENTS or not self._call.ran:
            self._unknown(kind)

    def _command(self, kind: str, value: dict[str, Any]) -> None:
        index = value.get("command_index")
        if not is_index(index):
            self._call.odd = Reason.COMMANDS_WITHOUT_INDEX
            return
        pieces = self._commands.setdefault(index, [])
        if kind.endswith(".delta"):
            pieces.append(parsing.text_in(value, "delta"))
        elif kind.endswith(".done") and parsing.text_in(value, "command") != "".join(pieces):
            self._call.odd = Reason.FORMS_DIFFER_IN_COMMANDS
        elif kind.endswith(".added"):
            pieces.append(parsing.text_in(value, "command"))

    def _unknown(self, kind: str) -> None:
        # What a client would make of it is not known. The progress of something that ran makes nothing.
        if not kind.endswith((".in_progress", ".completed", ".failed")):
            self._call.odd = Reason.UNKNOWN_PIECE.with_(repr(kind[:80]))

    def end(self, item: dict[str, Any], exact: dict[str, Any]) -> None:
        """Take the whole item: all that was said of it must be the same call."""
        call, last = self._call, call_of(item, exact)
        if last is None:
            raise AnswerUnreadable("the upstream ended an item as another one")
        arguments = last.arguments
        pieces = "".join(self._pieces)
        forms = [self._first + pieces if pieces else self._first, *self._whole, pieces]
        forms = [paired(form) for form in forms]
        said = [form for form in forms if form]
        if not all(same_arguments(call, form, arguments) for form in said):
            call.odd = Reason.FORMS_DIFFER_IN_ARGUMENTS
        # Who goes by the pieces alone (LangChain) has a call without arguments where none came.
        bare = call.type in ARGUMENT_EVENTS and bool(arguments) and not (self._first or pieces)
        call.restarts = call.restarts or bare
        if not call.names:
            # Announced without a name (B060): who goes by that has nothing to run.
            call.names, call.plain = last.names, last.plain
        known = (last.plain, *last.names)
        other = any(name not in known for name in self._named)
        if other or (last.names, last.ran) != (call.names, call.ran):
            call.odd = Reason.FORMS_DIFFER_IN_NAMES
        if last.id != call.id and not call.ran:
            call.odd = Reason.FORMS_DIFFER_IN_IDS
        commands = ["".join(self._commands[index]) for index in sorted(self._commands)]
        action = item.get("action")
        if commands and commands != (action.get("commands") if isinstance(action, dict) else None):
            call.odd = Reason.FORMS_DIFFER_IN_COMMANDS
        call.odd = call.odd or last.odd
        call.pieces, call.listed = last.pieces, last.listed
        call.has_run, call.checks = last.has_run, last.checks
