"""git's options that only choose what is shown, of the commands that show history and changes."""

from __future__ import annotations

import re

from modegate.core.argument.shell.entry import Read, entry

REFUSED = {
    "--output": "writes",
    "--ext-diff --textconv": "runs programs that the repository names",
    "--show-signature": "runs gpg",
    "--remerge-diff --diff-merges": "can merge anew, which writes and runs programs",
    "--alternate-refs": "runs a program that the repository names",
    "--help": "opens a manual page",
}

_DIFF_FLAGS = """
    -p -u -s -z -a -b -w -R -W -c -m -r -t --patch --no-patch --raw --patch-with-raw --patch-with-stat
    --minimal
    --patience --histogram --numstat --shortstat --summary --compact-summary --cumulative --name-only
    --name-status --no-color --no-color-moved --no-color-moved-ws --no-renames --rename-empty
    --no-rename-empty --check --full-index --binary --find-copies-harder --irreversible-delete --pickaxe-all
    --pickaxe-regex --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change
    --ignore-all-space --ignore-blank-lines --function-context --exit-code --quiet --no-ext-diff --no-textconv
    --no-prefix --default-prefix --ita-invisible-in-index --ita-visible-in-index --indent-heuristic
    --no-indent-heuristic --cc --combined-all-paths --dd --no-diff-merges --end-of-options
"""
_DIFF_VALUES = """
    -U -S -G -l -I --unified --stat-width --stat-name-width --stat-count --stat-graph-width --diff-algorithm
    --ws-error-highlight --src-prefix --dst-prefix --line-prefix --inter-hunk-context --diff-filter
    --find-object --anchored --word-diff-regex --ignore-matching-lines --output-indicator-new
    --output-indicator-old --output-indicator-context --rotate-to --skip-to --color-moved-ws
"""
_DIFF_OPTIONAL = """
    -B -M -C -D -X --stat --dirstat --dirstat-by-file --submodule --color --color-moved --word-diff
    --color-words --find-renames --find-copies --break-rewrites --relative --ignore-submodules --abbrev
"""
_LOG_FLAGS = """
    -g -i -E -F -P -q --oneline --graph --no-graph --all --follow --no-follow --log-size --source
    --use-mailmap
    --mailmap --no-mailmap --no-use-mailmap --clear-decorations --no-decorate --name-only --merges
    --no-merges --first-parent --exclude-first-parent-only --not --reflog --walk-reflogs --merge --boundary
    --left-right --left-only --right-only --cherry --cherry-mark --cherry-pick --count --objects --no-notes
    --dense --sparse --full-history --simplify-merges --simplify-by-decoration --show-pulls
    --date-order --author-date-order --topo-order --reverse --parents --children --timestamp --header
    --abbrev-commit --no-abbrev-commit --no-abbrev --relative-date --all-match --invert-grep
    --regexp-ignore-case --extended-regexp --fixed-strings --basic-regexp --perl-regexp --remove-empty
    --no-min-parents --no-max-parents --single-worktree --ignore-missing --stdin --no-commit-header
    --commit-header --no-expand-tabs --bisect-all --unpacked
    --quiet --no-show-signature --unsorted-input --use-bitmap-index
"""
_LOG_VALUES = """
    -n -L --max-count --skip --since --since-as-filter --after --until --before --min-age --max-age --author
    --committer --grep --grep-reflog --min-parents --max-parents --glob --exclude --exclude-hidden --date
    --decorate-refs --decorate-refs-exclude --encoding --filter
"""
_LOG_OPTIONAL = """
    --pretty --format --decorate --branches --tags --remotes --notes --show-notes --no-walk --expand-tabs
    --disk-usage --show-linear-break --ancestry-path
"""


_GPG = re.compile(r"%[-+ ]?G|signature")


def why_not_format(found: Read) -> str:
    """Return why a format, or a key to sort by, makes git run gpg, or ""."""
    for name, value in found.options:
        if name in ("--format", "--pretty", "--sort") and _GPG.search(value):
            return f"`{name}` with `%G…` or `signature` runs gpg"
    return ""


DIFF = entry(
    _DIFF_FLAGS + "--cached --staged --merge-base --base --ours --theirs --no-index -q -0 -1 -2 -3",
    _DIFF_VALUES,
    _DIFF_OPTIONAL,
    refused=REFUSED,
)
LOG = entry(
    _DIFF_FLAGS + _LOG_FLAGS,
    _DIFF_VALUES + _LOG_VALUES,
    _DIFF_OPTIONAL + _LOG_OPTIONAL,
    numbers=True,
    refused=REFUSED,
    check=why_not_format,
)
