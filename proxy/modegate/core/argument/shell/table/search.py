"""Programs that search for files and for text."""

from modegate.core.argument.shell.entry import ANY, Entry, entry
from modegate.core.argument.shell.readers.find import why_not_find

_RUNS = "runs a program"

RIPGREP = entry(
    """
    -a -b -c -F -H -h -i -I -l -L -n -N -o -p -P -q -s -S -U -u -v -w -x -0 -. -V -1 --text
    --auto-hybrid-regex --binary --block-buffered --byte-offset --case-sensitive --column --count
    --count-matches --crlf --debug --files --files-with-matches --files-without-match --fixed-strings
    --follow --glob-case-insensitive --heading --help --hidden --ignore --ignore-case
    --ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered --line-number
    --line-regexp --max-columns-preview --messages --mmap --multiline --multiline-dotall --no-config
    --no-column --no-filename --no-heading --no-hidden --no-ignore --no-ignore-dot --no-ignore-exclude
    --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs
    --no-json --no-line-number --no-messages --no-mmap --no-pcre2-unicode --no-require-git --no-unicode
    --no-follow --no-multiline --no-pre --no-search-zip --no-stats --no-text --no-trim --null --null-data
    --one-file-system --only-matching --passthru --passthrough --pcre2 --pcre2-version --pretty --quiet
    --smart-case --stats --stop-on-nonmatch --trace --trim --type-list --unicode --unrestricted --version
    --vimgrep --with-filename --word-regexp
    """,
    """
    -A -B -C -d -e -E -f -g -j -m -M -r -t -T --after-context --before-context --color --colors
    --context --context-separator --dfa-size-limit --encoding --engine --field-context-separator
    --field-match-separator --file --glob --iglob --ignore-file --max-columns --max-count --max-depth
    --maxdepth --max-filesize --path-separator --regex-size-limit --regexp --replace --sort --sortr
    --threads --type --type-add --type-clear --type-not
    """,
    refused={
        "--pre --pre-glob": _RUNS,
        "--hostname-bin --hyperlink-format": _RUNS,
        "-z --search-zip": "runs other programs",
    },
)
FD = entry(
    """
    -H -I -u -s -i -g -F -a -L -p -0 -1 -q -h -V -U --hidden --no-ignore --no-ignore-vcs
    --no-ignore-parent --no-require-git --unrestricted --case-sensitive --ignore-case --glob --regex
    --fixed-strings --absolute-path --follow --full-path --print0 --quiet --show-errors --prune
    --no-global-ignore-file --one-file-system --help --version --max-one-result --no-hidden --ignore
    --no-follow --relative-path
    """,
    """
    -d -E -t -e -S -o -c -j --max-depth --min-depth --exact-depth --exclude --type --extension --size
    --owner --color --threads --changed-within --changed-before --newer --older --max-results
    --path-separator --search-path --base-directory --ignore-file --format --and
    """,
    "--strip-cwd-prefix",
    refused={"-x -X --exec --exec-batch": _RUNS, "-l --list-details": "runs `ls`"},
)
AG = entry(
    """
    -a -c -f -F -H -h -i -l -L -n -o -Q -r -R -s -S -t -u -U -v -V -w -0 -D --ackmate --all-text --all-types
    --break --nobreak --case-sensitive --color --nocolor --column --count --debug --filename --nofilename
    --files-with-matches --files-without-matches --fixed-strings --follow --nofollow --group --nogroup
    --heading --noheading --help --hidden --ignore-case --invert-match --list-file-types --literal
    --null --print0 --numbers --nonumbers --one-device --only-matching --passthrough --passthru
    --print-all-files --print-long-lines --recurse --norecurse --search-binary --silent --skip-vcs-ignores
    --smart-case --stats --stats-only --unrestricted --version --vimgrep --word-regexp
    --cc --cpp --css --go --html --java --js --json --lua --markdown --perl --php --python --ruby --rust
    --scala --shell --sql --swift --ts --xml --yaml
    """,
    """
    -A -B -C -g -G -m -W --after --before --context --depth --file-search-regex --filename-pattern
    --ignore --ignore-dir --max-count --width --workers
    """,
    refused={
        "--pager": _RUNS,
        "-z --search-zip": "unpacks files",
        "-p --path-to-ignore": "reads rules",
    },
)
ACK = entry(
    """
    -f -g -l -L -c -i -S -I -v -w -Q -o -1 -H -h -s -P -x -r -R -n -k --files-with-matches
    --files-without-matches --count --ignore-case --smart-case --nosmart-case --no-smart-case
    --no-ignore-case --invert-match --word-regexp --literal --passthru --with-filename --no-filename
    --column --nocolumn --print0 --nopager --heading --noheading --break --nobreak --group --nogroup
    --underline --nounderline --color --nocolor --colour --nocolour --flush --sort-files --show-types
    --recurse --no-recurse --follow --nofollow --known-types --help-types --noenv --ignore-ack-defaults
    --version --help
    """,
    """
    -A -B -C -m -p -t -T --range-start --range-end --match --max-count --after-context --before-context
    --context --proximate --ignore-dir --noignore-dir --ignore-directory --noignore-directory --type
    """,
    not_operand=("+*",),  # Perl's options may begin with a "+"
    refused={
        "--pager": _RUNS,
        "--output": "evaluates Perl",
        "--ackrc": "reads options from a file",
    },
)
# A shell script that runs its own options through `eval`; `-f` makes a file.
ZGREP = entry(
    "-E -F -G -P -H -c -h -i -I -l -L -n -o -q -s -v -w -x -a -b -U --help --version",
    "-A -B -C -m -e",
    joined=False,
    numbers=True,
    refused={"-f --file": "makes a file"},
)
# ugrep, which some agents bring along as `grep`, has options that run programs and write.
GREP = entry(
    """
    -a -b -c -E -F -G -H -h -I -i -L -l -n -o -P -q -R -r -s -T -U -V -v -w -x -z -Z -0 --basic-regexp
    --extended-regexp --fixed-strings --perl-regexp --ignore-case --no-ignore-case --invert-match
    --word-regexp --line-regexp --count --files-with-matches --files-without-match --only-matching --quiet
    --silent --no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null
    --null-data --text --binary --line-buffered --recursive --dereference-recursive --no-group-separator
    --help --version
    """,
    """
    -A -B -C -D -d -e -f -m --after-context --before-context --max-count --regexp --file --binary-files
    --directories --devices --include --exclude --exclude-dir --include-dir --exclude-from --label
    --group-separator
    """,
    "--color --colour --context",
    numbers=True,
    refused={
        "--filter --pager --view -Q --query": "runs a program in ugrep",
        "--save-config --config": "writes or reads options in ugrep",
    },
)

SEARCH: dict[str, Entry] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), GREP),
    **dict.fromkeys(("pgrep", "pidof"), ANY),
    **dict.fromkeys(("zgrep", "zegrep", "zfgrep"), ZGREP),
    "find": Entry(any_options=True, check=why_not_find),
    "rg": RIPGREP,
    **dict.fromkeys(("fd", "fdfind"), FD),
    "ag": AG,
    "ack": ACK,
}
