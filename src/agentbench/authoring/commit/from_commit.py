"""A commit of a repository's history as a task: read, split, set up, proven, written."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.authoring.commit import statement as statements
from agentbench.authoring.commit.commit_reader import Taken, Wanted, repository_name, take, task_id_of
from agentbench.authoring.commit.split import Unsuitable
from agentbench.authoring.commit.task_draft import NOTES_NAME, Draft, write
from agentbench.authoring.commit.test_comparison import Proof
from agentbench.authoring.commit.verification import MISSING_MODULE, Circumstance, prove
from agentbench.authoring.environment.candidates import (
    Environments,
    Ready,
    Wish,
    freeze,
    with_env,
    with_modules,
    with_skipped,
)
from agentbench.authoring.environment.requirements import bringing
from agentbench.authoring.task_lock import Patience, Site, publish, workshop
from agentbench.contract.complexity import LABEL, measure
from agentbench.contract.load import load_task
from agentbench.core.errors import ContractError, InputError, SourceError
from agentbench.run.lab import Lab
from agentbench.workspace.source.history import Commit
from agentbench.workspace.source.location import is_local, locate

__all__ = ["Made", "Taken", "Tell", "Wanted", "finished", "from_commit", "repository_name", "take", "task_id_of"]

_ELSEWHERE = frozenset({"fails with the fix", "tests cannot run", "dependency drift"})
"""Refusals that another environment may turn: with today's dependencies, what fails with those of its day may pass."""
ROUNDS = 3
ORDERED = {"PYTHONHASHSEED": "0"}
"""Keeps the order of sets of strings, which some tests number their parameters by."""
APPROVE = "## A person must approve this task"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """A finished task."""

    folder: Path
    draft: Draft
    proof: Proof
    flags: tuple[str, ...]
    plan: str
    remark: str
    """Of which day the dependencies are."""


def from_commit(
    wanted: Wanted,
    revision: str,
    lab: Lab,
    *,
    tell: Tell = lambda _line: None,
    environments: Environments | None = None,
) -> Made:
    """Make one task.

    Raises:
        Unsuitable: with the reason.
        SourceError: the repository or the commit cannot be had.
        InputError: the folder is there already or cannot be written.
        SandboxError, WorkspaceError: ours.
    """
    taken = take(wanted, revision, lab)
    return make(wanted, taken, lab, tell=tell, environments=environments or Environments())


def make(wanted: Wanted, taken: Taken, lab: Lab, *, tell: Tell, environments: Environments) -> Made:
    """Set up, prove and write what was taken."""
    draft = _first_draft(wanted, taken)
    site = Site(wanted.suite_dir, draft.id, remedy="remove it, or give another --suite-dir or --id")
    with workshop(site, Patience(tell, lab.cancelled)) as (place, folder):
        tell(f"{draft.id}: setup")
        if taken.has_submodules:
            draft = _within_reach(draft, folder, lab)
        wish = Wish(draft, taken.detected, taken.commit.date, taken.packaging, folder, wanted.pin)
        try:
            ready, proof = _proven(wish, taken, wanted, lab, environments, tell)
        except Unsuitable as error:
            if error.kind in _ELSEWHERE and not draft.submodules:
                msg = f"R is without its submodules, which could not be fetched: {error.message}"
                raise Unsuitable("submodule", msg, remedy="fetch them into a clone that can be reached") from None
            if error.kind != "patch" or taken.code == taken.patch:
                raise
            # Setup of some projects writes their README anew: the fix is what is left without prose.
            draft = dataclasses.replace(draft, reference=taken.code)
            wish = dataclasses.replace(wish, draft=draft)
            ready, proof = _proven(wish, taken, wanted, lab, environments, tell)
        sources = {name: content for name, (content, _) in taken.hidden.items() if name.endswith(".py")}
        flags = tuple(statements.check(draft.statement, draft.reference, sources, taken.known).lines())
        draft = dataclasses.replace(
            ready.draft,
            command=" ".join([draft.command, *(_quoted(f"--deselect={test}") for test in proof.unsteady)]),
            fail_to_pass=proof.fail_to_pass,
            pass_to_pass=proof.pass_to_pass,
            flake_tolerance=proof.tolerance,
            strata=_strata(taken, ready, proof),
            notes=_notes(taken, ready, proof, flags),
        )
        write(draft, folder)
        publish(folder, place)
    return Made(place, draft, proof, flags, ready.plan, ready.remark)


def finished(wanted: Wanted, commit: Commit) -> tuple[str, Mapping[str, str], tuple[str, ...]] | None:
    """Id, strata and flags of a task that was made of a commit before, by who was stopped before saying so; else None."""
    folder = wanted.suite_dir.absolute() / task_id_of(wanted, commit)
    if not folder.is_dir():
        return None
    try:
        loaded = load_task(folder)
        notes = (folder / NOTES_NAME).read_text(encoding="utf-8")
    except (ContractError, InputError, OSError):
        return None
    strata = loaded.task.strata.model_dump(mode="json", exclude_none=True)
    if f"Made from commit {commit.id} " not in notes or not {"kind", "test_runtime"} <= strata.keys():
        return None
    flags = [line[2:] for line in notes.partition(APPROVE)[2].splitlines() if line.startswith("- ")]
    return loaded.id, strata, tuple(flags)


def _within_reach(draft: Draft, folder: Path, lab: Lab) -> Draft:
    """With its submodules, or without where they cannot be had: what needs them then fails before and after, and is not required."""
    try:
        lab.snapshots.materialise(write(draft, folder))
    except SourceError:
        draft = dataclasses.replace(draft, submodules=False)
        lab.snapshots.materialise(write(draft, folder))
    return draft


def _proven(
    wish: Wish, taken: Taken, wanted: Wanted, lab: Lab, environments: Environments, tell: Tell
) -> tuple[Ready, Proof]:
    """The first environment in which the tests tell the fix from its parent.

    A module that tests import and nobody declared is installed by its name; what it is called may take some rounds to know.
    Tests that flake get one more chance, with sets in the same order every time.
    """
    lacking: Unsuitable | None = None
    for _ in range(ROUNDS + 1):
        try:
            return _proven_so(wish, taken, wanted, lab, environments, tell)
        except Unsuitable as error:
            if error.kind == "flaky" and not ORDERED.items() <= wish.detected.plans[0].env.items():
                wish = with_env(wish, ORDERED)
                tell(f"{wish.draft.id}: once more, with sets in the same order every time (flaky)")
                continue
            wider = with_skipped(wish, error.skips)
            if wider is not wish:
                tell(
                    f"{wish.draft.id}: once more, with what tests are skipped without ({wider.detected.plans[0].name})"
                )
                lacking, wish = error, wider
                continue
            # R's own modules are never taken from a release, unless R itself says from which (an extra `bson`, for R's bson.py).
            extras = wish.detected.extras
            foreign = [name for name in error.tests if name not in taken.modules or bringing(name, extras)]
            more = with_modules(wish, foreign, taken.imported) if error.kind == MISSING_MODULE else wish
            if more is wish:
                raise lacking if lacking is not None and error.kind == "setup failed" else error from None
            lacking, wish = error, more
            tell(f"{wish.draft.id}: once more, with modules that no requirement names ({', '.join(error.tests)})")
    raise lacking or AssertionError


def _proven_so(
    wish: Wish, taken: Taken, wanted: Wanted, lab: Lab, environments: Environments, tell: Tell
) -> tuple[Ready, Proof]:
    sources = {name: content for name, (content, _) in taken.hidden.items() if name.endswith(".py")}
    first: Unsuitable | None = None
    for ready in environments.of(wish, lab):
        if first is None:
            tell(f"{wish.draft.id}: the tests on the parent and with the fix, {max(2, wanted.repeats)} times each")
        else:
            tell(f"{wish.draft.id}: once more, with other versions of its dependencies ({first.kind})")
        try:
            known = Circumstance(sources, ready.newer, ready.undated)
            return ready, prove(ready.prepared, lab, repeats=wanted.repeats, known=known)
        except Unsuitable as error:
            first = first or error
            if error.kind not in _ELSEWHERE:
                break
    if first is None:
        raise AssertionError
    raise first


# --- making ------------------------------------------------------------------------------------------------------


def _first_draft(wanted: Wanted, taken: Taken) -> Draft:
    commit, detected = taken.commit, taken.detected
    suite_dir = wanted.suite_dir.absolute()
    task_id = task_id_of(wanted, commit)
    words = [*detected.options, *(() if wanted.all_tests else taken.parts.runnable)]
    quoted = " ".join(_quoted(word) for word in words)
    text = wanted.statement if wanted.statement is not None else statements.draft(commit.message)
    lines = sum(line[:1] in {b"+", b"-"} and line[:3] not in {b"+++", b"---"} for line in taken.patch.splitlines())
    return Draft(
        id=task_id,
        suite=suite_dir.name,
        title=commit.subject[:120],
        statement=text if text.strip() else f"{commit.subject or 'Solve the problem that the tests show.'}\n",
        url=url_from(wanted.repo, suite_dir / task_id),
        commit=commit.parents[0],
        python=detected.python,
        env=detected.plans[0].env,
        setup=detected.plans[0].commands,
        command=f"python -m pytest -q {quoted}".strip(),
        hidden=taken.hidden,
        reference=taken.patch,
        timeout_sec=wanted.timeout_sec,
        mem_limit_mb=wanted.mem_limit_mb,
        envelope={"files": max(1, len(taken.parts.source)), "lines": max(1, lines)},
    )


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_./=+-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def url_from(repo: str, folder: Path) -> str:
    """A repository as the task in `folder` is to name it: what is on this machine relative to it."""
    located = locate(repo, Path.cwd())
    if not is_local(located) or located.startswith("file://"):
        return located
    return os.path.relpath(located, folder)


def _strata(taken: Taken, ready: Ready, proof: Proof) -> dict[str, str]:
    count = len([line for line in freeze(ready.prepared) if "==" in line])
    return {
        "ecosystem": "python",
        "kind": statements.kind_of(taken.commit.message),
        "test_runtime": "short" if proof.duration_sec < 10 else "medium" if proof.duration_sec < 120 else "long",
        "dependencies": "none" if count <= 6 else "small" if count <= 15 else "medium" if count <= 50 else "large",
    }


def _notes(taken: Taken, ready: Ready, proof: Proof, flags: tuple[str, ...]) -> str:
    commit, measured = taken.commit, measure(ready.prepared.snapshot.folder)
    pinned = any("--require-hashes" in one for one in ready.prepared.task.task.setup.commands)
    how = "by version and digest" if pinned else "NOT pinned"
    counts = f"{len(proof.fail_to_pass)} tests fail before and pass after, {len(proof.pass_to_pass)} pass in both"
    sizes = f"{measured.files} files, {measured.lines} lines, about {measured.approx_tokens} tokens"
    modules = f"{measured.python_modules} Python modules with {measured.internal_imports} imports among them"
    parts = [
        "# Notes for people; no agent sees them",
        f"Made from commit {commit.id} of {commit.date}; R is its parent {commit.parents[0]}.",
        f"Setup: {ready.plan}, {how}. {ready.remark} {' '.join(taken.detected.notes)}".strip(),
        f"Proven by {proof.runs} runs: {counts}; {proof.duration_sec:.1f} s at most.",
        f"R: {sizes}, {modules} ({LABEL}).",
    ]
    if ready.draft.reference != taken.patch:
        parts.append("The reference is without the fix's prose, which setup writes itself.")
    if ORDERED.items() <= ready.draft.env.items():
        parts.append(
            "PYTHONHASHSEED is fixed: with sets in another order every time its tests gave different outcomes."
        )
    if not ready.draft.submodules:
        parts.append("R is without its submodules: they could not be fetched.")
    if proof.unsteady:
        unsteady = "\n".join(f"- {test}" for test in proof.unsteady)
        parts.append(f"Left out, since they gave different outcomes:\n{unsteady}")
    if proof.tolerance:
        parts.append(
            "Some tests have names that change from run to run: they are not required, and a screen bears with them."
        )
    if taken.parts.removed_tests:
        parts.append("The commit removed these tests; they stay in R: " + ", ".join(taken.parts.removed_tests))
    if flags:
        parts.append(f"{APPROVE}\n" + "\n".join(f"- {flag}" for flag in flags))
    return "\n\n".join(parts) + "\n"
