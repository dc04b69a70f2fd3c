from __future__ import annotations

import pytest

from agentbench.statistics.intervals import Interval, newcombe_paired
from agentbench.statistics.noninferiority import Conclusion, non_inferior

pytestmark = pytest.mark.component


@pytest.mark.req("A-03")
def test_non_inferiority_is_a_one_sided_test() -> None:
    interval = newcombe_paired(40, 5, 4, 11, confidence=0.9)
    assert interval is not None
    assert non_inferior(interval, 0.15, 0.05) is Conclusion.HOLDS
    assert non_inferior(interval, 0.02, 0.05) is Conclusion.UNDECIDED
    assert non_inferior(Interval(-0.4, -0.2, 0.9, "x"), 0.1, 0.05) is Conclusion.FAILS
    assert non_inferior(None, 0.1, 0.05) is Conclusion.UNDECIDED
    with pytest.raises(ValueError, match=r"needs a 0\.9 interval"):
        non_inferior(Interval(-0.1, 0.1, 0.95, "x"), 0.1, 0.05)
