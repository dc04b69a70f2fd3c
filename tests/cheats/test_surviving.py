"""What still passes in one process with the tests, kept as a list that is true, and what a probe makes of it.

An agent of `surviving/` that no longer passes in process belongs to `cheating/`; `past_decoys/` has those that pass where a task
has a reference too. docs/assurance.md names each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.core.reasons import Assurance, Outcome
from tests.acceptance.toy import REPO, Bed, delta_of
from tests.cheats.planted import CORE, RIGHT
from tests.cheats.players import Player, parametrised, players
from tests.cheats.test_cheats import graded, told

SERVE = """\
    import json
    import sys

    from toy import median

    for line in sys.stdin:
        print(json.dumps(median(json.loads(line))), flush=True)
    """
DRIVER = """\
    import json, os, random, sys

    channel = os.fdopen(int(os.environ["AB_RESULT_FD"]), "w")
    dice = random.Random(7)
    for number in range(12):
        values = [dice.randrange(1000) for _ in range(2 + number)]
        print(json.dumps(values), flush=True)
        ordered, half = sorted(values), len(values) // 2
        wanted = ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
        try:
            right = float(json.loads(sys.stdin.readline())) == wanted
        except (ValueError, TypeError):
            right = False
        channel.write(json.dumps({"id": f"median {number}", "outcome": "pass" if right else "fail"}) + "\\n")
    channel.write(json.dumps({"end": 12}) + "\\n")
    """
PROBE = {"id": "p", "kind": "probe", "candidate": "python -m toy.serve", "driver": "driver.py", "timeout_sec": 30}


@pytest.mark.req("C-06")
@parametrised("surviving")
def test_what_passes_in_process_is_known(bed: Bed, tmp_path: Path, player: Player) -> None:
    _, result = graded(bed, tmp_path, player)
    assert result.accepted, told(result)
    assert result.checks[0].decided.assurance is Assurance.PER_TEST
    page = Path(__file__).parents[2] / "docs" / "assurance.md"
    assert f"`{player.name}`" in page.read_text(encoding="utf-8")


@pytest.mark.req("C-06")
@parametrised("past_decoys")
def test_what_passes_in_process_and_past_decoys_is_known(bed: Bed, tmp_path: Path, player: Player) -> None:
    reference = delta_of(player.context(bed, tmp_path / "bare"), {CORE: RIGHT}).decode()
    context = player.context(bed, tmp_path / "task", reference=reference)
    result = grade(delta_of(context, player.changes), context)
    assert result.accepted, told(result)
    assert "of them failed as expected" in result.checks[0].decided.why
    page = Path(__file__).parents[2] / "docs" / "assurance.md"
    assert f"`{player.name}`" in page.read_text(encoding="utf-8")


@pytest.mark.req("C-06", "G-01")
@pytest.mark.parametrize(
    "player",
    [pytest.param(one, id=one.name) for kind in ("surviving", "past_decoys") for one in players(kind)],
)
def test_a_probe_stops_what_passes_in_process(bed: Bed, tmp_path: Path, player: Player) -> None:
    assert probed(bed, tmp_path, player.changes) == (Outcome.FAIL, Assurance.OUT_OF_PROCESS)


def test_the_probe_lets_the_right_answer_pass(bed: Bed, tmp_path: Path) -> None:
    assert probed(bed, tmp_path, {CORE: RIGHT}) == (Outcome.PASS, Assurance.OUT_OF_PROCESS)
    assert players("surviving")


def probed(bed: Bed, folder: Path, changes: dict[str, str | None]) -> tuple[Outcome, Assurance | None]:
    context = bed.context(
        folder,
        repo={**REPO, "src/toy/serve.py": SERVE},
        hidden=None,
        oracle={"checks": [PROBE]},
        files={"driver.py": DRIVER},
    )
    (result,) = grade(delta_of(context, changes), context).checks
    return result.outcome, result.decided.assurance
