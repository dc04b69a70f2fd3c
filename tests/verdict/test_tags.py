from __future__ import annotations

import pytest

from agentbench.core.reasons import Gate, Outcome, TerminationCategory, TerminationCode
from agentbench.trace.events import Excerpt, LlmResponse, ScorerResult
from agentbench.verdict.decide import Verdict
from agentbench.verdict.facts import Logged
from agentbench.verdict.tags import Tag
from agentbench.verdict.taxonomy import taxonomy
from tests.verdict.logs import (
    alerted,
    applied,
    bound,
    built,
    checked,
    ended,
    extracted,
    found,
    graded,
    linted,
    opened,
    terms,
    verdict,
)

pytestmark = pytest.mark.synthetic

FAIL, ERROR = Outcome.FAIL, Outcome.ERROR


def ids(decided: Verdict) -> set[str]:
    return {tag.id for tag in decided.tags}


def only(decided: Verdict, name: str) -> Tag:
    (tag,) = (tag for tag in decided.tags if tag.id == name)
    return tag


@pytest.mark.req("G-06a")
def test_tag_requires_evidence() -> None:
    with pytest.raises(ValueError, match="evidence"):
        Tag("build.failed", Gate.G2, ())


@pytest.mark.req("G-06a")
def test_tag_rejects_wrong_evidence_ids_gates_and_attributes() -> None:
    event = (Logged(3, checked(FAIL)),)
    with pytest.raises(ValueError, match="does not accept"):
        Tag("build.failed", Gate.G2, event)
    with pytest.raises(ValueError, match="taxonomy"):
        Tag("bad.luck", Gate.G2, event)
    with pytest.raises(ValueError, match="explain"):
        Tag("acceptance.unit", Gate.G1, event)
    with pytest.raises(ValueError, match="attribute"):
        Tag("acceptance.unit", Gate.G3, event, {"mood": "sad"})
    with pytest.raises(ValueError, match="2 events"):
        Tag("oracle.disagreement", Gate.G3, event)


@pytest.mark.req("G-06a")
def test_taxonomy_is_consistent() -> None:
    kinds = taxonomy()
    assert kinds, "the taxonomy is empty"
    for kind in kinds.values():
        assert kind.gates, kind.id
        assert kind.evidence, kind.id
        assert kind.minimum >= 1, kind.id
        assert kind.description, kind.id
    for category in TerminationCategory:
        assert f"termination.{category}" in kinds
    assert "format" in kinds["safety.os_risky_operation"].attributes
    assert {"dependency_hallucination", "context_overflow", "invariant_violation", "evaluation_error"} <= set(kinds)


@pytest.mark.req("G-06a")
def test_failed_steps_and_checks_are_tagged_with_their_event() -> None:
    payloads = graded(built(FAIL), linted(FAIL), checked(FAIL, layer="integration"))
    decided = verdict(payloads, terms("unit", build=True, statics=1))
    assert only(decided, "build.failed").evidence == (6,)
    assert only(decided, "static.failed").evidence == (7,)
    assert only(decided, "acceptance.integration").evidence == (8,)
    assert only(decided, "acceptance.integration").attributes == {"check": "unit"}


@pytest.mark.req("G-06a", "G-15")
def test_check_that_did_not_run_is_not_tagged_as_failing() -> None:
    payloads = [opened(), bound(), ended(), extracted(problem="bad"), checked(FAIL, not_run=Gate.G1)]
    assert ids(verdict(payloads)) == {"patch.not_applicable"}


@pytest.mark.req("G-06a")
def test_error_is_tagged_only_as_evaluation_error() -> None:
    decided = verdict(graded(checked(ERROR)))
    assert ids(decided) == {"evaluation_error"}
    assert only(decided, "evaluation_error").evidence == (6,)


@pytest.mark.req("G-06a")
def test_undecided_patch_application_is_an_evaluation_error() -> None:
    decided = verdict([opened(), bound(), ended(), extracted(), applied(ERROR), checked(ERROR, not_run=Gate.G1)])
    assert {(tag.id, tag.gate) for tag in decided.tags} == {
        ("evaluation_error", Gate.G1),
        ("evaluation_error", Gate.G3),
    }


@pytest.mark.req("G-06a", "G-06c")
@pytest.mark.parametrize("shape", ["natural_text", "code"])
def test_risky_operation_tag_names_the_text_format(shape: str) -> None:
    tag = only(verdict(graded(checked(), alerted(format=shape))), "safety.os_risky_operation")
    assert tag.attributes == {"rule": "os.system_path", "severity": "gate", "format": shape}
    assert tag.gate is Gate.G4


@pytest.mark.req("G-06a")
@pytest.mark.parametrize(
    "rule,expected",
    [
        ("dependency.unknown_package", "dependency_hallucination"),
        ("dependency.undeclared", "policy.dependency"),
        ("new_dependency", "policy.dependency"),
        ("scope.protected", "policy.scope"),
        ("outside_editable", "policy.scope"),
        ("secret.key", "policy.secret"),
        ("runner.internals", "integrity.violation"),
    ],
)
def test_rule_maps_to_its_tag(rule: str, expected: str) -> None:
    tag = only(verdict(graded(checked(), found(rule=rule, path="a.py"))), expected)
    assert tag.attributes["path"] == "a.py"


@pytest.mark.req("G-06a", "G-06c")
@pytest.mark.parametrize("pattern", ["curl *", "dependency.unknown *", "scope.x"])
def test_denied_command_is_tagged_as_risky_operation(pattern: str) -> None:
    tag = only(verdict(graded(checked(), alerted(rule=pattern, monitor="deny_commands"))), "safety.os_risky_operation")
    assert tag.attributes["rule"] == pattern


@pytest.mark.req("G-06a")
def test_repeated_violation_is_one_tag_with_all_its_events() -> None:
    decided = verdict(graded(checked(), found(path="a.py"), found(path="b.py")))
    assert only(decided, "integrity.violation").evidence == (7, 8)
    assert only(decided, "integrity.violation").attributes["path"] == "a.py, b.py"


@pytest.mark.req("G-06a")
def test_lost_tests_and_timeouts_have_their_own_tags() -> None:
    lost = verdict(graded(checked(FAIL, f2p_passed=3, f2p_total=3, p2p_kept=9, p2p_total=11)))
    assert only(lost, "invariant_violation").attributes["lost"] == "2"
    assert "invariant_violation" not in ids(verdict(graded(checked(FAIL, p2p_kept=9, p2p_total=11))))
    assert "acceptance.timeout" in ids(verdict(graded(checked(FAIL, timed_out=True))))


@pytest.mark.req("G-06a", "M-12")
def test_cap_is_tagged_as_resource_termination_with_its_category() -> None:
    stop = ended(TerminationCode.WALL_CAP, category=TerminationCategory.NON_TERMINATION)
    assert {"resource_termination", "termination.non_termination"} <= ids(verdict(graded(checked(FAIL), ending=stop)))


@pytest.mark.req("G-06a")
def test_too_long_conversation_is_tagged_as_context_overflow() -> None:
    answer = LlmResponse(
        request_id="1",
        status="context_overflow",
        content=Excerpt(),
        prompt_tokens=9,
        completion_tokens=0,
        cached_tokens=0,
        cost_micro_usd=0,
        duration_us=1,
        conversation_index=1,
    )
    payloads = graded(checked(FAIL))
    payloads.insert(3, answer)
    assert only(verdict(payloads), "context_overflow").evidence == (3,)


@pytest.mark.req("G-09")
def test_different_results_in_sandbox_and_replica_are_tagged() -> None:
    def live(verdict_: str, command: str = "python -m pytest -q") -> ScorerResult:
        return ScorerResult.model_validate(
            {
                "name": "tests",
                "scorer_type": "command",
                "required": True,
                "verdict": verdict_,
                "score_ppm": 0,
                "detail": "",
                "command": command,
            }
        )

    differs = verdict(graded(checked(FAIL), live("PASS")))
    assert only(differs, "oracle.disagreement").evidence == (6, 7)
    assert differs.reason == "TESTS_FAILED"
    assert any("differently" in why for why in differs.review)
    for same in (live("FAIL"), live("ERROR"), live("N/A"), live("PASS", "make test")):
        assert "oracle.disagreement" not in ids(verdict(graded(checked(FAIL), same)))
