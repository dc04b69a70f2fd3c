"""Recognises behaviour that files of the base repository already have, judged by their text. Pure.

The same behaviour observed while tests run is then not a finding. A run on the base repository shows most of it, but a
test of something new does not get that far there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentbench.acceptance.checks.pytest.records import AuditEvent

TELLING_WORDS = {
    "open test line by line": (b"linecache", b"extract_stack", b"format_stack", b"print_stack", b"walk_stack"),
    "gc.get_objects": (b"get_objects",),
    "gc.get_referrers": (b"get_referrers",),
    "gc.get_referents": (b"get_referents",),
    "sys.settrace": (b"settrace",),
    "sys.setprofile": (b"setprofile",),
    "sys.monitoring.register_callback": (b"monitoring",),
    "sys._current_frames": (b"_current_frames",),
    "set __code__": (b"__code__",),
    "ctypes": (b"ctypes",),
}
"""Words without which a file does not show this behaviour. Opening files is missing here: every project does that."""


def known_behaviour(seen: Iterable[AuditEvent], before: Callable[[str], bytes]) -> frozenset[str]:
    """Return the keys of observations whose file in the base repository contains the words for them.

    `before` returns the content of a file in the base repository, empty if it does not exist there.
    """
    return frozenset(
        sight.key for sight in seen if any(word in before(sight.file) for word in TELLING_WORDS.get(sight.what, ()))
    )
