"""Grade bad input end to end: odd or hostile patches, and checks that misbehave."""

from __future__ import annotations

import base64
import hashlib
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import TaskFactory

pytestmark = pytest.mark.component

REPO = {"answer.txt": "41\n", "src/mod.py": "VALUE = 41\n", "last.txt": "one\ntwo"}
CHECK: dict[str, object] = {
    "id": "answer",
    "layer": "script",
    "command": "grep -qx 42 answer.txt",
    "parser": "exit_code",
    "timeout_sec": 60,
}
FIX = b"diff --git a/answer.txt b/answer.txt\n--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-41\n+42\n"
MIB = 1024 * 1024


def new_file(path: bytes, content: bytes = b"x\n", mode: bytes = b"100644") -> bytes:
    lines = content.split(b"\n")[:-1]
    body = b"".join(b"+" + line + b"\n" for line in lines)
    head = b"diff --git a/" + path + b" b/" + path + b"\nnew file mode " + mode + b"\n--- /dev/null\n+++ b/" + path
    return head + b"\n@@ -0,0 +1,%d @@\n" % len(lines) + body


def binary(path: bytes, before: bytes, after: bytes) -> bytes:
    """A binary patch as git writes it: both directions, deflated, base 85."""

    def half(data: bytes) -> bytes:
        packed = zlib.compress(data)
        size = bytes([len(packed) + (64 if len(packed) <= 26 else 70)])
        return b"literal %d\n" % len(data) + size + base64.b85encode(packed, pad=True) + b"\n\n"

    names = [hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest().encode() for data in (before, after)]  # noqa: S324
    head = b"diff --git a/" + path + b" b/" + path + b"\nindex " + b"..".join(names) + b" 100644\n"
    return head + b"GIT binary patch\n" + half(after) + half(before)


def graded(tasks: TaskFactory, folder: Path, patch: bytes, check: dict[str, object] | None = None) -> Acceptance:
    repo = {**REPO}
    context = tasks.context(folder, repo=repo, hidden=None, setup=(), oracle={"checks": [{**CHECK, **(check or {})}]})
    return grade(patch, context)


HARMLESS: dict[str, bytes] = {
    "plain": FIX,
    "binary": binary(b"answer.txt", b"41\n", b"42\n"),
    "headers with carriage returns": FIX.replace(b"\n--- a", b"\r\n--- a").replace(b"txt\n+++", b"txt\r\n+++"),
    "a new file with carriage returns": FIX + new_file(b"dos.txt", b"one\r\ntwo\r\n"),
    "no newline at the end": FIX
    + b"diff --git a/last.txt b/last.txt\n--- a/last.txt\n+++ b/last.txt\n@@ -1,2 +1,2 @@\n one\n-two\n"
    b"\\ No newline at end of file\n+three\n\\ No newline at end of file\n",
    "rename": FIX
    + b"diff --git a/src/mod.py b/src/moved.py\nsimilarity index 100%\nrename from src/mod.py\nrename to src/moved.py\n",
    "mode": FIX + b"diff --git a/src/mod.py b/src/mod.py\nold mode 100644\nnew mode 100755\n",
}


@pytest.mark.req("G-03a")
@pytest.mark.parametrize("patch", HARMLESS.values(), ids=HARMLESS.keys())
def test_unusual_patch_is_graded_like_any_other(tasks: TaskFactory, tmp_path: Path, patch: bytes) -> None:
    result = graded(tasks, tmp_path, patch)
    assert result.application.outcome is Outcome.PASS, result.application
    assert result.accepted


REFUSED: dict[str, Callable[[], bytes]] = {
    "does not apply": lambda: FIX.replace(b"-41", b"-40"),
    "prose": lambda: b"I would change answer.txt to 42.\n",
    "conflict markers": lambda: FIX + new_file(b"c.txt", b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"),
    "out of the tree": lambda: FIX + new_file(b"../out.txt"),
    "absolute": lambda: FIX + b"--- /dev/null\n+++ /etc/out.txt\n@@ -0,0 +1 @@\n+x\n",
    "through a link": lambda: FIX + new_file(b"link", b"/tmp\n", b"120000") + new_file(b"link/out.txt"),
    "git folder": lambda: FIX + new_file(b".git/hooks/pre-commit"),
    "git folder in capitals": lambda: FIX + new_file(b"src/.GIT/config"),
    "a device": lambda: FIX + new_file(b"device", b"x\n", b"020644"),
    "300 MB": lambda: FIX + new_file(b"big.txt").replace(b"+x\n", b"+0123456789abcde\n" * (300 * MIB // 17)),
}


@pytest.mark.req("G-03a", "G-15")
@pytest.mark.parametrize("patch", REFUSED.values(), ids=REFUSED.keys())
def test_bad_patch_does_not_apply_and_fails_every_check(
    tasks: TaskFactory, tmp_path: Path, patch: Callable[[], bytes]
) -> None:
    result = graded(tasks, tmp_path, patch())
    assert result.application.outcome is Outcome.FAIL
    assert result.application.why
    assert [(result.outcome, result.decided.why) for result in result.checks] == [(Outcome.FAIL, "not run: G1 failed")]


def test_empty_patch_applies_and_fails_like_the_base_repository(tasks: TaskFactory, tmp_path: Path) -> None:
    result = graded(tasks, tmp_path, b"")
    assert result.application.outcome is Outcome.PASS
    assert [result.outcome for result in result.checks] == [Outcome.FAIL]


def test_20000_files_are_graded_or_refused_with_a_reason(tasks: TaskFactory, tmp_path: Path) -> None:
    many = b"".join(new_file(b"many/%d/%d.txt" % (number // 100, number)) for number in range(20_000))
    result = graded(tasks, tmp_path, FIX + many)
    assert result.accepted or (result.application.outcome is Outcome.FAIL and result.application.why)
    assert Outcome.ERROR not in {result.outcome for result in result.checks}


# --- checks -------------------------------------------------------------------------------------------------------------

MISBEHAVING = {
    "prints nothing": ("true", Outcome.PASS),
    "prints nothing and fails": ("false", Outcome.FAIL),
    "forks away": ("(sleep 300 >/dev/null 2>&1 &) ; (sleep 300 &) ; grep -qx 42 answer.txt", Outcome.PASS),
    "forks away and fails": ("setsid sleep 300 & exit 3", Outcome.FAIL),
    "prints 2 GiB": ("head -c 2147483648 /dev/zero; grep -qx 42 answer.txt", Outcome.PASS),
    "prints 2 GiB and fails": ("head -c 2147483648 /dev/zero >&2; exit 1", Outcome.FAIL),
}


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("command, outcome", MISBEHAVING.values(), ids=MISBEHAVING.keys())
def test_misbehaving_check_is_decided_by_its_exit(
    tasks: TaskFactory, tmp_path: Path, command: str, outcome: Outcome
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = graded(tasks, tmp_path, FIX, {"command": command})
    assert [result.outcome for result in result.checks] == [outcome]
    # In kilobytes: output is not kept in memory.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@pytest.mark.req("G-14")
def test_exit_0_without_any_test_is_not_a_pass(tasks: TaskFactory, tmp_path: Path) -> None:
    line = "python -m pytest -q -k no_such_test || true"
    by_exit = tasks.context(
        tmp_path / "a", oracle={"checks": [{"id": "unit", "command": line, "parser": "junit", "report": "out.xml"}]}
    )
    (result,) = grade(b"", by_exit).checks
    assert result.outcome is Outcome.FAIL
    named = {"id": "unit", "command": "python -m pytest -q -k no_such_test", "parser": "pytest"}
    missing = tasks.context(
        tmp_path / "b", oracle={"checks": [{**named, "fail_to_pass": ["tests/test_core.py::test_mean"]}]}
    )
    (result,) = grade(b"", missing).checks
    assert result.outcome is Outcome.FAIL
    assert result.decided.failing == ("tests/test_core.py::test_mean",)
