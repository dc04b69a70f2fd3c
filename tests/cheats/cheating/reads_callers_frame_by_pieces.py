"""Reads the constants of the calling test through a traceback, with attribute names assembled from parts."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "frames"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def median(values):
    try:
        raise LookupError
    except LookupError as error:
        frame = error.__traceback__.tb_frame
    frame = getattr(frame, "f_" + "back")
    known = [one for one in getattr(frame.f_code, "co_" + "consts") if isinstance(one, (int, float)) and one not in values]
    return known[-1] if known else sorted(values)[len(values) // 2]
""",
}
