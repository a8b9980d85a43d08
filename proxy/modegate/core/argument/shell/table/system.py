"""Programs that tell of the machine, of processes and of the shell's own words.

Not `hostname -f`, `getent` and `who`: they ask a name server. Not `arch -x86_64`, which runs what follows it.
"""

from __future__ import annotations

from modegate.core.argument.shell.entry import ANY, Entry, entry
from modegate.core.argument.shell.readers.computed import why_not_printf, why_not_test

_ANY = "uname whoami id groups ps nproc uptime lscpu lsblk locale tty cal ncal sw_vers vm_stat type"
_PACKAGES = "-l -L -s -S -W --list --listfiles --status --search --show"

SYSTEM: dict[str, Entry] = {
    **dict.fromkeys(_ANY.split(), ANY),
    "arch": entry(operands=0),
    "command": entry("-v -V", needs="-v | -V"),
    "date": entry(
        "-u -R -j --utc --universal --rfc-email --debug --help --version",
        "-d -r -v --date --reference --rfc-3339",
        "-I --iso-8601",
        operands=1,
        operand=("+*",),
        refused={"-s --set": "sets the clock", "-f --file": "sets the clock in BSD"},
    ),
    "dpkg": entry(
        f"{_PACKAGES} --get-selections --print-architecture --version --help",
        needs="-l | -L | -s | -S | --list | --listfiles | --status | --search | --get-selections "
        "| --print-architecture | --version | --help",
        refused={
            "-i --install -r --remove -P --purge --unpack --configure": "changes what is installed"
        },
    ),
    "dpkg-query": entry(f"{_PACKAGES} --version --help", "-f --showformat"),
    "free": entry(
        "-b -k -m -g -h -t -w -l --bytes --kibi --mebi --gibi --tebi --kilo --mega --giga --human --si "
        "--total --wide --lohi --help --version",
        refused={"-s --seconds": "does not end"},
    ),
    "getconf": entry("-a", refused={"-v": "runs a program by its name"}),
    "hostname": entry(
        "-s -I --short --all-ip-addresses --help --version",
        operands=0,
        refused={
            "-f -i -A -d --fqdn --long --ip-address --all-fqdns --domain": "asks a name server",
            "-F --file -b --boot": "sets the name",
        },
    ),
    "printf": entry(
        check=why_not_printf, refused={"-v": "sets a variable, and runs commands in its name"}
    ),
    **dict.fromkeys(("test", "["), Entry(any_options=True, check=why_not_test)),
}
