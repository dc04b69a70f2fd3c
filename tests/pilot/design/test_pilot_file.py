"""`pilot.yaml` is read with every problem at once, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.errors import ContractError
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.read_pilot import read_pilot
from agentbench.pilot.design.template import NewPilot, new_pilot

pytestmark = pytest.mark.component

BAD = """\
question: "Which one?"
suites:
  - name: demo
strata: [knd]
methods:
  - {variant: a, agent: noop}
  - {agent: scripted}
baselines:
  - {agent: reference}
stages:
  limited: {repeats: 3}
  full: {repeats: 2}
budgets: {total: 1.0, task: 0.5, run: 2.0}
power: {rates: [0.5], effect: 0.6}
stoping: {}
"""

LESS = "expected at least 3, the repeats of limited; got 2 (repeats include those of earlier stages)"


def problems(folder: Path, text: str) -> list[str]:
    (folder / "pilot.yaml").write_text(text)
    with pytest.raises(ContractError) as caught:
        read_pilot(folder)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_all_problems_are_listed_with_their_lines(tmp_path: Path) -> None:
    assert problems(tmp_path, BAD) == [
        "pilot.yaml:4: strata[0]: unknown stratum; expected one of ecosystem, kind, test_runtime, dependencies",
        "pilot.yaml:6: methods[0]: expected exactly one of variant, agent and patches; got variant, agent",
        "pilot.yaml:7: methods[1]: `script` and `agent: scripted` need each other",
        "pilot.yaml:8: baselines: `{agent: noop}` is missing: it shows which tasks are satisfied without any work",
        f"pilot.yaml:12: stages.full.repeats: {LESS}",
        "pilot.yaml:13: budgets.task: 0.5 is less than one attempt may cost (budgets.run: 2)",
        "pilot.yaml:13: budgets.total: 1 is less than one attempt may cost (budgets.run: 2)",
        "pilot.yaml:14: power.rates[0]: expected a rate from 0 to 0.4 (1 - effect); got 0.5",
        "pilot.yaml:15: stoping: unknown key (did you mean `stopping`?)",
    ]


@pytest.mark.req("L-02")
def test_second_baseline_is_required(tmp_path: Path) -> None:
    new_pilot(tmp_path, NewPilot(("demo",), ("baseline",), Path("tasks")))
    text = (tmp_path / "pilot.yaml").read_text()
    (problem,) = problems(tmp_path, text.replace("  - {agent: reference}\n", ""))
    assert "a second baseline is missing" in problem


def test_efficacy_needs_two_methods_and_keys_of_its_rule(tmp_path: Path) -> None:
    new_pilot(tmp_path, NewPilot(("demo",), ("baseline",), Path("tasks")))
    text = (tmp_path / "pilot.yaml").read_text()
    rule = "  efficacy: {rule: anytime, spending: pocock}\n"
    found = problems(tmp_path, text.replace("  safety_attempts: 2", rule + "  safety_attempts: 2"))
    assert [problem.partition(": ")[2] for problem in found] == [
        "stopping.efficacy: it compares the first two methods, and there is only one",
        "stopping.efficacy.spending: only for rule: group_sequential",
    ]


def test_new_pilot_with_unknown_methods_is_refused(tmp_path: Path) -> None:
    options = NewPilot(("demo",), ("baseline", "nosuch", "gone.yaml"), Path("tasks"))
    with pytest.raises(ContractError) as caught:
        new_pilot(tmp_path / "study", options)
    assert [problem.partition(" not found")[0] for problem in caught.value.problems] == [
        "variant 'nosuch'",
        "variant 'gone.yaml'",
    ]
    assert not (tmp_path / "study").exists()


def test_new_pilot_is_valid(tmp_path: Path) -> None:
    new_pilot(tmp_path, NewPilot(("demo", "mine"), ("baseline", "scripted", "noop"), tmp_path / "tasks", ("kind",)))
    text = (tmp_path / "pilot.yaml").read_text()
    pilot = read_pilot_of(tmp_path, text.replace('  - {agent: "noop"}\n', ""))
    assert pilot.names == ("baseline", "scripted", "noop", "reference")
    assert [(entry.name, entry.tasks_dir) for entry in pilot.suites] == [("demo", None), ("mine", "tasks")]
    assert pilot.seed == 20260307


def test_method_has_the_name_of_its_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("name: careful\nagent: noop\n")
    new_pilot(tmp_path / "sub/study", NewPilot(("demo",), ("mine.yaml",), tmp_path / "tasks"))
    pilot = read_pilot(tmp_path / "sub/study")
    assert pilot.methods[0].variant == "../../mine.yaml"
    assert pilot.names[0] == "careful"
    assert read_pilot(tmp_path / "sub/study", ("registered",)).names[0] == "registered"
    (tmp_path / "mine.yaml").write_text("name: very careful\nagent: noop\n")
    with pytest.raises(ContractError) as caught:
        read_pilot(tmp_path / "sub/study")
    assert "'very careful' cannot be the name of a method" in caught.value.problems[0]


def read_pilot_of(folder: Path, text: str) -> PilotFile:
    (folder / "pilot.yaml").write_text(text)
    return read_pilot(folder)
