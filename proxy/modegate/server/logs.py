"""How the process writes its own messages: stdlib logging to stderr, as lines for people or as JSON.

Messages never hold bodies or secrets; each module keeps to that where it logs. What they quote from
outside (names, paths) may hold anything, so control characters are escaped here, once.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

from modegate.server.settings import LogFormat, LogLevel

# Anything that a terminal or a line-based collector could take for more than text. Tracebacks keep
# their line ends in console lines; JSON escapes its own.
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x0A}
_ESCAPED |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


class ConsoleFormatter(logging.Formatter):
    """One line for people: time, level, logger, message; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        message = record.getMessage().translate(_ESCAPED).replace("\n", "\\n")
        line = f"{clock} {record.levelname.lower()}: {message} [{record.name}]"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info).translate(_ESCAPED)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _not_about_websockets(record: logging.LogRecord) -> bool:
    # uvicorn advises to install a WebSocket library at each upgrade that modegate refuses on purpose.
    return not str(record.msg).startswith(("Unsupported upgrade", "No supported WebSocket"))


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
