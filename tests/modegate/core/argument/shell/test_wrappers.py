"""Programs that run what stands behind them."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.words import Word
from modegate.core.argument.shell.wrappers import unwrapped
from modegate.core.argument.understanding import NotUnderstood


def words(text: str) -> list[Word]:
    return [Word(word) for word in text.split()]


UNWRAPPED = {
    "ls -a": "ls -a",
    "/bin/ls -a": "ls -a",
    "/usr/bin/git log": "git log",
    "timeout 5 ls": "ls",
    "timeout 0.5s ls": "ls",
    "timeout -k 1m --signal=KILL --foreground -s 9 2h ls -s": "ls -s",
    "timeout --kill-after 3 --preserve-status -v 5 ls": "ls",
    "time ls": "ls",
    "nice ls": "ls",
    "nice -n 5 ls -n 5": "ls -n 5",
    "nice -n -5 ls": "ls",
    "nice --adjustment=5 ls": "ls",
    "command ls": "ls",
    "command -v ls": "command -v ls",
    "command -V ls": "command -V ls",
    "env ls": "ls",
    "/usr/bin/env /bin/ls": "ls",
    "time timeout 5 nice env command ls -a": "ls -a",
    "[ a ]": "[ a ]",
    "env": "env",
    "time": "time",
    "timeout": "timeout",
    "timeout 5": "timeout 5",
    "nice -n 5": "nice -n 5",
    "time env": "env",
    "xargs ls": "xargs ls",
}


@pytest.mark.parametrize(("command", "run"), UNWRAPPED.items(), ids=UNWRAPPED)
def test_unwrapped(command: str, run: str) -> None:
    """The command that is run in the end; one that runs nothing is judged as it is."""
    assert list(unwrapped(words(command))) == words(run)


REFUSED = {
    "time -o a ls": "`time -o` is not read",
    "time -f %e ls": "`time -f` is not read",
    "time --output=a ls": "`time --output` is not read",
    "nice -5 ls": "`nice -5` is not read",
    "nice -n a ls": "the value of `nice -n` is not read",
    "nice -n=5 ls": "the value of `nice -n` is not read",
    "timeout ls": "`ls` is no time for `timeout`",
    "timeout 5x ls": "`5x` is no time for `timeout`",
    "timeout -s a/b 5 ls": "the value of `timeout -s` is not read",
    "timeout --foreground=a 5 ls": "`--foreground` takes no value",
    "timeout --sig=9 5 ls": "`timeout --sig` is not read",
    "timeout -- 5 ls": "`timeout --` is not read",
    "timeout -s": "the value of `timeout -s` is not read",
    "env -i ls": "`env -i` is not read",
    "env -S ls": "`env -S` is not read",
    "env - ls": "`env -` is not read",
    "env -u PATH ls": "`env -u` is not read",
    "env --split-string=ls": "`env --split-string` is not read",
    "env A=b ls": "`A=b` is no plain name of a program",
    "time LC_ALL=C ls": "`LC_ALL=C` is no plain name of a program",
    "command -p ls": "`command -p` is not read",
    "command -pv ls": "`command -pv` is not read",
    "./ls": "`./ls` is no plain name of a program",
    "/tmp/ls": "`/tmp/ls` is no plain name of a program",
    "/bin/../tmp/ls": "`/bin/../tmp/ls` is no plain name of a program",
    "/usr/local/bin/ls": "`/usr/local/bin/ls` is no plain name of a program",
    ". a": "`.` is no plain name of a program",
    "- ls": "`-` is no plain name of a program",
    ": a": "`:` is no plain name of a program",
    "time ./ls": "`./ls` is no plain name of a program",
    "time ! ls": "`!` is no plain name of a program",
}


@pytest.mark.parametrize(("command", "why"), REFUSED.items(), ids=REFUSED)
def test_refused(command: str, why: str) -> None:
    """An option that is not known can write, or run something else."""
    with pytest.raises(NotUnderstood) as refusal:
        unwrapped(words(command))
    assert str(refusal.value) == why


NO_NAMES = {
    "quoted": Word("ls", quoted=True),
    "glob": Word("l?", glob=True),
    "glob that is a name": Word("ls", glob=True),
    "variable": Word("$HOME", expands=True),
    "quoted [": Word("[", quoted=True),
    "empty": Word("", quoted=True),
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("wrappers", ["", "time", "timeout 5"])
def test_a_name_is_plain(name: Word, wrappers: str) -> None:
    with pytest.raises(NotUnderstood, match="no plain name"):
        unwrapped([*words(wrappers), name, Word("a")])


@pytest.mark.parametrize(
    "option", [Word("-n*", glob=True), Word("-*", glob=True, glob_at_head=True)]
)
def test_a_glob_is_no_option_of_a_wrapper(option: Word) -> None:
    with pytest.raises(NotUnderstood):
        unwrapped([Word("nice"), option, Word("ls")])


def test_a_glob_is_no_time() -> None:
    with pytest.raises(NotUnderstood, match="no time"):
        unwrapped([Word("timeout"), Word("5", glob=True), Word("ls")])
