"""Scorers that examine lines: of test files, and for secrets. Approximate by design."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentbench.acceptance.scorers.secrets import find_secrets
from agentbench.acceptance.scorers.workspace import (
    ChangedText,
    ScorerVerdict,
    Workspace,
    added_lines,
    listing,
    matches,
    removed_lines,
)
from agentbench.contract.scorers import DEFAULT_TESTS, AssertionsNotWeakenedSpec, ForbidSecretsSpec, NoNewSkipsSpec
from agentbench.core.text import printable
from agentbench.workspace.diff.line_diff import LineDiff

MAX_SHOWN = 160
MAX_SEARCHED = 2_000
"""Bytes of a line that are searched. Lines of tests are not longer."""

_COMMENT = re.compile(rb"\s*(?:#(?!\[)|//|--|\*|/\*)")
_SKIP = re.compile(
    rb"pytest\.mark\.(?:skip|skipif|xfail)\b|\bmark\.(?:skip|skipif|xfail)\b"
    rb"|pytest\.(?:skip|xfail|importorskip)\s*\(|@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b"
    rb"|\.skipTest\s*\(|\bSkipTest\b"
    rb"|\b(?:it|test|describe|context|suite)\.(?:skip|todo|failing)\b|\bx(?:it|describe|test|context)\s*\("
    rb"|\bt\.Skip(?:f|Now)?\s*\(|@(?:Disabled|Ignore)\b|#\[ignore|\[Ignore\b"
)
_ASSERT = re.compile(
    rb"\bassert\b|\bassert\w*\s*[(!]|\bself\.(?:assert\w+|fail\w*)\s*\(|\bpytest\.(?:raises|warns|fail)\b"
    rb"|\bexpect\s*\(|\.should\b|\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:require|assert)\.\w+\s*\("
    rb"|\bAssert\w*\.\w+\s*\(",
    re.IGNORECASE,
)


def no_new_skips(spec: NoNewSkipsSpec, workspace: Workspace) -> ScorerVerdict:
    """Count skip markers in the changed test files before and after.

    Unchanged lines cancel out, so this is the net change.
    """
    sides = _test_file_sides(workspace, spec.test_globset)
    if sides is None:
        return ScorerVerdict("N/A", "no test file changed")
    before, after = (sum(_count_marked(_SKIP, file) for file in side) for side in sides)
    summary = f"{before} skip or xfail markers in the changed test files before, {after} after"
    if after <= before:
        return ScorerVerdict("PASS", summary)
    return ScorerVerdict("FAIL", f"{summary}\n{_list_lines(_SKIP, sides[1], added_lines)}")


def assertions_not_weakened(spec: AssertionsNotWeakenedSpec, workspace: Workspace) -> ScorerVerdict:
    sides = _test_file_sides(workspace, spec.test_globset)
    if sides is None:
        return ScorerVerdict("N/A", "no test file changed")
    before, after = (sum(_count_marked(_ASSERT, file) for file in side) for side in sides)
    summary = f"{before} lines with assertions in the changed test files before, {after} after"
    if after >= before:
        return ScorerVerdict("PASS", summary)
    return ScorerVerdict("FAIL", f"{summary}\n{_list_lines(_ASSERT, sides[0], removed_lines)}")


def forbid_secrets(_spec: ForbidSecretsSpec, workspace: Workspace) -> ScorerVerdict:
    written = [text for text in workspace.texts if not text.moved]
    search = find_secrets(written)
    skipped = sum(text.skipped for text in written)
    note = f" ({skipped} binary or very long files were not searched)" if skipped else ""
    if search.cut:
        note += f" (only the first {search.searched_lines} added lines were searched)"
    if not search.findings:
        return ScorerVerdict("PASS", f"no likely secret in {search.searched_lines} added lines{note}")
    # The secret itself is not repeated: more people read a record than a workspace.
    rows = [f"{printable(secret.path)}:{secret.line}: {secret.kind}" for secret in search.findings]
    count = "1 likely secret" if len(search.findings) == 1 else f"{len(search.findings)} likely secrets"
    return ScorerVerdict("FAIL", f"{count}{note}\n{listing(rows)}")


class _FileSide(NamedTuple):
    """The lines of one file before or after, with the diff needed to show which of them are new or gone."""

    path: str
    lines: Sequence[bytes]
    text: ChangedText


_Sides = tuple[list[_FileSide], list[_FileSide]]


def _test_file_sides(workspace: Workspace, globset: tuple[str, ...] | None) -> _Sides | None:
    """Return the content of changed test files before and after, or None if no test file changed."""
    patterns = globset or DEFAULT_TESTS
    sides: _Sides = ([], [])
    for text in (_restrict_to_tests(changed, patterns) for changed in workspace.texts):
        for side, path, lines in ((0, text.before_path, text.before), (1, text.after_path, text.after)):
            if path is not None:
                sides[side].append(_FileSide(path, lines, text))
    return sides if sides[0] or sides[1] else None


def _restrict_to_tests(text: ChangedText, patterns: Sequence[str]) -> ChangedText:
    """Treat a file that moves out of the test patterns as deleted, and one that moves into them as new."""
    if text.before_path is not None and not matches(text.before_path, patterns):
        text = dataclasses.replace(text, before_path=None, before=())
    if text.after_path is not None and not matches(text.after_path, patterns):
        text = dataclasses.replace(text, after_path=None, after=())
    return text


def _is_marked(marker: re.Pattern[bytes], line: bytes) -> bool:
    return marker.search(line, 0, MAX_SEARCHED) is not None and _COMMENT.match(line, 0, MAX_SEARCHED) is None


def _count_marked(marker: re.Pattern[bytes], side: _FileSide) -> int:
    return sum(_is_marked(marker, line) for line in side.lines)


def _list_lines(
    marker: re.Pattern[bytes],
    sides: Sequence[_FileSide],
    differing: Callable[[ChangedText, LineDiff], list[tuple[int, str]]],
) -> str:
    diff = LineDiff()
    return listing(
        [
            f"{printable(side.path)}:{number}: {printable(line.strip()[:MAX_SHOWN])}"
            for side in sides
            for number, line in differing(side.text, diff)
            if _is_marked(marker, line.encode())
        ]
    )
