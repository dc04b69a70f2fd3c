from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.scorers.engine import CHECKS, run_scorers
from agentbench.acceptance.scorers.workspace import Workspace, matches
from agentbench.contract.advice import remarks
from agentbench.contract.load import load_task
from agentbench.contract.schema import Scorer
from agentbench.contract.scorers import SPECS, scorer_problems, scorer_spec
from agentbench.core.command import Command, Completed, Stream
from agentbench.core.errors import ContractError, InputError, SandboxError
from agentbench.trace.events import ScorerResult
from agentbench.tree.entry import FileWrite
from agentbench.tree.folder import FolderTree
from agentbench.verdict.facts import Facts, Logged
from agentbench.verdict.score import workspace_verdict
from agentbench.workspace.diff.apply import PatchedTree
from agentbench.workspace.diff.extract import ExtractedPatch, extract
from tests.acceptance.toy import write
from tests.contract.task_folders import task_with, write_task

pytestmark = pytest.mark.component

BEFORE = {
    "src/core.py": "def f():\n    return 1\n",
    "src/deep/er/x.py": "X = 1\n",
    "tests/test_core.py": "import pytest\n\n\ndef test_a():\n    assert f() == 1\n    assert f() != 2\n\n\n@pytest.mark.skip\ndef test_b():\n    assert 0\n",
    "README.md": "hello\n",
}
Changes = Mapping[str, str | bytes | None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "r", BEFORE)
    return tmp_path / "r"


def workspace(
    folder: Path, changes: Changes, *, links: Mapping[str, str] | None = None, generated: tuple[str, ...] = ()
) -> Workspace:
    base = FolderTree.at(folder)
    writes = [
        FileWrite(os.fsencode(name), content=text.encode() if isinstance(text, str) else text)
        for name, text in changes.items()
    ]
    writes += [FileWrite(os.fsencode(name), symlink=os.fsencode(to)) for name, to in (links or {}).items()]
    after = PatchedTree(base, writes)
    return Workspace(base, after, extract(base, after, generated=generated), None)


def score(scored: Workspace, **fields: object) -> ScorerResult:
    spec = scorer_spec(Scorer.model_validate({"name": "it", **fields}))
    (result,) = run_scorers([spec], scored)
    return result


def completed(exit_code: int | None, *, out: bytes = b"", timed_out: bool = False) -> Completed:
    return Completed(exit_code, Stream(out, b"", len(out)), Stream(), 0.5, timed_out=timed_out)


# --- registry ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-10")
def test_each_of_the_eleven_types_has_one_function() -> None:
    assert set(SPECS) == set(CHECKS)
    assert len(SPECS) == 11


@pytest.mark.req("G-10", "G-11")
def test_heuristics_are_advisory_by_default() -> None:
    fields: dict[str, dict[str, object]] = {
        "command": {"command": "true"},
        "allowed_paths": {"patterns": ["*"]},
        "forbid_paths": {"patterns": ["*"]},
        "max_files_changed": {"limit": 0},
        "file_exists": {"path": "a"},
        "tests_unmodified": {"paths": ["a"]},
        "baseline_unmodified": {"paths": ["a"]},
        "llm_judge": {"rubric": "kindly"},
    }
    advisory = set()
    for scorer_type in SPECS:
        scorer = Scorer.model_validate({"name": "n", "type": scorer_type, **fields.get(scorer_type, {})})
        if not scorer_spec(scorer).is_required:
            advisory.add(scorer_type)
        assert scorer_spec(scorer.model_copy(update={"required": True})).is_required
    assert advisory == {"no_new_skips", "assertions_not_weakened", "llm_judge"}


@pytest.mark.req("G-10")
@pytest.mark.parametrize(
    "fields, message",
    [
        ({"type": "comand", "command": "true"}, "did you mean `command`"),
        ({"type": "command"}, "missing `command`"),
        ({"type": "command", "command": "true", "timeout_s": 0}, "timeout_s: expected at least 1; got 0"),
        ({"type": "command", "command": "true", "timeout_s": 3601}, "timeout_s: expected at most 3600; got 3601"),
        ({"type": "command", "command": "true", "timeout_s": "5"}, 'timeout_s: expected a whole number; got "5"'),
        ({"type": "allowed_paths", "patterns": []}, "patterns: expected at least one; the list is empty"),
        ({"type": "allowed_paths", "patterns": "src"}, 'patterns: expected a list; got "src"'),
        ({"type": "no_new_skips", "test_globset": []}, "test_globset: expected at least one; the list is empty"),
        ({"type": "command", "command": " "}, "command: expected some text; it is blank"),
        ({"type": "command", "command": ["true"]}, "command: expected text; got a list"),
        ({"type": "file_exists", "path": None}, "path: expected text; got nothing"),
        ({"type": "allowed_paths", "patterns": ["/abs/*"]}, "relative to the workspace"),
        ({"type": "forbid_paths", "patterns": ["src/"]}, "write src/*"),
        ({"type": "forbid_paths", "patterns": ["src/[ab"]}, "unclosed bracket"),
        ({"type": "forbid_paths", "patterns": ["[s]rc/[ab"]}, "unclosed bracket"),
        ({"type": "forbid_paths", "patterns": ["[!]"]}, "unclosed bracket"),
        ({"type": "max_files_changed", "limit": -1}, "limit: expected at least 0; got -1"),
        ({"type": "max_files_changed", "limit": 1, "limits": 2}, "did you mean `limit`"),
        ({"type": "forbid_secrets", "limit": 1}, "it has none"),
        ({"type": "file_exists", "path": "../etc/passwd"}, "without `..`"),
        ({"type": "file_exists", "path": "/etc/passwd"}, "relative to the workspace"),
        ({"type": "tests_unmodified", "paths": ["tests/*"]}, "exact paths, not patterns"),
        ({"type": "baseline_unmodified", "paths": ["a//b"]}, "plain relative path"),
        ({"type": "llm_judge"}, "missing `rubric`"),
    ],
)
def test_invalid_fields_are_rejected_with_their_location(
    tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    bad = {"name": "n", **fields}
    with pytest.raises(InputError, match="scorer `n`") as error:
        scorer_spec(Scorer.model_validate(bad))
    assert message in str(error.value)
    write_task(tmp_path / "t", task_with(scorers=[bad]))
    with pytest.raises(ContractError) as rejected:
        load_task(tmp_path / "t")
    # One mistake is reported once, with its location in the task.
    (problem,) = rejected.value.problems
    assert "task.yaml:" in problem
    assert "scorers[0]" in problem
    assert message in problem
    write_task(tmp_path / "suite" / "t", task_with())
    (tmp_path / "suite" / "scenario.yaml").write_text(f"scorers: [{Scorer.model_validate(bad).model_dump_json()}]\n")
    with pytest.raises(ContractError) as rejected:
        load_task(tmp_path / "suite" / "t")
    assert any("scenario.yaml:" in problem and message in problem for problem in rejected.value.problems)


GUARDED = {"name": "g", "type": "tests_unmodified", "paths": ["tests/test_core.py", "tests/test_gone.py", "tests"]}


@pytest.mark.req("G-10")
def test_protected_files_must_exist(tmp_path: Path) -> None:
    files = {"repo/tests/test_core.py": ""}
    write_task(tmp_path / "t", task_with(repo={"path": "repo"}, scorers=[GUARDED]), files)
    with pytest.raises(ContractError) as rejected:
        load_task(tmp_path / "t")
    gone, folder = rejected.value.problems
    assert "scorers[0].paths[1]: tests/test_gone.py is not a file of the workspace" in gone
    assert "scorers[0].paths[2]: tests is not a file of the workspace" in folder
    # Setup may create the file, and a scorer of the suite is meant for tasks that have it: both only cause a warning.
    with_setup = task_with(repo={"path": "repo"}, scorers=[GUARDED], setup={"commands": ["make"]})
    warnings = remarks(load_task(write_task(tmp_path / "made", with_setup, files)))
    assert (
        sum("scorer `g`: tests" in warning and warning.endswith("unless setup creates it") for warning in warnings) == 2
    )
    write_task(tmp_path / "suite" / "t", task_with(repo={"path": "repo"}), files)
    (tmp_path / "suite" / "scenario.yaml").write_text(
        f"scorers: [{Scorer.model_validate(GUARDED).model_dump_json()}]\n"
    )
    warnings = remarks(load_task(tmp_path / "suite" / "t"))
    assert sum("scorer `g`: tests" in warning for warning in warnings) == 2


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-10")
def test_wildcards_match_slashes() -> None:
    assert matches("src/deep/file.py", ["src/*"])
    assert matches("src/deep/file.py", ["src/**"])
    assert matches("src/deep/file.py", ["*.py"])
    assert not matches("Src/file.py", ["src/*"])
    assert not matches("a/src/file.py", ["src/*"])


@pytest.mark.req("G-10")
def test_path_scorers_examine_every_changed_file(folder: Path) -> None:
    scored = workspace(folder, {"src/deep/er/x.py": "X = 2\n", ".github/ci.yml": "on: push\n"})
    outside = score(scored, type="allowed_paths", patterns=["src/*"])
    assert (outside.verdict, outside.required, outside.score_ppm) == ("FAIL", True, 0)
    assert ".github/ci.yml" in outside.detail
    assert "x.py" not in outside.detail
    allowed = score(scored, type="allowed_paths", patterns=["src/*", ".github/*"])
    assert (allowed.verdict, allowed.score_ppm) == ("PASS", 1_000_000)
    assert score(scored, type="forbid_paths", patterns=[".github/*"]).verdict == "FAIL"
    assert score(scored, type="forbid_paths", patterns=["secrets/*"]).verdict == "PASS"


@pytest.mark.req("G-10", "C-20")
def test_moved_files_count_once_and_generated_files_never(folder: Path) -> None:
    scored = workspace(
        folder,
        {"README.md": None, "docs/README.md": BEFORE["README.md"], "src/__pycache__/a.pyc": b"\x00"},
        generated=("**/__pycache__/**",),
    )
    assert scored.changed == ("README.md", "docs/README.md")
    assert score(scored, type="max_files_changed", limit=1).verdict == "PASS"
    assert score(scored, type="max_files_changed", limit=0).verdict == "FAIL"
    assert score(scored, type="tests_unmodified", paths=["README.md"]).verdict == "FAIL"
    assert score(scored, type="baseline_unmodified", paths=["docs/README.md"]).verdict == "FAIL"
    assert score(scored, type="baseline_unmodified", paths=["src/core.py"]).verdict == "PASS"


@pytest.mark.req("G-10")
def test_an_empty_patch_passes_path_scorers(folder: Path) -> None:
    scored = workspace(folder, {})
    assert score(scored, type="max_files_changed", limit=0).verdict == "PASS"
    assert score(scored, type="allowed_paths", patterns=["nowhere"]).verdict == "PASS"


@pytest.mark.req("G-10", "G-14")
def test_change_scorers_fail_if_the_trees_cannot_be_compared(folder: Path) -> None:
    base = FolderTree.at(folder)
    scored = Workspace(
        base, base, ExtractedPatch(b"", (), (), (), 0, 0, "the workspace cannot be compared: too many"), None
    )
    for fields in ({"type": "allowed_paths", "patterns": ["*"]}, {"type": "forbid_secrets"}, {"type": "no_new_skips"}):
        result = score(scored, **fields)
        assert result.verdict == "FAIL"
        assert "cannot be compared" in result.detail


@pytest.mark.parametrize("pattern", ["[[]", "[]]", "[!]]", "[!a]", "[a][b]", "a]", "[[]x[!]a]"])
def test_closed_brackets_are_valid_patterns(pattern: str) -> None:
    scorer = Scorer.model_validate({"name": "it", "type": "forbid_paths", "patterns": [pattern]})
    assert not list(scorer_problems(scorer))


@pytest.mark.req("G-10")
def test_file_exists_requires_a_real_file(folder: Path) -> None:
    scored = workspace(
        folder,
        {"new/file.txt": "x", "README.md": None},
        links={"good": "src/core.py", "dangling": "nowhere", "out": "../../../etc/passwd", "loop": "loop"},
    )
    there = {name for name in ("new/file.txt", "src/deep", "good", "src/core.py") if _exists(scored, name)}
    assert there == {"new/file.txt", "src/deep", "good", "src/core.py"}
    assert not [name for name in ("README.md", "dangling", "out", "loop", "src/cor") if _exists(scored, name)]


def _exists(scored: Workspace, path: str) -> bool:
    return score(scored, type="file_exists", path=path).verdict == "PASS"


@given(st.text(min_size=1, max_size=30), st.integers(0, 30))
def test_a_star_matches_any_text(path: str, cut: int) -> None:
    plain = "".join(char for char in path if char not in "*?[]")
    assert matches(plain, [plain[:cut] + "*"])
    assert matches(plain, ["*" + plain[cut:]])


# --- lines ------------------------------------------------------------------------------------------------------------

TESTS = BEFORE["tests/test_core.py"]


@pytest.mark.req("G-10")
@pytest.mark.parametrize(
    "after, skips, assertions",
    [
        (TESTS.replace("def test_a", "@pytest.mark.skip(reason='x')\ndef test_a"), "FAIL", "PASS"),
        (TESTS.replace("def test_a", "@pytest.mark.xfail\ndef test_a"), "FAIL", "PASS"),
        (TESTS.replace("    assert f() == 1\n", "    pytest.skip('no')\n    assert f() == 1\n"), "FAIL", "PASS"),
        (TESTS.replace("@pytest.mark.skip\n", ""), "PASS", "PASS"),
        (
            TESTS.replace("@pytest.mark.skip\n", "").replace("def test_a", "@pytest.mark.skip\ndef test_a"),
            "PASS",
            "PASS",
        ),
        (TESTS.replace("    assert f() == 1\n", ""), "PASS", "FAIL"),
        (TESTS.replace("    assert f() == 1\n", "    # assert f() == 1\n"), "PASS", "FAIL"),
        (TESTS.replace("    assert f() == 1\n", "    assert True\n"), "PASS", "PASS"),
        (TESTS + "\n\ndef test_c():\n    assert f()\n", "PASS", "PASS"),
        (None, "PASS", "FAIL"),
    ],
)
def test_skips_and_assertions_are_counted_net(folder: Path, after: str | None, skips: str, assertions: str) -> None:
    scored = workspace(folder, {"tests/test_core.py": after})
    results = score(scored, type="no_new_skips"), score(scored, type="assertions_not_weakened")
    assert tuple(result.verdict for result in results) == (skips, assertions)
    assert not any(result.required for result in results)


@pytest.mark.req("G-10")
def test_moving_an_assertion_between_test_files_passes(folder: Path) -> None:
    line = "    assert f() == 1\n"
    moved = {"tests/test_core.py": TESTS.replace(line, ""), "tests/test_more.py": f"def test_m():\n{line}"}
    assert score(workspace(folder, moved), type="assertions_not_weakened").verdict == "PASS"
    hidden = {"tests/test_core.py": TESTS.replace(line, ""), "src/more.py": f"def test_m():\n{line}"}
    result = score(workspace(folder, hidden), type="assertions_not_weakened")
    assert result.verdict == "FAIL"
    assert "tests/test_core.py:5: assert f() == 1" in result.detail


@pytest.mark.req("G-10")
def test_moving_a_test_file_out_of_the_tests_counts_as_deleting_it(folder: Path) -> None:
    away = workspace(folder, {"tests/test_core.py": None, "attic/core.txt": TESTS})
    result = score(away, type="assertions_not_weakened")
    assert (result.verdict, result.detail.splitlines()[0]) == (
        "FAIL",
        "3 lines with assertions in the changed test files before, 0 after",
    )
    assert "tests/test_core.py:5: assert f() == 1" in result.detail
    renamed = workspace(folder, {"tests/test_core.py": None, "tests/test_other.py": TESTS})
    assert score(renamed, type="assertions_not_weakened").verdict == "PASS"
    brought = workspace(folder, {"src/core.py": None, "tests/test_core_too.py": BEFORE["src/core.py"]})
    assert score(brought, type="no_new_skips").verdict == "PASS"
    assert score(away, type="forbid_secrets").detail == "no likely secret in 0 added lines"


@pytest.mark.req("G-10")
def test_content_scorers_do_not_apply_without_changed_test_files(folder: Path) -> None:
    scored = workspace(folder, {"src/core.py": "import pytest\npytest.skip('x')\n"})
    for scorer_type in ("no_new_skips", "assertions_not_weakened"):
        assert score(scored, type=scorer_type).verdict == "N/A"
    result = score(scored, type="no_new_skips", test_globset=["src/*"])
    assert result.verdict == "FAIL"
    assert "src/core.py:2" in result.detail
    assert score(scored, type="no_new_skips", test_globset=["src/*"], required=True).required


KEY = "AKIA" + "QZ7XK3M5N2PLWD4R"


@pytest.mark.req("G-10")
@pytest.mark.parametrize(
    "line",
    [
        f'key = "{KEY}"',
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        'token = "gh' + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8" + '"',
        'db_password = "x7!kPq2#zz"',
    ],
)
def test_secrets_in_added_lines_are_found_and_not_repeated(folder: Path, line: str) -> None:
    result = score(workspace(folder, {"src/core.py": f"def f():\n    return 1\n\n{line}\n"}), type="forbid_secrets")
    assert result.verdict == "FAIL"
    assert "src/core.py:4" in result.detail
    assert KEY not in result.detail


@pytest.mark.req("G-10")
@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['PASSWORD']\n",
        "digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'\n",
        "def get_token(session):\n    return session.token\n",
        'api_key = "${API_KEY}"\n',
        "",
    ],
)
def test_ordinary_lines_are_not_secrets(folder: Path, text: str) -> None:
    assert score(workspace(folder, {"src/new.py": text}), type="forbid_secrets").verdict == "PASS"


def test_existing_secrets_are_ignored(folder: Path) -> None:
    write(folder, {"old.py": f'KEY = "{KEY}"\n'})
    assert score(workspace(folder, {"old.py": f'KEY = "{KEY}"\nX = 1\n'}), type="forbid_secrets").verdict == "PASS"


def test_binary_files_are_reported_as_not_searched(folder: Path) -> None:
    result = score(workspace(folder, {"blob.bin": b"\x00" + KEY.encode()}), type="forbid_secrets")
    assert result.verdict == "PASS"
    assert "1 binary or very long files were not searched" in result.detail


# --- commands and engine ----------------------------------------------------------------------------------------------


@pytest.mark.req("G-10")
def test_commands_fail_by_exit_code_or_timeout_and_show_output(folder: Path) -> None:
    commands: list[Command] = []

    def answer(command: Command) -> Completed:
        commands.append(command)
        line = command.line
        if line == "slow":
            return completed(None, timed_out=True)
        return completed(0 if line == "good" else 3, out=b"x" * 5000 + b"\nthe end\x1b[31m\n")

    base = FolderTree.at(folder)
    scored = Workspace(base, base, extract(base, base), answer)
    good, bad, slow = (score(scored, type="command", command=line) for line in ("good", "bad", "slow"))
    assert [result.verdict for result in (good, bad, slow)] == ["PASS", "FAIL", "FAIL"]
    assert commands[0].timeout_sec == 900
    assert bad.command == "bad"
    assert bad.detail.startswith("exit 3")
    assert "the end\\x1b[31m" in bad.detail
    assert len(bad.detail) < 2100
    assert "timed out" in slow.detail


@pytest.mark.req("G-10", "G-14")
def test_harness_errors_in_a_scorer_are_errors_not_failures(folder: Path) -> None:
    def broken(_command: Command) -> Completed:
        raise SandboxError("the sandbox died")

    def bug(_command: Command) -> Completed:
        raise ZeroDivisionError

    base = FolderTree.at(folder)
    for run in (broken, bug):
        result = score(Workspace(base, base, extract(base, base), run), type="command", command="true")
        assert result.verdict == "ERROR"
        facts = Facts(scorers=(Logged(1, result),))
        assert workspace_verdict(facts).verdict == "N/A"


@pytest.mark.req("G-11")
def test_only_required_scorers_fail_the_workspace() -> None:
    def scorer_result(verdict: str, *, required: bool, kind: str = "command") -> Logged[ScorerResult]:
        fields = {"name": "n", "scorer_type": kind, "required": required, "verdict": verdict, "detail": ""}
        return Logged(1, ScorerResult.model_validate({**fields, "score_ppm": 1_000_000 * (verdict == "PASS")}))

    good = scorer_result("PASS", required=True)
    assert workspace_verdict(Facts(scorers=(good, scorer_result("FAIL", required=False)))).verdict == "PASS"
    assert workspace_verdict(Facts(scorers=(good, scorer_result("FAIL", required=True)))).verdict == "FAIL"
    assert (
        workspace_verdict(Facts(scorers=(good, scorer_result("FAIL", required=True, kind="llm_judge")))).verdict
        == "PASS"
    )
    mixed = workspace_verdict(
        Facts(scorers=(good, scorer_result("FAIL", required=False), scorer_result("N/A", required=True)))
    )
    assert mixed.mean_score == 0.5


@pytest.mark.req("G-10")
def test_commands_run_last_and_results_keep_their_order(folder: Path) -> None:
    calls: list[str] = []

    class RecordingWorkspace(Workspace):
        @property
        def count(self) -> int:
            calls.append("count")
            return 0

    def run(_command: Command) -> Completed:
        calls.append("command")
        return completed(0)

    base = FolderTree.at(folder)
    specs = [
        scorer_spec(Scorer.model_validate({"name": "c", "type": "command", "command": "true"})),
        scorer_spec(Scorer.model_validate({"name": "m", "type": "max_files_changed", "limit": 1})),
    ]
    results = run_scorers(specs, RecordingWorkspace(base, base, extract(base, base), run))
    assert [result.name for result in results] == ["c", "m"]
    assert calls[-1] == "command"


@pytest.mark.req("G-10")
def test_secret_search_handles_long_and_adversarial_lines(folder: Path) -> None:
    long = f'data = [{"0, " * 700}"{KEY}"]\n'
    assert score(workspace(folder, {"src/new.py": long}), type="forbid_secrets").verdict == "FAIL"
    # Each of these would take seconds if it were matched as a whole.
    slow = "".join(f"{word * (20_000 // len(word))}'\"\n" for word in ("password", "=", "eyJa.", "'", "a"))
    assert score(workspace(folder, {"src/new.py": slow * 3}), type="forbid_secrets").verdict == "PASS"


def test_text_beyond_the_search_limit_is_reported(folder: Path) -> None:
    lines = "x = 1\n" * 10 + "y" * 4_000_000 + "\n" + f'key = "{KEY}"\n'
    result = score(workspace(folder, {"src/new.py": lines[: 4 * 1024 * 1024 - 1]}), type="forbid_secrets")
    assert "only the first 10 added lines were searched" in result.detail
