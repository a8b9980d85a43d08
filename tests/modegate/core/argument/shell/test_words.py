"""One word: what the program gets, and what is no word to every shell."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.words import Word, literal, read_word
from modegate.core.argument.understanding import NotUnderstood

PLAIN = {
    "letters and signs": ("a_B-9%+,./:@", "a_B-9%+,./:@"),
    "= inside": ("--include=x", "--include=x"),
    "= alone": ("=", "="),
    "~ behind a name": ("HEAD~2", "HEAD~2"),
    "] without [": ("a]", "a]"),
    "[ alone is a program": ("[", "["),
    "! alone": ("!", "!"),
    "!= alone": ("!=", "!="),
}
QUOTED = {
    "single": ("'a $x `b` \"c\" \\d'", 'a $x `b` "c" \\d'),
    "double": ("\"a 'b' \\n\"", "a 'b' \\n"),
    "escapes in double": (r'"\$ \` \" \\ \a"', r'$ ` " \ \a'),
    "an escaped \\ in front of an escaped $": (r'"\\\$x"', r"\$x"),
    "! in front of a blank and =": ('"a! b != c"', "a! b != c"),
    "pieces": ("a'b'\"c\"\\ d", "abc d"),
    "a ' in single quotes": ("'It'\\''s'", "It's"),
    "empty": ("''", ""),
    "escaped sign": (r"\(", "("),
    "escaped glob": (r"\*.py", "*.py"),
    "quoted glob": ("'*'.py", "*.py"),
    "quoted ~": ("'~'/a", "~/a"),
    "quoted =": ("'='ls", "=ls"),
    "quoted $HOME": ("'$HOME'/a", "$HOME/a"),
    "letters of any language": ("'Übersicht 概要'", "Übersicht 概要"),
}


@pytest.mark.parametrize(("source", "text"), PLAIN.values(), ids=PLAIN)
def test_plain(source: str, text: str) -> None:
    assert read_word(source, 0) == (Word(text), len(source))


@pytest.mark.parametrize(("source", "text"), QUOTED.values(), ids=QUOTED)
def test_quoted(source: str, text: str) -> None:
    assert read_word(source, 0) == (Word(text, quoted=True), len(source))


OTHERS = {
    "glob behind a name": ("a*", Word("a*", glob=True)),
    "glob at the head": ("*a", Word("*a", glob=True, glob_at_head=True)),
    "glob behind a folder": ("./*", Word("./*", glob=True)),
    "glob that matches options": ("-*", Word("-*", glob=True, glob_at_head=True)),
    "quoted - in front of a glob": ("'-'*", Word("-*", glob=True, glob_at_head=True, quoted=True)),
    "empty quotes in front of a glob": (
        "''*",
        Word("*", glob=True, glob_at_head=True, quoted=True),
    ),
    "^ behind a name, which zsh can read as a glob": ("HEAD^", Word("HEAD^", glob=True)),
    "# inside, which zsh can read as a glob": ("a#b", Word("a#b", glob=True, glob_at_head=True)),
    "# behind a folder": ("./a#b", Word("./a#b", glob=True)),
    "two globs": ("a*?", Word("a*?", glob=True)),
    "letters to choose from": ("a[b-d]", Word("a[b-d]", glob=True)),
    "^ at the head is a glob to some zsh": ("^main", Word("^main", glob=True, glob_at_head=True)),
    "home": ("~", Word("~", expands=True)),
    "below home": ("~/a b", Word("~/a", expands=True)),
    "$HOME is split at its blanks": ("$HOME/a", Word("$HOME/a", glob=True, expands=True)),
    "$PWD is wherever cd went": ("$PWD", Word("$PWD", glob=True, glob_at_head=True, expands=True)),
    "quoted $HOME alone": ('"$HOME"/a', Word("$HOME/a", quoted=True, expands=True)),
    "quoted path below $PWD": ('"$PWD/a b"', Word("$PWD/a b", quoted=True, expands=True)),
}


@pytest.mark.parametrize(("source", "word"), OTHERS.values(), ids=OTHERS)
def test_what_the_shell_expands(source: str, word: Word) -> None:
    """A word that can stand for others says so, and says whether those could be options."""
    assert read_word(source, 0)[0] == word


REFUSED = {
    "backquote": ("`id`", "runs another command"),
    "substitution": ("a$(id)", "runs another command"),
    "substitution in quotes": ('"a $(id)"', "runs another command"),
    "backquote in quotes": ('"`id`"', "runs another command"),
    "backquote behind an escaped \\": (r'"\\`id`"', "runs another command"),
    "variable": ("$x", "`$x` is not read"),
    "variable in quotes": ('"a $x"', "`$x` is not read"),
    "a name that begins like HOME": ("$HOMER", "`$HOMER` is not read"),
    "the same in quotes": ('"$HOMER/a"', "`$HOMER` is not read"),
    "$HOME inside a word": ("a$HOME", "`$HOME` is not read"),
    "$HOME inside quotes": ('"a $HOME"', "`$HOME` is not read"),
    "zsh: a modifier": ("$HOME:h", "`$HOME` is not read"),
    "zsh: a modifier in quotes": ('"$HOME:h"', "`$HOME` is not read"),
    "zsh: a subscript": ("$HOME[1]", "`$HOME` is not read"),
    "parameter": ("${x}", "`${…}`"),
    "ANSI-C quotes": ("$'a'", "`$'…'`"),
    "translated quotes": ('$"a"', '`$"…"`'),
    "$ at an end": ("a$", "`$` is read only"),
    "braces": ("{a,b}", "`{` is read only"),
    "zsh: a glob's qualifier": ("*(e:id:)", "`(` right behind a word"),
    "extended glob": ("@(a|b)", "`(` right behind a word"),
    "zsh: a program's path": ("=ls", "`=` at the head"),
    "zsh: ==": ("==", "`=` at the head"),
    "another's home": ("~root", "`~` is read only"),
    "zsh: a folder of the stack": ("~1", "`~` is read only"),
    "~ behind =": ("a=~/b", "`~` is read only"),
    "~ behind :": ("a:~/b", "`~` is read only"),
    "history": ("!!", "`!` inside a word"),
    "history in quotes": ('"a!b"', "`!` inside a word"),
    'zsh: !" ends history and is taken away': ('"a!"', "`!` inside a word"),
    "escaped ! in quotes": (r'"\! "', "`!` inside a word"),
    "negated letters": ("[!a]", "`!` inside a word"),
    "zsh: two quotes": ("'a''b'", "`''` inside a word"),
    "fish: an escaped quote": (r"'a\'", "in front of a closing"),
    "escaped letter": (r"\a", "`\\` in front of a letter"),
    "escaped line end": ("a\\\nb", "`\\` in front of a letter"),
    "open single quote": ("'a", "a `'` is not closed"),
    "open double quote": ('"a\\"', 'a `"` is not closed'),
    "line end in quotes": ("'a\nb'", "a line end"),
    "letter that macOS' bash takes for a blank": ("à", "`à` is read only in quotes"),
    "redirection behind a word": ("a>b", "`>` right behind a word"),
    "zsh: a glob of numbers": ("a<1-9>", "`<` right behind a word"),
}


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(source: str, why: str) -> None:
    """The reason names what is not read."""
    with pytest.raises(NotUnderstood) as refusal:
        read_word(source, 0)
    assert why in str(refusal.value)


@pytest.mark.parametrize("text", ["a b", "*", "$(id)", "~", "=ls", "'", "!!", "概要"])
def test_a_literal_word_is_itself(text: str) -> None:
    assert literal(text) == Word(text)


@pytest.mark.parametrize(
    "text", ["a\nb", "a\tb", "a\x00", "\x1b[0m", "a\u00a0b", "\u202ea", "a\u200b", "\ud800"]
)
def test_a_literal_word_has_no_hidden_character(text: str) -> None:
    with pytest.raises(NotUnderstood, match="inside a word is not read"):
        literal(text)
