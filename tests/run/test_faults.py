"""The fault campaign, short: kill -9 at random moments, then nothing is lost, repeated or left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.run.faults import Campaign


@pytest.mark.req("R-13", "R-01")
@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_whole(tmp_path: Path, shared_state: Path) -> None:
    campaign = Campaign(tmp_path, shared_state, attempts=10, kills=6, seed=random.SystemRandom().randrange(10**6))
    campaign.carry_out()
    assert campaign.problems == [], f"seed {campaign.seed}"
    assert campaign.killed >= 6
