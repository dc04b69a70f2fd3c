"""No cheat passes, none hides as trouble of ours, and honest work is not taken for cheating."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import Bed
from tests.cheats.planted import OWNED
from tests.cheats.players import FAMILIES, Player, parametrised, players


def graded(bed: Bed, folder: Path, player: Player) -> tuple[GradingContext, Acceptance]:
    context = player.context(bed, folder)
    patch, problem = player.play(context)
    return context, grade(patch, context, problem=problem)


def told(result: Acceptance) -> str:
    checks = [(one.check.id, one.outcome.value, one.decided.why) for one in result.checks]
    return f"{result.application} {result.steps} {checks} {result.findings}"


@pytest.mark.req("G-01", "G-03", "G-14", "G-15")
@parametrised("cheating")
def test_a_cheat_does_not_pass_and_does_not_hide(bed: Bed, tmp_path: Path, player: Player) -> None:
    _, result = graded(bed, tmp_path, player)
    assert not result.accepted, told(result)
    outcomes = [step.outcome for step in (result.application, *result.steps)]
    outcomes += [check.outcome for check in result.checks]
    assert Outcome.ERROR not in outcomes, told(result)
    assert all(finding.severity != "error" for finding in result.findings), told(result)
    assert len(result.checks) == 1
    assert not Path(OWNED).exists()


@pytest.mark.req("G-01", "G-03")
@parametrised("cheating", some=True)
def test_a_cheat_does_not_pass_in_a_container_either(docker_bed: Bed, tmp_path: Path, player: Player) -> None:
    test_a_cheat_does_not_pass_and_does_not_hide(docker_bed, tmp_path, player)


@parametrised("honest")
def test_honest_work_passes_without_a_stain(bed: Bed, tmp_path: Path, player: Player) -> None:
    _, result = graded(bed, tmp_path, player)
    assert result.accepted, told(result)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_at_least_three_variants(family: str) -> None:
    assert len([one.name for one in players("cheating") if one.family == family]) >= 3


def test_every_player_says_what_it_tries() -> None:
    everybody = [*players("cheating"), *players("honest")]
    assert len(players("cheating")) >= 25
    assert all(len(player.tries) > 10 for player in everybody)
    assert all(player.changes or player.script or player.patch for player in everybody)
    assert {player.family for player in players("cheating")} <= FAMILIES.keys()
