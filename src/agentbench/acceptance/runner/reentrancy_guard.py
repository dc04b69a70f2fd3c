"""Keeps code under test from running in the middle of runner code, and exceptions of runner code from getting out.

Between any two steps of a function, the interpreter may run other code: callbacks and finalizers of the garbage
collector, signal handlers, trace functions. They can read the frames below them, and those of the runner hold objects
that must not be found. So all of these are suspended while a runner function is active. An exception would carry its
frames along, so it ends here.
"""

from __future__ import annotations

import gc
import sys
import types
from _operator import is_
from _signal import getsignal, signal  # type: ignore[import-not-found]  # the part of `signal` that is not written in Python
from _thread import get_ident
from collections.abc import Callable
from typing import Any

_LAST_SIGNAL = 65
_PYTHON_FUNCTIONS = (types.FunctionType, types.MethodType)
_gc_enabled, _gc_disable, _gc_enable = gc.isenabled, gc.disable, gc.enable
_get_trace, _set_trace, _get_profile, _set_profile = sys.gettrace, sys.settrace, sys.getprofile, sys.setprofile
_ACTIVE_THREADS: set[int] = set()
"""Threads that are inside a runner function."""


def _existing_signals() -> tuple[int, ...]:
    """Return the signals that exist on this platform."""
    signals = []
    for number in range(1, _LAST_SIGNAL):
        try:
            getsignal(number)
        except ValueError:
            continue
        signals.append(number)
    return tuple(signals)


_SIGNALS = _existing_signals()


def suspend() -> tuple[Any, ...]:
    """Suspend everything that could interrupt. Return what `resume` needs."""
    thread = get_ident()
    outermost = thread not in _ACTIVE_THREADS
    _ACTIVE_THREADS.add(thread)
    collecting = _gc_enabled()
    _gc_disable()
    trace, profile = _get_trace(), _get_profile()
    # While a trace function is being replaced, which is when its audit event is raised, none can be set and none runs.
    try:
        if type(trace) in _PYTHON_FUNCTIONS:
            _set_trace(None)
    except RuntimeError:
        trace = None
    try:
        if type(profile) in _PYTHON_FUNCTIONS:
            _set_profile(None)
    except RuntimeError:
        profile = None
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
    return outermost, thread, collecting, trace, profile, handlers


def resume(suspended: tuple[Any, ...]) -> None:
    """Resume what was suspended. From here on, only this tuple of the runner's can be found."""
    outermost, thread, collecting, trace, profile, handlers = suspended
    if outermost:
        _ACTIVE_THREADS.discard(thread)
    for number, handler in handlers:
        signal(number, handler)
    if type(profile) in _PYTHON_FUNCTIONS:
        _set_profile(profile)
    if type(trace) in _PYTHON_FUNCTIONS:
        _set_trace(trace)
    if collecting:
        _gc_enable()


def guard(
    function: Callable[..., Any], seal: Callable[..., Callable[..., Any]], failed: Callable[[str], None]
) -> Callable[..., Any]:
    """Return a guarded, sealed version of `function` that is safe to hand out. `failed` receives what is wrong with a
    call.
    """

    def checked(*arguments: Any) -> Any:  # noqa: ANN401
        try:
            if get_ident() not in _ACTIVE_THREADS:
                failed("called without its reentrancy guard")
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001 - any exception refers to frames of the runner
            failed(type(error).__name__)

    checked_call, enter, leave = seal(checked), seal(suspend), seal(resume)

    def call(*arguments: Any) -> Any:  # noqa: ANN401
        suspended = enter()
        try:
            return checked_call(*arguments)
        finally:
            leave(suspended)

    return seal(call)
