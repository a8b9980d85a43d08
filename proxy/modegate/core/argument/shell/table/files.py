"""Programs that list files and tell of them."""

from modegate.core.argument.shell.entry import ANY, Entry, entry
from modegate.core.argument.shell.readers.tar import why_not_tar

_ANY = """
    basename dirname realpath readlink stat du df pwd ls dir vdir eza exa lsd which
    md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum cksum sum md5
    zipinfo
"""

FILES: dict[str, Entry] = {
    **dict.fromkeys(_ANY.split(), ANY),
    "file": entry(
        "-b -i -I -k -L -h -N -n -r -0 -E --brief --mime --mime-type --mime-encoding --keep-going "
        "--dereference --no-dereference --no-pad --raw --print0 --extension --help --version -v",
        "-F -e --separator --exclude",
        refused={
            "-C --compile": "writes",
            "-z -Z --uncompress --uncompress-noreport": "can run other programs",
            "-p --preserve-date": "sets times",
            "-m --magic-file": "reads rules that have had faults",
        },
    ),
    "tree": entry(
        "-a -d -l -f -x -q -N -Q -p -u -g -s -h -D -F -r -t -c -U -v -A -S -n -C -i -J -X "
        "--help --version --noreport --dirsfirst --filesfirst --gitignore --du --si --prune --inodes "
        "--device --matchdirs --ignore-case --metafirst --fromfile --info",
        "-L -P -I --charset --filelimit --timefmt --gitfile --sort",
        joined=False,
        refused={
            "-o --output": "writes",
            "-R": "writes with `-H` and `-L`",
            "-H": "writes with `-R` and `-L`",
        },
    ),
    # Its letters take letters away again behind a "-", and "--" is one of those.
    "unzip": entry(
        "-l -v -Z -z -t -q -p -1",
        needs="-l | -v | -Z | -z | -t | -p",
        ends=False,
        refused={"-o -n -f -u": "writes", "-d": "writes"},
    ),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), Entry(any_options=True, check=why_not_tar)),
    "gzip": entry(
        "-l -v -q --list --verbose --quiet --help --version",
        needs="-l | --list | --help | --version",
    ),
}
