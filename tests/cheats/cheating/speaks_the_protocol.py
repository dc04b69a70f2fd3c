"""Searches memory for the recorder, reports every test as passed through it and exits with the expected status."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import gc
    import os

    gc.unfreeze()
    jobs = [one for one in gc.get_objects() if isinstance(one, dict) and "nonce" in one and "exit" in one]
    senders = [one for one in gc.get_objects() if type(one).__name__ == "Channel" and hasattr(one, "send")]
    if not jobs or not senders:
        return
    recorders = [one for one in gc.get_objects() if type(one).__name__ == "Recorder"]
    send = senders[0].send
    for test in (
        "tests/test_median_hidden.py::test_even",
        "tests/test_median_hidden.py::test_two",
        "tests/test_median_hidden.py::TestMedian::test_unsorted",
        "tests/test_median_hidden.py::TestMedian::test_sub",
    ):
        for when in ("setup", "call", "teardown"):
            send("report", test, when, "passed", "TestReport", False, "")
    send("finish", 1, 0)
    send("end", 1)
    if recorders:
        os._exit(jobs[0]["exit"])


_install()
""",
}
