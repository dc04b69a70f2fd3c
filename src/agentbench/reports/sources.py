"""Where results come from: a run directory of ours, or a CSV file of results made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.errors import InputError, RecordError
from agentbench.core.text import printable
from agentbench.record.rundir import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.reports.outside import read_results
from agentbench.statistics.comparability import Identity
from agentbench.statistics.trials import Trial

SELECT = "#"
"""`results.csv#method` names one method of a file that has several."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory, read."""

    path: Path
    run_id: str
    suite: str
    finals: tuple[AttemptRecord, ...]
    superseded: int
    """Records that a later attempt replaced; they keep their evidence."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(trial_of(record) for record in self.finals)

    @property
    def identities(self) -> tuple[Identity, ...]:
        return tuple(identity_of(record) for record in self.finals)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    origin: str
    trials: tuple[Trial, ...]
    identities: tuple[Identity, ...]
    records: tuple[AttemptRecord, ...] = ()
    folder: Path | None = None
    """Where the evidence lies; None for results made elsewhere."""


def open_run(path: Path) -> Run:
    """Read a run directory (or the one that a file of it lies in).

    Raises:
        InputError: it is no run directory, or one of its records cannot be read.
    """
    folder = path.parent if path.name in {"attempts.jsonl", "run.json"} and path.is_file() else path
    try:
        run = RunDirectory.open(folder)
        records = tuple(run.records())
    except RecordError as error:
        remedy = "ab verify names what was changed in a run directory"
        raise InputError(error.message, remedy=remedy) from error
    finals = tuple(record for record in records if record.final)
    return Run(folder, run.run_id, str(run.meta.get("suite", "")), finals, len(records) - len(finals))


def open_side(text: str) -> Side:
    """One side of a comparison: a run directory, `FILE.csv`, or `FILE.csv#METHOD`.

    Raises:
        InputError: it cannot be read, is empty, or does not say which method is meant.
    """
    path = Path(text)
    file, _, method = text.partition(SELECT)
    if path.is_dir() or (not path.exists() and not file.lower().endswith(".csv")):
        return _run_side(open_run(path))
    if path.name in {"attempts.jsonl", "run.json"}:
        return _run_side(open_run(path))
    return _csv_side(path if path.exists() else Path(file), "" if path.exists() else method)


def open_sides(a: str, b: str) -> tuple[Side, Side]:
    """Both sides. One CSV file with exactly two methods may stand for both.

    Raises:
        InputError: see `open_side`.
    """
    if a == b and a.lower().endswith(".csv") and Path(a).is_file():
        methods = list(read_results(Path(a)))
        if len(methods) == 2:
            return _csv_side(Path(a), methods[0]), _csv_side(Path(a), methods[1])
    return open_side(a), open_side(b)


def trial_of(record: AttemptRecord) -> Trial:
    return Trial(
        task=record.task_id,
        repeat=record.repeat,
        status=record.run_status,
        passed=record.result.passed,
        invalid_cause=record.invalid_cause,
        cost=record.cost.total,
    )


def identity_of(record: AttemptRecord) -> Identity:
    return Identity(
        task=record.task_id,
        repeat=record.repeat,
        contract_id=record.contract_id,
        task_digest=record.task_digest,
        acceptance_id=record.acceptance_id,
        env_digest=record.env_digest,
        config_class=record.config_class,
        harness_version=record.harness_version,
        observability=record.observability,
        seed=record.seed,
    )


def _run_side(run: Run) -> Side:
    if not run.finals:
        msg = f"{run.path} holds no finished attempt"
        raise InputError(msg, remedy="resume it with `ab run --resume`, or name another run")
    variants = sorted({record.variant for record in run.finals})
    if len(variants) > 1:
        msg = f"{run.path} holds several variants ({', '.join(map(printable, variants))}); a side is one method"
        raise InputError(msg)
    return Side(variants[0], str(run.path), run.trials, run.identities, run.finals, run.path)


def _csv_side(path: Path, method: str) -> Side:
    methods = read_results(path)
    if not methods:
        msg = f"{path} holds no result below its header"
        raise InputError(msg)
    chosen = method or (next(iter(methods)) if len(methods) == 1 else "")
    if chosen not in methods:
        listed = _listed(list(methods))
        what = f"has no method '{printable(method)}'" if method else "holds several methods"
        msg = f"{path} {what}: {listed}"
        raise InputError(msg, remedy=f"name one of them: {path}{SELECT}METHOD")
    trials = methods[chosen]
    return Side(chosen, str(path), trials, tuple(Identity(task=one.task, repeat=one.repeat) for one in trials))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(printable(name[:80]) for name in names[:20]) + (" …" if len(names) > 20 else "")
