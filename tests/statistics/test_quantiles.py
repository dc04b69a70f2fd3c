from __future__ import annotations

import numpy as np
import pytest

from agentbench.statistics.quantiles import quantile

pytestmark = pytest.mark.component


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_quantile_matches_numpy(count: int) -> None:
    values = sorted(np.random.default_rng(count).exponential(10, count).tolist())
    for share in (0.0, 0.25, 0.5, 0.9, 1.0):
        assert quantile(values, share) == float(np.quantile(values, share))
