"""Scorers that examine paths: which files changed, how many, and which exist."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.acceptance.scorers.workspace import ScorerVerdict, Workspace, listing, matches
from agentbench.contract.scorers import (
    AllowedPathsSpec,
    BaselineUnmodifiedSpec,
    FileExistsSpec,
    ForbidPathsSpec,
    MaxFilesChangedSpec,
    TestsUnmodifiedSpec,
)
from agentbench.core.text import printable


def _verdict(offending: Sequence[str], problem: str, success: str) -> ScorerVerdict:
    if not offending:
        return ScorerVerdict("PASS", success)
    count = "1 file" if len(offending) == 1 else f"{len(offending)} files"
    return ScorerVerdict("FAIL", f"{count} {problem}\n{listing([printable(path) for path in offending])}")


def allowed_paths(spec: AllowedPathsSpec, workspace: Workspace) -> ScorerVerdict:
    outside = [path for path in workspace.changed if not matches(path, spec.patterns)]
    return _verdict(outside, "changed outside the allowed patterns", f"{len(workspace.changed)} changed, all allowed")


def forbid_paths(spec: ForbidPathsSpec, workspace: Workspace) -> ScorerVerdict:
    inside = [path for path in workspace.changed if matches(path, spec.patterns)]
    return _verdict(inside, "changed although forbidden", f"{len(workspace.changed)} changed, none forbidden")


def max_files_changed(spec: MaxFilesChangedSpec, workspace: Workspace) -> ScorerVerdict:
    summary = f"{workspace.count} changed, {spec.limit} allowed"
    if workspace.count <= spec.limit:
        return ScorerVerdict("PASS", summary)
    return ScorerVerdict("FAIL", f"{summary}\n{listing([printable(path) for path in workspace.changed])}")


def unmodified(spec: TestsUnmodifiedSpec | BaselineUnmodifiedSpec, workspace: Workspace) -> ScorerVerdict:
    edited = sorted(set(spec.paths) & set(workspace.changed))
    return _verdict(edited, "edited although protected", f"none of {len(spec.paths)} protected files was edited")


def file_exists(spec: FileExistsSpec, workspace: Workspace) -> ScorerVerdict:
    if spec.path in workspace.paths:
        return ScorerVerdict("PASS", f"{spec.path} exists")
    return ScorerVerdict("FAIL", f"{spec.path} is missing")
