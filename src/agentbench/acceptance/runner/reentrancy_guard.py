"""Keeps code under test from running in the middle of ours, and what ours stumbles over from coming out.

Between any two steps of a function the interpreter may run somebody else's: callbacks of the garbage collector and what it
destroys, handlers of signals, trace functions. From there the frames below can be read, and ours hold what must not be found.
So these rest while a function of ours is at work. An exception would carry its frames along: it ends here.
"""

from __future__ import annotations

import gc
import sys
import types
from _operator import is_
from _signal import getsignal, signal  # type: ignore[import-not-found]  # the part of it that is no Python
from _thread import get_ident
from collections.abc import Callable
from time import sleep
from typing import Any

_LAST_SIGNAL = 65
_PYTHON = (types.FunctionType, types.MethodType)
_collects, _collect_no_more, _collect_again = gc.isenabled, gc.disable, gc.enable
_trace, _set_trace, _profile, _set_profile = sys.gettrace, sys.settrace, sys.getprofile, sys.setprofile
_AT_WORK: set[int] = set()
"""Threads that are in a function of ours."""


def _handled() -> tuple[int, ...]:
    """Signals that exist here."""
    found = []
    for number in range(1, _LAST_SIGNAL):
        try:
            getsignal(number)
        except ValueError:
            continue
        found.append(number)
    return tuple(found)


_SIGNALS = _handled()


def hold() -> tuple[Any, ...]:
    """Let everything rest; what is needed to wake it again."""
    me = get_ident()
    first = me not in _AT_WORK
    _AT_WORK.add(me)
    collecting = _collects()
    _collect_no_more()
    trace, profile = _trace(), _profile()
    # While one is being replaced, which is when the interpreter tells us of it, none can be, and none runs.
    try:
        if type(trace) in _PYTHON:
            _set_trace(None)
    except RuntimeError:
        trace = None
    try:
        if type(profile) in _PYTHON:
            _set_profile(None)
    except RuntimeError:
        profile = None
    handlers = []
    for number in _SIGNALS:
        handler = getsignal(number)
        if handler is None or handler is is_ or type(handler) is int:
            continue
        try:
            # Called and done with, in the interpreter itself. Ignoring a signal may mean more than that.
            signal(number, is_)
        except ValueError:
            break  # not in the main thread, where alone handlers run
        handlers.append((number, handler))
    return first, me, collecting, trace, profile, handlers


def let_go(held: tuple[Any, ...]) -> None:
    """Wake what rests. Nothing of ours but this list is to be found from here on."""
    first, me, collecting, trace, profile, handlers = held
    if first:
        _AT_WORK.discard(me)
    for number, handler in handlers:
        signal(number, handler)
    if type(profile) in _PYTHON:
        _set_profile(profile)
    if type(trace) in _PYTHON:
        _set_trace(trace)
    if collecting:
        _collect_again()


def at_work() -> bool:
    """Whether this thread is in a function of ours."""
    return get_ident() in _AT_WORK


def wait_for_others() -> None:
    """Before frames of all threads are handed out: until none of them has one of ours."""
    me = get_ident()
    mine = me in _AT_WORK
    _AT_WORK.discard(me)
    for _ in range(5000):
        if not _AT_WORK:
            break
        sleep(0.0002)
    if mine:
        _AT_WORK.add(me)


def quiet(
    way: Callable[..., Any], sealed: Callable[..., Callable[..., Any]], failed: Callable[[str], None]
) -> Callable[..., Any]:
    """A way into ours that can be handed to anybody. `failed`: told what is wrong with a call."""

    def safe(*arguments: Any) -> Any:  # noqa: ANN401
        try:
            if get_ident() not in _AT_WORK:
                failed("called past its door")
            return way(*arguments)
        except BaseException as error:  # noqa: BLE001 - whatever it is, its frames are ours
            failed(type(error).__name__)

    inner, enter, leave = sealed(safe), sealed(hold), sealed(let_go)

    def call(*arguments: Any) -> Any:  # noqa: ANN401
        held = enter()
        try:
            return inner(*arguments)
        finally:
            leave(held)

    return sealed(call)
