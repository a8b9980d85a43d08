"""The smallest agent on smolagents, in the working directory: `tools` or `code`, and a prompt.

It runs in the environment that smolagents is installed in; OPENAI_BASE_URL says where the model is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool


@tool
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Its path.
    """
    return Path(path).read_text(encoding="utf-8")


@tool
def write_file(path: str, content: str) -> str:
    """Write a file.

    Args:
        path: Its path.
        content: What it is to hold.
    """
    Path(path).write_text(content, encoding="utf-8")
    return "written"


def main() -> None:
    """Work on one prompt."""
    kinds = {"tools": ToolCallingAgent, "code": CodeAgent}
    model = OpenAIServerModel("scripted", api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
    agent = kinds[sys.argv[1]](tools=[read_file, write_file], model=model, max_steps=3)
    print(agent.run(sys.argv[2]))


if __name__ == "__main__":
    main()
