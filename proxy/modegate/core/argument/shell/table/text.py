"""Programs that show text, or make other text of it on their output."""

from modegate.core.argument.shell.entry import ANY, Entry, entry

_ANY = """
    cat tac rev wc cut tr nl head comm join paste fold fmt pr expand unexpand strings od hexdump hd
    seq echo true false cmp column numfmt factor tsort
"""

TEXT: dict[str, Entry] = {
    **dict.fromkeys(_ANY.split(), ANY),
    "tail": entry(
        "-q -v -z -r --quiet --silent --verbose --zero-terminated --help --version",
        "-n -c -b --lines --bytes",
        numbers=True,
        refused={"-f -F --follow --retry": "does not end"},
    ),
    "sort": entry(
        "-b -d -f -g -i -M -h -n -R -r -V -c -C -m -s -u -z --ignore-leading-blanks --dictionary-order "
        "--ignore-case --fold-case --general-numeric-sort --ignore-nonprinting --month-sort "
        "--human-numeric-sort --numeric-sort --random-sort --reverse --version-sort --check --merge "
        "--stable --unique --zero-terminated --debug --help --version",
        "-k -t -S --key --field-separator --buffer-size --parallel --batch-size --random-source",
        "--sort --check",
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
