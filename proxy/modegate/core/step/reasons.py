"""Why modegate itself refuses a call, whatever a mode's rules say: each reason with its one sentence.

Model, log and person get the sentence; code and tests compare members. Two kinds stand elsewhere: what a rule
decides (`policy.model`), and arguments that cannot be read (`wire.arguments.ArgumentFault`).
"""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Reason(StrEnum):
    """A reason; `{}` in its sentence stands for a detail that `with_` fills in."""

    # How the session stands.
    NOT_IN_A_MODE = "the session is not in a mode"
    NO_EXIT_NOW = "this mode cannot be left by it now"
    CUT_SHORT = "the answer was cut short, so that nothing could follow its approval"

    # A plan.
    PLAN_NOT_IN_OBJECT = "it needs the argument 'plan' in a JSON object, and what came is not one"
    PLAN_MISSING = "it needs the argument 'plan', with the whole plan in markdown"
    PLAN_NO_STRING = "the argument 'plan' must be a string of markdown"
    PLAN_EMPTY = "the plan is empty"
    PLAN_TOO_LONG = "the plan is over {} KB; shorten it"
    BESIDE_PLAN_TOO_LONG = "what it carries beside the plan is too long; leave it out"

    # What a person cannot be asked about.
    RUN_WITHOUT_ASKING = "the provider runs it without asking"
    TOO_LONG_TO_ASK = "its arguments are too long to ask a person about"

    # Clients could make different calls of it.
    READ_IN_DIFFERENT_WAYS = "clients could read it in different ways"
    ARGUMENTS_IN_DIFFERENT_WAYS = "its arguments could be read in different ways"
    MIXED = "it is mixed with another call"
    TWO_KINDS = "it is a function and a custom tool at once"
    TOO_MANY_READINGS = "clients could give it over {} names"
    TOO_MANY_SPELLINGS = "clients could put its name together in too many ways"
    SECOND_SOURCE = "it has {} too, which could be another call"
    LOOKALIKE_KEY = "it has the key {}, which some would read as another one"
    UNKNOWN_MEMBER = "it has the unknown member {}"
    INHERITED_KEY = "it has a key that JavaScript takes for what an object inherits"
    ARGUMENTS_UNDER_TWO_KEYS = "it has arguments under two keys"
    ARGUMENTS_TWICE = "it has arguments at its beginning and behind it"
    ID_AGAINST_INDEX = "a piece of it bears the id of one call and the index of another"
    FORMS_DIFFER_IN_ARGUMENTS = "its forms have different arguments"
    FORMS_DIFFER_IN_NAMES = "its forms have different names"
    FORMS_DIFFER_IN_IDS = "its forms have different ids"
    FORMS_DIFFER_IN_COMMANDS = "its forms have different commands"
    FORMS_DIFFER_IN_TYPE = "its forms are of different types"
    PIECES_OF_ANOTHER = "its pieces could be those of another call"
    MORE_THAN_ONE_CALL = "it holds more than one call"

    # Its name and its id.
    NO_NAME = "it has no name"
    NAME_NO_STRING = "its name is not a string"
    MEMBER_NO_NAME = "its {} is not a name"
    NAME_WITH_CONTROLS = "its name holds what is no letter"
    NAME_HALF_CHARACTER = "its name holds half of a character"
    TOO_MANY_NAMES = "it has over {} names"
    NAME_TOO_LONG = "its id or its name is too long"
    ID_NO_STRING = "its id is not a string"
    NO_CALL_ID = "it has no call_id"

    # Its arguments.
    ARGUMENTS_NO_OBJECT = "its arguments are not an object"
    ARGUMENTS_NO_STRING = "its arguments are not a string"
    ARGUMENTS_NEITHER = "its arguments are neither a string nor an object"
    MEMBER_NO_OBJECT = "{} is not an object"
    BROKEN_JSON = "it is a broken JSON object"

    # Its pieces.
    UNKNOWN_TYPE = "it is of a type that is not known here"
    UNKNOWN_PIECE = "it has a piece of the unknown type {}"
    PIECE_OF_TYPE = "it has a piece of type {}"
    PIECE_AFTER_WHOLE = "it has a piece behind its whole arguments"
    NO_INDEX = "its index is not a whole number"
    TOO_MANY_INDICES = "its pieces bear over {} indices"
    COMMANDS_WITHOUT_INDEX = "its commands have no index"
    NO_END = "it has no end"

    def with_(self, detail: object) -> str:
        return self.value.format(detail)
