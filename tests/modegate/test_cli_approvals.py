"""`modegate approvals`, `approve`, `reject` and `watch` against a proxy whose model submits plans."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from modegate.cli import main
from modegate.cli.approvals import pick
from modegate.cli.formatting import (
    BAR,
    FIRST_LINES,
    beginning,
    first_words,
    question_head,
    whole,
)
from support.playbook import request
from support.running import TOKEN, Running, policies_file, process
from support.waiting import PATIENCE

POLICIES = """
modes:
  plan:
    section: Submit your plan.
    tools: [read]
    exit: {to: default}
  asks:
    section: Ask first.
    tools: [read, {ask: write}]
  two:
    section: Submit your plan.
    tools: [read]
    exit: {options: [{label: Go, to: default}, {label: Look first, to: plan}]}
"""
NASTY = "# Steal\x1b[2J the \u202eterminal\r\n1. rm\x07\n\x9b31mred"
SCRIPT = """
answers:
  - when: {last_result: "approved the plan", offers: write}
    text: "Now I write."
    calls: [{name: write, arguments: {path: notes.txt}}]
  - when: {last_result: "«keep the old API»"}
    text: "Then I keep it."
  - when: {last: "ASK", offers: write}
    calls: [{name: write, arguments: {path: notes.txt}}]
  - when: {last_result: "rejected the call"}
    text: "Then I do not write."
  - when: {last_result: "approved the plan"}
    text: "Then I look."
  - when: {last_result: "rejected the plan"}
    text: "What should I change?"
  - when: {last_result: "nobody answered"}
    text: "Please answer."
  - when: {any: "BIG", offers: exit_plan_mode}
    calls: [{name: exit_plan_mode, arguments: {plan: BIGPLAN}}]
  - when: {any: "NASTY", offers: exit_plan_mode}
    calls: [{name: exit_plan_mode, arguments: {plan: NASTYPLAN}}]
  - when: {offers: exit_plan_mode}
    calls: [{name: exit_plan_mode, arguments: {plan: "# Rename foo\\n1. rename"}}]
  - text: "ok"
"""
BIG = "\n".join(f"{n}. change the file number {n}, as was said" for n in range(1, 5_000))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("proxy")
    policies_file(folder, POLICIES)
    script = SCRIPT.replace("BIGPLAN", json.dumps(BIG)).replace("NASTYPLAN", json.dumps(NASTY))
    (folder / "script.yaml").write_text(script, encoding="utf-8")
    with process(folder, f"scripted:{folder / 'script.yaml'}") as started:
        yield started.running


def cli(proxy: Running, *arguments: str) -> Result:
    known = {"MODEGATE_URL": proxy.url, "MODEGATE_CONTROL_TOKEN": TOKEN}
    return CliRunner().invoke(main, arguments, env=known)


def control(proxy: Running, method: str, path: str, body: object = None) -> Any:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(trust_env=False, verify=False, timeout=PATIENCE) as http:
        answer = http.request(method, f"{proxy.url}/control/v1{path}", json=body, headers=headers)
        return answer.json()


def mode_of(proxy: Running, session: str) -> str:
    return str(control(proxy, "GET", f"/sessions/{session}")["mode"])


def until(found: Callable[[], Any]) -> Any:
    """Ask again until there is something."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < end, "it did not come"
    return value


def open_of(proxy: Running, session: str) -> list[dict[str, Any]]:
    found = control(proxy, "GET", "/approvals")["approvals"]
    return [one for one in found if one["session"] == session]


class Agent(threading.Thread):
    """A streamed request of an agent, on its way."""

    def __init__(self, proxy: Running, session: str, words: str) -> None:
        super().__init__(daemon=True)
        self.body = b""
        self._url = f"{proxy.base(session)}/chat/completions"
        messages = [{"role": "user", "content": words}]
        self._request = request("read", "write", messages=messages, stream=True)
        self.start()

    def run(self) -> None:
        # A proxy that is stopped while a failed test's agent waits is no second failure.
        with (
            suppress(httpx.TransportError),
            httpx.Client(trust_env=False, verify=False, timeout=PATIENCE) as http,
        ):
            self.body = http.post(self._url, json=self._request).content

    def answer(self) -> str:
        """Return the whole answer."""
        self.join(PATIENCE)
        assert not self.is_alive(), "the agent still waits"
        return self.body.decode()


def submit(
    proxy: Running, session: str, words: str = "go", mode: str = "plan"
) -> tuple[Agent, str]:
    """Let a model submit a plan that a person is looking at; give its agent and the question's id."""
    control(proxy, "PUT", f"/sessions/{session}/mode", {"mode": mode})
    agent = Agent(proxy, session, words)
    (question,) = until(lambda: open_of(proxy, session))
    control(proxy, "POST", f"/approvals/{question['id']}/delivered", {"via": "test"})
    return agent, question["id"]


def finish(proxy: Running, agent: Agent, name: str) -> None:
    """Reject, so that the agent's request ends."""
    control(proxy, "POST", f"/approvals/{name}", {"option": "reject"})
    agent.answer()


def test_a_plan_is_listed_shown_and_approved_by_the_beginning_of_its_id(proxy: Running) -> None:
    agent, name = submit(proxy, "approve")
    listed = cli(proxy, "approvals")
    assert listed.exit_code == 0
    (row,) = [line for line in listed.stdout.splitlines() if line.startswith(name)]
    assert "approve" in row
    assert "delivered" in row
    assert row.endswith("plan: Rename foo")
    (data,) = [
        one
        for one in json.loads(cli(proxy, "approvals", "--json").stdout)["approvals"]
        if one["id"] == name
    ]
    assert data["text"] == "# Rename foo\n1. rename"
    shown = cli(proxy, "approvals", name[:-1])
    assert shown.stdout.splitlines()[1:] == [f"{BAR}Rename foo", f"{BAR}1. rename"]
    assert json.loads(cli(proxy, "approvals", name, "--json").stdout) == data
    done = cli(proxy, "approve", name[:-1])
    assert (done.exit_code, done.stdout) == (
        0,
        "approve: approve; the mode is default now\n",
    )
    answer = agent.answer()
    assert '"write"' in answer
    assert "exit_plan_mode" not in answer
    assert mode_of(proxy, "approve") == "default"


def test_a_reason_reaches_the_model(proxy: Running) -> None:
    agent, name = submit(proxy, "reject")
    done = cli(proxy, "reject", name, "--reason", "keep the old API", "--json")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert (data["option"], data["comment"], data["waited"]) == ("reject", "keep the old API", True)
    assert "mode" not in data
    assert "keep it" in "".join(said(agent.answer()))
    assert mode_of(proxy, "reject") == "plan"


def said(stream: str) -> Iterator[str]:
    """Yield the pieces of text in a stream."""
    for line in stream.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                yield choice["delta"].get("content") or ""


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_who_comes_second_is_told_how_it_was_settled(proxy: Running, verb: str) -> None:
    agent, name = submit(proxy, f"second-{verb}")
    assert cli(proxy, "reject", name, "--reason", "keep the old API").exit_code == 0
    agent.answer()
    again = cli(proxy, verb, name)
    assert again.exit_code == 1
    assert again.stdout == ""
    assert f"approval {name} is already answered with 'reject' by person:cli" in again.stderr
    assert mode_of(proxy, f"second-{verb}") == "plan"
    # The beginning of its id will do, as for one that is open.
    short = cli(proxy, verb, name[:-2])
    assert short.exit_code == 1
    assert f"approval {name} is already answered with 'reject' by person:cli" in short.stderr
    assert "no approval begins with 'nothing'" in cli(proxy, verb, "nothing").stderr


def test_o16_an_approval_can_have_a_comment(proxy: Running) -> None:
    agent, name = submit(proxy, "commented")
    done = cli(proxy, "approve", name, "--comment", "but keep the tests")
    assert done.exit_code == 0, done.stderr
    agent.answer()
    events = control(proxy, "GET", "/sessions/commented/events")["events"]
    (answered,) = [one for one in events if one["type"] == "approval/answered"]
    assert answered["data"]["comment"] == "but keep the tests"


def test_a_plan_that_nobody_saw_can_be_approved_later(proxy: Running) -> None:
    control(proxy, "PUT", "/sessions/late/mode", {"mode": "plan"})
    agent = Agent(proxy, "late", "go")
    assert "Please answer." in "".join(said(agent.answer()))
    (question,) = open_of(proxy, "late")
    assert question["status"] == "detached"
    assert mode_of(proxy, "late") == "plan"
    done = cli(proxy, "approve", question["id"])
    assert done.exit_code == 0
    assert "told so at its next request" in done.stderr
    assert mode_of(proxy, "late") == "default"


def test_a_choice_of_ways_is_not_made_for_anybody(proxy: Running) -> None:
    agent, name = submit(proxy, "two", mode="two")
    vague = cli(proxy, "approve", name)
    assert vague.exit_code == 1
    assert "--option approve-1 (Go); --option approve-2 (Look first)" in vague.stderr
    wrong = cli(proxy, "approve", name, "--option", "approve-3")
    assert wrong.exit_code == 1
    assert "was not offered" in wrong.stderr
    done = json.loads(cli(proxy, "approve", name, "--option", "approve-2", "--json").stdout)
    assert done["mode"] == "plan"
    agent.answer()
    assert mode_of(proxy, "two") == "plan"


def test_a_call_is_allowed_once_or_rejected(proxy: Running) -> None:
    agent, name = submit(proxy, "asks", "ASK", mode="asks")
    assert f"{BAR}{{" in cli(proxy, "approvals", name).stdout
    done = cli(proxy, "approve", name)
    assert (done.exit_code, done.stdout) == (0, "asks: allow_once; the mode stays as it is\n")
    assert '"write"' in agent.answer()
    agent, name = submit(proxy, "asks-no", "ASK", mode="asks")
    assert cli(proxy, "reject", name).exit_code == 0
    answer = agent.answer()
    assert '"write"' not in answer
    assert "".join(said(answer)) == "Then I do not write."
    assert mode_of(proxy, "asks") == mode_of(proxy, "asks-no") == "asks"


@pytest.mark.parametrize("arguments", [("approve", "x"), ("reject", "x"), ("approvals", "x")])
def test_what_was_never_asked_is_an_error(proxy: Running, arguments: tuple[str, ...]) -> None:
    result = cli(proxy, *arguments)
    assert result.exit_code == 1
    assert "approval" in result.stderr
    assert result.stdout == ""


def test_an_empty_list_is_no_error(tmp_path: Path) -> None:
    with process(tmp_path, "http://127.0.0.1:9") as started:
        result = cli(started.running, "approvals")
        data = cli(started.running, "approvals", "--json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing waits" in result.stderr
    assert json.loads(data.stdout) == {"approvals": []}


def test_the_beginning_of_an_id_must_be_of_one() -> None:
    ones = [{"id": "mg-perm-a-1"}, {"id": "mg-perm-a-12"}, {"id": "mg-perm-b-1"}]
    assert pick(ones, "mg-perm-b") == ones[2]
    assert pick(ones, "mg-perm-a-1") == ones[0]
    assert pick(ones, "") is None
    assert pick(ones, "mg-perm-c") is None
    with pytest.raises(click.ClickException, match="could be any of: mg-perm-a-1, mg-perm-a-12"):
        pick(ones, "mg-perm-a")


def test_a_large_plan_is_printed_whole_and_listed_in_short(proxy: Running) -> None:
    assert len(BIG) > 200_000
    agent, name = submit(proxy, "big", "BIG")
    shown = cli(proxy, "approvals", name).stdout.splitlines()
    assert shown[1:] == [BAR + line for line in BIG.split("\n")]
    assert len(cli(proxy, "approvals").stdout) < 2_000
    finish(proxy, agent, name)


def test_a_plan_steers_no_terminal(proxy: Running) -> None:
    agent, name = submit(proxy, "nasty", "NASTY")
    outputs = [cli(proxy, "approvals").stdout, cli(proxy, "approvals", name).stdout]
    finish(proxy, agent, name)
    for output in outputs:
        assert all(line.isprintable() for line in output.split("\n"))
        assert "Steal\\x1b[2J the \\u202eterminal" in output
    assert "1. rm\\x07" in outputs[1]
    assert "\\x9b31mred" in outputs[1]


def question(text: str, **more: Any) -> dict[str, Any]:
    base = {"id": "mg-perm-a", "session": "s", "purpose": "exit", "tool": "t", "askedAt": 0}
    return {**base, "text": text, **more}


def test_what_is_shown_first_has_an_end() -> None:
    lines = beginning(question(BIG)).split("\n")
    assert len(lines) == FIRST_LINES + 1
    assert "4999 lines in all; see them: modegate approvals mg-perm-a | less" in lines[-1]
    one_line = beginning(question("x" * 200_000))
    assert len(one_line) < 21_000
    assert "cut here" in one_line
    assert beginning(question("a\nb")) == f"{BAR}a\n{BAR}b"


def test_a_plan_is_shown_as_markdown_and_a_call_as_it_is() -> None:
    text = "# Head\n```\n# no head\n```\n"
    assert whole(question(text, purpose="ask")) == "\n".join(
        BAR + line for line in text.split("\n")
    )
    head, fence, code, *_ = whole(question(text)).split("\n")
    assert head == f"{BAR}\x1b[1m\x1b[4mHead\x1b[0m"
    assert fence == f"{BAR}\x1b[2m```\x1b[0m"
    assert code == f"{BAR}# no head"


def test_short_forms_name_what_is_asked() -> None:
    assert first_words(question("\n## \n# Do it\nmore")) == "plan: Do it"
    assert first_words(question("x" * 100)) == "plan: " + "x" * 59 + "…"
    assert first_words(question("{}", purpose="ask", tool="fetch\n")) == "fetch\\n: {}"
    assert "a call of fetch of session s" in question_head(
        question("{}", purpose="ask", tool="fetch")
    )


class Terminal:
    """A command at a pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self.text = ""
        self._seen = 0

    def expect(self, words: str) -> str:
        """Read until these words come; give what came up to them."""
        end = time.monotonic() + PATIENCE
        while (at := self.text.find(words, self._seen)) < 0:
            left = end - time.monotonic()
            assert left > 0, f"no {words!r} in {self.text!r}"
            if select.select([self._fd], [], [], left)[0]:
                self.text += os.read(self._fd, 1 << 16).decode("utf-8", "replace")
        before, self._seen = self.text[self._seen : at], at + len(words)
        return before

    def type(self, line: str) -> None:
        """Do what a person does."""
        os.write(self._fd, f"{line}\n".encode())


@contextmanager
def watching(proxy: Running, *arguments: str) -> Iterator[Terminal]:
    """Run `modegate watch` at a pseudo-terminal, with nothing left that other tests asked."""
    for one in control(proxy, "GET", "/approvals")["approvals"]:
        control(proxy, "POST", f"/approvals/{one['id']}", {"option": "reject"})
    with at_terminal(proxy, "watch", *arguments) as terminal:
        yield terminal


@contextmanager
def following(proxy: Running, session: str) -> Iterator[Terminal]:
    """Run `modegate log --follow` at a pseudo-terminal."""
    with at_terminal(proxy, "log", session, "--follow") as terminal:
        yield terminal


@contextmanager
def at_terminal(proxy: Running, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "modegate", *arguments]
    environment = {**os.environ, "MODEGATE_URL": proxy.url, "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as started:
        os.close(theirs)
        try:
            yield Terminal(started, ours)
        finally:
            started.kill()
            os.close(ours)


def ask_in(proxy: Running, session: str, words: str = "go", mode: str = "plan") -> Agent:
    control(proxy, "PUT", f"/sessions/{session}/mode", {"mode": mode})
    return Agent(proxy, session, words)


def test_watch_shows_a_plan_and_y_lets_the_waiting_agent_go_on(proxy: Running) -> None:
    with watching(proxy) as terminal:
        terminal.expect("waiting for plans")
        agent = ask_in(proxy, "watch-y")
        terminal.expect("a plan of session watch-y")
        terminal.expect("Rename foo")
        terminal.expect("1. rename")
        terminal.expect("y  Approve (mode default)")
        terminal.expect("Your answer")
        terminal.type("")
        terminal.type("y")
        terminal.expect("watch-y: approve; the mode is default now")
        assert '"write"' in agent.answer()
    assert mode_of(proxy, "watch-y") == "default"


def test_watch_takes_a_reason_and_goes_on(proxy: Running) -> None:
    with watching(proxy) as terminal:
        first = ask_in(proxy, "watch-n")
        terminal.expect("Your answer")
        terminal.type("n")
        terminal.expect("Reason for the model")
        terminal.type("keep the old API")
        terminal.expect("watch-n: reject; the mode stays as it is")
        assert "keep it" in "".join(said(first.answer()))
        second = ask_in(proxy, "watch-2", mode="two")
        terminal.expect("1  Go (mode default)")
        terminal.expect("2  Look first (mode plan)")
        terminal.expect("Your answer")
        terminal.type("2")
        terminal.expect("watch-2: approve-2; the mode is plan now")
        second.answer()
    assert mode_of(proxy, "watch-n") == "plan"


def test_watch_leaves_open_and_ends_at_an_interrupt(proxy: Running) -> None:
    with watching(proxy) as terminal:
        agent = ask_in(proxy, "watch-s", "NASTY")
        terminal.expect("Your answer")
        assert "\x1b[2J" not in terminal.text
        assert "\u202e" not in terminal.text
        terminal.type("s")
        terminal.expect("left open: modegate approve mg-perm-")
        # Nobody else sees it, so that its request does not wait any longer.
        assert "Please answer." in "".join(said(agent.answer()))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
    (left,) = open_of(proxy, "watch-s")
    assert left["status"] == "detached"


def test_o5_who_ends_watching_is_gone(proxy: Running) -> None:
    with watching(proxy) as terminal:
        agent = ask_in(proxy, "watch-gone")
        terminal.expect("Your answer")
        until(lambda: [one["status"] for one in open_of(proxy, "watch-gone")] == ["delivered"])
        terminal.process.kill()
        assert "Please answer." in "".join(said(agent.answer()))


def test_o5_only_what_is_shown_is_waited_for(proxy: Running) -> None:
    """A second plan waits behind the first one, which the person reads: nobody sees it yet."""
    with watching(proxy) as terminal:
        first = ask_in(proxy, "watch-first")
        terminal.expect("a plan of session watch-first")
        second = ask_in(proxy, "watch-second")
        assert "Please answer." in "".join(said(second.answer()))
        assert [one["status"] for one in open_of(proxy, "watch-first")] == ["delivered"]
        terminal.type("n")
        terminal.expect("Reason for the model")
        terminal.type("")
        first.answer()
        terminal.expect("a plan of session watch-second")
        terminal.type("y")
        terminal.expect("watch-second: approve; the mode is default now")
    assert mode_of(proxy, "watch-second") == "default"


def test_o5_without_a_terminal_it_counts_as_nobody(proxy: Running) -> None:
    command = [sys.executable, "-m", "modegate", "watch"]
    environment = {**os.environ, "MODEGATE_URL": proxy.url, "MODEGATE_CONTROL_TOKEN": TOKEN}
    piped: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **piped) as started:
        agent = ask_in(proxy, "watch-null")
        assert "Please answer." in "".join(said(agent.answer()))
        assert started.stdout is not None
        lines = iter(started.stdout.readline, "")
        assert any("a plan of session watch-null" in line for line in lines)
        assert started.poll() is None
        started.kill()
    (one,) = open_of(proxy, "watch-null")
    assert one["status"] == "detached"


def test_o5_a_proxy_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """After an upgrade somebody still watches, and sees what came up meanwhile."""
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    policies_file(tmp_path, POLICIES)
    model = f"scripted:{tmp_path / 'script.yaml'}"
    with process(tmp_path, model) as started:
        port = started.running.port
        with watching(started.running) as terminal, following(started.running, "r") as log:
            agent = ask_in(started.running, "r")
            terminal.expect("a plan of session r")
            log.expect("approval/delivered")
            started.kill()
            terminal.expect("trying again")
            agent.join(PATIENCE)
            with process(tmp_path, model, "--port", str(port)) as again:
                terminal.expect("connected again")
                terminal.type("y")
                terminal.expect("r: approve; the mode is default now")
                log.expect("approval/answered")
                assert log.text.count("approval/asked") == 1
                assert mode_of(again.running, "r") == "default"


def test_watch_tells_that_somebody_else_was_faster(proxy: Running) -> None:
    with watching(proxy) as terminal:
        agent = ask_in(proxy, "watch-late")
        terminal.expect("Your answer")
        (one,) = open_of(proxy, "watch-late")
        finish(proxy, agent, one["id"])
        terminal.expect("settled elsewhere: answered with 'reject' by person:control")
        terminal.type("y")
        assert terminal.process.poll() is None
    assert mode_of(proxy, "watch-late") == "plan"


def test_watch_json_prints_changes_and_counts_as_nobody(proxy: Running) -> None:
    with watching(proxy, "--json") as terminal:
        agent = ask_in(proxy, "watch-json")
        changes = json_lines(terminal, "watch-json")
        first = next(changes)
        assert (first["status"], first["open"]) == ("asked", True)
        assert first["text"] == "# Rename foo\n1. rename"
        assert next(changes)["status"] == "detached"
        assert "Please answer." in "".join(said(agent.answer()))
        control(proxy, "POST", f"/approvals/{first['id']}", {"option": "reject"})
        last = next(changes)
    assert (last["status"], last["open"]) == ("answered", False)


def json_lines(terminal: Terminal, session: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of one session."""
    while True:
        line = re.sub(r"\s+$", "", terminal.expect("\r\n"))
        if line.startswith("{") and (found := json.loads(line))["session"] == session:
            yield found


def test_watch_without_a_proxy_says_so() -> None:
    result = CliRunner().invoke(main, ["watch", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert "modegate serve" in result.stderr
