"""The inspection of Δ held against the history of real repositories: how many honest fixes would fail G4 by their text alone?

Every commit that changes source and tests together is taken as an agent's patch, as `ab task from-commit` would take
it, and once more with its tests. Nothing is run, so thousands are looked at in minutes:

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
from agentbench.authoring.commit.from_commit import repository_name
from agentbench.authoring.commit.split import split, text_of
from agentbench.authoring.harvest.candidates import choose
from agentbench.core.errors import PatchInvalid, SourceError
from agentbench.sandbox.state import default_state
from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.workspace.diff.parse import parse, plan
from agentbench.workspace.source.history import Commit, Histories, History

GOAL = 0.01
"""Share of honest patches with a finding of severity `gate`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding about a fix that people wrote for its own sake."""

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
    """The files of a commit that a patch touches; the others by name alone."""

    def __init__(self, history: History, commit: str, touched: frozenset[bytes]) -> None:
        self._history = history
        self._commit = commit
        self._touched = touched
        self.paths = frozenset(path.encode("utf-8", "surrogateescape") for path in history.paths(commit))

    def entries(self) -> Iterator[Entry]:
        return (Entry(path, Kind.FILE, False, 0, "") for path in sorted(self.paths))

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        found = self._history.read(self._commit, text_of(path)) if path in self._touched else None
        if found is None:
            raise FileNotFoundError(path)
        return found


def findings(history: History, commit: Commit, *, with_tests: bool, name: str) -> Iterator[Found]:
    """What the inspection says of one commit.

    Raises:
        PatchInvalid: it is no patch that could be graded.
    """
    parts = split(commit)
    parent = commit.parents[0]
    changes = commit.changes if with_tests else parts.source
    touched = frozenset(change.path for change in changes)
    tree = CommitTree(history, parent, touched)
    patches = parse(history.patch(parent, commit.id, sorted(touched)))
    writes: Sequence[FileWrite] = plan(patches, tree).writes
    base = {entry.path: entry for entry in tree.entries()}
    protection = Protection((), frozenset(path.encode("utf-8", "surrogateescape") for path in parts.runnable))
    subject = InspectedPatch(
        patches=patches,
        writes=writes,
        before={path: tree.read(path, max_bytes=0) for path in touched & tree.paths},
        base=tree.paths,
        graded=frozenset(write.path for write in compose(base, writes, protection, {}).writes),
    )
    for one in inspect(subject):
        yield Found(
            name, commit.id, commit.subject[:100], with_tests, one.rule, one.severity, one.detail,
            one.path or "", one.line or 0, one.excerpt,
        )  # fmt: skip


def survey(repo: str, histories: Histories, limit: int) -> tuple[int, list[Found]]:
    """How many patches of a repository were looked at, and what was found."""
    name, looked = repository_name(repo), 0
    found: list[Found] = []
    with histories.open(repo, Path.cwd()) as history:
        chosen = choose(
            history.commits(history.head()),
            lambda commit, paths: history.patch(commit.parents[0], commit.id, paths),
        )
        for commit in chosen.commits[:limit]:
            for with_tests in (False, True):
                try:
                    found += findings(history, commit, with_tests=with_tests, name=name)
                    looked += 1
                except PatchInvalid as error:
                    print(f"{name} {commit.id[:10]}: no patch: {error.message}", file=sys.stderr)
    return looked, found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--limit", type=int, default=300, help="commits per repository, newest first")
    parser.add_argument("--json", type=Path, help="every finding, with its line")
    asked = parser.parse_args()
    histories = Histories(default_state() / "snapshots")
    total, everything = 0, list[Found]()
    print(f"{'repository':<34}{'patches':>8}{'with a gate finding':>21}{'with a note':>13}")
    for repo in asked.repositories:
        try:
            looked, found = survey(repo, histories, asked.limit)
        except SourceError as error:
            print(f"{repository_name(repo)}: {error.message}", file=sys.stderr)
            continue
        total += looked
        everything += found
        print(
            f"{repository_name(repo):<34}{looked:>8}{_patches(found, 'gate'):>21}{_patches(found, 'note'):>13}",
            flush=True,
        )
    grave = _patches(everything, "gate")
    share = grave / total if total else 0.0
    print(f"{'together':<34}{total:>8}{grave:>21}{_patches(everything, 'note'):>13}  ({share:.2%}, at most {GOAL:.0%})")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in everything], indent=1), "utf-8")
    return 0 if total and share <= GOAL else 1


def _patches(found: Sequence[Found], severity: str) -> int:
    return len({(one.repository, one.commit, one.with_tests) for one in found if one.severity == severity})


if __name__ == "__main__":
    sys.exit(main())
