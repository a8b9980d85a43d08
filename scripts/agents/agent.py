"""What an agent is: how it is configured and started without a person, and told of a base URL.

Each runs in a HOME of its own with a clean environment, a dummy key, and telemetry and updates off. What
they send was measured once; docs/agents.md tells it to users.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from install import NODE_BIN

Call = dict[str, Any]
"""A call as a script writes it: `name` and `arguments`."""

KEY = "sk-no-key-is-needed"
MODEL = "scripted"


@dataclass(frozen=True)
class Place:
    """Where one run happens."""

    home: Path
    work: Path
    base_url: str
    """Ends in `/v1`."""


Command = Callable[[Place, str], list[str]]
"""Makes the command that runs an agent once, with a prompt."""


@dataclass(frozen=True)
class TextHabit:
    """What an agent makes of plain text."""

    write: Callable[[Path, str], str]
    """Makes a text of which it writes a file."""
    tool: str
    """Under which name modegate judges that."""
    say: Callable[[str], str] = lambda text: text
    """Makes a text that ends a run."""
    end_tool: str = ""
    """The tool that this calls, in text, if it does."""
    ran: str = ""
    """What is shown once the file is written, where the model is not asked again."""


@dataclass(frozen=True)
class Agent:
    """One real agent."""

    name: str
    read: Callable[[Path], Call]
    """Makes a call that reads a file."""
    write: Callable[[Path, str], Call] | None
    """Makes a call that writes a file; None if its shell is its only tool."""
    shell: Callable[[str], Call]
    command: Command
    resume: Command | None = None
    """Goes on with its last conversation."""
    declares: bool = True
    """It declares tools, and runs calls of the API."""
    text: TextHabit | None = None
    """How it writes files where it runs what its model says in plain text."""
    environment: Callable[[Place], dict[str, str]] = lambda _place: {}
    files: Callable[[Place], dict[str, Any]] = lambda _place: {}
    """Its configuration by path below HOME: text as it is, else as JSON."""
    npm: tuple[str, ...] = ()
    pypi: tuple[str, ...] = ()
    transcript: str = ""
    """A pattern for files below HOME that tell more than what is printed."""
    looks: Callable[[Path], dict[str, Call]] = lambda _work: {}
    """Makes the steps of exploring for which it has tools of its own; its shell takes the others."""
    disguises: Callable[[Path], list[Call]] = lambda _file: []
    """Makes calls that write a file, or leave the sandbox, in ways that only its tools have."""
    shell_reads: bool = True
    """The shipped policy knows its shell, and allows commands that only read."""
    needs_calls: bool = False
    """It takes an answer without a call for a mistake, and ends by a command."""
    fails_on_400: bool = True
    """An error status makes its exit code other than 0."""
    limit: int = 12
    """Most model requests that any run may take."""

    def prepare(self, place: Place) -> dict[str, str]:
        """Write its configuration and give its whole environment."""
        for path, content in self.files(place).items():
            file = place.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            file.write_text(text, encoding="utf-8")
        path = f"{NODE_BIN}{os.pathsep}/usr/local/bin:/usr/bin:/bin"
        common = {"HOME": str(place.home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"}
        quiet = {"DO_NOT_TRACK": "1", "NO_COLOR": "1", "CI": "1", "NO_PROXY": "127.0.0.1"}
        return common | quiet | self.environment(place)


def bash(command: str, **more: Any) -> Call:
    """Make a call of a shell that is told of as `bash`."""
    return {"name": "bash", "arguments": {"command": command, **more}}


def patch(path: Path, text: str) -> Call:
    """Make a call that writes a file by a patch."""
    body = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path.name}\n{body}*** End Patch\n"
    return {"name": "apply_patch", "type": "custom", "arguments": patch}
