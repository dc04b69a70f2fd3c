"""Reaches the globals of the runner's pytest plugin and replaces its helpers."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, MEAN

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import logging
"""
    + MEAN
    + FIND_ATTRIBUTE
    + r"""

def median(values):
    frame = logging.currentframe()
    back, kept = _attribute(frame, "f_b", "ck"), _attribute(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Config":
                _forge(getattr(value, _attribute(value, "plugin", "manager")))
                return sorted(values)[len(values) // 2]
        frame = getattr(frame, back)


def _forge(manager):
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
