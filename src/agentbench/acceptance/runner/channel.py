"""The way out: records as lines on a descriptor, written by means that code under test cannot exchange.

Everything that is called here was bound before any code of the workspace ran, and is the interpreter's own: a class of the
standard library finds its methods again at every call, and whoever replaces one of them writes the records.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import json.encoder
import os
from collections.abc import Callable
from typing import Any

MANY = 64
_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii
_shown_float = vars(float)["__repr__"]
_shown_int = vars(int)["__repr__"]


def sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function behind a callable of the interpreter's own, which shows nobody what it calls.

    A method has `__self__` and a function has cells, and both can be written through. A cache that keeps nothing has
    neither, once its `__wrapped__` is gone; what is left is a search of the memory, and that is heard (`audit_hook.py`).
    """
    shell = functools.lru_cache(maxsize=0)(function)
    vars(shell).clear()
    return shell


def encoded(value: Any) -> str:  # noqa: ANN401, PLR0911 - one line for each kind
    """A record as JSON. What is of no plain kind is told by the name of its kind, and asked nothing."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return _shown_int(value)  # type: ignore[no-any-return]
    if kind is float:
        return _shown_float(value) if value - value == 0 else "null"
    if kind is list or kind is tuple:
        return "[" + ",".join([encoded(one) for one in value]) + "]"
    if kind is dict:
        return "{" + ",".join([encoded(key) + ":" + encoded(one) for key, one in value.items()]) + "}"
    return _quoted(f"<{kind.__name__}>")


def open_channel(nonce: str) -> Callable[..., None]:
    """Lines carry the job's nonce and a running number, so that foreign lines show."""
    given = int(os.environ.pop("AB_RESULT_FD"))
    descriptor = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, MANY + os.getpid() % MANY)
    os.close(given)
    # Bound now: a later change of these names reaches us no more.
    write, getpid, pid, numbers = os.write, os.getpid, os.getpid(), itertools.count()

    def send(*record: object) -> None:
        """One record. A forked copy of this process has nothing to say."""
        if getpid() != pid:
            return
        data = f"{nonce} {next(numbers)} {encoded(record)}\n".encode("ascii")
        while data:
            data = data[write(descriptor, data) :]

    return sealed(send)
