"""Scorers that look at lines: of test files, and for secrets. Approximate by design."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from agentbench.acceptance.scorers.secrets import secrets_in
from agentbench.acceptance.scorers.workspace import (
    ChangedText,
    Found,
    Workspace,
    added_lines,
    matches,
    removed_lines,
)
from agentbench.contract.scorers import (
    DEFAULT_TESTS,
    AssertionsNotWeakenedSpec,
    ForbidSecretsSpec,
    NoNewSkipsSpec,
)
from agentbench.core.text import printable
from agentbench.workspace.diff.line_diff import LineDiff

LISTED = 20
LINE = 160
SEARCHED = 2_000
"""Bytes of a line that are looked at: no test is written wider."""

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


def no_new_skips(spec: NoNewSkipsSpec, workspace: Workspace) -> Found:
    """Markers in the changed test files, before and after: unchanged lines cancel out, so this is the net of the diff."""
    sides = _test_sides(workspace, spec.test_globset)
    if sides is None:
        return Found("N/A", "no test file changed")
    before, after = (sum(_count(_SKIP, text) for text in side) for side in sides)
    words = f"{before} skip or xfail markers in the changed test files before, {after} after"
    if after <= before:
        return Found("PASS", words)
    return Found("FAIL", f"{words}\n{_shown(_SKIP, sides[1], added_lines)}")


def assertions_not_weakened(spec: AssertionsNotWeakenedSpec, workspace: Workspace) -> Found:
    sides = _test_sides(workspace, spec.test_globset)
    if sides is None:
        return Found("N/A", "no test file changed")
    before, after = (sum(_count(_ASSERT, text) for text in side) for side in sides)
    words = f"{before} lines with assertions in the changed test files before, {after} after"
    if after >= before:
        return Found("PASS", words)
    return Found("FAIL", f"{words}\n{_shown(_ASSERT, sides[0], removed_lines)}")


def forbid_secrets(_spec: ForbidSecretsSpec, workspace: Workspace) -> Found:
    written = [text for text in workspace.texts if not text.moved]
    found = secrets_in(written)
    aside = sum(text.skipped for text in written)
    note = f" ({aside} binary or very long files were not looked at)" if aside else ""
    if found.cut:
        note += f" (only the first {found.looked_at} added lines were looked at)"
    if not found.findings:
        return Found("PASS", f"nothing in {found.looked_at} added lines looks like a secret{note}")
    # The secret itself is not repeated: a record is read by more people than a workspace.
    rows = [f"  {printable(one.path)}:{one.line}: {one.kind}" for one in found.findings[:LISTED]]
    if len(found.findings) > LISTED:
        rows.append(f"  … and {len(found.findings) - LISTED} more")
    places = "1 place looks" if len(found.findings) == 1 else f"{len(found.findings)} places look"
    return Found("FAIL", f"{places} like a secret{note}\n" + "\n".join(rows))


class _Side:
    """The lines of one file before or after, with what it takes to show which of them are new or gone."""

    def __init__(self, path: str, lines: Sequence[bytes], text: ChangedText) -> None:
        self.path = path
        self.lines = lines
        self.text = text


_Sides = tuple[list[_Side], list[_Side]]


def _test_sides(workspace: Workspace, globset: tuple[str, ...] | None) -> _Sides | None:
    """What changed test files held before and what they hold now; None when none changed."""
    patterns = globset or DEFAULT_TESTS
    sides: _Sides = ([], [])
    for text in (_as_test(changed, patterns) for changed in workspace.texts):
        for side, path, lines in ((0, text.before_path, text.before), (1, text.after_path, text.after)):
            if path is not None:
                sides[side].append(_Side(path, lines, text))
    return sides if sides[0] or sides[1] else None


def _as_test(text: ChangedText, patterns: Sequence[str]) -> ChangedText:
    """A file that is moved to where no test is looked for is gone, and one that comes from there is new, line by line."""
    if text.before_path is not None and not matches(text.before_path, patterns):
        text = dataclasses.replace(text, before_path=None, before=())
    if text.after_path is not None and not matches(text.after_path, patterns):
        text = dataclasses.replace(text, after_path=None, after=())
    return text


def _counts(marker: re.Pattern[bytes], line: bytes) -> bool:
    return marker.search(line, 0, SEARCHED) is not None and _COMMENT.match(line, 0, SEARCHED) is None


def _count(marker: re.Pattern[bytes], side: _Side) -> int:
    return sum(_counts(marker, line) for line in side.lines)


def _shown(
    marker: re.Pattern[bytes],
    sides: Sequence[_Side],
    differing: Callable[[ChangedText, LineDiff], list[tuple[int, str]]],
) -> str:
    diff = LineDiff()
    rows = [
        f"  {printable(side.path)}:{number}: {printable(line.strip()[:LINE])}"
        for side in sides
        for number, line in differing(side.text, diff)
        if _counts(marker, line.encode())
    ]
    more = [f"  … and {len(rows) - LISTED} more"] if len(rows) > LISTED else []
    return "\n".join([*rows[:LISTED], *more])
