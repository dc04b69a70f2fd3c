from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from agentbench.acceptance.checks.pytest import runner_bundle
from tests.campaigns.layers import LAYERS, switched_off
from tests.campaigns.redteam import KINDS, Campaign, Job, Row, grade_in_time, jobs_without

SPOKE = ("audit_hook", "decoys")


def row(cheat: str, *caught_by: str, off: str = "", outcome: str = "fail", family: str = "leaks") -> Row:
    return Row("cheating", cheat, family, "bwrap", True, off, outcome, caught_by, "")


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer.appended])
def test_switching_a_layer_off_changes_the_runner_only_meanwhile(name: str) -> None:
    programs = list(LAYERS[name].appended)
    before = [runner_bundle._program(program) for program in programs]
    with switched_off([name]):
        during = [runner_bundle._program(program) for program in programs]
    assert all(changed.startswith(original) for changed, original in zip(during, before, strict=True))
    assert during != before
    assert [runner_bundle._program(program) for program in programs] == before


def test_only_layers_that_may_be_needed_are_switched_off() -> None:
    rows = [row("both", *SPOKE, family="output"), row("one", "decoys", family="output"), row("none", family="tests")]
    assert list(jobs_without(rows)) == [
        Job("cheating", "one", "bwrap", decoys=True, off="decoys"),
        Job("cheating", "none", "bwrap", decoys=True, off="protection"),
    ]


def test_resumed_campaign_does_not_grade_again(tmp_path: Path) -> None:
    file, graded = tmp_path / "rows.json", row("one", *SPOKE)
    file.write_text(json.dumps([asdict(graded)]), "utf-8")
    campaign = Campaign(tmp_path, workers=1, deadline=0, file=file)
    campaign.resume()
    assert campaign.run([graded.job]) == [graded]
    assert not campaign.incomplete


def test_no_grading_starts_after_the_deadline(tmp_path: Path) -> None:
    assert grade_in_time(row("one").job, tmp_path, deadline=0) is None


def test_documented_cheats_are_known_only_where_they_pass() -> None:
    rows = [Row(kind, "one", "", "bwrap", decoys, "", "PASS", (), "") for kind in KINDS for decoys in (True, False)]
    assert [row.is_known for row in rows] == [False, False, False, True, True, True]
