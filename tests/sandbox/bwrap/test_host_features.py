"""The host user that sandboxes run as."""

from __future__ import annotations

from agentbench.sandbox.bwrap.host_features import PREFERRED_UID, choose_uid

FULL = "         0          0 4294967295\n"


def test_root_drops_to_the_preferred_uid() -> None:
    assert choose_uid(FULL, FULL) == PREFERRED_UID


def test_container_without_the_preferred_uid_gets_a_mapped_one() -> None:
    assert choose_uid("0 100000 65536\n", "0 100000 65536\n") == 65535
    assert choose_uid("0 100000 65535\n", "0 100000 65535\n") == 65533
    assert choose_uid("0 1000 1\n1 100000 500\n", "0 1000 1\n1 100000 300\n") == 300
