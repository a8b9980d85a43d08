"""What the process writes of itself: one harmless line a message, for people or for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from modegate.server.logs import configure, say, say_fields
from modegate.server.settings import LogFormat, LogLevel

NASTY = "bad\x1b[2J\u202ename\nnext"


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    names = ("uvicorn", "httpx", "asyncio", "aiohttp")
    before = [(log, log.level) for log in (root, *map(logging.getLogger, names))]
    handlers = root.handlers[:]
    root.handlers = []
    yield
    root.handlers = handlers
    for log, level in before:
        log.setLevel(level)


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_message_is_one_harmless_line(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat
) -> None:
    configure("info", log_format)
    logging.getLogger("x.y").info("session %s", NASTY)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable() or log_format == "json"
    assert "\x1b" not in line
    if log_format == "json":
        data = json.loads(line)
        assert (data["level"], data["logger"]) == ("info", "x.y")
        assert data["message"] == f"session {NASTY}"


def fail(why: str) -> None:
    raise ValueError(why)


def test_a_traceback_follows_on_harmless_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "console")
    try:
        fail(NASTY)
    except ValueError:
        logging.getLogger("x").exception("it failed")
    lines = capsys.readouterr().err.splitlines()
    assert "it failed" in lines[0]
    assert lines[1].startswith("Traceback")
    assert all(line.isprintable() for line in lines)


def test_a_traceback_is_part_of_the_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    try:
        fail("why")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: why" in json.loads(line)["exception"]


def test_libraries_are_quiet_unless_debugged(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "console")
    logging.getLogger("uvicorn.error").info("Started")
    logging.getLogger("uvicorn.error").warning("No supported WebSocket library detected")
    logging.getLogger("x").debug("hidden")
    assert capsys.readouterr().err == ""
    logging.getLogger("uvicorn").setLevel(logging.NOTSET)
    configure("debug", "console")
    logging.getLogger("uvicorn.error").info("Started")
    assert "Started" in capsys.readouterr().err


@pytest.mark.parametrize("level", ["info", "error"])
def test_o14_what_the_operator_is_told_is_json_where_messages_are(
    capsys: pytest.CaptureFixture[str], level: LogLevel
) -> None:
    """At every level, the banner as fields and what stops a start as a message; for people as it stands."""
    configure(level, "json")
    say_fields("modegate on x\n  log y\n", {"event": "started", "log": "y"})
    say("Error: port", "Error: host")
    started, *errors = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (started["event"], started["log"]) == ("started", "y")
    assert "message" not in started
    assert [error["message"] for error in errors] == ["Error: port", "Error: host"]
    configure(level, "console")
    say_fields("modegate on x\n  log y\n", {"event": "started", "log": "y"})
    say("Error: port")
    assert capsys.readouterr().err == "modegate on x\n  log y\nError: port\n"
