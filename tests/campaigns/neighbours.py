"""Many fixes on one R: tasks for the campaign at the cost of one setup.

R is the parent of an older commit of a repository. Every later fix whose source changes apply to that R as they are becomes a
task with the fix's own tests, if these tell it from R. Such tasks are for holding the oracle against honest patches; a suite
for agents wants each fix on its own parent (`ab task harvest`).

    python -m tests.campaigns.neighbours ../structlog --out build/neighbours --back 40 --wanted 10
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agentbench.authoring import fromcommit
from agentbench.authoring.candidates import choose
from agentbench.authoring.drafting import Draft, draft_folder, publish, write
from agentbench.authoring.environments import Environments, Ready, Wish
from agentbench.authoring.fromcommit import Wanted, repository_name
from agentbench.authoring.proving import prove
from agentbench.authoring.splitting import Unsuitable, split
from agentbench.core.errors import AgentBenchError, PatchInvalid, TaskError
from agentbench.run.lab import Lab
from agentbench.workspace.history import Commit, Histories
from agentbench.workspace.patch import parse, plan


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbourhood:
    wanted: Wanted
    lab: Lab
    ready: Ready
    options: tuple[str, ...]

    def draft(self, commit: Commit) -> Draft:
        """
        Raises:
            Unsuitable: its tests cannot be carried.
        """
        with Histories(self.lab.state / "snapshots").open(self.wanted.repo, Path.cwd()) as history:
            parts = split(commit)
            hidden = fromcommit._hidden(history, parts)
            patch = history.patch(commit.parents[0], commit.id, [change.path for change in parts.source])
        words = " ".join(fromcommit._quoted(word) for word in (*self.options, *parts.runnable))
        return dataclasses.replace(
            self.ready.draft,
            id=f"{repository_name(self.wanted.repo)}-{commit.id[:10]}",
            title=commit.subject[:120] or "a fix",
            statement=f"{commit.subject or 'A fix.'}\n",
            command=f"python -m pytest -q {words}",
            hidden=hidden,
            reference=patch,
        )

    def make(self, commit: Commit) -> Path:
        """
        Raises:
            PatchInvalid: it does not apply to this R.
            Unsuitable: its tests do not tell it from R.
        """
        draft = self.draft(commit)
        plan(parse(draft.reference), self.ready.ground.prepared.base_tree)
        place = self.wanted.suite_dir.absolute() / draft.id
        if place.exists():
            return place
        folder = draft_folder(self.wanted.suite_dir.absolute(), draft.id)
        try:
            proof = prove(self.lab.ground(write(draft, folder)), self.lab)
            proven = dataclasses.replace(draft, fail_to_pass=proof.fail_to_pass, pass_to_pass=proof.pass_to_pass)
            write(proven, folder)
            publish(folder, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return place


def settle(wanted: Wanted, lab: Lab, commits: list[Commit]) -> Iterator[Neighbourhood]:
    """The oldest commit whose environment stands gives R."""
    for commit in commits[:3]:
        try:
            taken = fromcommit.take(wanted, commit.id, lab)
            draft = fromcommit._first_draft(wanted, taken)
            folder = draft_folder(wanted.suite_dir.absolute(), draft.id)
            wish = Wish(draft, taken.detected, taken.commit.date, taken.packaging, folder, wanted.pin)
            ready = next(iter(Environments().of(wish, lab)))
            shutil.rmtree(folder, ignore_errors=True)
            yield Neighbourhood(wanted, lab, ready, tuple(taken.detected.options))
            return
        except (TaskError, StopIteration) as error:
            print(f"{commit.id[:10]}: no environment: {str(error).splitlines()[0][:200] if str(error) else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--back", type=int, default=40, help="candidates between R and today")
    parser.add_argument("--wanted", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=24 * 60.0)
    asked = parser.parse_args()
    until = time.monotonic() + asked.minutes * 60
    made = 0
    suite = asked.out / repository_name(asked.repository)
    wanted = Wanted(repo=asked.repository, suite_dir=suite, timeout_sec=60, pin=False)
    with Lab(sandbox="bwrap") as lab:
        with Histories(lab.state / "snapshots").open(asked.repository, Path.cwd()) as history:
            commits = list(choose(history.commits(history.head())).commits[: asked.back])[::-1]
        for around in settle(wanted, lab, commits):
            for commit in commits:
                if made >= asked.wanted or time.monotonic() > until:
                    break
                try:
                    print(f"{around.make(commit).name} | {commit.subject[:60]}", flush=True)
                    made += 1
                except PatchInvalid:
                    print(f"{commit.id[:10]}: does not apply to this R", flush=True)
                except Unsuitable as error:
                    print(f"{commit.id[:10]}: {error.kind}: {error.message[:200]}", flush=True)
                except AgentBenchError as error:
                    print(f"{commit.id[:10]}: {error.message[:200]}", flush=True)
    print(f"{made} tasks in {suite}")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
