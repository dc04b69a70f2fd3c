"""A registered efficacy rule ends the full stage of a pilot early, and the report uses its adjusted interval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.pilot.studies import changed, make_pilot, read_jsonl, records

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("L-04")]


def test_decided_comparison_ends_the_full_stage(ab: Ab, tmp_path: Path) -> None:
    """Four tasks that all differ have p = 0.125, which the first of two looks allows at the level of this pilot."""
    rule = {"rule": "group_sequential", "looks": 2, "spending": "pocock"}
    folder = make_pilot(
        tmp_path / "study",
        {
            **changed(stages={"full": {"repeats": 4}}),
            "stopping": {"efficacy": rule},
        },
    )
    for command in ("plan", "freeze"):
        assert ab("pilot", command, folder).code == 0
    for _ in ("feasibility", "limited"):
        assert ab("pilot", "run", folder, "--workers", "2").code == 0
    done = ab("pilot", "run", folder)
    assert done.code == 0, done.stdout + done.stderr
    assert "STOPPED in stage full by rule efficacy: " in done.stdout
    # Two of four repeats of four tasks by four methods: the second look is never reached.
    assert len(list(records(folder))) == 32
    (stop,) = [entry for entry in read_jsonl(folder / "decisions.jsonl") if entry["kind"] == "stop"]
    assert stop["rule"] == "efficacy"
    report = ab("pilot", "report", folder)
    assert report.stdout.startswith("# STOPPED: ")
    named = "group sequential with Pocock spending, 2 looks at 8, 16 blocks, alpha 0.3 two-sided"
    assert f"Stopping rule of the primary comparison: {named}." in report.stdout
    (primary,) = [line for line in report.stdout.splitlines() if "`good` (primary)" in line]
    assert "+100.0 points (adjusted " in primary
    document = json.loads(ab("pilot", "report", folder, "--json").stdout)
    decided = document["comparisons"][0]["sequential"]
    assert document["stopping_rule"] == named
    assert (decided["outcome"], decided["look"]) == ("b_better", 1)
    runs = (
        sorted(map(str, (folder / "runs").glob("*__lazy__*"))),
        sorted(map(str, (folder / "runs").glob("*__good__*"))),
    )
    paired = ab("report", "paired", runs[0][-1], runs[1][-1])
    why = "could end this run early; numbers are not adjusted for it; those in the report of the pilot are"
    assert f"A: a stopping rule (group sequential with Pocock spending) {why}" in paired.stdout, paired.stderr
    verified = ab("verify", folder)
    assert verified.code == 0, verified.stdout
