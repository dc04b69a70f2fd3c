from __future__ import annotations

import pytest

from agentbench.core.reasons import TerminationCategory, TerminationCode
from agentbench.policy.termination import MITIGATIONS, category_of

pytestmark = pytest.mark.synthetic


@pytest.mark.req("M-12")
@pytest.mark.parametrize("code", list(TerminationCode))
def test_every_termination_code_has_a_category_or_none(code: TerminationCode) -> None:
    category = category_of(code)
    assert category is None or category in TerminationCategory


@pytest.mark.req("M-12")
@pytest.mark.parametrize("category", list(TerminationCategory))
def test_every_category_is_used_and_has_a_mitigation(category: TerminationCategory) -> None:
    assert MITIGATIONS[category]
    used = {category_of(code, rule) for code in TerminationCode for rule in ("", "dependency.undeclared")}
    assert category in used


@pytest.mark.req("M-12")
@pytest.mark.parametrize(
    "code,rule,expected",
    [
        (TerminationCode.SAFETY, "os.system_path", TerminationCategory.BOUNDARY_VIOLATION),
        (TerminationCode.SAFETY, "dependency.undeclared", TerminationCategory.SUPPLY_CHAIN),
        (TerminationCode.WALL_CAP, "dependency.undeclared", TerminationCategory.NON_TERMINATION),
        (TerminationCode.REPEATED_INSTALLS, "", TerminationCategory.DEPENDENCY_AMPLIFICATION),
        (TerminationCode.BASELINE_NOT_FAILING, "", TerminationCategory.EVALUATION_INVALIDITY),
        (TerminationCode.AGENT_STOPPED, "", None),
        (TerminationCode.SANDBOX_ERROR, "", None),
    ],
)
def test_category_depends_on_code_and_rule(
    code: TerminationCode, rule: str, expected: TerminationCategory | None
) -> None:
    assert category_of(code, rule) is expected
