"""Open the inputs of reports: run directories, and CSV files with results of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.problems import Problems
from agentbench.core.text import printable
from agentbench.record.find_run import RUNS, find_run
from agentbench.record.naming import RUN_JSON, SIGNATURE
from agentbench.record.run_directory import RunDirectory
from agentbench.record.run_state import IMPORTED_ID, RunState, run_state
from agentbench.record.schema import SCHEMA_VERSION, AttemptRecord
from agentbench.record.seals import AlteredRecord, SealCheck, altered_evidence, altered_origins
from agentbench.reports.csv_results import read_cost_units, read_deviations, read_results, read_seal_marks
from agentbench.reports.missing_results import MissingResults, listed_state, missing_results
from agentbench.reports.record_rows import VERIFY, Row, read_records, read_rows, unsealed_attempts
from agentbench.reports.seal_marks import ALTERED, IMPORTED, NO_SEAL, SealMarks
from agentbench.reports.signature import RECORDS, RunSignature, read_signature, with_evidence
from agentbench.statistics.comparability import Identity
from agentbench.statistics.trials import Rate, Trial, contract_value

T = TypeVar("T")

SELECT = "#"
"""`results.csv#method` selects one method of a file with several."""


@dataclass(frozen=True)
class Run:
    """The final records of a run directory."""

    path: Path
    run_id: str
    suite: str
    rows: tuple[Row, ...]
    """Final attempts, one per task, variant and repeat."""
    superseded: int
    """Number of records replaced by a later attempt."""
    superseded_cost: Mapping[str, float]
    """Their total cost by unit."""
    altered: tuple[AlteredRecord, ...] = ()
    """Records that differ from their seals, and a break of the chain that seals them."""
    unsealed: frozenset[str] = frozenset()
    """Attempts without a seal: of a run without a chain, or not sealed yet."""
    seals: SealCheck | None = None
    """The seals of its attempts."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """The content of `run.json`."""
    signature: str = ""
    """Who signed the run, and which files were compared; empty for a run that is neither closed nor signed."""
    given: str = ""
    """The path as the user gave it, if it is not `path`: a share bundle."""

    def mark(self, line: str, name: str = "") -> str:
        """Return the first line of a report with what was altered or is missing. `name` tells one of several runs."""
        if self.missing:
            line = f"{line} [{f'{name} ' if name else ''}INCOMPLETE: {self.missing.counted}]"
        return self.mark_seals(line, name)

    def mark_seals(self, line: str, name: str = "") -> str:
        """Return the first line of a report, preceded by what was altered."""
        marked = self.seal_marks.mark(line, name)
        if marked != line or self.seals is None or self.seals.closed:
            return marked
        of_run = f" IN {name.upper()}" if name else ""
        return f"{line} [NOT CLOSED{of_run}]"

    @property
    def seal_marks(self) -> SealMarks:
        return SealMarks(len(self.rows), tuple(map(str, self.altered)), len(self.unsealed), self.imported)

    def about_to_close(self) -> Run:
        """Return the run as it is once its chain is closed. Only the process that closes it can know."""
        return self if self.seals is None else replace(self, seals=replace(self.seals, closed=True))

    def mark_attempt(self, attempt_id: str, line: str) -> str:
        """Return the verdict of one attempt, preceded by how its record was altered."""
        alteration = self.alteration(attempt_id)
        if alteration:
            return f"ALTERED: {alteration}, see `ab verify`. {line}"
        if self.imported:
            return f"{line} [IMPORTED from {self.imported}, not graded here]"
        return f"{line} [NOT SEALED]" if attempt_id in self.unsealed else line

    def alteration(self, attempt_id: str) -> AlteredRecord | None:
        """Return how the record of an attempt was altered. A broken chain leaves every record in doubt."""
        return self._alterations.get(attempt_id) or self._alterations.get(None)

    def doubt(self, attempt_id: str) -> str:
        """Return why the record of an attempt may not be the one that was graded; empty if its seal holds or it was imported."""
        alteration = self.alteration(attempt_id)
        if alteration:
            return str(alteration)
        return NO_SEAL if attempt_id in self.unsealed and not self.imported else ""

    def seal_cells(self, attempt_id: str) -> dict[str, str]:
        """Return the cells of the row of an attempt. Every row has what was altered and belongs to none of them."""
        alteration = self.alteration(attempt_id) or self._alteration_of_no_row
        return {ALTERED: str(alteration or self.doubt(attempt_id)), IMPORTED: self.imported}

    @property
    def doubt_of_no_row(self) -> str:
        """What was altered and belongs to no record that is left; empty if nothing."""
        return str(self._alteration_of_no_row or "")

    @cached_property
    def _alteration_of_no_row(self) -> AlteredRecord | None:
        rows = {row.attempt_id for row in self.rows} if self.altered else set()
        return next((record for record in self.altered if record.attempt_id not in rows), None)

    @cached_property
    def _alterations(self) -> Mapping[str | None, AlteredRecord]:
        return {record.attempt_id: record for record in reversed(self.altered) if record.place != RUN_JSON}

    def with_audit(self, records: Iterable[AttemptRecord]) -> Run:
        """Return the run with the evidence files of these attempts compared with their seals too. Reads all of them."""
        seals = self.seals
        if seals is None:
            return self
        alterations = [
            altered_evidence(self.path, record, seal, reduced=record.attempt_id in seals.reduced)
            for record in records
            if (seal := seals.seals.get(record.attempt_id)) is not None
        ]
        altered = tuple(filter(None, alterations))
        line = with_evidence(self.signature, next(iter(altered), None), complete=len(alterations) == len(seals.seals))
        return replace(self, altered=(*self.altered, *altered), signature=line)

    def evidence_alteration(self, record: AttemptRecord) -> AlteredRecord | None:
        """Return how the record or an evidence file of an attempt was altered. Reads all of its files."""
        return self.alteration(record.attempt_id) or self.with_audit([record]).alteration(record.attempt_id)

    def with_signed_evidence(self) -> Run:
        """Return a signed run with the evidence files of all final attempts compared, for pages that show them."""
        return self.with_audit(self.finals) if self.signature.endswith(RECORDS) else self

    @cached_property
    def imported(self) -> str:
        """The tool that made the results; empty for a run of this harness.

        A run with a chain was never imported. `run.json` alone does not decide, because nothing seals it there: the contracts of
        imported records are those of another tool, so that they are not compared with contracts that were graded here.
        """
        origin = self.meta.get("imported")
        if self.seals is not None or not isinstance(origin, Mapping):
            return ""
        if not all(row.contract_id.startswith(IMPORTED_ID) for row in self.rows):
            return ""
        return printable(str(origin.get("tool") or "another tool"))[:80]

    @cached_property
    def missing(self) -> MissingResults | None:
        """Planned attempts without a result; None if there are none."""
        return missing_results(self.meta, self.rows)

    @cached_property
    def finals(self) -> tuple[AttemptRecord, ...]:
        """Full records of all rows; slow for large runs."""
        return tuple(read_records(self.path, self.rows))

    def records(self, rows: Sequence[Row]) -> tuple[AttemptRecord, ...]:
        """Read the full records of some rows."""
        return tuple(read_records(self.path, rows))

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        # Column by column, because 100,000 constructor calls would take as long as reading the file.
        rows = self.rows
        columns = (
            [row.task for row in rows],
            [row.repeat for row in rows],
            [row.status for row in rows],
            [row.passed for row in rows],
            [row.cause for row in rows],
            [row.cost.known_total for row in rows],
            [row.safe for row in rows],
            [row.checks_decided for row in rows] if self.imported else [True] * len(rows),
        )
        return tuple(map(partial(tuple.__new__, Trial), zip(*columns, strict=True)))

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        identities: Iterable[Identity] = map(identity_of, self.rows)
        if self.imported:
            identities = map(_imported_identity, identities)
        return tuple(identities)


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str
    origin: str
    trials: tuple[Trial, ...]
    identities: tuple[Identity, ...]
    run: Run | None = None
    """None for results from a CSV file."""
    deviations: tuple[str, ...] = ()
    """Protocol deviations that a CSV file states. Those of a run are read from its evidence."""
    stated_marks: SealMarks = SealMarks()
    """What a CSV file says of the seals. Records of a run are compared with them."""
    stated_units: frozenset[str] = frozenset()
    """The units of the costs of a CSV file. Records of a run have their own."""

    @property
    def seal_marks(self) -> SealMarks:
        return self.run.seal_marks if self.run else self.stated_marks

    def mark(self, line: str, name: str) -> str:
        """Return the first line of a report with what was altered or is missing in this side."""
        return self.run.mark(line, name) if self.run else self.stated_marks.mark(line, name)

    @property
    def folder(self) -> Path | None:
        """The run directory with the evidence, if any."""
        return self.run.path if self.run else None

    @cached_property
    def by_task(self) -> Mapping[str, Sequence[Row]]:
        """Rows of each task in order of repeats; empty for results from a CSV file."""
        tasks: dict[str, list[Row]] = {}
        for row in sorted(self.run.rows if self.run else (), key=lambda row: row.repeat):
            tasks.setdefault(row.task, []).append(row)
        return tasks


def mark_sides(line: str, sides: Iterable[tuple[str, Side]]) -> str:
    """Return the first line of a comparison with the marks of its named sides, in the order of the sides."""
    marks = [side.mark(line, name).partition(line) for name, side in sides]
    return "".join(before for before, _, _ in marks) + line + "".join(after for _, _, after in marks)


def open_run(path: Path) -> Run:
    """Read a run directory, given its path or that of its `run.json` or `attempts.jsonl`.

    Raises:
        InputError: `path` is not a run directory, or a record cannot be read.
    """
    folder = path.parent if path.name in {"attempts.jsonl", "run.json"} and path.is_file() else path
    try:
        run = RunDirectory.open(folder)
        version = run.meta.get("schema_version", 1)
        if isinstance(version, int) and version > SCHEMA_VERSION:
            msg = f"{folder} was recorded by a newer version: schema_version {version}, supported is {SCHEMA_VERSION}"
            raise InputError(msg, remedy="upgrade agentbench-harness")
        records = read_rows(folder)
        seals = records.seals
        signed = seals.closed or (folder / SIGNATURE).is_file()
        signature = read_signature(folder) if signed else RunSignature("")
        first = {row.task: row.attempt_id for row in reversed(records.finals)}
        origins = tuple(altered_origins(folder, seals, first.values()))
    except RecordError as error:
        raise InputError(error.message, remedy=VERIFY) from error
    return Run(
        folder,
        str(run.meta.get("run_id", "")),
        str(run.meta.get("suite", "")),
        records.finals,
        records.superseded,
        records.superseded_cost,
        (*seals.altered(), *origins, *signature.altered),
        unsealed_attempts(records.finals, seals),
        seals if seals.present else None,
        run.meta,
        signature.line,
    )


def ended_state(runs: Iterable[Path]) -> RunState:
    """Return the state of the runs of one command that ended: `finished` only if no planned attempt lacks a result."""
    states = {listed_state(run_state(run), open_run(run).missing) for run in runs}
    if "interrupted" in states:
        return "interrupted"
    return "incomplete" if "incomplete" in states else "finished"


def open_side(text: str, runs: Path = RUNS) -> Side:
    """Open one side of a comparison: a run as `find_run` knows it, `FILE.csv`, or `FILE.csv#METHOD`.

    Raises:
        InputError: it cannot be read, is empty, or holds several methods and none is selected.
    """
    path = Path(text)
    file, _, method = text.partition(SELECT)
    if path.is_dir() or (not path.exists() and not file.lower().endswith(".csv")):
        return run_side(open_run(find_run(text, runs)))
    if path.name in {"attempts.jsonl", "run.json"}:
        return run_side(open_run(path))
    return _csv_side(path if path.exists() else Path(file), "" if path.exists() else method)


def open_sides(a: str, b: str, *, runs: Path = RUNS) -> tuple[Side, Side]:
    """Open both sides. The same CSV file may be given twice if it holds exactly two methods.

    Raises:
        InputError: see `open_side`, or both sides are the same results.
    """
    if a == b and a.lower().endswith(".csv") and Path(a).is_file():
        methods = list(read_results(Path(a)))
        if len(methods) == 2:
            return _csv_side(Path(a), methods[0]), _csv_side(Path(a), methods[1])
    first, second = _open_all(partial(open_side, text, runs) for text in (a, b))
    refuse_same_results(first, second)
    return first, second


def refuse_same_results(a: Side, b: Side) -> None:
    """
    Raises:
        InputError: both sides are the same results.
    """
    if results_of(a) == results_of(b):
        msg = f"both sides are the same {'run' if a.run else 'results'}: {a.origin}"
        raise InputError(msg, remedy="give two different runs")


def refuse_without_results(side: Side) -> None:
    """
    Raises:
        InputError: the side has no finished attempts, or its records were removed.
    """
    if not side.trials:
        raise no_results(side.origin, side.run)


def refuse_unknown_acceptance(side: Side, rate: Rate) -> None:
    """
    Raises:
        InputError: the acceptance rate is asked for, and the side was imported from a tool that does not state it.
    """
    if rate is Rate.ACCEPTANCE and not all(trial.acceptance_known for trial in side.trials):
        msg = f"the acceptance rate of {side.origin} is unknown: imported from {side.seal_marks.imported}"
        raise InputError(msg, remedy="use --rate contract, the rate of the imported decisions")


def no_results(origin: str, run: Run | None) -> InputError:
    """Return the error for a run or a side without results."""
    if run is not None and run.altered:
        return InputError(f"{origin} has no results: {run.altered[0]}", remedy=VERIFY)
    msg = f"{origin} has no finished attempts"
    return InputError(msg, remedy="continue it with `ab run --resume`, or choose another run")


def results_of(side: Side) -> tuple[str, ...]:
    """Identify the results of a side. A copy of a run is the same run."""
    if side.run is not None:
        return ("run", side.run.run_id or str(side.run.path.resolve()))
    return ("csv", str(Path(side.origin.partition(SELECT)[0]).resolve()), side.name)


def open_methods(texts: Sequence[str]) -> list[Side]:
    """Open any number of methods: runs, and CSV files, which stand for all of their methods unless one is selected.

    Raises:
        InputError: see `open_side`.
    """
    return [side for sides in _open_all(partial(_sides_of, text) for text in texts) for side in sides]


def _sides_of(text: str) -> list[Side]:
    if text.lower().endswith(".csv") and Path(text).is_file():
        return [_csv_side(Path(text), method) for method in read_results(Path(text))]
    return [open_side(text)]


def _open_all(openers: Iterable[Callable[[], T]]) -> list[T]:
    """Open all sides, or raise one error that lists those that cannot be opened."""
    problems = Problems()
    opened = [problems.collect(opener) for opener in openers]
    problems.raise_all("")
    return [side for side in opened if side is not None]


def identity_of(row: Row) -> Identity:
    return Identity(
        task=row.task,
        repeat=row.repeat,
        contract_id=row.contract_id,
        task_digest=row.task_digest,
        acceptance_id=row.acceptance_id,
        env_digest=row.env_digest,
        config_class=row.config_class,
        harness_version=row.harness_version,
        # An attempt outside the contract rate may never have started; no trace of it is compared.
        observability=None if contract_value(row.status, row.cause, passed=row.passed) is None else row.observability,
        seed=row.seed,
    )


def _imported_identity(identity: Identity) -> Identity:
    """Return the conditions that the imported log states. Without a configuration class it is one of another tool."""
    if identity.config_class is not None and not identity.config_class.startswith(IMPORTED_ID):
        return identity
    return replace(identity, config_class=None, seed=None)


def run_side(run: Run) -> Side:
    """Return a run as one side of a comparison.

    Raises:
        InputError: it has several variants.
    """
    variants = sorted({row.variant for row in run.rows}) or [str(run.meta.get("variant", ""))]
    if len(variants) > 1:
        msg = f"{run.path} has several variants ({', '.join(map(printable, variants))}); a side must be one method"
        raise InputError(msg)
    return Side(variants[0], str(run.path), run.trials, run.identities, run)


def _csv_side(path: Path, method: str) -> Side:
    methods = read_results(path)
    if not methods:
        raise InputError(f"{path} has no results")
    chosen = method or (next(iter(methods)) if len(methods) == 1 else "")
    if chosen not in methods:
        problem = f"has no method '{printable(method)}'" if method else "has several methods"
        msg = f"{path} {problem}; available: {_listed(list(methods))}"
        raise InputError(msg, remedy=f"select one with {path}{SELECT}METHOD")
    trials = methods[chosen]
    identities = tuple(Identity(task=trial.task, repeat=trial.repeat) for trial in trials)
    return Side(
        chosen,
        str(path),
        trials,
        identities,
        deviations=read_deviations(path, chosen),
        stated_marks=read_seal_marks(path, chosen),
        stated_units=read_cost_units(path, chosen),
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(printable(name[:80]) for name in names[:20]) + (" …" if len(names) > 20 else "")
