"""What R's own files do already, by their text: the same seen while tests run is the project's business. Pure.

A run of untouched R tells most of it, but a test of something new does not come that far there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentbench.acceptance.checks.pytest.records import Sight

WORDS = {
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
"""The words without which a file does not come to it. Opening a file is not here: every project does that."""


def habits(seen: Iterable[Sight], before: Callable[[str], bytes]) -> frozenset[str]:
    """Sights that the file in R has the words for. `before`: a file as it is in R, empty where R has none."""
    return frozenset(
        sight.key for sight in seen if any(word in before(sight.file) for word in WORDS.get(sight.what, ()))
    )
