"""Compilers, interpreters and package managers: what version they are, and what is installed.

None of them builds, fetches or runs anything here. `python -m pip` is not among them, since `-m` takes a
module from the folder at hand first; nor `yarn` and `pnpm`, which a repository tells what to run; nor
`npm ls`, which writes a log and asks its registry for a newer npm; nor `cargo tree`, which runs the compiler
that a project names and writes what it says into `target/`.
"""

from __future__ import annotations

from modegate.core.argument.shell.entry import Entry, entry

_LONG = entry("--version", operands=0, needs="--version")
_UPPER = entry("--version -V", operands=0, needs="--version | -V")
_LOWER = entry("--version -v", operands=0, needs="--version | -v")
_JAVA = entry("-version --version", operands=0, needs="-version | --version", style="one-dash")
_GCC = entry(
    "-v --version -dumpversion -dumpmachine",
    operands=0,
    needs="-v | --version | -dumpversion | -dumpmachine",
    style="one-dash",
)
_PIP_REFUSED = {
    "--log": "writes",
    "--outdated -o --uptodate -u": "asks an index",
    "--python": "runs a program",
}
_PIP = "-v -q --verbose --quiet --no-color --no-input --isolated --disable-pip-version-check"
PIP = entry(
    f"--version -V {_PIP}",
    needs="--version | -V",
    refused=_PIP_REFUSED,
    commands={
        "list": entry(
            "-l -e --local --user --editable --pre --not-required --exclude-editable "
            f"--include-editable {_PIP}",
            "--format --path --exclude",
            refused=_PIP_REFUSED,
        ),
        "show": entry(f"-f --files {_PIP}", refused=_PIP_REFUSED),
        "freeze": entry(
            f"-l --local --user --all --exclude-editable {_PIP}",
            "-r --requirement --path --exclude",
            operands=0,
            refused=_PIP_REFUSED,
        ),
        "check": entry(_PIP, operands=0, refused=_PIP_REFUSED),
    },
)
CARGO = entry(
    "--version -V --list",
    needs="--version | -V | --list",
    commands={
        "metadata": entry(
            "--no-deps --offline --locked --frozen -q --quiet",
            "--format-version --manifest-path",
            needs="--no-deps",
            operands=0,
        ),
        "version": entry("-v --verbose", operands=0),
        "locate-project": entry("--workspace", "--message-format", operands=0),
    },
)
_GO_VALUES = "-mod -f -tags"
GO = entry(
    "",
    style="one-dash",
    commands={
        "version": entry("-m -v", style="one-dash"),
        "env": entry("-json -changed", style="one-dash", refused={"-w -u": "writes"}),
        # With `-mod=readonly` it still fetches modules that are not there.
        "list": entry(
            "-json -deps -find -e -m",
            _GO_VALUES,
            choices={"-mod": ("vendor",)},
            needs="-mod",
            style="one-dash",
            refused={
                "-toolexec -exec -overlay -modfile -compiled -export -test": "builds or runs",
                "-u -versions": "fetches",
            },
        ),
    },
)

# Where the other letter is no version, it is not there: `python -v` and `bash -v` run what they are piped,
# `ninja -v` builds, and `mysql -v` asks a server.
_WITH_UPPER = "python python3 python2 pypy3 deno rustc rustup uv poetry ruff mypy psql mysql curl"
_WITH_LOWER = "node npm bun ruby perl php lua luajit make gmake meson docker"
_WITH_NONE = """
    bash zsh cmake ninja sqlite3 clangd black pipx npx tsc eslint prettier git-lfs ghc swift R julia gdb lldb
"""
_LIKE_GCC = "gcc g++ cc c++ clang clang++ gfortran"

VERSIONS: dict[str, Entry] = {
    **dict.fromkeys(_WITH_UPPER.split(), _UPPER),
    **dict.fromkeys(_WITH_LOWER.split(), _LOWER),
    **dict.fromkeys(_WITH_NONE.split(), _LONG),
    **dict.fromkeys(("java", "javac", "kotlinc"), _JAVA),
    **dict.fromkeys(_LIKE_GCC.split(), _GCC),
    **dict.fromkeys(("pip", "pip3"), PIP),
    "cargo": CARGO,
    "go": GO,
}
