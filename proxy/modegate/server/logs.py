"""The process's own messages: stdlib logging to stderr, as lines for people or as JSON.

No message holds a body or a secret; each module keeps to that where it logs. Names and paths from outside may
hold anything, so control characters are escaped here, once.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

from modegate.server.printable import printable
from modegate.server.settings import LogFormat, LogLevel


class ConsoleFormatter(logging.Formatter):
    """One line for people: time, level, logger, message; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        message = printable(record.getMessage())
        line = f"{clock} {record.levelname.lower()}: {message} [{record.name}]"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n{printable(part)}" for part in trace.splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and `exception` if there is one.

    A record with `fields` has those in the place of its message.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if fields is not None:
            # As members of their own, so that nobody has to parse the message.
            del line["message"]
            line |= fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _not_about_websockets(record: logging.LogRecord) -> bool:
    # uvicorn advises to install a WebSocket library at each upgrade that modegate refuses on purpose.
    return not str(record.msg).startswith(("Unsupported upgrade", "No supported WebSocket"))


def say(*lines: str) -> None:
    """Print lines for the operator, whatever the log level: as they are, or as JSON."""
    for line in lines:
        say_fields(line, {"message": line})


def say_fields(text: str, fields: dict[str, str]) -> None:
    """Print this text; if messages are JSON, print the fields instead."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    if any(isinstance(one, JsonFormatter) for one in formatters):
        record = logging.makeLogRecord({"name": "modegate", "levelname": "INFO", "fields": fields})
        text = JsonFormatter().format(record)
    sys.stderr.write(text.rstrip("\n") + "\n")
    sys.stderr.flush()


def configure(level: LogLevel, log_format: LogFormat) -> None:
    """Send every logger's messages to stderr; called once, before anything else starts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else ConsoleFormatter())
    handler.addFilter(_not_about_websockets)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        # Their "info" is a line for each request or connection.
        for chatty in ("uvicorn", "httpx", "asyncio", "aiohttp"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
