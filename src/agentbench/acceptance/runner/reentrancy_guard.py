"""Keeps code under test from running in the middle of runner code, and exceptions of runner code from getting out.

Between any two steps of a function, the interpreter may run other code: callbacks and finalizers of the garbage
collector, and signal handlers. They can read the frames below them, and those of the runner hold objects that must not
be found. So both are suspended while a runner function is active. An exception would carry its frames along, so it ends
here. Trace functions are not suspended: they see the frame of a call before anything could stop them.
"""

from __future__ import annotations

import gc
from _operator import is_
from _signal import getsignal, signal, valid_signals  # type: ignore[import-not-found]  # the part of `signal` that is not written in Python
from collections.abc import Callable
from typing import Any

_gc_enabled, _gc_disable, _gc_enable = gc.isenabled, gc.disable, gc.enable
_SIGNALS = tuple(sorted(valid_signals()))


def suspend() -> tuple[bool, list[tuple[int, Any]]]:
    """Suspend everything that could interrupt. Return what `resume` needs."""
    collecting = _gc_enabled()
    _gc_disable()
    handlers = []
    for number in _SIGNALS:
        handler = getsignal(number)
        if handler is None or handler is is_ or type(handler) is int:
            continue
        try:
            # A built-in function is called and returns without running Python code. Ignoring the signal
            # could mean more than that.
            signal(number, is_)
        except ValueError:
            break  # handlers run only in the main thread
        handlers.append((number, handler))
    return collecting, handlers


def resume(collecting: bool, handlers: list[tuple[int, Any]]) -> None:  # noqa: FBT001
    """Resume what was suspended."""
    for number, handler in handlers:
        signal(number, handler)
    if collecting:
        _gc_enable()


def guard(
    function: Callable[..., Any], seal: Callable[..., Callable[..., Any]], failed: Callable[[str], None]
) -> Callable[..., Any]:
    """Return a guarded, sealed version of `function` that is safe to hand out. `failed` receives the type of an error."""

    def checked(*arguments: Any) -> Any:  # noqa: ANN401
        try:
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001 - any exception refers to frames of the runner
            failed(type(error).__name__)

    checked_call, enter, leave = seal(checked), seal(suspend), seal(resume)

    def call(*arguments: Any) -> Any:  # noqa: ANN401
        suspended = enter()
        try:
            return checked_call(*arguments)
        finally:
            leave(*suspended)

    return seal(call)
