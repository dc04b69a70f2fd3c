"""`--stop-when decided`: declare a stopping rule, apply it while a run goes on, and say why it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from agentbench.cli.options import stack

if TYPE_CHECKING:
    from agentbench.core.canonical import Json
    from agentbench.record.schema import AttemptRecord
    from agentbench.reports.stopping import DeclaredRule
    from agentbench.statistics.sequential.rules import PlannedBlocks, Rule, SequentialDecision
    from agentbench.trace.events import ComparisonDecided

F = TypeVar("F", bound=Callable[..., Any])

STOP_RULES = ("obrien_fleming", "pocock", "anytime")
_CANNOT_DECIDE = "too few tasks: the rule cannot find a difference even if one method passes everything"
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)

stop_options = stack(
    click.option(
        "--stop-when",
        type=click.Choice(["decided"]),
        help="Stop a comparison of two variants as soon as its rule has decided.",
    ),
    click.option(
        "--stop-rule",
        type=click.Choice(STOP_RULES),
        help="Rule of --stop-when: group sequential with O'Brien-Fleming or Pocock spending, or a confidence sequence "
        "[default: obrien_fleming].",
    ),
    click.option("--looks", type=click.IntRange(1, 50), help="Number of looks [default: 5; 20 for anytime]."),
    click.option(
        "--margin", type=SHARE, help="Also stop when the methods are equivalent within this margin, e.g. 0.1."
    ),
    click.option(
        "--futility",
        type=SHARE,
        metavar="EFFECT",
        help="Also stop when a difference of EFFECT is unlikely to be found.",
    ),
)


class StopOptions(TypedDict):
    """Parameters of `stop_options`."""

    stop_when: str | None
    stop_rule: str | None
    looks: int | None
    margin: float | None
    futility: float | None


STOP_NAMES = frozenset(StopOptions.__annotations__)


def rule_of(options: StopOptions, variants: Sequence[str], tasks: int, repeats: int) -> dict[str, object] | None:
    """Return the rule that the options ask for, as it is recorded in `run.json`; None without `--stop-when`.

    Raises:
        InputError: the options contradict each other, or the plan is not a comparison that the rule can decide.
    """
    from agentbench.core.errors import InputError
    from agentbench.statistics.sequential.rules import PlannedBlocks, look_schedule, rule_json

    if options["stop_when"] is None:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise InputError(f"--{given[0].replace('_', '-')} needs --stop-when decided")
        return None
    if len(variants) != 2:
        msg = f"--stop-when compares exactly two variants, got {len(variants)}"
        raise InputError(msg, remedy="give --variant twice")
    try:
        planned = PlannedBlocks(tasks, repeats)
        rule = _make_rule(options, planned.blocks)
        look_schedule(rule, planned)
    except ValueError as error:
        raise InputError(f"--stop-when: {error}") from None
    return {**rule_json(rule), "rate": "contract"}


def _make_rule(options: StopOptions, blocks: int) -> Rule:
    from agentbench.statistics.sequential.rules import DEFAULT_LOOKS, Anytime, Futility, GroupSequential, Spending

    margin = options["margin"]
    name = options["stop_rule"] or "obrien_fleming"
    if name == "anytime":
        if options["futility"] is not None:
            raise ValueError("--futility needs a group sequential rule (obrien_fleming or pocock)")
        return Anytime(options["looks"] or min(DEFAULT_LOOKS[Anytime.name], blocks), margin)
    looks = options["looks"] or min(DEFAULT_LOOKS[GroupSequential.name], blocks)
    futility = None if options["futility"] is None else Futility(options["futility"])
    return GroupSequential(looks, Spending(name), futility, margin)


def too_few_tasks(rule: Rule, planned: PlannedBlocks) -> str:
    """Return that a rule cannot decide with the planned tasks, and how many it needs; empty if it can."""
    from agentbench.statistics.sequential.decide import can_decide, needed_tasks

    if can_decide(rule, planned):
        return ""
    needed = needed_tasks(rule, planned.repeats)
    return _CANNOT_DECIDE if needed is None else f"{_CANNOT_DECIDE}; it needs at least {needed} tasks"


class RunningRule:
    """The declared rule of a run that goes on. Prints a line at every look."""

    def __init__(self, declared: DeclaredRule, report: Callable[[str], None]) -> None:
        self.declared = declared
        self._report = report
        self.decision: SequentialDecision | None = None

    def announce(self) -> None:
        """Print the rule before the first attempt."""
        from agentbench.reports.sequential_text import describe_rule

        rule, planned = self.declared.rule, self.declared.planned
        self._report(f"Stopping rule: {describe_rule(rule, planned)}; at most {planned.attempts} attempts")
        if warning := too_few_tasks(rule, planned):
            self._report(f"warning: {warning}")

    @property
    def looks(self) -> Sequence[int]:
        return self.declared.looks

    def decide(self, records: Iterable[AttemptRecord]) -> ComparisonDecided | None:
        from agentbench.reports.sequential_text import describe_decision
        from agentbench.reports.stopping import trials_of_records
        from agentbench.trace.events import ComparisonDecided

        self.decision = decision = self.declared.decide(trials_of_records(records))
        if decision is None:
            return None
        self._report(describe_decision(decision, *self.declared.methods))
        if not decision.outcome.stops:
            return None
        return ComparisonDecided(
            look=decision.look,
            blocks=decision.blocks,
            outcome=decision.outcome.value,
            better=self.declared.better(decision),
        )

    def summary(self) -> str | None:
        """Return why the run stopped and how many attempts were not needed; None if the rule has not decided."""
        from agentbench.reports.sequential_text import describe_decision

        decision = self.decision
        if decision is None or not decision.outcome.stops:
            return None
        saved = 2 * (decision.planned_blocks - decision.blocks)
        planned = 2 * decision.planned_blocks
        text = describe_decision(decision, *self.declared.methods)
        if not saved:
            return f"Decision after all {planned} planned attempts: {text}"
        return f"Stopped after {planned - saved} of {planned} planned attempts: {text}"


def running_rule(meta: Mapping[str, Json], report: Callable[[str], None]) -> RunningRule | None:
    """Return the rule that the content of `run.json` declares, or None if it has none."""
    request = meta.get("request")
    if not isinstance(request, Mapping) or request.get("stop_when") is None:
        return None  # without importing the statistics
    from agentbench.reports.stopping import declared_rule

    declared = declared_rule(meta)
    return None if declared is None else RunningRule(declared, report)
