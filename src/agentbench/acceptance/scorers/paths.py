"""Scorers that look at names: which files changed, how many, and what is there."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.acceptance.scorers.workspace import Found, Workspace, matches
from agentbench.contract.scorers import (
    AllowedPathsSpec,
    BaselineUnmodifiedSpec,
    FileExistsSpec,
    ForbidPathsSpec,
    MaxFilesChangedSpec,
    TestsUnmodifiedSpec,
)
from agentbench.core.text import printable

LISTED = 20


def listed(paths: Sequence[str]) -> str:
    """One path per line, bounded."""
    shown = [f"  {printable(path)}" for path in paths[:LISTED]]
    if len(paths) > LISTED:
        shown.append(f"  … and {len(paths) - LISTED} more")
    return "\n".join(shown)


def _verdict(offending: Sequence[str], trouble: str, well: str) -> Found:
    if not offending:
        return Found("PASS", well)
    count = "1 file" if len(offending) == 1 else f"{len(offending)} files"
    return Found("FAIL", f"{count} {trouble}\n{listed(offending)}")


def allowed_paths(spec: AllowedPathsSpec, workspace: Workspace) -> Found:
    outside = [path for path in workspace.changed if not matches(path, spec.patterns)]
    return _verdict(outside, "changed outside the allowed patterns", f"{len(workspace.changed)} changed, all allowed")


def forbid_paths(spec: ForbidPathsSpec, workspace: Workspace) -> Found:
    inside = [path for path in workspace.changed if matches(path, spec.patterns)]
    return _verdict(inside, "changed that must not change", f"{len(workspace.changed)} changed, none forbidden")


def max_files_changed(spec: MaxFilesChangedSpec, workspace: Workspace) -> Found:
    words = f"{workspace.count} changed, {spec.limit} allowed"
    if workspace.count <= spec.limit:
        return Found("PASS", words)
    return Found("FAIL", f"{words}\n{listed(workspace.changed)}")


def unmodified(spec: TestsUnmodifiedSpec | BaselineUnmodifiedSpec, workspace: Workspace) -> Found:
    edited = sorted(set(spec.paths) & set(workspace.changed))
    return _verdict(edited, "edited that had to stay as it was", f"none of {len(spec.paths)} was edited")


def file_exists(spec: FileExistsSpec, workspace: Workspace) -> Found:
    if spec.path in workspace.paths:
        return Found("PASS", f"{spec.path} is there")
    return Found("FAIL", f"{spec.path} is missing")
