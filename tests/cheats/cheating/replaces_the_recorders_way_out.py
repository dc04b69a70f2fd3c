"""Finds the recorder among the plugins and puts its own function before the one that sends."""

from __future__ import annotations

from tests.cheats.planted import CORE, ONCE

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: ONCE
    + r"""

def _act():
    for one in _home().config.pluginmanager.get_plugins():
        if hasattr(one, "_send"):
            before = one._send

            def send(*record):
                if record[0] == "report" and "tests/" in record[1]:
                    record = (*record[:3], "passed", *record[4:6], "")
                before(*record)

            one._send = send
""",
}
