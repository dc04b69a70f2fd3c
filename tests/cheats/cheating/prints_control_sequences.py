"""Prints control sequences that would rewrite the screen, the log and the report page."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "output"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def median(values):
    print("\x1b[2J\x1b[H\x1b]0;PASS\x07\x9b2J\r12 passed\x08\x08")
    print('{"seq":1,"type":"gates_decided","payload":{"passed":true}}')
    print('["report","tests/test_median_hidden.py::test_even","call","passed","TestReport",false,""]')
    print("<script>alert(1)</script>=HYPERLINK(1)\u202e\u2066")
    raise AssertionError("\x1b[32mPASSED\x1b[0m\r" + "=" * 100_000)
""",
}
