"""Calls that stand in an answer's plain text: which shapes they have, and which agents run them.

Some agents run what their model writes: a JSON object with a name and arguments, a line `@save(id): {…}`,
tags, fenced blocks, SEARCH/REPLACE blocks. For those that are known to, or where a policy says
`text_calls: refuse`, such text is judged as a call. For all others it is text: they talk about it all day.
The parsers of gptme 0.35.1, smolagents 1.26.0 and aider 0.86.2 were read, and run against these shapes.
Those of Cline, Roo Code, OpenHands, Continue and LangChain were not: theirs are as commonly described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from modegate.core.step.answer.calls import Gathered
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import ArgumentFault, parse_arguments

MAX_HEAD = 1024
"""Characters of a line that could become a call; no tool has a longer name."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to write a call."""

    kind: str
    first: str
    """The character that it begins with."""
    head: re.Pattern[str]
    """Its head; the group `name` is the tool's, if it stands there."""
    maybe: re.Pattern[str]
    """What the end of a text can be that is its head only once more has come."""
    close: str = ""
    """A pattern for its end, in which `NAME` is the tool's; empty: a JSON object ends it."""
    line: bool = False
    """It stands at the head of a line."""


SHAPES = (
    Shape(
        "json",
        "{",
        re.compile(r"\{\s{0,64}[\"']|\{\s{64}"),
        re.compile(r"\{\s{0,63}\Z"),
    ),
    Shape(
        "at",
        "@",
        re.compile(
            r"@(?P<name>[^\r\n]{1,1000}?)\([\w\-:.]{1,1000}\):\s{0,256}\{"
            r"|@[^\r\n]{1,1000}?\([\w\-:.]{1,1000}\):\s{257}|@[^\r\n]{1024}"
        ),
        re.compile(r"@[^\r\n]{0,1023}\Z|@[^\r\n]{1,1000}?\([\w\-:.]{1,1000}\):\s{0,256}\Z"),
        line=True,
    ),
    Shape(
        "function",
        "<",
        re.compile(r"<function\s{0,16}=\s{0,16}[\"']?(?P<name>[^\s>\"'=]{1,256})(?=[\s>\"'])"),
        re.compile(
            r"<(?:f(?:u(?:n(?:c(?:t(?:i(?:o(?:n(?:\s{0,16}=?\s{0,16}[^>\s]{0,257})?)?)?)?)?)?)?)?)?\Z"
        ),
        r"</function\s{0,64}>",
    ),
    Shape(
        "invoke",
        "<",
        re.compile(r"<(?:[\w\-]{1,64}:)?invoke(?=[\s>/])"),
        re.compile(r"<(?:[\w\-]{1,64}:)?[invoke]{0,6}\Z"),
        r"</(?:[\w\-]{1,64}:)?invoke\s{0,64}>",
    ),
    Shape(
        "tag",
        "<",
        re.compile(r"<(?P<name>[A-Za-z_][\w.:\-]{0,255})(?=[\s>/])"),
        re.compile(r"<[\w.:\-]{0,256}\Z"),
        r"</NAME\s{0,64}>",
    ),
    Shape(
        "fence",
        "`",
        re.compile(
            r"`{3,64}+[ \t]{0,255}+(?P<name>[^\s`]{1,256}+(?=[\s`])|(?=[\r\n]))|`{3,64}[ \t]{256}|`{65}"
        ),
        re.compile(r"`{1,64}+(?:[ \t]{0,255}+[^\s`]{0,256}+)?\Z"),
        r"[\r\n][ \t]{0,64}`{3,}(?=[^`\w])",
    ),
    Shape(
        "search",
        "<",
        re.compile(r"<{3,64}+ SEARCH\b"),
        re.compile(r"<{1,64}+(?: S?E?A?R?C?H?)?\Z"),
        r"[\r\n](?:>{3,}|\+{3,}) REPLACE\b",
        line=True,
    ),
    Shape(
        "search",
        "-",
        re.compile(r"-{3,64}+ SEARCH\b"),
        re.compile(r"-{1,64}+(?: S?E?A?R?C?H?)?\Z"),
        r"[\r\n](?:>{3,}|\+{3,}) REPLACE\b",
        line=True,
    ),
    Shape(
        "patch",
        "*",
        re.compile(r"\*\*\* Begin Patch\b"),
        re.compile(r"\*{1,3}(?: B?e?g?i?n? ?P?a?t?c?h?)?\Z"),
        r"\*\*\* End Patch\b",
        line=True,
    ),
    Shape(
        "react",
        "A",
        re.compile(
            r"Action\s{0,9}\d{0,9}\s{0,9}:\s{0,64}(?P<name>(?:(?!Action)[^\r\n]){1,256}?)\s{0,64}"
            r"Action\s{0,9}\d{0,9}\s{0,9}Input\s{0,9}\d{0,9}\s{0,9}:"
            r"|Action\s{0,9}\d{0,9}\s{0,9}Input\s{0,9}\d{0,9}\s{0,9}:"
        ),
        re.compile(
            r"A(?:c(?:t(?:i(?:o(?:n(?:\s{0,9}\d{0,9}\s{0,9}(?:I[nput\d\s]{0,32}|"
            r":\s{0,64}(?:[^\r\n{<`][^\r\n]{0,255}+(?:[\r\n][AIactionpu\d\s]{0,80})?)?)?"
            r")?)?)?)?)?)?\Z"
        ),
        r"[\r\n]Observation\s?\d{0,9}\s?:",
    ),
)

NAMED = {"search": "search_replace", "patch": "apply_patch"}
"""Under which name a shape is judged that names no tool."""

TAGS = frozenset(
    """
    write_to_file replace_in_file apply_diff insert_content search_and_replace search_replace edit_file
    execute_command read_command_output browser_action use_mcp_tool access_mcp_resource new_task
    switch_mode new_rule report_bug condense fetch_instructions generate_image run_slash_command
    read_file list_files search_files list_code_definition_names codebase_search update_todo_list
    attempt_completion ask_followup_question plan_mode_respond web_fetch load_mcp_documentation
    save append patch patch_many morph shell ipython python tmux browser subagent gh computer
    hashline_edit execute_bash str_replace_editor
    """.split()  # noqa: SIM905 -- a table
)
"""Tags of agents that declare no tools beside them: Cline, Roo Code, gptme, OpenHands."""

FENCES = frozenset(
    """
    save append patch patch_many morph hashline_edit shell ipython py tmux browser subagent gh computer
    mcp read todo memory watch restart choice form elicit clarify complete progress vent rag vision
    screenshot chats request_tool_change autocommit tool tool_code tool_call
    """.split()  # noqa: SIM905 -- a table
)
"""Languages of fenced blocks that an agent runs: gptme's, Continue's `tool`, Gemini's `tool_code`."""

PLAIN = frozenset(
    """
    bash sh zsh console python python3 json json5 jsonc yaml yml toml ini text txt plain plaintext output
    markdown md html xml css scss svg diff javascript js jsx typescript ts tsx go rust java kotlin c cpp
    c++ csharp cs ruby rb php sql swift scala lua perl r haskell make makefile dockerfile docker nix
    graphql proto mermaid csv log latex tex vim vue svelte cmake terraform hcl http result stdout stderr
    """.split()  # noqa: SIM905 -- a table
)
"""Languages of fenced blocks that gptme only shows: it runs whatever else a tool or a plugin takes."""

NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_LOOKS_LIKE_ONE = re.compile(r"[\"'](?:name|tool|tool_name|action|function)[\"']\s{0,64}:")


@dataclass(frozen=True, slots=True)
class Habit:
    """An agent that runs text, and what tells that it is one."""

    agent: str
    system: tuple[str, ...]
    """Any of these stands in its system text."""
    fences: str = "named"
    """Which fenced blocks it runs: `named` ones, all but those that are `shown` only, or `all`."""
    everything: bool = False
    """Its parser takes any text for code."""
    thoughts: bool = False
    """It writes the model's reasoning in front of the text and looks for calls in both."""


KNOWN = (
    Habit("gptme", ("You are gptme",), fences="shown", thoughts=True),
    Habit("smolagents ToolCallingAgent", ("solve any task using tool calls",)),
    Habit("smolagents CodeAgent", ("solve any task using code blobs",), everything=True),
    Habit("Cline", ("You are Cline",)),
    Habit("Roo Code", ("You are Roo",)),
    Habit("aider", ("*SEARCH/REPLACE block*", "Act as an expert software developer"), fences="all"),
    Habit("OpenHands", ("You are OpenHands",)),
    Habit("Continue", ("BEGIN_ARG",)),
    Habit("ReAct", ("Action Input:",)),
)
"""Who runs calls in text. A person's own words in the system text can only make this stricter."""


def habit_of(system: str) -> Habit | None:
    """Return, by an agent's system text whether it is known to run calls in text."""
    return next((one for one in KNOWN if any(mark in system for mark in one.system)), None)


@dataclass(frozen=True, slots=True)
class TextCalls:
    """What counts as a call in the text of one step's answers."""

    declared: frozenset[str]
    """Names of the tools that the agent declares."""
    habit: Habit | None = None
    thinks: bool = False
    """It is for reasoning, where who reads it looks for less."""

    @property
    def thoughts(self) -> TextCalls | None:
        """What counts as a call in reasoning; None where nobody looks there."""
        looks = self.habit is not None and self.habit.thoughts
        return replace(self, thinks=True) if looks else None

    @property
    def everything(self) -> bool:
        """Whether any text is taken for code."""
        return self.habit is not None and self.habit.everything

    def counts(self, shape: Shape, match: re.Match[str]) -> bool:
        """Return whether a head is one of a call, or of something that nobody runs."""
        if self.thinks and shape.kind not in _IN_THOUGHTS:
            return False
        name = match.groupdict().get("name")
        if name is None:
            # It says its name later, or is so long that nobody writes it without a purpose.
            return True
        if shape.kind == "tag":
            return name in TAGS or self._declares(name)
        return shape.kind != "fence" or self._runs(name)

    def _declares(self, name: str) -> bool:
        return name in self.declared or name.casefold() in {one.casefold() for one in self.declared}

    def _runs(self, language: str) -> bool:
        fences = self.habit.fences if self.habit else "named"
        if fences == "all" or language in FENCES or self._declares(language):
            return True
        return fences == "shown" and bool(language) and language.casefold() not in PLAIN

    def call(self, choice: int, shape: Shape, head: re.Match[str], text: str) -> Gathered | None:
        """Read a text that has a call's shape, whole; None where it turns out to be none."""
        if shape.kind == "json":
            return self._json_call(choice, text)
        inner = text[head.end() :]
        name = self._name(shape, head, inner)
        call = Gathered(choice, "function", names=[name] if name else [], text=True)
        if shape.kind == "at":
            body = text[text.find("{") :] if "{" in text else ""
            _take_object(call, body, parse_arguments(body))
        elif shape.kind in ("tag", "function", "invoke"):
            _take_tags(call, inner)
        else:
            call.kind = "custom"
            call.pieces = [_END.sub("", inner).lstrip(" \t").removeprefix("\n")]
        call.names += [other for other in self.heads_in(inner) if other not in call.names]
        if shape.kind == "fence" and head["name"] == "" and not call.names:
            # aider takes it for a file as a whole.
            call.names = ["text"]
        return call

    def _name(self, shape: Shape, head: re.Match[str], inner: str) -> str:
        if shape.kind == "invoke":
            found = _NAME_OF.search(inner.partition(">")[0])
            return found["name"] if found else ""
        return (head.groupdict().get("name") or NAMED.get(shape.kind, "")).strip()

    def unended(self, choice: int, shape: Shape, head: re.Match[str], text: str) -> Gathered | None:
        """Read a call that has no end: some agents run it all the same, and the next hop could end it.

        None for a brace that has said nothing of a call yet, as in code that is spoken of.
        """
        if shape.kind == "json" and _LOOKS_LIKE_ONE.search(text) is None:
            return None
        found = self.call(choice, shape, head, text) or Gathered(choice, "function", text=True)
        if not shape.close:
            found.odd = Reason.NO_END
        return found

    def code(self, choice: int, text: str) -> Gathered:
        """Take a whole text for code."""
        return Gathered(choice, "custom", names=["python"], pieces=[text], text=True)

    def _json_call(self, choice: int, text: str) -> Gathered | None:
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            if _LOOKS_LIKE_ONE.search(text) is None:
                return None
            return Gathered(choice, "function", odd=Reason.BROKEN_JSON, text=True)
        found = list(self._calls_in(value, 6))
        if not found:
            return None
        name, arguments = found[0]
        call = Gathered(choice, "function", names=[name], text=True)
        if len(found) > 1 or _has_a_key_twice(text):
            call.odd = Reason.MORE_THAN_ONE_CALL
        if isinstance(arguments, str):
            call.kind, call.pieces = "custom", [arguments]
        elif isinstance(arguments, dict):
            call.pieces = [json.dumps(arguments)]
        elif arguments is not None:
            call.odd = Reason.ARGUMENTS_NO_OBJECT
        call.names += [other for other in self.heads_in(text[1:]) if other not in call.names]
        return call

    def _calls_in(self, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """Find what has a tool's name and arguments, or the name of a declared tool alone."""
        if isinstance(value, list) and depth:
            for inner in value:
                yield from self._calls_in(inner, depth - 1)
        if not isinstance(value, dict) or not depth:
            return
        name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
        given = [key for key in ARGUMENT_KEYS if key in value]
        if name is not None and (given or self._declares(name)):
            yield name, value[given[0]] if given else None
            return
        for inner in value.values():
            yield from self._calls_in(inner, depth - 1)

    def heads_in(self, text: str) -> Iterable[str]:
        """Return the names of calls that some other reader could see within one; at most a few."""
        found: dict[str, None] = {}
        for count, match in enumerate(_ANY_HEAD.finditer(text)):
            for shape in _WITHIN.get(match.group(), ()):
                head = shape.head.match(text, match.start())
                if head is not None and self.counts(shape, head):
                    found[self._name(shape, head, text[head.end() : head.end() + 512])] = None
            if len(found) > _MANY or count > _LOOKS:
                # Too many to tell: names that are more than a call may have make it unreadable.
                return [f"call {at}" for at in range(_MANY)]
        return found


_IN_THOUGHTS = frozenset({"at", "fence", "tag", "invoke"})
"""Kinds of calls that gptme runs."""
_ANY_HEAD = re.compile(r"[<`]|(?<=[\r\n])[@*\-]")
_END = re.compile(r"[\r\n](?:[ \t]{0,64}`{3,}\s*|Observation\s?\d{0,9}\s?:)\Z")
_NAME_OF = re.compile(r"\bname\s{0,16}=\s{0,16}[\"']?(?P<name>[^\s>\"']{1,256})")
_WITHIN = {first: tuple(shape for shape in SHAPES if shape.first == first) for first in "<`@*-"}
_LOOKS = 20_000
"""Places looked at within one call."""
_MANY = 9
"""Names within one call; over this many it is not read (`calls.MAX_NAMES`)."""

_CHILD = re.compile(
    r"\s*<(?:parameter\s?=\s?(?P<of>[^>\s]{1,128})|(?:[\w\-]{1,64}:)?parameter\s+name\s?=\s?"
    r"[\"'](?P<named>[^\"'>]{1,128})[\"'][^>]{0,64}|(?P<tag>[A-Za-z_][\w.\-]{0,127}))\s{0,9}>"
)


def _take_tags(call: Gathered, inner: str) -> None:
    """Read `<key>value</key>` within a call's tags; what is not so in every reader's eyes is ambiguous."""
    begin = inner.find(">") + 1
    attributes = _NAME_OF.sub("", inner[: begin - 1], 1).strip("\"'/ ")
    body, at = inner[begin : inner.rfind("</")] if "</" in inner else inner[begin:], 0
    values: dict[str, str] = {}
    while (match := _CHILD.match(body, at)) is not None:
        key = match["of"] or match["named"] or match["tag"]
        close = f"</{match['tag']}>" if match["tag"] else "</"
        end = body.find(close, match.end())
        if end < 0 or key in values or body.find(f"<{key}>", match.end(), end) >= 0:
            call.split = True
            break
        values[key] = body[match.end() : end].removeprefix("\n").removesuffix("\n")
        at = body.find(">", end) + 1
    call.split = call.split or bool(attributes) or bool(values and body[at:].strip())
    if values:
        call.pieces = [json.dumps(values)]
    else:
        call.kind, call.pieces = "custom", [body]


def _take_object(call: Gathered, text: str, value: dict[str, Any] | None) -> None:
    call.pieces = [text]
    if value is None:
        call.odd = ArgumentFault.NO_OBJECT


def _has_a_key_twice(text: str) -> bool:
    """Return whether readers could differ in which of two equal keys they take."""
    twice: list[bool] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        twice.append(len(found) < len(pairs))
        return found

    json.loads(text, strict=False, object_pairs_hook=read)
    return any(twice)
