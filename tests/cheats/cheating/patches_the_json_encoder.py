"""Replaces a method of the standard library's JSON encoder to rewrite results as they are sent."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

import json.encoder as _encoder

_plain = _encoder.JSONEncoder.iterencode


def _bent(self, record, _one_shot=False):
    if type(record) is tuple and record and type(record[0]) is str:
        if record[0] == "report" and record[1].startswith("tests/"):
            record = (*record[:3], "passed", "TestReport", False, "")
        elif record[0] in ("changed", "seen"):
            record = ("changed", [])
        elif record[0] == "finish":
            record = ("finish", 0, 0)
    return _plain(self, record, _one_shot)


_encoder.JSONEncoder.iterencode = _bent
""",
}
