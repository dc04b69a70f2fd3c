"""What is going on, in one line of the terminal that is overwritten; nothing of it where nobody watches."""

from __future__ import annotations

import os
import shutil
import sys

import click

from agentbench.core.text import printable


class LiveLine:
    def __init__(self, *, quiet: bool = False) -> None:
        self._live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._shown = ""

    def tell(self, line: str) -> None:
        """A line that stays."""
        self._write("")
        click.echo(printable(line), err=True)
        self._write(self._shown)

    def show(self, what: str) -> None:
        """What is going on now; empty when nothing is."""
        self._shown = printable(what)
        self._write(self._shown)

    def _write(self, text: str) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[2K" + text[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()
