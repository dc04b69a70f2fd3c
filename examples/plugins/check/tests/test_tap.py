import pytest
from agentbench_tap import tap

import agentbench as ab

NODE = b"""TAP version 13
# Subtest: median
    # Subtest: of odd lists
    ok 1 - of odd lists
      ---
      duration_ms: 0.4
      ...
    # Subtest: of even lists
    not ok 2 - of even lists
    1..2
not ok 1 - median
ok 2 - mean # SKIP no floats
1..2
"""


def test_output_of_node_is_read_with_its_subtests() -> None:
    assert tap(ab.RunnerOutput(stdout=NODE)).outcomes == {
        "median > of odd lists": "passed",
        "median > of even lists": "failed",
        "median": "failed",
        "mean": "skipped",
    }


@pytest.mark.parametrize("text", [b"ok 1 a\nok 2 a\n1..2\n", b"1..3\nok 1 a\n", b"ok 1 a\n", b"\xff"])
def test_untrustworthy_output_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        tap(ab.RunnerOutput(stdout=text))
