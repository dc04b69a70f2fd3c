"""Writes records as lines to the result descriptor, with functions that code under test cannot replace.

Everything called here was bound before any code of the workspace ran and is implemented by the interpreter itself. A
class of the standard library looks its methods up at every call, so code that replaces one of them would write the
records.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import json.encoder
import os
from collections.abc import Callable
from typing import Any

DESCRIPTOR_RANGE = 64
_quote: Callable[[str], str] = json.encoder.encode_basestring_ascii
_float_text = vars(float)["__repr__"]
_int_text = vars(int)["__repr__"]


def seal(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in a callable of the interpreter that does not expose what it calls.

    A method has `__self__` and a function has cells, and both can be written to. A cache of size zero has neither, once
    its `__wrapped__` is gone. The only way left is to search the memory, which `audit_hook.py` reports.
    """
    wrapper = functools.lru_cache(maxsize=0)(function)
    vars(wrapper).clear()
    return wrapper


def encode(value: Any) -> str:  # noqa: ANN401, PLR0911 - one return per type
    """Encode a record as JSON.

    Values of other types are replaced by the name of their type: their own methods are never called.
    """
    kind = type(value)
    if kind is str:
        return _quote(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return _int_text(value)  # type: ignore[no-any-return]
    if kind is float:
        return _float_text(value) if value - value == 0 else "null"
    if kind is list or kind is tuple:
        return "[" + ",".join([encode(element) for element in value]) + "]"
    if kind is dict:
        return "{" + ",".join([encode(key) + ":" + encode(element) for key, element in value.items()]) + "}"
    return _quote(f"<{kind.__name__}>")


def open_channel(nonce: str) -> Callable[..., None]:
    """Return the function that sends records.

    Lines carry the job's nonce and a sequence number, so that foreign lines are recognised.
    """
    given = int(os.environ.pop("AB_RESULT_FD"))
    descriptor = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, DESCRIPTOR_RANGE + os.getpid() % DESCRIPTOR_RANGE)
    os.close(given)
    # Bound now: replacing these names later has no effect here.
    write, getpid, pid, numbers = os.write, os.getpid, os.getpid(), itertools.count()

    def send(*record: object) -> None:
        """Send one record. Forked processes send nothing."""
        if getpid() != pid:
            return
        # A record that cannot be encoded takes no number, or all later ones would be foreign.
        text = encode(record)
        data = f"{nonce} {next(numbers)} {text}\n".encode("ascii")
        while data:
            data = data[write(descriptor, data) :]

    return seal(send)
