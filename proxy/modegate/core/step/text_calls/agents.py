"""Which agents run calls that their model writes as text, and which names those calls have.

Such text is judged as a call if the agent is known to run it, or if a policy says `text_calls: refuse`. To
all other agents it is text: they talk about it all day.
"""

from __future__ import annotations

from dataclasses import dataclass

from modegate.core.wire.arguments import words

TAGS = words("""
    write_to_file replace_in_file apply_diff insert_content search_and_replace search_replace edit_file
    execute_command read_command_output browser_action use_mcp_tool access_mcp_resource new_task
    switch_mode new_rule report_bug condense fetch_instructions generate_image run_slash_command
    read_file list_files search_files list_code_definition_names codebase_search update_todo_list
    attempt_completion ask_followup_question plan_mode_respond web_fetch load_mcp_documentation
    save append patch patch_many morph shell ipython python tmux browser subagent gh computer
    hashline_edit execute_bash str_replace_editor
""")
"""Tags of agents that declare no tools beside them: Cline, Roo Code, gptme, OpenHands."""

FENCES = words("""
    save append patch patch_many morph hashline_edit shell ipython py tmux browser subagent gh computer
    mcp read todo memory watch restart choice form elicit clarify complete progress vent rag vision
    screenshot chats request_tool_change autocommit tool tool_code tool_call
""")
"""Languages of fenced blocks that an agent runs: gptme's, Continue's `tool`, Gemini's `tool_code`."""

PLAIN = words("""
    bash sh zsh console python python3 json json5 jsonc yaml yml toml ini text txt plain plaintext output
    markdown md html xml css scss svg diff javascript js jsx typescript ts tsx go rust java kotlin c cpp
    c++ csharp cs ruby rb php sql swift scala lua perl r haskell make makefile dockerfile docker nix
    graphql proto mermaid csv log latex tex vim vue svelte cmake terraform hcl http result stdout stderr
""")
"""Languages of fenced blocks that gptme only shows: it runs whatever else a tool or a plugin takes."""


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
