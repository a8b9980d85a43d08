"""git: the subcommands that only read, each in its listing form.

git finds its configuration by itself, so what the repository or the user's home configures to be run
(`core.fsmonitor`, `diff.*.textconv`, `diff.external`, hooks) is not seen here. git runs a pager on a terminal
only. `status`, `diff` and `describe` may refresh the times that `.git/index` keeps of files.
"""

from __future__ import annotations

from dataclasses import replace

from modegate.core.argument.shell.entry import ANY, Entry, entry, names
from modegate.core.argument.shell.table.git_options import DIFF, LOG, REFUSED, why_not_format

_RUNS = "runs a program"
BLAME = entry(
    """
    -b -c -e -f -l -n -p -s -t -w --root --show-stats --progress --no-progress --score-debug --show-name
    --show-number --porcelain --line-porcelain --incremental --show-email --color-lines --color-by-age
    --minimal --first-parent --reverse --no-textconv
    """,
    "-L -S --ignore-rev --ignore-revs-file --contents --since --date",
    "-M -C --abbrev",
    refused=REFUSED,
)
GREP = entry(
    """
    -a -c -E -F -G -P -h -H -i -I -l -L -n -o -p -q -r -v -w -W -z -1 -2 -3 --cached --no-index --untracked
    --exclude-standard --no-exclude-standard --recurse-submodules --invert-match --ignore-case --word-regexp
    --text --no-textconv --recursive --no-recursive --extended-regexp --basic-regexp --fixed-strings
    --perl-regexp --line-number --column --full-name --files-with-matches --name-only --files-without-match
    --null --only-matching --count --no-color --break --heading --show-function --function-context --and --or
    --not --quiet --all-match --end-of-options
    """,
    "-A -B -C -e -f -m --max-depth --context --before-context --after-context --threads --max-count",
    "--color",
    numbers=True,
    refused={"-O --open-files-in-pager": _RUNS, **REFUSED},
)
_REFS = "-i --ignore-case --no-color --omit-empty --no-column"
_REFS_VALUES = "--contains --no-contains --merged --no-merged --points-at --sort --format"
BRANCH = entry(
    f"-a -r -v -l --all --remotes --verbose --show-current --list {_REFS}",
    _REFS_VALUES,
    "--abbrev --color --column",
    operands=0,
    listing=frozenset({"--list"}),
    refused={
        "-d -D --delete -m -M --move -c -C --copy -f --force": "changes branches",
        "-t --track -u --set-upstream-to --unset-upstream": "changes branches",
        "-q --quiet --edit-description --create-reflog": "changes branches",
    },
    check=why_not_format,
)
TAG = entry(
    f"-l --list {_REFS}",
    _REFS_VALUES,
    "-n --color --column",
    operands=0,
    listing=frozenset({"-l", "--list"}),
    refused={
        "-a -d -f -m -F --annotate --delete --force --message --file": "changes tags",
        "-s -u --sign --local-user": "runs gpg",
        "-v --verify": "runs gpg",
    },
    check=why_not_format,
)
STATUS = entry(
    "-s -b -v -z --short --branch --show-stash --long --verbose --ahead-behind --no-ahead-behind "
    "--no-renames --renames --null --no-column",
    "",
    "-u --porcelain --untracked-files --ignored --ignore-submodules --find-renames --column",
    refused=REFUSED,
)
_CONFIG_FLAGS = """
    --global --system --local --worktree --show-origin --show-scope --show-names --no-show-names -z --null
    --name-only --includes --no-includes --all --regexp --bool --int --bool-or-int --path --fixed-value
"""
_CONFIG_VALUES = "-f --file --blob --type --default --value --url"
_GETS = names("--get --get-all --get-regexp --get-urlmatch -l --list")
CONFIG = entry(
    _CONFIG_FLAGS + " ".join(_GETS),
    _CONFIG_VALUES,
    operands=1,
    operand=(
        "*?.?*",
    ),  # a key; a word without a dot is a command of newer versions, such as `edit`
    listing=_GETS,
    alone=True,
    commands={
        "list": entry(_CONFIG_FLAGS, _CONFIG_VALUES, operands=0),
        "get": entry(_CONFIG_FLAGS, _CONFIG_VALUES),
    },
    refused={
        "-e --edit": "opens an editor",
        "--add --unset --unset-all --replace-all": "changes the configuration",
        "--rename-section --remove-section": "changes the configuration",
    },
)
REMOTE = entry(
    "-v --verbose",
    operands=0,
    alone=True,
    commands={
        "get-url": entry("--push --all"),
        "show": entry("-n", needs="-n", refused=REFUSED),
    },
)
REFLOG = Entry(
    **{
        name: getattr(LOG, name)
        for name in ("options", "values", "optional", "numbers", "refused", "check")
    },
    operands=0,
    alone=True,
    commands={"show": LOG, "list": entry(), "exists": entry()},
)
GIT = entry(
    "--no-pager -P --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs --no-replace-objects --no-lazy-fetch --no-advice --version -v",
    "-C",
    needs="--version | -v",
    joined=False,
    ends=False,
    refused={
        "-c --config-env": "can make git run a program",
        "-p --paginate": "runs a pager",
        "--exec-path --git-dir --work-tree --namespace": "is not known to only read",
    },
    commands={
        "log": LOG,
        "show": LOG,
        "whatchanged": LOG,
        "rev-list": LOG,
        "shortlog": LOG,
        "diff": DIFF,
        "status": STATUS,
        "blame": BLAME,
        "annotate": BLAME,
        "grep": GREP,
        "branch": BRANCH,
        "tag": TAG,
        "config": CONFIG,
        "remote": REMOTE,
        "reflog": REFLOG,
        "stash": entry(commands={"list": LOG, "show": DIFF}),
        "worktree": entry(commands={"list": entry("-v -z --verbose --porcelain", operands=0)}),
        "submodule": entry(
            "--quiet -q",
            operands=0,
            alone=True,
            commands={
                "status": entry("--cached --recursive --quiet"),
            },
        ),
        "notes": entry(operands=0, alone=True, commands={"list": entry(), "show": entry()}),
        "for-each-ref": entry(
            "--shell --perl --python --tcl --ignore-case --no-color --stdin --omit-empty --include-root-refs",
            _REFS_VALUES + " --count --exclude --start-after",
            "--color",
            check=why_not_format,
        ),
        "cat-file": entry(
            "-e -p -t -s -z -Z --batch-all-objects --buffer --follow-symlinks --unordered "
            "--use-mailmap --mailmap --allow-unknown-type",
            "--path --filter",
            "--batch --batch-check --batch-command",
            refused={"--filters --textconv": "runs programs that the repository names"},
        ),
        "symbolic-ref": entry("-q --quiet --short --recurse --no-recurse", operands=1),
        "describe": entry(
            "--all --tags --contains --debug --long --first-parent --exact-match --always",
            "--candidates --match --exclude",
            "--abbrev --dirty --broken",
        ),
        **dict.fromkeys(
            names(
                "rev-parse ls-files ls-tree merge-base name-rev count-objects show-ref check-ignore "
                "check-attr cherry show-branch version"
            ),
            replace(ANY, refused={"--help": "opens a manual page; use `-h`"}),
        ),
        **dict.fromkeys(("diff-tree", "diff-index", "diff-files"), LOG),
    },
)
