"""SWE-bench and its relatives: rows as tasks, tasks as rows, and a report in its form.

Rows are JSON, JSON lines or Parquet. `FAIL_TO_PASS` may be a list or a string with one, in either case of letters.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentbench.authoring.commit.from_commit import repository_name, url_from
from agentbench.authoring.commit.statement import kind_of
from agentbench.authoring.commit.task_draft import Draft, write
from agentbench.authoring.environment.detection import Circumstances, detect
from agentbench.authoring.formats.django.test_command import is_ours
from agentbench.authoring.formats.row_tests import Lists, origin, quoted, row_tests, says_tests
from agentbench.authoring.formats.test_ids import ids
from agentbench.authoring.task_lock import Site, publish, workshop
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.core.canonical import Json
from agentbench.core.errors import InputError, PatchInvalid
from agentbench.record.schema import AttemptRecord
from agentbench.run.lab import Lab
from agentbench.sandbox.environments.interpreter import installed
from agentbench.tree.entry import FileWrite
from agentbench.tree.folder import FolderTree
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse, plan
from agentbench.workspace.diff.patched_tree import PatchedTree
from agentbench.workspace.source.history import Histories

MAX_BYTES = 2 * 1024 * 1024 * 1024
_REPO = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Instance:
    """One row."""

    id: str
    repo: str
    base_commit: str
    patch: bytes
    test_patch: bytes
    problem: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


def read_instances(path: Path, only: Collection[str] = ()) -> Iterator[tuple[str, Instance | InputError]]:
    """Every row with its place, or those that `only` names; a row that cannot be used comes as the reason.

    Raises:
        InputError: the file cannot be read at all.
    """
    for place, row in _rows(path):
        if only and _id_of(row) not in only:
            continue
        try:
            yield place, _instance(row)
        except InputError as error:
            yield place, error


def _id_of(row: object) -> str | None:
    """As the task is called; None where the row has none."""
    found = {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}
    return _slug(found["instance_id"]) if found.get("instance_id") else None


def _slug(name: object) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name))[:128]


def _rows(path: Path) -> Iterator[tuple[str, object]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply to hold rows") from None
    if whole is not None:
        listed = whole if isinstance(whole, list) else [whole]
        yield from ((f"{path}[{index}]", row) for index, row in enumerate(listed))
        return
    read = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if not read:  # not this kind of file at all
                raise InputError(f"{path}:{number}: not JSON: {error}") from None
            row = InputError(f"not JSON: {error}")
        read = True
        yield f"{path}:{number}", row


def _parquet(path: Path) -> Iterator[tuple[str, object]]:
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only for this kind of file
    except ImportError:
        raise InputError(
            f"{path}: reading Parquet needs DuckDB, which is not installed",
            remedy="pip install 'agentbench[query]', or give JSON lines",
        ) from None
    try:
        table = duckdb.connect().execute("select * from read_parquet(?)", [str(path)])
        names = [column[0] for column in table.description]
        rows = table.fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    yield from ((f"{path}[{index}]", dict(zip(names, row, strict=True))) for index, row in enumerate(rows))


def _instance(row: object) -> Instance:
    if isinstance(row, InputError):
        raise row
    if not isinstance(row, dict):
        raise InputError("expected an object with instance_id, repo, base_commit, patch, test_patch")
    found = {str(key).lower(): value for key, value in row.items()}
    missing = [name for name in ("instance_id", "repo", "base_commit", "patch", "test_patch") if not found.get(name)]
    if missing:
        raise InputError(f"missing {', '.join(missing)}")
    repo = str(found["repo"])
    if not _REPO.fullmatch(repo):
        raise InputError(f"repo: expected owner/name; got {repo!r}")
    wanted = ids(found.get("fail_to_pass"), "FAIL_TO_PASS")
    if not wanted:
        raise InputError("FAIL_TO_PASS: expected at least one test id")
    return Instance(
        id=_slug(found["instance_id"]),
        repo=repo,
        base_commit=str(found["base_commit"]),
        patch=_patch(found["patch"]),
        test_patch=_patch(found["test_patch"]),
        problem=_problem(found),
        fail_to_pass=wanted,
        pass_to_pass=ids(found.get("pass_to_pass"), "PASS_TO_PASS"),
    )


def _problem(found: Mapping[str, object]) -> str:
    """SWE-bench Pro says beside the problem what is required and which names tests use; its agents are told all three."""
    text = str(found.get("problem_statement") or "")
    for key, title in (("requirements", "Requirements"), ("interface", "Interface")):
        more = found.get(key)
        if isinstance(more, str) and more.strip():
            text = f"{text.rstrip()}\n\n## {title}\n\n{more.strip()}\n"
    return text.encode("utf-8", "replace").decode("utf-8")  # JSON can spell halves of pairs, which no file can hold


def _patch(value: object) -> bytes:
    """Its bytes. What is no UTF-8 stands in rows as `export_task` writes it: one lone surrogate per byte.

    Raises:
        InputError: other surrogates, which stand for nothing.
    """
    text = str(value)
    try:
        return (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"patch: character {error.start} is half of a surrogate pair") from None


# --- rows as tasks -----------------------------------------------------------------------------------------------


def address(repo: str, repos: Path | None, template: str) -> str:
    """Where a repository of a row is: a clone below `repos`, else what the template makes of its name.

    Raises:
        InputError: `repos` is given and holds no such clone.
    """
    if repos is None:
        return template.replace("{repo}", repo)
    names = (repo, repo.replace("/", "__"), repo.replace("/", "+"), repo.split("/")[1])
    for name in (*names, *(f"{name}.git" for name in names), *(f"{name}/repo" for name in names)):
        if (repos / name).is_dir() and ((repos / name / ".git").exists() or (repos / name / "HEAD").is_file()):
            return str((repos / name).absolute())
    raise InputError(f"unknown repo {repo}: {repos} holds no clone of it", remedy=f"git clone it to {repos / names[1]}")


def import_instance(instance: Instance, url: str, suite_dir: Path, lab: Lab) -> Path:
    """Write a task; nothing of it runs (`ab validate-tasks` does that).

    Raises:
        InputError: a patch that does not apply, or a place that is taken.
        SourceError: the repository or the commit cannot be had.
    """
    suite_dir = suite_dir.absolute()
    site = Site(suite_dir, instance.id, what="instance_id")
    place = site.place()
    with Histories(lab.state / "snapshots").open(url, Path.cwd()) as history:
        commit = history.commit(instance.base_commit)

        def read(name: str) -> str | None:
            found = history.read(commit.id, name)
            return None if found is None else found.decode("utf-8", "replace")

        pythons = list(dict.fromkeys(one.short for one in installed()))
        usual = f"{sys.version_info[0]}.{sys.version_info[1]}"
        detected = detect(read, Circumstances(commit.date, pythons, usual, history.release_before(commit.id)))
    draft = Draft(
        id=instance.id,
        suite=suite_dir.name,
        title=instance.problem.strip().splitlines()[0][:120] if instance.problem.strip() else instance.id,
        statement=instance.problem if instance.problem.strip() else f"Solve {instance.id}.\n",
        url=url_from(url, place),
        commit=commit.id,
        python=detected.python,
        env=detected.plans[0].env,
        setup=detected.plans[0].commands,
        command=_command(detected.options),
        hidden={},
        reference=instance.patch,
        timeout_sec=1800,
        strata={"ecosystem": "python", "kind": kind_of(instance.problem)},
        notes=f"Imported from {instance.repo} {instance.id}; its setup was detected and has not been run.\n",
    )
    with workshop(site) as (place, folder):
        _with_hidden(draft, instance, folder, lab)
        publish(folder, place)
    return place


def _command(options: Sequence[str]) -> str:
    return " ".join(["python -m pytest -q", *([quoted(options)] if options else [])])


def _with_hidden(draft: Draft, instance: Instance, folder: Path, lab: Lab) -> None:
    bare = dataclasses.replace(draft, hidden={".keep": (b"", False)})
    snapshot = lab.snapshots.materialise(write(bare, folder))
    with FolderTree.at(snapshot.folder) as tree:
        writes = _applied("test_patch", instance.test_patch, instance, tree)
        _applied("patch", instance.patch, instance, tree)
        hidden = {
            one.path.decode("utf-8", "surrogateescape"): (one.content, one.executable)
            for one in writes
            if one.content is not None
        }
        if not hidden:
            raise InputError(f"{instance.id}: test_patch adds or changes no file")
        lists = Lists(instance.fail_to_pass, instance.pass_to_pass)
        tests = row_tests(lists, hidden, PatchedTree(tree, writes))
    write(tests.completed(draft, hidden), folder)
    tests.remember(instance.repo, folder)


def _applied(key: str, patch: bytes, instance: Instance, tree: FolderTree) -> Sequence[FileWrite]:
    try:
        return plan(parse(patch), tree).writes
    except PatchInvalid as error:
        raise InputError(f"{key} does not apply to {instance.base_commit[:12]}: {error.message}") from None


# --- tasks as rows -----------------------------------------------------------------------------------------------


def export_task(task: LoadedTask, lab: Lab) -> dict[str, Json]:
    """A task as a row.

    Raises:
        InputError: a task that a row cannot say: no git source, no patch as reference, no test ids.
        SourceError: R cannot be had.
    """
    repo = task.task.repo
    if not isinstance(repo, Repo) or repo.url is None or repo.commit is None:
        raise InputError(f"{task.id}: a row needs a git repository (repo.url and repo.commit)")
    reference = task.reference_file
    if reference is None or reference.suffix not in {".patch", ".diff"}:
        raise InputError(f"{task.id}: a row needs a reference that is a patch")
    checks = [check for check in task.checks if says_tests(check)]
    if len(checks) != 1 or len([check for check in task.checks if check.mandatory]) != 1:
        raise InputError(f"{task.id}: a row has one list of tests; this task has {len(task.checks)} checks")
    snapshot = lab.snapshots.materialise(task)
    writes = [
        FileWrite(path, one.content, executable=one.executable)
        for path, one in task.hidden_files().items()
        if not is_ours(path.decode("utf-8", "surrogateescape"))
    ]
    with FolderTree.at(snapshot.folder) as tree:
        tests = extract(tree, PatchedTree(tree, writes)).patch
    row = origin(task)
    name = repo.url.rstrip("/").removesuffix(".git").split("/")
    named = "/".join(name[-2:]) if "://" in repo.url or ":" in repo.url else f"local/{repository_name(repo.url)}"
    return {
        "instance_id": task.id,
        "repo": row.repo or named,
        "base_commit": snapshot.source.get("commit", repo.commit),
        "patch": reference.read_bytes().decode("utf-8", "surrogateescape"),
        "test_patch": tests.decode("utf-8", "surrogateescape"),
        "problem_statement": task.statement,
        "hints_text": "",
        "FAIL_TO_PASS": json.dumps(row.of(checks[0].fail_to_pass)),
        "PASS_TO_PASS": json.dumps(row.of(checks[0].pass_to_pass)),
        "environment_setup_commit": snapshot.source.get("commit", repo.commit),
        "version": "",
        "created_at": "",
    }


# --- the report --------------------------------------------------------------------------------------------------


def report(records: Sequence[AttemptRecord], tasks: Sequence[str], empty: Sequence[str]) -> Mapping[str, Json]:
    """Results in the form that SWE-bench's own harness writes. `empty`: instances whose patch changes nothing.

    As there, a patch that cannot be applied is an error and not an instance that was completed.
    """
    submitted = sorted({record.task_id for record in records})
    resolved = sorted({record.task_id for record in records if record.result.passed})
    blank = sorted(set(empty) - set(resolved))
    failed = {
        record.task_id
        for record in records
        if record.run_status in {"invalid", "acceptance_error"} or record.result.failure_reason == "PATCH_INVALID"
    }
    errors = sorted(failed - set(resolved) - set(blank))
    completed = [one for one in submitted if one not in errors and one not in blank]
    unresolved = [one for one in completed if one not in resolved]
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
    return {**counts, "schema_version": 2}
