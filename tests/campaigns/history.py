"""Counts how many honest fixes in the history of real repositories the inspection would reject by their text alone.

Every commit that changes source and tests together is taken as an agent's patch, as `ab task from-commit` would do, and
once more with its tests. Nothing is run, so thousands of commits take minutes:

    python -m tests.campaigns.history ../attrs ../click --limit 400
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentbench.acceptance.inspection.inspect_patch import InspectedPatch, inspect
from agentbench.acceptance.protected import Protection, compose
from agentbench.authoring.commit.commit_reader import repository_name
from agentbench.authoring.commit.split import split, text_of
from agentbench.authoring.harvest.harvest import choose
from agentbench.core.errors import PatchInvalid, SourceError
from agentbench.sandbox.state import default_state
from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.source.history import Commit, Histories, History

GOAL = 0.01
"""Maximum share of honest patches with a finding of severity `gate`."""


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """A finding about an honest fix."""

    repository: str
    commit: str
    subject: str
    with_tests: bool
    rule: str
    severity: str
    detail: str
    path: str
    line: int
    excerpt: str


class CommitTree:
    """The files of a commit that a patch touches; all others by name only."""

    def __init__(self, history: History, commit: str, touched: frozenset[bytes]) -> None:
        self._history = history
        self._commit = commit
        self._touched = touched
        self.paths = frozenset(path.encode("utf-8", "surrogateescape") for path in history.paths(commit))

    def entries(self) -> Iterator[Entry]:
        return (Entry(path, Kind.FILE, False, 0, "") for path in sorted(self.paths))

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        content = self._history.read(self._commit, text_of(path)) if path in self._touched else None
        if content is None:
            raise FileNotFoundError(path)
        return content


def findings(history: History, commit: Commit, *, with_tests: bool, name: str) -> Iterator[HistoryFinding]:
    """Yield the inspection's findings about one commit.

    Raises:
        PatchInvalid: the commit is not a patch that can be graded.
    """
    parts = split(commit)
    parent = commit.parents[0]
    changes = commit.changes if with_tests else parts.source
    touched = frozenset(change.path for change in changes)
    tree = CommitTree(history, parent, touched)
    patches = parse(history.patch(parent, commit.id, sorted(touched)))
    writes: Sequence[FileWrite] = plan_writes(patches, tree).writes
    base = {entry.path: entry for entry in tree.entries()}
    protection = Protection((), frozenset(path.encode("utf-8", "surrogateescape") for path in parts.runnable))
    inspected = InspectedPatch(
        patches=patches,
        writes=writes,
        before={path: tree.read(path, max_bytes=0) for path in touched & tree.paths},
        base=tree.paths,
        graded=frozenset(write.path for write in compose(base, writes, protection, {}).writes),
    )
    for finding in inspect(inspected):
        yield HistoryFinding(
            name, commit.id, commit.subject[:100], with_tests, finding.rule, finding.severity, finding.detail,
            finding.path or "", finding.line or 0, finding.excerpt,
        )  # fmt: skip


def survey(repo: str, histories: Histories, limit: int) -> tuple[int, list[HistoryFinding]]:
    """Return the number of inspected patches of a repository, and their findings."""
    name, inspected = repository_name(repo), 0
    found: list[HistoryFinding] = []
    with histories.open(repo, Path.cwd()) as history:
        chosen = choose(
            history.commits(history.head()),
            lambda commit, paths: history.patch(commit.parents[0], commit.id, paths),
        )
        for commit in chosen.commits[:limit]:
            for with_tests in (False, True):
                try:
                    found += findings(history, commit, with_tests=with_tests, name=name)
                    inspected += 1
                except PatchInvalid as error:
                    print(f"{name} {commit.id[:10]}: not a gradable patch: {error.message}", file=sys.stderr)
    return inspected, found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--limit", type=int, default=300, help="commits per repository, newest first")
    parser.add_argument("--json", type=Path, help="write every finding to this file")
    options = parser.parse_args()
    histories = Histories(default_state() / "snapshots")
    total, all_findings = 0, list[HistoryFinding]()
    print(f"{'repository':<34}{'patches':>8}{'with gate findings':>21}{'with notes':>13}")
    for repo in options.repositories:
        try:
            inspected, repo_findings = survey(repo, histories, options.limit)
        except SourceError as error:
            print(f"{repository_name(repo)}: {error.message}", file=sys.stderr)
            continue
        total += inspected
        all_findings += repo_findings
        print(
            f"{repository_name(repo):<34}{inspected:>8}{_patches(repo_findings, 'gate'):>21}{_patches(repo_findings, 'note'):>13}",
            flush=True,
        )
    gated = _patches(all_findings, "gate")
    share = gated / total if total else 0.0
    print(f"{'total':<34}{total:>8}{gated:>21}{_patches(all_findings, 'note'):>13}  ({share:.2%}, at most {GOAL:.0%})")
    if options.json:
        options.json.write_text(json.dumps([asdict(finding) for finding in all_findings], indent=1), "utf-8")
    return 0 if total and share <= GOAL else 1


def _patches(findings: Sequence[HistoryFinding], severity: str) -> int:
    return len(
        {
            (finding.repository, finding.commit, finding.with_tests)
            for finding in findings
            if finding.severity == severity
        }
    )


if __name__ == "__main__":
    sys.exit(main())
