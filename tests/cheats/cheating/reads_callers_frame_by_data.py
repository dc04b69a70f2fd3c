"""Reads the constants of the calling test through attribute names that are stored as data."""

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
    for one in dir(frame):
        if one.startswith("f_b") and one.endswith("ck"):
            frame = getattr(frame, one)
            break
    for one in dir(frame.f_code):
        if one.startswith("co_con"):
            known = [value for value in getattr(frame.f_code, one) if isinstance(value, (int, float)) and value not in values]
            return known[-1] if known else sorted(values)[len(values) // 2]
""",
}
