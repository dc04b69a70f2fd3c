"""Comes from our part of the session to what stands beside it and takes its helpers over."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN, WORDS

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import logging
"""
    + MEAN
    + WORDS
    + r"""

def median(values):
    frame = logging.currentframe()
    back, kept = _word(frame, "f_b", "ck"), _word(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Config":
                _bend(getattr(value, _word(value, "plugin", "manager")))
                return sorted(values)[len(values) // 2]
        frame = getattr(frame, back)


def _bend(manager):
    for plugin in manager.get_plugins():
        if type(plugin).__name__ == "Plugin":
            names = type(plugin).pytest_runtest_logreport.__globals__
            for name in ("_plain", "_text", "_error_text"):
                names[name] = lambda text: "passed" if str(text) == "failed" else str(text)
            names["_failure_reason"] = lambda report: ""
            if "Recorder" in names:
                names["Recorder"]._report_changes = lambda self, changed: None
""",
}
