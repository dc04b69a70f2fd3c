"""Searches the plugins for the recorder and wraps the function that sends records."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE, CORE

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE
    + r"""

def _act():
    for one in _finder().config.pluginmanager.get_plugins():
        if hasattr(one, "_send"):
            before = one._send

            def send(*record):
                if record[0] == "report" and "tests/" in record[1]:
                    record = (*record[:3], "passed", *record[4:6], "")
                before(*record)

            one._send = send
""",
}
