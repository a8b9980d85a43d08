"""From text to simple commands."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.reading import simple_commands
from modegate.core.argument.understanding import NotUnderstood

READ = {
    "one command": ("ls -la src", [["ls", "-la", "src"]]),
    "quotes": ("""grep -n 'a "b"' "it's"'$x'""", [["grep", "-n", 'a "b"', "it's$x"]]),
    "escapes": (r"find . \( -name \*.py \)", [["find", ".", "(", "-name", "*.py", ")"]]),
    "and, or, line ends": ("ls && pwd || id;\nwc\n", [["ls"], ["pwd"], ["id"], ["wc"]]),
    "pipeline": ("! ls 2>&1 |\n wc -l > /dev/null", [["ls"], ["wc", "-l"]]),
    "groups": ("(cd a && ls); { pwd; (id); }", [["cd", "a"], ["ls"], ["pwd"], ["id"]]),
}


@pytest.mark.parametrize(("source", "words"), READ.values(), ids=READ)
def test_simple_commands(source: str, words: list[list[str]]) -> None:
    """Every command that a shell would run is found, with the words that it would get."""
    found = [[word.text for word in command.words] for command in simple_commands(source)]
    assert found == words


REFUSED = [
    "",
    "# a",
    "ls &",
    "ls > x",
    "ls $(id)",
    "ls `id`",
    "for i in a; do ls; done",
    "ls <(id)",
    "ls | ",
]


@pytest.mark.parametrize("source", REFUSED)
def test_refused(source: str) -> None:
    """What is not understood completely is refused."""
    with pytest.raises(NotUnderstood):
        simple_commands(source)
