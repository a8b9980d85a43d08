"""`modegate check --against`: what agents would lose, by recorded requests or by a session's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner, Result

from modegate.cli import main, recordings
from modegate.cli.against import SHOWN_CALLS, of_session
from modegate.cli.control_client import ControlClient
from modegate.core.ids import ModeId
from support.policies import parse

POLICY = """
modes:
  plan:
    section: Look only.
    tools:
      - read
      - fs__read
      - ask: fetch
      - allow: editor
        when: {command: {equals: view}, others: any}
    exit: {to: default}
  strict:
    section: Look only.
    tools: [read]
    without_tools: refuse
"""
TOOLS = ("read", "fetch", "editor", "write", "exit_plan_mode")
CALLS = [
    ("read", {"path": "a"}),
    ("editor", {"command": "view", "path": "a"}),
    ("editor", {"path": "a", "command": "create"}),
    ("fetch", {"url": "u"}),
    ("write", {"path": "\x1b[2J"}),
    ("exit_plan_mode", {"plan": "p"}),
]


def chat(*calls: tuple[str, Any]) -> dict[str, Any]:
    """Return a request whose history holds these calls."""
    said = [
        {
            "id": f"c{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (name, given) in enumerate(calls)
    ]
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            *([{"role": "assistant", "content": None, "tool_calls": said}] if said else []),
        ],
        "tools": [{"type": "function", "function": {"name": name}} for name in TOOLS],
    }


def responses(*calls: tuple[str, Any]) -> dict[str, Any]:
    said = [
        {"type": "function_call", "call_id": f"c{at}", "name": name, "arguments": json.dumps(given)}
        for at, (name, given) in enumerate(calls)
    ]
    inner = [{"type": "function", "name": name, "parameters": {}} for name in TOOLS]
    listed = [
        {"type": "namespace", "name": "functions", "tools": inner},
        {"type": "namespace", "name": "fs", "tools": [inner[0], inner[3]]},
    ]
    first = {"type": "additional_tools", "role": "developer", "tools": listed}
    return {"model": "m", "input": [first, {"role": "user", "content": "go"}, *said]}


def messages(*calls: tuple[str, Any]) -> dict[str, Any]:
    said = [
        {"type": "tool_use", "id": f"c{at}", "name": name, "input": given}
        for at, (name, given) in enumerate(calls)
    ]
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "go"},
            *([{"role": "assistant", "content": said}] if said else []),
        ],
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS],
    }


def run(folder: Path, *arguments: str) -> Result:
    policy = folder / "p.yaml"
    policy.write_text(POLICY)
    return CliRunner().invoke(main, ["check", str(policy), *arguments])


def capture(folder: Path, *lines: Any) -> str:
    path = folder / "capture.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def against(folder: Path, *lines: Any, mode: str = "plan") -> list[Any]:
    """Return the reports on a capture."""
    given = ["--against", capture(folder, *lines), "--mode", mode, "--json"]
    result = run(folder, *given)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout)["against"])


@pytest.mark.parametrize("make", [chat, responses, messages], ids=lambda make: make.__name__)
def test_tools_and_calls_are_read_in_every_api_and_judged_with_their_arguments(
    tmp_path: Path, make: Any
) -> None:
    # A history comes again with each request, and its calls are made once.
    lines = [{"agent": "a", "body": make(*CALLS[:count])} for count in (0, 3, 6)]
    (report,) = against(tmp_path, *lines)
    inner = make is responses
    assert (report["mode"], report["agent"]) == ("plan", "a")
    assert report["tools"] == {
        "kept": [*(["fs__read"] if inner else []), "read"],
        "partly": ["editor"],
        "asked": ["fetch"],
        "lost": [*(["fs__write"] if inner else []), "write"],
    }
    assert [(call["tool"], call["verdict"]) for call in report["calls"]] == [
        ("read", "release"),
        ("editor", "release"),
        ("editor", "answer"),
        ("fetch", "ask"),
        ("write", "answer"),
    ]
    assert report["calls"][2]["arguments"] == '{"command":"create","path":"a"}'
    assert [call["times"] for call in report["calls"]] == [1] * 5
    assert report["notes"] == []


def test_the_text_names_what_goes_and_what_would_be_refused(tmp_path: Path) -> None:
    result = run(tmp_path, "--against", capture(tmp_path, {"agent": "a", "body": chat(*CALLS)}))
    assert result.exit_code == 0
    assert "mode plan, a\n  stays (1): read\n" in result.stdout
    assert "  stays, for some arguments (1): editor\n" in result.stdout
    assert "  asks a person (1): fetch\n" in result.stdout
    assert "  goes (1): write\n" in result.stdout
    assert "  2 calls would be refused:\n" in result.stdout
    assert "  1 call would wait for a person:\n" in result.stdout
    assert "mode strict, a\n" in result.stdout, "without --mode, every mode is told of"
    assert "\x1b" not in result.stdout


def test_of_many_calls_only_some_are_printed(tmp_path: Path) -> None:
    calls = [("write", {"path": f"{at:03}"}) for at in range(SHOWN_CALLS + 5)]
    result = run(tmp_path, "--against", capture(tmp_path, chat(*calls)), "--mode", "plan")
    assert result.stdout.count("write {") == SHOWN_CALLS
    assert "… and 5 more" in result.stdout


def test_agents_are_told_apart_and_a_line_that_is_a_body_is_named_by_its_file(
    tmp_path: Path,
) -> None:
    lines = [{"agent": "a", "body": chat()}, {"agent": "b", "body": chat()}, chat()]
    assert [one["agent"] for one in against(tmp_path, *lines)] == ["a", "b", "capture"]


def test_one_body_can_be_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(chat(CALLS[0]), indent=2))
    result = run(tmp_path, "--against", str(path), "--mode", "plan", "--json")
    (report,) = json.loads(result.stdout)["against"]
    assert (report["agent"], report["tools"]["kept"]) == ("agent", ["read"])


@pytest.mark.parametrize(
    ("line", "note"),
    [
        pytest.param("{", "1 lines hold no request", id="no JSON"),
        pytest.param("[]", "1 lines hold no request", id="no object"),
        pytest.param('{"body": null}', "1 lines hold no request", id="no body"),
        pytest.param('{"body": {"contents": []}}', "1 lines hold no request", id="another API"),
        pytest.param('{"path": "/v1/embeddings", "body": {}}', "no request", id="another path"),
        pytest.param('{"messages": 3}', "1 requests cannot be read", id="no messages"),
        pytest.param('{"messages": [' + "1," * 99 + "1]}", "no request", id="too long"),
    ],
)
def test_what_cannot_be_read_is_counted_and_the_rest_is_read(
    tmp_path: Path, line: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "MAX_LINE", 1000 if "1,1" not in line else 150)
    path = tmp_path / "c.jsonl"
    small = '{"messages": [], "tools": [{"type": "function", "function": {"name": "read"}}]}'
    path.write_text(f"{line}\n\n{small}\n")
    result = run(tmp_path, "--against", str(path), "--mode", "plan", "--json")
    (report,) = json.loads(result.stdout)["against"]
    assert report["tools"]["kept"] == ["read"]
    assert note in "\n".join(report["notes"])


def test_a_body_may_be_text_and_its_path_says_which_api_it_is_of(tmp_path: Path) -> None:
    line = {"path": "/v1/messages?beta=true", "body": json.dumps(messages(CALLS[4]))}
    (report,) = against(tmp_path, line)
    assert [call["tool"] for call in report["calls"]] == ["write"]


def test_requests_without_tools_and_such_as_are_refused_whole_are_told(tmp_path: Path) -> None:
    bare = {"model": "m", "messages": [{"role": "user", "content": "a title"}]}
    (report,) = against(tmp_path, bare)
    assert "1 of 1 requests declare no tools" in report["notes"][0]
    (report,) = against(tmp_path, bare, mode="strict")
    assert "1 requests would be refused: mode 'strict' refuses" in report["notes"][0]


def test_a_file_without_any_request_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, "--against", capture(tmp_path, {"x": 1}))
    assert result.exit_code == 0
    assert "1 lines hold no request" in result.stdout
    result = run(tmp_path, "--against", capture(tmp_path))
    assert "note: the file is empty" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--against", "none.jsonl"], "none.jsonl: no such file"),
        (["--against", "/tmp/none"], "/tmp/none: no such file"),
        (["--against", "s", "--mode", "nosuch"], "no such mode; known: plan, strict"),
        (["--against", "s", "--url", "http://127.0.0.1:9"], "no proxy answers"),
    ],
    ids=["no file", "no file nor session", "no mode", "no proxy"],
)
def test_what_cannot_be_compared_is_said(tmp_path: Path, arguments: list[str], told: str) -> None:
    result = run(tmp_path, *arguments)
    assert result.exit_code == 1
    assert told in result.stderr


def test_a_mode_is_not_silently_ignored(tmp_path: Path) -> None:
    result = run(tmp_path, "--mode", "nosuch")
    assert result.exit_code == 2
    assert "give --against as well" in result.stderr


class Client:
    """A proxy whose log holds these events."""

    def __init__(self, mode: str, *events: tuple[str, dict[str, Any]]) -> None:
        self._mode = mode
        self._events = [
            {"seq": at, "type": kind, "data": data} for at, (kind, data) in enumerate(events, 1)
        ]

    def get(self, path: str, after: int = 0) -> Any:
        if path.endswith("/events"):
            # A page has two.
            return {"events": self._events[after : after + 2]}
        return {"inForce": self._mode, "agent": "agent/1"}


def judged(tool: str, verdict: str) -> tuple[str, dict[str, Any]]:
    return "call/judged", {"tool": tool, "verdict": verdict}


EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/open", {}),
    (
        "request/header",
        {"lane": "l", "tools": ["read", "write", "exit_plan_mode"], "left_out": ["fetch"]},
    ),
    ("request/header-delta", {"lane": "l", "added": ["editor"], "removed": ["write"]}),
    judged("write", "release"),
    judged("write", "release"),
    judged("read", "release"),
    judged("editor", "release"),
    judged("fs__read", "answer"),
    judged("exit_plan_mode", "ask"),
)


def test_a_session_is_compared_by_the_names_in_its_log() -> None:
    client = cast(ControlClient, Client("plan", *EVENTS))
    (report,) = of_session(client, "s", parse(POLICY), [])
    summary = report.summary()
    assert (summary["mode"], summary["agent"]) == ("plan", "agent/1")
    assert summary["tools"] == {
        "kept": ["read"],
        "partly": ["editor"],
        "asked": ["fetch"],
        "lost": ["write"],
    }
    assert [(c["tool"], c["was"], c["verdict"], c["times"]) for c in summary["calls"]] == [
        ("write", "release", "answer", 2),
        ("read", "release", "release", 1),
        ("editor", "release", "unknown", 1),
        ("fs__read", "answer", "release", 1),
    ]
    text = "\n".join(report.text())
    assert "2 calls would be refused:\n    2 × write" in text
    assert "1 call would be released:\n    fs__read" in text
    assert "would depend on the arguments" in text
    assert "    read" not in text, "what stays as it was is not told"


def test_lanes_that_were_shown_other_tools_are_told_apart() -> None:
    shown = [("a", ["read"]), ("b", ["write"]), ("c", ["read"])]
    headers = [("request/header", {"lane": lane, "tools": tools}) for lane, tools in shown]
    client = cast(ControlClient, Client("strict+plan", *headers, judged("write", "release")))
    reports = of_session(client, "s", parse(POLICY), [])
    assert [(one.mode, one.agent, one.tools, len(one.calls)) for one in reports] == [
        ("strict", "agent/1, lane a", {"read": "kept"}, 1),
        ("strict", "agent/1, lane b", {"write": "lost"}, 0),
        ("plan", "agent/1, lane a", {"read": "kept"}, 1),
        ("plan", "agent/1, lane b", {"write": "lost"}, 0),
    ]


def test_a_session_in_a_mode_that_the_file_does_not_define_needs_one_named() -> None:
    client = cast(ControlClient, Client("default", ("session/open", {})))
    policy = parse(POLICY)
    with pytest.raises(click.ClickException, match="--mode"):
        of_session(client, "s", policy, [])
    (report,) = of_session(client, "s", policy, [policy.modes[ModeId("plan")]])
    assert "never in a mode" in report.notes[0]


def test_progress_is_shown_for_a_large_file_and_not_beside_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.cli.against.LARGE", 1)
    path = capture(tmp_path, chat())
    assert "Reading" in run(tmp_path, "--against", path).stderr
    assert run(tmp_path, "--against", path, "--json").stderr == ""
