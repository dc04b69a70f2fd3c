"""`ab verify DIR` for the folder of a pilot."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench.core.text import printable
from agentbench.pilot.verification import PilotVerification, counts_text, verify_pilot
from agentbench.record.recompute import recompute

MAX_SHOWN = 20
"""Maximum number of problems printed; `--json` has all."""


def verify_pilot_folder(folder: Path, *, as_json: bool) -> tuple[str, bool]:
    """Verify a pilot. Returns the text to print, and whether it is verified."""
    result = verify_pilot(folder, recompute)
    return (_as_json(result) if as_json else _as_text(result)), result.ok


def _as_text(result: PilotVerification) -> str:
    if result.ok:
        return f"VERIFIED: {counts_text(result.counts)} recomputed"
    lines = [f"{result.decision.upper()} {result.problems[0]}"]
    lines += [f"  {problem}" for problem in result.problems[1 : MAX_SHOWN + 1]]
    more = len(result.problems) - MAX_SHOWN - 1
    lines += [f"  and {more} more (see --json)"] if more > 0 else []
    return "\n".join(map(printable, lines))


def _as_json(result: PilotVerification) -> str:
    value = {
        "pilot": str(result.path),
        "ok": result.ok,
        "decision": result.decision,
        "problems": [{"kind": item.kind, "place": item.place, "message": item.message} for item in result.problems],
        **result.counts,
    }
    return json.dumps(value, indent=2)
