"""Programs that show text, or make other text of it on their output."""

from modegate.core.argument.shell.entry import ANY, Entry, entry
from modegate.core.argument.shell.readers.awk import why_not_awk
from modegate.core.argument.shell.readers.sed import why_not_sed

_ANY = """
    cat tac rev wc cut tr nl head comm join paste fold fmt pr expand unexpand strings od hexdump hd
    seq echo true false cmp column numfmt factor tsort
"""
_RUNS = "runs a program"

# No long option with a value: the awk of BSD and macOS passes over it, and takes its value for the program.
AWK = entry(
    "--help --version --posix --traditional --re-interval",
    "-F -v",
    check=why_not_awk,
    refused={
        "-f --file -e --source -E --exec": "takes a program that is not read here",
        "-i --include -l --load": "loads more of a program",
        "-o --pretty-print -p --profile -d --dump-variables": "writes",
        "-D --debug": "takes commands",
        "-W": "can be any option",
    },
)
BAT = entry(
    """
    -n -p -A -P -u -d -S -L -h -V --plain --number --show-all --list-languages --list-themes --diff
    --unbuffered --force-colorization --no-config --no-custom-assets --chop-long-lines --help --version
    """,
    """
    -l -r -H -m --language --line-range --highlight-line --style --color --theme --paging --wrap --tabs
    --terminal-width --italic-text --decorations --map-syntax --file-name --diff-context
    """,
    choices={"--paging": ("never", "auto")},
    not_operand=("cache",),
    refused={"--pager": _RUNS, "--generate-config-file --config-file": "writes"},
)
JQ = entry(
    """
    -n -r -j -a -s -c -C -M -S -e -R -h -V --null-input --raw-output --raw-output0 --join-output
    --ascii-output --slurp --compact-output --color-output --monochrome-output --sort-keys --exit-status
    --raw-input --tab --stream --stream-errors --seq --unbuffered --args --jsonargs --help --version
    """,
    "-f -L --from-file --library-path --arg --argjson --slurpfile --rawfile --argfile --indent",
    refused={"-i --in-place": "writes"},
)
# Two programs have this name: one is jq for YAML, the other writes a file for each result with `-s`.
YQ = entry(
    """
    -r -c -C -M -P -N -e -j -n -0 -h -V --raw-output --compact-output --colors --no-colors --prettyPrint
    --no-doc --exit-status --tojson --null-input --unwrapScalar --help --version
    """,
    "-o -p -I --output-format --input-format --indent",
    not_operand=("*system*",),
    refused={
        "-i --inplace --in-place": "writes",
        "-s --split-exp --split-exp-file": "writes",
        "--security-enable-system-operator": _RUNS,
    },
)
DIFF = entry(
    """
    -a -b -B -c -d -e -E -i -n -N -p -P -q -r -s -t -T -u -w -y -Z --text --ignore-space-change
    --ignore-blank-lines --minimal --ed --ignore-tab-expansion --ignore-case --rcs --new-file
    --unidirectional-new-file --show-c-function --brief --recursive --report-identical-files --expand-tabs
    --initial-tab --ignore-all-space --side-by-side --ignore-trailing-space --normal --left-column
    --suppress-common-lines --no-dereference --strip-trailing-cr --speed-large-files --ignore-file-name-case
    --no-ignore-file-name-case --suppress-blank-empty --help --version
    """,
    """
    -C -U -D -F -I -L -S -W -x -X --label --width --ifdef --show-function-line --ignore-matching-lines
    --starting-file --exclude --exclude-from --from-file --to-file --horizon-lines --tabsize --palette
    """,
    "--context --unified --color",
    numbers=True,
    refused={"-l --paginate": "runs `pr`", "--output": "is no option of `diff` that is known"},
)
_UNPACK = entry("-f -q -v --force --quiet --verbose --help --version", refused={"-o": "writes"})

TEXT: dict[str, Entry] = {
    **dict.fromkeys(_ANY.split(), ANY),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), AWK),
    **dict.fromkeys(("bat", "batcat"), BAT),
    "diff": DIFF,
    "jq": JQ,
    "yq": YQ,
    **dict.fromkeys(("zcat", "gzcat", "bzcat", "xzcat", "zstdcat"), _UNPACK),
    # macOS writes with `-o` and takes a value behind `-i`.
    **dict.fromkeys(
        ("base64", "base32"),
        entry(
            "-d -D --decode --help --version",
            "-w -b --wrap --break",
            refused={"-o --output": "writes"},
        ),
    ),
    "iconv": entry(
        "-l -c -s --list --silent --help --version",
        "-f -t --from-code --to-code",
        refused={"-o --output": "writes"},
    ),
    "shuf": entry(
        "-e -r -z --echo --repeat --zero-terminated --help --version",
        "-n -i --head-count --input-range --random-source",
        refused={"-o --output": "writes"},
    ),
    "sed": entry(
        "-n -E -r -s -u -z --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix "
        "--sandbox --debug --help --version",
        "-e --expression",
        check=why_not_sed,
        refused={
            "-i -I --in-place": "writes",
            "-f --file": "takes a script that is not read here",
            "-l --line-length": "has two meanings",
        },
    ),
    "tail": entry(
        "-q -v -z -r --quiet --silent --verbose --zero-terminated --help --version",
        "-n -c -b --lines --bytes",
        numbers=True,
        refused={"-f -F --follow --retry": "does not end"},
    ),
    "sort": entry(
        "-b -d -f -g -i -M -h -n -R -r -V -c -C -m -s -u -z --ignore-leading-blanks --dictionary-order "
        "--ignore-case --fold-case --general-numeric-sort --ignore-nonprinting --month-sort "
        "--human-numeric-sort --numeric-sort --random-sort --reverse --version-sort --merge "
        "--stable --unique --zero-terminated --debug --help --version",
        "-k -t -S --key --field-separator --buffer-size --parallel --batch-size --random-source "
        "--sort",
        "--check",
        refused={
            "-o --output": "writes",
            "-T --temporary-directory": "writes files of its own there",
            "--compress-program": "runs a program",
            "--files0-from": "reads names that nobody has seen",
        },
    ),
    "uniq": entry(
        "-c -d -D -i -u -z --count --repeated --ignore-case --unique --zero-terminated --help --version",
        "-f -s -w --skip-fields --skip-chars --check-chars",
        "--all-repeated --group",
        operands=1,
    ),
    # It knows its options by their first letters, and all words behind its file are a file to write.
    "xxd": entry(
        "-a -autoskip -b -bits -C -capitalize -d -e -E -EBCDIC -i -include -p -ps -postscript -plain "
        "-u -uppercase -h -v -version",
        "-c -cols -g -groupsize -l -len -n -name -o -s -seek -skip",
        style="one-dash",
        operands=1,
        refused={"-r -revert": "writes bytes as they come"},
    ),
}
