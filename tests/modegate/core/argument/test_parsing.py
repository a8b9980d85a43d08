"""A text with an error has no tree, and its parser can go on with the next one."""

from __future__ import annotations

import pytest
import tree_sitter_bash
import tree_sitter_javascript
from tree_sitter import Language, Parser

from modegate.core.argument import parsing
from modegate.core.argument.parsing import tree_of

BASH, JAVASCRIPT = (
    Parser(Language(module.language())) for module in (tree_sitter_bash, tree_sitter_javascript)
)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (BASH, "ls -l"),
        (BASH, "ls 'ü'\n" * 2000),
        (JAVASCRIPT, "text(1);\n" * 500),
        (JAVASCRIPT, 'text("' + r"\x41" * 16000 + '")'),
        (JAVASCRIPT, 'text("' + "ü" * 30000 + '")'),
    ],
)
def test_a_text_has_a_tree(parser: Parser, text: str) -> None:
    root = tree_of(parser, text.encode())
    assert root is not None
    assert root.text == text.encode()


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (BASH, "ls 'a"),
        (BASH, "[ " + "]1]" * 20_000),  # 18 s without a bound
        (BASH, "[ " + "..]" * 20_000),
        (JAVASCRIPT, "text("),
        (JAVASCRIPT, "class " + "await + " * 1900),  # 3 s
        (JAVASCRIPT, "get `${a}` " + "+ await " * 1900),
        (JAVASCRIPT, "<a " * 20_000),
    ],
)
def test_a_text_with_an_error_has_none(parser: Parser, text: str) -> None:
    assert tree_of(parser, text.encode()) is None
    following = tree_of(parser, b"ls")
    assert following is not None
    assert following.text == b"ls"


def test_a_text_that_takes_too_long_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"text(1);" * 500
    assert tree_of(JAVASCRIPT, text) is not None
    monkeypatch.setattr(parsing, "MAX_STEPS", 20)
    assert tree_of(JAVASCRIPT, text) is None
    assert tree_of(JAVASCRIPT, b"text(1);") is not None
