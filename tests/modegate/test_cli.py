"""The command line: `check` by itself, the rest against a proxy in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from modegate import __version__
from modegate.cli import main
from modegate.cli.formatting import event_line, table
from support.running import TOKEN, Process, process

GOOD = """
modes:
  plan:
    section: Look only.
    tools: [read, grep]
  one:
    section: x
    tools: [read]
"""
BAD = "modes:\n  plan:\n    section: Look only.\n    tolls: [read]\nother: 1\n"


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("proxy")
    with process(folder, "http://127.0.0.1:9") as started:
        yield started


def ask(proxy: Process, *arguments: str, **env: str) -> Result:
    known = {"MODEGATE_URL": proxy.running.url, "MODEGATE_CONTROL_TOKEN": TOKEN}
    return run(*arguments, **{**known, **env})


def test_importing_the_command_line_is_cheap() -> None:
    heavy = (
        "litellm", "httpx", "aiohttp", "uvicorn", "starlette", "redis", "yaml", "openai", "msgspec",
    )  # fmt: skip
    code = f"import sys, modegate.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_the_version_is_told() -> None:
    assert __version__ in run("--version").stdout


@pytest.mark.parametrize("names", [(), ("log",)], ids=["all", "log"])
def test_the_lists_of_commands_cut_no_sentence_off(names: tuple[str, ...]) -> None:
    assert "..." not in run(*names, "--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"modegate {name}" in result.stdout.partition("Example")[2]


def test_check_counts_what_a_good_file_has(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(GOOD)
    result = run("check", str(path))
    assert result.exit_code == 0
    assert "good" in result.stdout
    assert "2 modes" in result.stdout
    assert "plan: 2 tool rules" in result.stdout
    data = json.loads(run("check", str(path), "--json").stdout)
    assert [(mode["id"], mode["rules"]) for mode in data["modes"]] == [("plan", 2), ("one", 1)]
    assert data["hash"] in result.stdout


def test_check_prints_every_problem_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(BAD)
    result = run("check", str(path))
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert any(line.startswith(f"{path}:4: modes.plan") and "tolls" in line for line in lines)
    assert any(line.startswith(f"{path}:5: ") and "other" in line for line in lines)

    as_json = run("check", str(path), "--json")
    assert as_json.exit_code == 1
    assert {problem["line"] for problem in json.loads(as_json.stdout)["problems"]} >= {4, 5}


DOUBTFUL = GOOD.replace("[read, grep]", "[read, read]")


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_check_tells_warnings_of_a_good_file(tmp_path: Path, strict: bool) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(DOUBTFUL)
    given = ["check", str(path), *(["--strict"] if strict else [])]
    result = run(*given)
    assert result.exit_code == (1 if strict else 0)
    assert "good" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{path}:5: warning: modes.plan.tools[1]: ")
    (warning,) = json.loads(run(*given, "--json").stdout)["warnings"]
    assert warning["line"] == 5
    assert warning["message"] in line


def test_check_tells_warnings_beside_problems(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(DOUBTFUL + "other: 1\n")
    result = run("check", str(path))
    assert result.exit_code == 1
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["other", "warning"]
    found = json.loads(run("check", str(path), "--json").stdout)
    assert (len(found["problems"]), len(found["warnings"])) == (1, 1)


def test_check_takes_the_file_of_the_variable_else_the_working_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "policies.yaml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert run("check").stdout.startswith("policies.yaml: good")
    assert run("check", MODEGATE_POLICIES="bad.yaml").exit_code == 1


def test_check_against_a_session_asks_the_proxy_for_its_log(proxy: Process, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(GOOD)
    ask(proxy, "mode", "against-1", "plan")
    result = ask(proxy, "check", str(path), "--against", "against-1", "--json")
    (report,) = json.loads(result.stdout)["against"]
    assert (report["mode"], report["calls"]) == ("plan", [])
    assert "never in a mode" in report["notes"][0]
    unknown = ask(proxy, "check", str(path), "--against", "nobody")
    assert unknown.exit_code == 1
    assert "nobody" in unknown.stderr


def test_check_of_a_missing_file_fails(tmp_path: Path) -> None:
    result = run("check", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml" in result.stderr


def test_a_problem_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text('modes:\n  plan:\n    "\\e[2J\\u202e": 1\n')
    result = run("check", str(path))
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert "\u202e" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--port", "70000"], "Error: setting port: 70000 is not"),
        (["--log", "files"], "Error: setting log: 'files' is none of"),
        (["--upstream", "scripted:/nowhere.yaml"], "Error: /nowhere.yaml: No such file"),
    ],
)
def test_serve_refuses_bad_settings(tmp_path: Path, arguments: list[str], line: str) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    fixed = ["--policies", str(tmp_path / "p.yaml"), "--state-dir", str(tmp_path / "state")]
    result = run("serve", "--port", "0", *fixed, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(line)


def test_serve_prints_all_problems_of_a_bad_policy(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(BAD)
    result = run("serve", "--policies", str(path), "--state-dir", str(tmp_path / "state"))
    assert result.exit_code == 2
    assert {line.rpartition(".yaml:")[2][0] for line in result.stderr.splitlines()} >= {"4", "5"}


def test_serve_says_that_a_port_is_taken(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run(
            "serve", "--port", port,
            "--policies", str(tmp_path / "p.yaml"), "--state-dir", str(tmp_path / "state"),
        )  # fmt: skip
    assert result.exit_code == 1
    assert f"127.0.0.1:{port} is in use" in result.stderr


def serve_command(folder: Path, *more: str) -> list[str]:
    (folder / "p.yaml").write_text(GOOD)
    files = ["--policies", str(folder / "p.yaml"), "--state-dir", str(folder / "state")]
    return [sys.executable, "-m", "modegate", "serve", "--port", "0", *files, *more]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_tells_where_things_are_and_ends_well(tmp_path: Path, number: signal.Signals) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MODEGATE_")}
    redis = "redis://user:hidden-word@127.0.0.1:9/0"
    command = serve_command(tmp_path, "--log", redis, "--upstream", "http://127.0.0.1:9")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as serving:
        assert serving.stderr
        head = [serving.stderr.readline() for _ in range(9)]
        serving.send_signal(number)
        rest = serving.stderr.read()
    assert serving.returncode == 0, rest
    text = "".join(head)
    assert "/s/SESSION/v1" in text
    assert str(tmp_path / "state" / "control-token") in text
    assert "modes: plan, one" in text
    assert "the log is not ready" in head[8]
    assert "hidden-word" not in text + rest


def test_serve_keeps_the_token_for_the_command_line(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MODEGATE_")}
    command = serve_command(tmp_path, "--upstream", "http://127.0.0.1:9")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as serving:
        assert serving.stderr
        url = serving.stderr.readline().split()[-1]
        state = str(tmp_path / "state")
        found = run("mode", "s1", "plan", "--url", url, "--state-dir", state)
        other = run("mode", "s1", "--url", url, "--state-dir", str(tmp_path / "other"))
        serving.terminate()
        serving.stderr.read()
    assert found.exit_code == 0, found.stderr
    assert other.exit_code == 1
    assert "MODEGATE_CONTROL_TOKEN" in other.stderr


def test_mode_is_set_and_shown(proxy: Process) -> None:
    assert ask(proxy, "mode", "m1", "plan").stdout == "m1: default -> plan (event 1)\n"
    assert ask(proxy, "mode", "m1").stdout == "plan\n"
    assert ask(proxy, "mode", "m1", "plan").stdout == "m1: already plan\n"
    back = ask(proxy, "mode", "m1", "default", "--json")
    assert json.loads(back.stdout) == {"mode": "default", "seq": 2, "changed": True, "was": "plan"}
    assert json.loads(ask(proxy, "mode", "m1", "--json").stdout)["mode"] == "default"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mode", "m2", "plna"], "available: default, plan, review"),
        (["mode", "nobody"], "no session 'nobody'"),
        (["mode", "a/b", "plan"], "not valid"),
        (["mode", "../policy"], "not valid"),
        (["mode", ""], "not valid"),
        (["log", "nobody"], "no session 'nobody'"),
        (["log", "no body", "--follow"], "not valid"),
    ],
)
def test_a_refusal_is_told_and_fails(proxy: Process, arguments: list[str], message: str) -> None:
    result = ask(proxy, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert message in result.stderr


def test_sessions_are_listed(proxy: Process) -> None:
    for session in ("l1", "l2", "l3"):
        ask(proxy, "mode", session, "plan")
    result = ask(proxy, "sessions")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["SESSION", "MODE", "GATED", "LAST", "SEEN", "AGENT"]
    assert {row.split()[0] for row in rows} >= {"l1", "l2", "l3"}
    assert "there are more" not in result.stderr
    limited = ask(proxy, "sessions", "--json", "--limit", "2")
    assert len(json.loads(limited.stdout)["sessions"]) == 2
    assert limited.stderr == "there are more: --limit 4\n"


def test_r5_a_child_that_its_parent_holds_says_so(proxy: Process) -> None:
    ask(proxy, "mode", "main-1", "plan")
    url = f"{proxy.running.base('sub-1')}/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": "look"}]}
    httpx.post(url, json=body, headers={"x-parent-session-id": "main-1"}, trust_env=False)
    shown = ask(proxy, "mode", "sub-1")
    assert shown.stdout == "plan\n"
    assert shown.stderr == "its own mode is default; held by its parent: plan of main-1\n"
    (row,) = [one for one in ask(proxy, "sessions").stdout.splitlines() if one.startswith("sub-1")]
    assert "plan (by main-1)" in row
    freed = ask(proxy, "mode", "sub-1", "default")
    assert freed.stdout.startswith("sub-1: default, whatever its parent main-1 is in (event ")
    again = ask(proxy, "mode", "sub-1")
    assert (again.stdout, again.stderr) == ("default\n", "")


def test_s7_an_allowed_tool_that_is_not_offered_is_named(proxy: Process) -> None:
    ask(proxy, "mode", "left-1", "plan")
    function = {"name": "read", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function, "xVendor": {}}]
    body = {"model": "m", "messages": [{"role": "user", "content": "look"}], "tools": tools}
    url = f"{proxy.running.base('left-1')}/chat/completions"
    httpx.post(url, json=body, trust_env=False)
    told = "left-1: allowed, but not offered as declared: read\n"
    assert told in ask(proxy, "sessions").stderr
    (row,) = [
        one
        for one in json.loads(ask(proxy, "sessions", "--json").stdout)["sessions"]
        if one["id"] == "left-1"
    ]
    assert row["leftOut"] == ["read"]
    assert '"left_out":["read"]' in ask(proxy, "log", "left-1", "--json").stdout.replace(" ", "")


def test_an_empty_list_is_no_data(tmp_path: Path) -> None:
    with process(tmp_path, "http://127.0.0.1:9") as fresh:
        result = ask(fresh, "sessions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no sessions" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("mode", "s9", "plan"), ("mode", "s9"), ("sessions",), ("log", "s9"), ("approvals",)],
)
def test_o2_a_tenant_that_no_agent_can_have_is_an_error(
    proxy: Process, arguments: tuple[str, ...]
) -> None:
    result = ask(proxy, *arguments, "--tenant", "ci")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no agent can be of tenant 'ci'" in result.stderr


def test_the_log_is_printed(proxy: Process) -> None:
    for mode in ("plan", "review"):
        ask(proxy, "mode", "e1", mode)
    first, second = ask(proxy, "log", "e1").stdout.splitlines()
    assert first.split()[0] == "1"
    assert "mode/set" in first
    assert "person:cli" in first
    assert second.endswith("mode=review")
    lines = ask(proxy, "log", "e1", "--json").stdout.splitlines()
    assert [json.loads(line)["data"]["mode"] for line in lines] == ["plan", "review"]


def test_the_log_is_followed_until_interrupted(proxy: Process) -> None:
    ask(proxy, "mode", "f1", "plan")
    command = [sys.executable, "-m", "modegate", "log", "f1", "--follow"]
    env = {**os.environ, "MODEGATE_URL": proxy.running.url, "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as following:
        assert following.stdout
        assert "mode=plan" in following.stdout.readline()
        ask(proxy, "mode", "f1", "review")
        assert "mode=review" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.stdout.read() == ""
    assert following.returncode == 0


def test_nobody_at_the_url_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = run("sessions", "--url", f"http://127.0.0.1:{port}")
    assert result.exit_code == 1
    assert "modegate serve" in result.stderr


@pytest.mark.parametrize("url", ["ftp://localhost", "http://", "nonsense", "http://[::1"])
def test_a_bad_url_is_told(url: str) -> None:
    result = run("sessions", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")


class Stranger(BaseHTTPRequestHandler):
    """A server that is not modegate."""

    status = 200
    body = b"<html>"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def stranger() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("command", [["sessions"], ["log", "s", "--follow"]])
def test_a_stranger_at_the_url_is_told(
    monkeypatch: pytest.MonkeyPatch, status: int, command: list[str]
) -> None:
    monkeypatch.setattr(Stranger, "status", status)
    with stranger() as url:
        result = run(*command, "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("body", [b'{"data": []}', b"[]", b"1"], ids=["object", "list", "number"])
@pytest.mark.parametrize("command", [["sessions"], ["mode", "s"], ["log", "s"], ["approvals"]])
def test_a_stranger_that_speaks_json_is_told(
    monkeypatch: pytest.MonkeyPatch, body: bytes, command: list[str]
) -> None:
    """Such as the model's server in place of modegate; it was a traceback."""
    monkeypatch.setattr(Stranger, "body", body)
    with stranger() as url:
        result = run(*command, "--url", url)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {url} does not speak modegate's control API\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b": still here\n\n", "the proxy ended the stream; trying again\n"),
        (
            b'event: error\ndata: {"error":{"code":"log_unavailable","message":"gone\\u001b"}}\n\n',
            "gone\\x1b; trying again\n",
        ),
    ],
    ids=["ended", "told"],
)
def test_o5_following_that_ends_goes_on_until_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: bytes, message: str
) -> None:
    """A proxy that restarts is waited for; one that says no is not."""
    asked: list[str] = []

    def answer(one: BaseHTTPRequestHandler) -> None:
        asked.append(one.path)
        one.send_response(200 if len(asked) < 3 else 404)
        one.send_header("content-type", "text/event-stream")
        one.end_headers()
        event = b'data: {"seq":7,"at":0,"type":"mode/set","by":"x","data":{}}\n\n'
        one.wfile.write(event + body if len(asked) == 1 else body)

    monkeypatch.setattr(Stranger, "do_GET", answer)
    with stranger() as url:
        result = run("log", "s", "--follow", "--json", "--url", url)
    first, again, *last = result.stderr.splitlines(keepends=True)
    assert (result.exit_code, first, again) == (1, message, "connected again\n")
    assert last[-1].startswith("Error: ")
    assert result.stdout.count("mode/set") == 1
    # Each connection goes on where the one before ended.
    assert [path.partition("after=")[2][0] for path in asked] == ["0", "7", "7"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_the_token_does_not_go_through_a_proxy_of_the_environment(
    proxy: Process, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    monkeypatch.setattr(Stranger, "do_GET", lambda one: passed.append(one.path))
    url = proxy.running.url.replace("127.0.0.1", host)
    with stranger() as elsewhere:
        environ = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), elsewhere)
        environ |= {"NO_PROXY": "", "no_proxy": ""}
        result = ask(proxy, "sessions", MODEGATE_URL=url, **environ)
    assert passed == []
    # At the third, nobody listens.
    assert (result.exit_code == 0) is (host != "127.0.0.2"), result.stderr


def test_an_event_is_one_harmless_line() -> None:
    event = {
        "seq": 7,
        "type": "call/judged",
        "at": 0,
        "by": "gate",
        "data": {
            "tool": "wri\x1b[2Jte\u202e\n",
            "reason": "two words",
            "tools": [f"t{n}" for n in range(9)],
            "hops": [{}, {}],
            "empty": "",
        },
    }
    line = event_line(event)
    assert line.isprintable()
    assert "tools=t0,t1,t2,t3,t4,t5,… (9)" in line
    assert 'reason="two words"' in line
    assert "hops=(2)" in line
    assert "empty" not in line


def test_a_table_is_aligned_and_harmless() -> None:
    text = table(["A", "B"], [["long\x07er", 1], ["x", "y"]])
    assert text.splitlines() == ["A           B", "long\\x07er  1", "x           y"]
