"""The programs that only read, as data: by hand, from the manuals of GNU, BSD and macOS, and busybox.

What is not in the table is refused. Left out on purpose: pagers and editors (they run programs), interpreters
and `xargs` (they run anything), what talks to a network, `env` and `printenv` (all secrets at one go).
"""

from modegate.core.argument.shell.table.files import FILES
from modegate.core.argument.shell.table.git import GIT
from modegate.core.argument.shell.table.search import SEARCH
from modegate.core.argument.shell.table.system import SYSTEM
from modegate.core.argument.shell.table.text import TEXT
from modegate.core.argument.shell.table.versions import VERSIONS

ENTRIES = {**FILES, **SEARCH, **SYSTEM, **TEXT, **VERSIONS, "git": GIT}
