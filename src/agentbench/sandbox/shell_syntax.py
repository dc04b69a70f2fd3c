"""Find syntax errors in a shell command before a sandbox runs it. Executes nothing of it."""

from __future__ import annotations

import shutil
from functools import cache

from agentbench.process import run_host

PARSERS = (("sh", "-n"), ("bash", "--norc", "--noprofile", "-O", "extglob", "-n"))
"""Shells that only parse (`-n`). The `sh` of a container may be bash, so what bash accepts is no error."""
_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # no BASH_ENV, ENV or exported functions


@cache
def syntax_error(line: str) -> str:
    """Return why neither sh nor bash can parse a command; empty if one can, or if this machine lacks one of them."""
    messages = []
    for name, *options in PARSERS:
        program = shutil.which(name, path=_ENV["PATH"])
        if program is None:
            return ""
        parsed = run_host([program, *options], env=_ENV, cwd="/", stdin=line.encode(errors="replace"), timeout_sec=10)
        if parsed.exit_code in {0, None}:
            return ""
        messages.append(parsed.stderr.head.decode(errors="replace").strip())
    return messages[0].partition("\n")[0].partition(": ")[2]  # without the path of the shell
