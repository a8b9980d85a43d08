"""Errors: their statuses, and the bodies that each dialect's clients expect."""

from __future__ import annotations

import json

import pytest

from modegate.core import errors
from modegate.core.errors import DialectName, ModegateError, Refusal, UnknownMode, error_json
from support.dialect_facts import api

STATUSES: dict[type[ModegateError], tuple[int, str]] = {
    errors.ModegateError: (500, "internal_error"),
    errors.Refusal: (400, "refused"),
    errors.BadRequest: (400, "bad_request"),
    errors.BadSession: (400, "bad_session"),
    errors.ControlTokenSent: (400, "control_token_sent"),
    errors.Drained: (503, "drained"),
    errors.EndpointNotGated: (400, "endpoint_not_gated"),
    errors.HostNotAllowed: (400, "host_not_allowed"),
    errors.ModeGone: (400, "mode_gone"),
    errors.SessionUnreadable: (400, "session_unreadable"),
    errors.TooLarge: (413, "too_large"),
    errors.UnknownTenant: (422, "unknown_tenant"),
    errors.UnknownMode: (422, "unknown_mode"),
    errors.Conflict: (409, "conflict"),
    errors.NotOpen: (409, "not_open"),
    errors.BadOption: (422, "bad_option"),
    errors.LevelNeeded: (403, "level_needed"),
    errors.UpgradeRequired: (426, "upgrade_required"),
    errors.LogUnavailable: (503, "log_unavailable"),
    errors.AnotherLog: (503, "another_log"),
    errors.Overloaded: (503, "overloaded"),
    errors.Tightened: (503, "tightened"),
    errors.UpstreamFailed: (502, "upstream_failed"),
    errors.UpstreamTimeout: (504, "upstream_timeout"),
    errors.AnswerUnreadable: (502, "answer_unreadable"),
}


def all_errors(base: type[ModegateError] = ModegateError) -> set[type[ModegateError]]:
    return {base}.union(*map(all_errors, base.__subclasses__()))


def test_every_error_is_in_the_table() -> None:
    of_core = {cls for cls in all_errors() if cls.__module__ == errors.__name__}
    assert of_core == set(STATUSES)


@pytest.mark.parametrize("cls", STATUSES, ids=lambda cls: cls.__name__)
def test_status_and_code(cls: type[ModegateError]) -> None:
    assert (cls.status, cls.code) == STATUSES[cls]
    assert issubclass(cls, Refusal) == (cls.status == 400)
    assert cls.code in (errors.__doc__ or "")


def test_codes_name_one_error_each() -> None:
    codes = [cls.code for cls in STATUSES]
    assert len(set(codes)) == len(codes)


def test_only_where_a_retry_helps_is_one_invited() -> None:
    invited = {cls for cls in STATUSES if cls.retry_after}
    assert invited == {
        errors.AnotherLog,
        errors.Drained,
        errors.LogUnavailable,
        errors.Overloaded,
    }


def test_an_unknown_mode_names_those_there_are() -> None:
    error = UnknownMode("paln", ("default", "plan"))
    assert str(error) == "unknown mode 'paln'; available: default, plan"
    assert error.available == ("default", "plan")


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_the_body_of_the_openai_api(dialect: DialectName) -> None:
    body = json.loads(error_json(errors.BadRequest('no "tools"\n'), api(dialect).error))
    assert body == {
        "error": {
            "message": 'no "tools"\n',
            "type": "invalid_request_error",
            "param": None,
            "code": "bad_request",
        }
    }
    assert (
        json.loads(error_json(errors.LogUnavailable("x"), api(dialect).error))["error"]["type"]
        == "api_error"
    )


def test_the_body_of_the_anthropic_api() -> None:
    refused = json.loads(error_json(errors.Refusal("no"), api("messages").error))
    assert refused == {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    words = {
        errors.UpstreamTimeout: "timeout_error",
        errors.TooLarge: "request_too_large",
        errors.UpstreamFailed: "api_error",
    }
    for cls, word in words.items():
        assert json.loads(error_json(cls("x"), api("messages").error))["error"]["type"] == word
