"""Deciding a patch by the tests of its project, in a real sandbox."""

from __future__ import annotations

import pytest

from agentbench.core.reasons import Assurance, Outcome
from agentbench.oracle.acceptance import grade
from agentbench.oracle.bench import GradingBench
from tests.oracle.toy import FAIL_TO_PASS, FIXED, Bed, delta_of


@pytest.fixture(scope="module")
def bench(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> GradingBench:
    return bed.bench(tmp_path_factory.mktemp("task"))


@pytest.mark.req("G-01", "C-06")
def test_a_right_patch_passes_with_every_required_test(bench: GradingBench) -> None:
    graded = grade(delta_of(bench, {"src/toy/core.py": FIXED}), bench)
    (unit,) = graded.checks
    assert (unit.outcome, unit.decided.why) == (Outcome.PASS, "12 required tests passed")
    assert unit.decided.assurance is Assurance.PER_TEST
    assert unit.decided.exit_code == 0
    assert graded.accepted
    assert not graded.findings


def test_an_empty_patch_fails_and_names_the_tests(bench: GradingBench) -> None:
    graded = grade(b"", bench)
    (unit,) = graded.checks
    assert unit.outcome is Outcome.FAIL
    assert unit.decided.failing == FAIL_TO_PASS
    assert "tests/test_median_hidden.py:8: assert 3 == 2.5" in unit.decided.diagnostics
    assert unit.decided.tests["tests/test_core.py::test_skipped"] == "skipped"
    assert unit.decided.tests["tests/test_core.py::test_known"] == "xfailed"
    assert unit.decided.tests["tests/test_core.py::test_named[a b]"] == "passed"
