"""A text with an error has no tree, and the next one is read as if there had been none."""

from __future__ import annotations

import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
import tree_sitter_bash
import tree_sitter_javascript
from tree_sitter import Language

from modegate.core.argument import parsing
from modegate.core.argument.parsing import language_of, tree_of
from modegate.core.argument.understanding import NotUnderstood

BASH, JAVASCRIPT = (
    Language(module.language()) for module in (tree_sitter_bash, tree_sitter_javascript)
)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (BASH, "ls -l"),
        (BASH, "ls 'ü'\n" * 2000),
        (JAVASCRIPT, "text(1);\n" * 500),
        (JAVASCRIPT, 'text("' + r"\x41" * 16000 + '")'),
        (JAVASCRIPT, 'text("' + "ü" * 30000 + '")'),
    ],
)
def test_a_text_has_a_tree(language: Language, text: str) -> None:
    root = tree_of(language, text.encode())
    assert root is not None
    assert root.text == text.encode()


@pytest.mark.parametrize(
    ("language", "text"),
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
def test_a_text_with_an_error_has_none(language: Language, text: str) -> None:
    assert tree_of(language, text.encode()) is None
    following = tree_of(language, b"ls")
    assert following is not None
    assert following.text == b"ls"


def test_a_text_that_takes_too_long_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"text(1);" * 500
    assert tree_of(JAVASCRIPT, text) is not None
    monkeypatch.setattr(parsing, "MAX_STEPS", 20)
    assert tree_of(JAVASCRIPT, text) is None
    assert tree_of(JAVASCRIPT, b"text(1);") is not None


def test_threads_read_texts_at_the_same_time() -> None:
    texts = [("cat" + f" {name}" * 2000).encode() for name in "abcd"]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(texts)) as threads:
            roots = list(threads.map(lambda text: tree_of(BASH, text), texts * 20))
    finally:
        sys.setswitchinterval(interval)
    assert [root and root.text for root in roots] == texts * 20


@pytest.mark.parametrize("missing", ["tree_sitter", "tree_sitter_bash"])
def test_without_its_parser_nothing_is_understood(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    language_of.cache_clear()
    with pytest.raises(NotUnderstood, match="cannot load its parser `tree_sitter_bash`"):
        language_of("tree_sitter_bash")
    monkeypatch.undo()
    assert tree_of(language_of("tree_sitter_bash"), b"ls") is not None


def test_a_text_does_not_stay_in_memory() -> None:
    text = ("cat " + "a" * 60_000).encode()
    tree_of(BASH, text)
    tracemalloc.start()
    try:
        for _ in range(10):
            tree_of(BASH, text)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(text)
