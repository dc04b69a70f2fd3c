"""Exchange with SWE-bench and its variants: import rows as tasks, export tasks as rows, write its report.

Rows are JSON, JSON lines or Parquet. `FAIL_TO_PASS` may be a list or a string with a list; keys may be in any case.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from agentbench.authoring.commit.commit_reader import repository_name
from agentbench.authoring.commit.from_commit import url_from
from agentbench.authoring.commit.statement import kind_of
from agentbench.authoring.commit.task_draft import TaskDraft, write_task
from agentbench.authoring.environment.detection import DetectionContext, detect
from agentbench.authoring.formats.django.test_command import is_runner_file
from agentbench.authoring.formats.row_ids import parse_ids
from agentbench.authoring.formats.swebench_tests import is_exportable, quoted, read_origin, row_tests
from agentbench.authoring.task_lock import TaskLocation, locked_draft, publish
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, PatchInvalid
from agentbench.core.reasons import Reason, RunStatus
from agentbench.core.unique_keys import DuplicateKeyError, key_lines, unique_members
from agentbench.execution.lab import Lab
from agentbench.record.schema import AttemptRecord
from agentbench.sandbox.environments.interpreter import installed
from agentbench.statistics.repeats import pass_k
from agentbench.statistics.trials import contract_value
from agentbench.tree.entry import FileWrite
from agentbench.tree.folder import FolderTree
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.source.history import Histories

MAX_BYTES = 2 * 1024 * 1024 * 1024
_REPO = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Instance:
    """One row of SWE-bench."""

    id: str
    repo: str
    base_commit: str
    patch: bytes
    test_patch: bytes
    problem: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


def read_instances(path: Path, only: Collection[str] = ()) -> Iterator[tuple[str, Instance | InputError]]:
    """Yield every row with its place in the file; invalid rows as an error. `only` selects rows by id.

    Raises:
        InputError: the file cannot be read at all.
    """
    for place, row in _rows(path):
        if only and _task_id(row) not in only:
            continue
        try:
            yield place, _instance(row)
        except InputError as error:
            yield place, error


def _task_id(row: object) -> str | None:
    """Return the task id of a row, or None if it has no `instance_id`."""
    fields = {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}
    return _slug(fields["instance_id"]) if fields.get("instance_id") else None


def _slug(name: object) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name))[:128]


def _rows(path: Path) -> Iterator[tuple[str, object]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: larger than {MAX_BYTES // 1024**3} GiB")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read: {error}") from None
    try:
        document = json.loads(text, object_pairs_hook=unique_members)
    except DuplicateKeyError as error:
        lines = ", ".join(map(str, key_lines(text, error.key)))
        raise InputError(f"{path}: {error} (lines with it: {lines})") from None
    except ValueError:
        document = None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    if document is not None:
        rows = document if isinstance(document, list) else [document]
        yield from ((f"{path}[{index}]", row) for index, row in enumerate(rows))
        return
    any_row = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique_members)
        except (ValueError, RecursionError) as error:
            if not any_row:  # not a JSON lines file at all
                raise InputError(f"{path}:{number}: invalid JSON: {error}") from None
            row = InputError(f"invalid JSON: {error}")
        any_row = True
        yield f"{path}:{number}", row


def _parquet(path: Path) -> Iterator[tuple[str, object]]:
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only for this kind of file
    except ImportError:
        raise InputError(
            f"{path}: reading Parquet needs DuckDB, which is not installed",
            remedy="pip install 'agentbench-harness[query]', or convert the file to JSON lines",
        ) from None
    try:
        table = duckdb.connect().execute("select * from read_parquet(?)", [str(path)])
        names = [column[0] for column in table.description]
        rows = table.fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path}: cannot read: {error}") from None
    yield from ((f"{path}[{index}]", dict(zip(names, row, strict=True))) for index, row in enumerate(rows))


def _instance(row: object) -> Instance:
    if isinstance(row, InputError):
        raise row
    if not isinstance(row, dict):
        raise InputError("expected an object with instance_id, repo, base_commit, patch, test_patch")
    fields = {str(key).lower(): value for key, value in row.items()}
    missing = [name for name in ("instance_id", "repo", "base_commit", "patch", "test_patch") if not fields.get(name)]
    if missing:
        raise InputError(f"missing {', '.join(missing)}")
    repo = str(fields["repo"])
    if not _REPO.fullmatch(repo):
        raise InputError(f"repo: expected owner/name; got {repo!r}")
    fail_to_pass = parse_ids(fields.get("fail_to_pass"), "FAIL_TO_PASS")
    if not fail_to_pass:
        raise InputError("FAIL_TO_PASS: expected at least one test id")
    return Instance(
        id=_slug(fields["instance_id"]),
        repo=repo,
        base_commit=str(fields["base_commit"]),
        patch=_patch(fields["patch"]),
        test_patch=_patch(fields["test_patch"]),
        problem=_problem(fields),
        fail_to_pass=fail_to_pass,
        pass_to_pass=parse_ids(fields.get("pass_to_pass"), "PASS_TO_PASS"),
    )


def _problem(fields: Mapping[str, object]) -> str:
    """Return the problem statement. SWE-bench Pro also gives its agents the requirements and the interface."""
    text = str(fields.get("problem_statement") or "")
    for key, title in (("requirements", "Requirements"), ("interface", "Interface")):
        section = fields.get(key)
        if isinstance(section, str) and section.strip():
            text = f"{text.rstrip()}\n\n## {title}\n\n{section.strip()}\n"
    return text.encode("utf-8", "replace").decode("utf-8")  # JSON may contain lone surrogates, files may not


def _patch(value: object) -> bytes:
    """Return the bytes of a patch. Bytes that are not UTF-8 are lone surrogates in a row, as `export_task` writes them.

    Raises:
        InputError: the patch has other surrogates.
    """
    text = str(value)
    try:
        return (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"patch: character {error.start} is half of a surrogate pair") from None


# --- import ------------------------------------------------------------------------------------------------------


def repository_url(repo: str, repos: Path | None, template: str) -> str:
    """Return the location of a row's repository: a clone below `repos` if given, else the filled-in template.

    Raises:
        InputError: `repos` has no such clone.
    """
    if repos is None:
        return template.replace("{repo}", repo)
    names = (repo, repo.replace("/", "__"), repo.replace("/", "+"), repo.split("/")[1])
    for name in (*names, *(f"{name}.git" for name in names), *(f"{name}/repo" for name in names)):
        if (repos / name).is_dir() and ((repos / name / ".git").exists() or (repos / name / "HEAD").is_file()):
            return str((repos / name).absolute())
    raise InputError(f"no clone of {repo} in {repos}", remedy=f"git clone it to {repos / names[1]}")


def import_instance(instance: Instance, url: str, suite_dir: Path, lab: Lab) -> Path:
    """Write a task without running anything; `ab validate-tasks` runs it.

    Raises:
        InputError: a patch does not apply, or the task folder exists.
        SourceError: the repository or the commit cannot be fetched.
    """
    suite_dir = suite_dir.absolute()
    location = TaskLocation(suite_dir, instance.id, id_source="instance_id")
    target = location.target()
    with Histories(lab.state / "snapshots").open(url, Path.cwd()) as history:
        commit = history.commit(instance.base_commit)

        def read(name: str) -> str | None:
            content = history.read(commit.id, name)
            return None if content is None else content.decode("utf-8", "replace")

        pythons = list(dict.fromkeys(interpreter.short for interpreter in installed()))
        default = f"{sys.version_info[0]}.{sys.version_info[1]}"
        detected = detect(read, DetectionContext(commit.date, pythons, default, history.release_before(commit.id)))
    draft = TaskDraft(
        id=instance.id,
        suite=suite_dir.name,
        title=instance.problem.strip().splitlines()[0][:120] if instance.problem.strip() else instance.id,
        statement=instance.problem if instance.problem.strip() else f"Solve {instance.id}.\n",
        url=url_from(url, target),
        commit=commit.id,
        python=detected.python,
        env=detected.plans[0].env,
        setup=detected.plans[0].commands,
        command=" ".join(["python -m pytest -q", *([quoted(detected.options)] if detected.options else [])]),
        hidden={},
        reference=instance.patch,
        timeout_sec=1800,
        strata={"ecosystem": "python", "kind": kind_of(instance.problem)},
        notes=f"Imported from {instance.repo} {instance.id}. The setup was detected and has not been run.\n",
    )
    with locked_draft(location) as (target, folder):
        _write_with_hidden(draft, instance, folder, lab)
        publish(folder, target)
    return target


def _write_with_hidden(draft: TaskDraft, instance: Instance, folder: Path, lab: Lab) -> None:
    without_tests = dataclasses.replace(draft, hidden={".keep": (b"", False)})
    snapshot = lab.snapshots.materialize(write_task(without_tests, folder))
    with FolderTree.at(snapshot.folder) as tree:
        writes = _plan_writes("test_patch", instance.test_patch, instance, tree)
        _plan_writes("patch", instance.patch, instance, tree)
        hidden = {
            file.path.decode("utf-8", "surrogateescape"): (file.content, file.executable)
            for file in writes
            if file.content is not None
        }
        if not hidden:
            raise InputError(f"{instance.id}: test_patch adds or changes no files")
        tests = row_tests(instance.fail_to_pass, instance.pass_to_pass, hidden, PatchedTree(tree, writes))
    write_task(tests.complete(draft, hidden), folder)
    tests.write_origin(instance.repo, folder)


def _plan_writes(key: str, patch: bytes, instance: Instance, tree: FolderTree) -> Sequence[FileWrite]:
    try:
        return plan_writes(parse(patch), tree).writes
    except PatchInvalid as error:
        raise InputError(f"{key} does not apply to {instance.base_commit[:12]}: {error.message}") from None


# --- export ------------------------------------------------------------------------------------------------------


def export_task(task: LoadedTask, lab: Lab) -> dict[str, Json]:
    """Convert a task to a row.

    Raises:
        InputError: a row cannot express the task: no git source, no patch as reference, no test ids.
        SourceError: the base repository cannot be fetched.
    """
    repo = task.task.repo
    if not isinstance(repo, Repo) or repo.url is None or repo.commit is None:
        raise InputError(f"{task.id}: SWE-bench needs a git repository (repo.url and repo.commit)")
    reference = task.reference_file
    if reference is None or reference.suffix not in {".patch", ".diff"}:
        raise InputError(f"{task.id}: SWE-bench needs a reference that is a patch")
    checks = [check for check in task.checks if is_exportable(check)]
    if len(checks) != 1 or len([check for check in task.checks if check.mandatory]) != 1:
        raise InputError(
            f"{task.id}: SWE-bench needs exactly one check with test ids; this task has {len(task.checks)} checks"
        )
    snapshot = lab.snapshots.materialize(task)
    writes = [
        FileWrite(path, file.content, executable=file.executable)
        for path, file in task.hidden_files().items()
        if not is_runner_file(path.decode("utf-8", "surrogateescape"))
    ]
    with FolderTree.at(snapshot.folder) as tree:
        tests = extract(tree, PatchedTree(tree, writes)).patch
    origin = read_origin(task)
    parts = repo.url.rstrip("/").removesuffix(".git").split("/")
    name = "/".join(parts[-2:]) if "://" in repo.url or ":" in repo.url else f"local/{repository_name(repo.url)}"
    return {
        "instance_id": task.id,
        "repo": origin.repo or name,
        "base_commit": snapshot.source.get("commit", repo.commit),
        "patch": reference.read_bytes().decode("utf-8", "surrogateescape"),
        "test_patch": tests.decode("utf-8", "surrogateescape"),
        "problem_statement": task.statement,
        "hints_text": "",
        "FAIL_TO_PASS": json.dumps(origin.row_ids(checks[0].fail_to_pass)),
        "PASS_TO_PASS": json.dumps(origin.row_ids(checks[0].pass_to_pass)),
        "environment_setup_commit": snapshot.source.get("commit", repo.commit),
        "version": "",
        "created_at": "",
    }


# --- report ------------------------------------------------------------------------------------------------------


RESOLVED_RULE = "an instance is resolved if every prediction for it passed"


def report(records: Sequence[AttemptRecord], tasks: Sequence[str]) -> Mapping[str, Json]:
    """Return results in the format of SWE-bench's own harness. `tasks` are the instances that could have been submitted.

    As in SWE-bench, a patch that does not apply is an error and the instance does not count as completed. Attempts outside the
    contract rate have no decision and are left out; an instance that has no other is incomplete. With repeats, the report also has
    the rule for resolved instances and pass@k over the predictions.
    """
    records = [record for record in records if is_decided(record)]
    submitted = sorted({record.task_id for record in records})
    resolved = sorted(set(submitted) - {record.task_id for record in records if not record.result.passed})
    blank = sorted(set(submitted) - {record.task_id for record in records if not _is_empty(record)} - set(resolved))
    failed = {
        record.task_id
        for record in records
        if record.run_status in {RunStatus.INVALID, RunStatus.ACCEPTANCE_ERROR}
        or record.result.failure_reason is Reason.PATCH_INVALID
    }
    errors = sorted(failed - set(resolved) - set(blank))
    completed = [task_id for task_id in submitted if task_id not in errors and task_id not in blank]
    unresolved = [task_id for task_id in completed if task_id not in resolved]
    groups = {
        "submitted": submitted,
        "completed": completed,
        "resolved": resolved,
        "unresolved": unresolved,
        "empty_patch": blank,
        "error": errors,
    }
    counts: dict[str, Json] = {"total_instances": len(set(tasks))}
    counts |= {f"{name}_instances": len(ids) for name, ids in groups.items()}
    counts |= {f"{name}_ids": list(ids) for name, ids in groups.items()}
    counts["incomplete_ids"] = sorted(set(tasks) - set(submitted))
    return {**counts, **_repeats(records), "schema_version": 2}


def is_decided(record: AttemptRecord) -> bool:
    """Return whether an attempt counts in the contract rate."""
    return contract_value(record.run_status, record.invalid_cause, passed=record.result.passed) is not None


def _is_empty(record: AttemptRecord) -> bool:
    """Return whether the patch changes nothing. A patch that cannot be read or applied has no files either, and is an error."""
    invalid = record.run_status is RunStatus.INVALID or record.result.failure_reason is Reason.PATCH_INVALID
    return record.patch is not None and not record.patch.files and not invalid


def _repeats(records: Sequence[AttemptRecord]) -> dict[str, Json]:
    """Return pass@k and pass^k if an instance has several predictions."""
    outcomes: dict[str, list[bool]] = {}
    for record in records:
        outcomes.setdefault(record.task_id, []).append(record.result.passed)
    if all(len(passed) == 1 for passed in outcomes.values()):
        return {}
    clusters = [(sum(passed), len(passed)) for passed in outcomes.values()]
    return {
        "resolved_rule": RESOLVED_RULE,
        "predictions": len(records),
        "pass_k": [
            {"k": result.k, "pass_at_k": result.any_of, "pass_hat_k": result.all_of, "instances": result.tasks}
            for result in pass_k(clusters)
        ],
    }
