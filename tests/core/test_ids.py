from __future__ import annotations

import re
from datetime import datetime

import pytest

from agentbench.core.ids import new_ulid, now_iso

pytestmark = pytest.mark.component


@pytest.mark.req("E-09a")
def test_ids_are_unique_ulids_sorted_by_time() -> None:
    ids = [new_ulid() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", one) for one in ids)
    times = [one[:10] for one in ids]
    assert times == sorted(times)


@pytest.mark.req("E-09a")
def test_times_carry_their_zone() -> None:
    moment = datetime.fromisoformat(now_iso())
    assert moment.utcoffset() is not None
