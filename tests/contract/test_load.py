"""Loading a task gives a LoadedTask, or every problem with its line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentbench.contract.advice import conditional_on_network, remarks
from agentbench.contract.load import Limit, load_task
from agentbench.core.errors import ContractError
from tests.contract.task_folders import MINIMAL, check_with, problems_of, task_with, write_task

pytestmark = pytest.mark.component

SHORT_EXAMPLE = Path(__file__).parent / "short_example"
PROBE = {"id": "p", "kind": "probe", "candidate": "python -m toy", "driver": "probe.py"}


# --- the short example and the whole format ------------------------------------------------------------------------


@pytest.mark.req("C-01", "C-02", "C-04b", "C-05", "C-06")
def test_short_example_loads() -> None:
    loaded = load_task(SHORT_EXAMPLE)
    task = loaded.task
    assert (task.id, task.suite) == ("pytest-bugfix-requests-parse", "custom-dev")
    assert task.environment.network_policy == "setup_only"
    assert task.setup.capture == ("python -V", "pip -V", "pip freeze")
    assert loaded.baseline_command == "pytest -q"
    assert loaded.editable_globs == ("**/*.py", "pyproject.toml")
    (check,) = loaded.checks
    assert (check.id, check.command, check.parser, check.mandatory) == ("validation", "pytest -q", "pytest", True)
    assert "pytest-bugfix-requests-parse" in loaded.statement
    assert "`pytest -q`" in loaded.statement
    assert load_task(SHORT_EXAMPLE / "task.yaml") == loaded
    assert repr(loaded) == f"LoadedTask('pytest-bugfix-requests-parse', '{SHORT_EXAMPLE}')"


WHOLE = """
schema_version: 1
id: toy-median
suite: demo
title: "median of an even number of values"
statement: |
  median([1, 2, 3, 4]) returns 3, it should be 2.5.
hints: {test_command: "python -m pytest -q"}
strata: {ecosystem: python, kind: bugfix, test_runtime: short, dependencies: small}
repo:
  archive: "pypi:NAME==1.0"
  sha256: "%s"
environment:
  dockerfile: Dockerfile
  env: {TZ: UTC}
  secrets: [PRIVATE_INDEX_TOKEN]
  pids_limit: 256
  disk_limit_mb: 2048
  network_policy: always
  network_allow: [example.org]
oracle:
  build: none
  static: none
  hidden: hidden/
  protected: ["tests/**"]
  generated: ["**/__pycache__/**", "build/**"]
  checks:
    - id: unit
      layer: unit
      command: "python -m pytest -q"
      parser: pytest
      fail_to_pass: ["tests/test_core.py::test_median_even"]
      pass_to_pass: ["tests/test_core.py::test_mean"]
      mandatory: true
      timeout_sec: 300
      reruns: 0
      flake_tolerance: 0.0
    - id: behaviour
      layer: integration
      kind: probe
      candidate: "python -m toycalc.serve"
      driver: probe.py
reference: reference.patch
turns: []
policy:
  editable_globs: ["src/**"]
  deny_commands: [{pattern: "curl *", severity: gate}]
  dependencies: {allow_new: false, severity: penalty}
  require_limits: {memory: hard, pids: hard, disk: monitored}
  stages: [inspect, write, test]
budget: {usd: 5.00, wall_sec: 1800, tokens: 2000000, tool_calls: 20, failed_cycles: 20}
rubric: {lambda: 1.0, envelope: {files: 5, lines: 200}}
scorers: []
judge: {enabled: true, expected_outcome: completion, rubric: ""}
""" % ("ab" * 32)
FILES = {
    "Dockerfile": "FROM x",
    "hidden/tests/test_hidden.py": "def test(): pass\n",
    "probe.py": "",
    "reference.patch": "",
}


@pytest.mark.req("C-02", "C-04b", "C-06", "C-07", "C-08a", "C-09", "C-10", "C-13", "C-20", "C-21", "C-22")
def test_every_documented_key_loads(tmp_path: Path) -> None:
    loaded = load_task(write_task(tmp_path / "t", WHOLE, FILES))
    task = loaded.task
    assert task.oracle.static == "none"
    assert task.environment.secrets == ("PRIVATE_INDEX_TOKEN",)
    assert task.policy.deny_commands[0].severity == "gate"
    assert task.policy.dependencies.severity == "penalty"
    assert task.oracle.generated == ("**/__pycache__/**", "build/**")
    assert task.strata.kind == "bugfix"
    assert task.rubric.lambda_ == 1.0
    assert loaded.driver_file(loaded.checks[1]) == tmp_path / "t" / "probe.py"
    assert loaded.reference_file == tmp_path / "t" / "reference.patch"
    assert loaded.baseline_command is None
    hidden = loaded.hidden_files()
    assert set(hidden) == {b"tests/test_hidden.py"}
    assert hidden[b"tests/test_hidden.py"].content == b"def test(): pass\n"


@pytest.mark.req("C-07", "C-09", "C-20")
def test_defaults_match_the_documentation(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path, MINIMAL)).task
    assert (task.budget.wall_sec, task.budget.usd) == (1800, 5.00)
    assert (task.environment.network_policy, task.environment.env) == ("none", {})
    assert (task.oracle.build, task.oracle.static) == ("none", "none")
    assert "**/__pycache__/**" in task.oracle.generated


def test_loaded_task_has_no_open_files_and_ignores_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path / "a" / "t", WHOLE, FILES)
    monkeypatch.chdir(tmp_path / "a")
    before = _open_files()
    loaded = load_task(Path("t"))
    monkeypatch.chdir("/")
    assert loaded.hidden_files()
    assert _open_files() == before


def _open_files() -> set[str]:
    return {str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}


@pytest.mark.parametrize(
    "text,remark",
    [("", "is empty, so it solves nothing"), ("TODO\n", "contains no diff, so it cannot be applied")],
)
def test_reference_without_changes_is_remarked(tmp_path: Path, text: str, remark: str) -> None:
    folder = write_task(tmp_path / "t", task_with(reference="reference.patch"), {"reference.patch": text})
    assert f"reference: reference.patch {remark}" in remarks(load_task(folder))


# --- problems ------------------------------------------------------------------------------------------------------


@pytest.mark.req("C-01")
def test_all_problems_are_reported_at_once_with_line_key_and_hint(tmp_path: Path) -> None:
    text = """\
id: x y
suit: mine
repo:
  url: https://example.org/r.git
  comit: "12ab"
environment:
  python: 3.10
  network_policy: setuponly
  mem_limit_mb: lots
oracle:
  hiden: hidden/
  checks:
    - id: a
      command: x
    - id: a
      kind: probe
      parser: pytest
timeout_sec: 5
reference: nowhere.patch
"""
    assert problems_of(write_task(tmp_path, text)) == [
        (
            "task.yaml:1: id: expected up to 128 letters, digits, dots, dashes and underscores, starting with a letter or "
            'digit; got "x y"'
        ),
        "task.yaml:2: suit: unknown key (did you mean `suite`?)",
        "task.yaml:5: repo.comit: unknown key (did you mean `commit`?)",
        'task.yaml:7: environment.python: expected text; YAML reads it as the number 3.1; quote it: "3.10"',
        (
            "task.yaml:8: environment.network_policy: expected none, setup_only or always; got "
            '"setuponly" (did you mean `setup_only`?)'
        ),
        'task.yaml:9: environment.mem_limit_mb: expected a whole number; got "lots"',
        "task.yaml:10: oracle.hidden: hidden/ does not exist (relative to task.yaml)",
        "task.yaml:11: oracle.hiden: unknown key (did you mean `hidden`?)",
        "task.yaml:15: oracle.checks[1]: a check of kind `probe` needs `candidate`",
        "task.yaml:15: oracle.checks[1]: a check of kind `probe` needs `driver`",
        "task.yaml:15: oracle.checks[1].id: two checks have the id `a`",
        "task.yaml:17: oracle.checks[1].parser: a check of kind `probe` cannot have `parser`; its driver reports the results",
        "task.yaml:18: timeout_sec: unknown key (it belongs under `environment` or `setup`)",
        "task.yaml:19: reference: nowhere.patch does not exist (relative to task.yaml)",
    ]


GIT = MINIMAL["repo"]
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "missing id": (task_with(id=None), "id: missing; required keys: id, suite, repo"),
    "missing repo": (task_with(repo=None), "repo: missing; expected a mapping with `url` and `commit`"),
    "repo as text": (task_with(repo="git"), "repo: expected a mapping with `url` and `commit`, `archive` and `sha256`"),
    "no source": (task_with(repo={}), "repo: expected exactly one of"),
    "two sources": (task_with(repo=GIT | {"archive": "pypi:a==1", "sha256": "a" * 64}), "got url and archive"),
    "url without commit": (task_with(repo={"url": "https://x.org/r"}), "`url` needs `commit`"),
    "archive without digest": (task_with(repo={"archive": "pypi:a==1"}), "`archive` needs `sha256`"),
    "commit of a path": (task_with(repo={"path": "repo", "commit": "ab"}), "`commit` requires `url`"),
    "digest of a url": (task_with(repo=GIT | {"sha256": "a" * 64}), "`sha256` requires `archive`"),
    "number as commit": (
        task_with(repo=GIT | {"commit": 1234567}),
        'reads it as the number 1234567; quote it: "1234567"',
    ),
    "origin of a path": (task_with(repo={"path": "repo", "origin": "https://x.org/r"}), "`origin` requires `url`"),
    "path as origin": (task_with(repo=GIT | {"origin": "../r"}), "expected a URL that other machines can reach"),
    "short digest": (task_with(repo={"archive": "pypi:a==1", "sha256": "abc"}), "64 lower-case hexadecimal digits"),
    "unpinned pypi": (task_with(repo={"archive": "pypi:a", "sha256": "a" * 64}), "expected pypi:NAME==VERSION"),
    "option as url": (task_with(repo=GIT | {"url": "--upload-pack=x"}), "must not start with a dash"),
    "option as commit": (task_with(repo=GIT | {"commit": "--help"}), "expected a commit id"),
    "helper as url": (task_with(repo=GIT | {"url": "ext::sh -c id"}), "got ext::"),
    "unknown scheme": (task_with(repo=GIT | {"url": "ftp://x.org/r"}), "got ftp://"),
    "absent local url": (task_with(repo=GIT | {"url": "../gone.git"}), "../gone.git does not exist"),
    "absent path": (task_with(repo={"path": "gone"}), "repo.path: expected a folder; gone is not one"),
    "absent archive": (task_with(repo={"archive": "gone.tgz", "sha256": "a" * 64}), "gone.tgz does not exist"),
    "subdir leads out": (task_with(repo=GIT | {"subdir": "../x"}), "expected a path inside the repository"),
    "statement twice": (task_with(statement="a", statement_file="s.md"), "either `statement` or `statement_file`"),
    "empty statement": (task_with(statement="  "), "statement: expected some text"),
    "absent statement": (task_with(statement_file="s.md"), "s.md does not exist (relative to task.yaml)"),
    "no oracle": (task_with(validation=None), "expected `validation` or `oracle.checks`"),
    "half a validation": (task_with(validation={"failing_command": "x"}), "validation.passing_command: missing"),
    "judged only needs a statement": (task_with(repo="none", validation=None), "needs a `statement`"),
    "judged only has no checks": (task_with(repo="none", statement="x"), "cannot have checks"),
    "two images": (
        task_with(environment={"docker_image": "a", "dockerfile": "Dockerfile"}),
        "either `docker_image` or `dockerfile`",
    ),
    "allow list without network": (
        task_with(environment={"network_policy": "setup_only", "network_allow": ["a"]}),
        "requires `network_policy: always`; it is `setup_only`",
    ),
    "secret with a value": (
        task_with(environment={"env": {"TOKEN": "x"}, "secrets": ["TOKEN"]}),
        "must not contain the value of a secret",
    ),
    "number as variable": (task_with(environment={"env": {"A": 1}}), 'quote it: "1"'),
    "bad variable": (task_with(environment={"env": {"a b": "x"}}), 'as the key; got "a b"'),
    "negative limit": (task_with(environment={"cpu_limit": -1}), "expected more than 0; got -1"),
    "text as limit": (task_with(environment={"timeout_sec": "900"}), 'expected a whole number; got "900"'),
    "text as list": (task_with(setup={"commands": "pip install x"}), 'expected a list; got "pip install x"'),
    "empty section": (task_with(setup=None) | {"setup": None}, "remove the key or give it a value"),
    "empty command": (task_with(setup={"commands": [""]}), "setup.commands[0]: expected some text"),
    "static as text": (task_with(oracle={"static": "mypy ."}), "expected a list of commands, or the word `none`"),
    "static empty": (task_with(oracle={"static": []}), "write `none`"),
    "command missing": (check_with(command=None), "needs `command`"),
    "driver on command": (check_with(driver="d.py"), "requires `kind: probe`"),
    "junit without report": (check_with(parser="junit"), "`junit` needs `report`"),
    "report without junit": (check_with(report="r.xml"), "requires `parser: junit`"),
    "report leads out": (
        check_with(parser="junit", report="../r.xml"),
        "expected a file path relative to the workspace",
    ),
    "report is absolute": (check_with(parser="junit", report="/tmp/r.xml"), "such as `build/report.xml`"),
    "report is a folder": (
        check_with(parser="junit", report="build/"),
        "expected a file path relative to the workspace",
    ),
    "report has a line break": (
        check_with(parser="junit", report="a\nb.xml"),
        "expected a file path relative to the workspace",
    ),
    "ids without parser": (check_with(fail_to_pass=["a"]), "need `parser: pytest` or `parser: junit`"),
    "id twice": (check_with(parser="pytest", fail_to_pass=["a", "a"]), "fail_to_pass[1]: a is listed twice"),
    "id in both": (check_with(parser="pytest", fail_to_pass=["a"], pass_to_pass=["a"]), "a is also in `fail_to_pass`"),
    "nothing mandatory": (check_with(mandatory=False), "at least one mandatory check"),
    "unknown layer": (check_with(layer="unti"), "(did you mean `unit`?)"),
    "probe with command": (check_with(**PROBE), "a check of kind `probe` cannot have `command`"),
    "probe with ids": (check_with(**PROBE, command=None, fail_to_pass=["a"]), "required test ids need"),
    "absent driver": (check_with(**PROBE, command=None), "probe.py does not exist (relative to task.yaml)"),
    "absent hidden": (task_with(oracle={"hidden": "hidden"}), "hidden does not exist (relative to task.yaml)"),
    "absent dockerfile": (task_with(environment={"dockerfile": "Dockerfile"}), "Dockerfile does not exist"),
    "reference leads out": (task_with(reference="../../x.patch"), "is outside the task folder"),
    "absolute reference": (task_with(reference="/etc/passwd"), "is an absolute path"),
    "globs differ": (
        task_with(policy={"editable_globs": ["a"]}, agent={"editable_globs": ["b"]}),
        "differs from `policy.editable_globs`",
    ),
    "unknown tool": (task_with(policy={"tools": ["reed_file"]}), "(did you mean `read_file`?)"),
    "plan in auto mode": (task_with(policy={"stages": ["inspect", "plan", "write"]}), "needs `stage_mode: strict`"),
    "plan at the end": (
        task_with(policy={"stage_mode": "strict", "stages": ["inspect", "plan"]}),
        "expected another stage after `plan`",
    ),
    "strict stages out of order": (
        task_with(policy={"stage_mode": "strict", "stages": ["inspect", "test", "write"]}),
        "expected the order inspect, write, test",
    ),
    "unknown stage mode": (task_with(policy={"stage_mode": "stricter"}), "stage_mode"),
    "stage twice": (task_with(policy={"stages": ["write", "write"]}), "each stage at most once"),
    "bad glob": (task_with(oracle={"protected": ["\\"]}), "is not a valid gitignore pattern"),
    "comment as glob": (task_with(policy={"editable_globs": ["#x"]}), "matches nothing"),
    "scorer twice": (
        task_with(scorers=[{"name": "a", "type": "forbid_secrets"}, {"name": "a", "type": "forbid_secrets"}]),
        "scorers[1].name: two scorers have the name `a`",
    ),
    "python name of a key": (task_with(rubric={"lambda_": 1.0}), "rubric.lambda_: unknown key"),
    "unknown schema": (task_with(schema_version=2), "schema_version: expected 1; got 2"),
}


@pytest.mark.req("C-01", "C-03a", "C-04b", "C-06", "C-08a", "C-10")
@pytest.mark.parametrize("case", CASES)
def test_inconsistent_task_is_rejected(tmp_path: Path, case: str) -> None:
    value, words = CASES[case]
    problems = problems_of(write_task(tmp_path / "s" / "t", value))
    assert any(words in problem for problem in problems), problems
    assert all(problem.startswith("task.yaml:") for problem in problems)
    assert len(problems) <= 2, problems


def test_commit_that_looks_like_a_float_must_be_quoted(tmp_path: Path) -> None:
    text = "id: a\nsuite: b\nrepo: {url: https://x.org/r, commit: 1e10}\nvalidation: {failing_command: x, passing_command: x}\n"
    (problem,) = problems_of(write_task(tmp_path, text))
    assert problem.endswith('quote it: "1e10"')


@pytest.mark.req("C-10")
@pytest.mark.parametrize("where", [".", "..", "../t"])
def test_repository_folder_must_not_contain_the_task(tmp_path: Path, where: str) -> None:
    (problem,) = problems_of(write_task(tmp_path / "s" / "t", task_with(repo={"path": where})))
    assert "the agent would see" in problem


@pytest.mark.req("C-10")
def test_private_files_inside_the_repository_are_rejected(tmp_path: Path) -> None:
    value = task_with(repo={"path": "repo"}, oracle={"hidden": "repo/hidden"}, reference="repo/ref.patch")
    problems = problems_of(write_task(tmp_path, value, {"repo/hidden/t.py": "", "repo/ref.patch": ""}))
    assert len(problems) == 2
    assert all("the agent would see" in problem for problem in problems)


@pytest.mark.req("C-10")
def test_symlinks_out_of_the_task_folder_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    folder = write_task(tmp_path / "t", task_with(reference="link", oracle={"hidden": "hidden"}), {"hidden/a": ""})
    (folder / "link").symlink_to("../secret")
    (folder / "hidden" / "b").symlink_to("../../secret")
    problems = problems_of(folder)
    assert any("link is outside the task folder" in problem for problem in problems)
    assert any("regular files, not symlinks" in problem for problem in problems)


@pytest.mark.parametrize("kind", ["fifo", "git", "empty", "file"])
def test_unusable_hidden_folder_is_rejected(tmp_path: Path, kind: str) -> None:
    folder = write_task(tmp_path, task_with(oracle={"hidden": "hidden"}))
    hidden = folder / "hidden"
    if kind == "file":
        hidden.write_text("")
    else:
        (hidden / ".git").mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(hidden / "pipe")
    if kind == "git":
        (hidden / ".git" / "config").write_text("")
    assert problems_of(folder)[0].startswith("task.yaml:")


def test_statement_is_read_from_its_file(tmp_path: Path) -> None:
    folder = write_task(tmp_path, task_with(statement_file="s.md"), {"s.md": "Fix\r\nit.\n"})
    assert load_task(folder).statement == "Fix\nit.\n"
    (folder / "s.md").write_bytes(b"\xff")
    assert "s.md is not UTF-8 text" in problems_of(folder)[0]
    (folder / "s.md").write_bytes(b" \n")
    assert "has none" in problems_of(folder)[0]


def test_task_without_repository_has_no_checks(tmp_path: Path) -> None:
    loaded = load_task(write_task(tmp_path, {"id": "a", "suite": "b", "repo": "none", "statement": "Refuse."}))
    assert (loaded.checks, loaded.repo_folder) == ((), None)


def test_folder_without_task_yaml_suggests_a_rename(tmp_path: Path) -> None:
    (tmp_path / "task.yml").write_text("")
    with pytest.raises(ContractError) as caught:
        load_task(tmp_path)
    assert "rename task.yml to task.yaml" in caught.value.problems[0]


def test_long_problem_lists_are_truncated(tmp_path: Path) -> None:
    text = "".join(f"key{n}zzz: 1\n" for n in range(300))
    problems = problems_of(write_task(tmp_path, text))
    assert len(problems) == 101
    assert problems[-1].endswith("more problems")


# --- derived values -----------------------------------------------------------------------------------------------


@pytest.mark.req("C-09")
@pytest.mark.parametrize(
    "sections, wall, calls",
    [
        ({}, Limit(1800, "environment.timeout_sec"), Limit(30, "agent.max_steps")),
        ({"budget": {"wall_sec": 60}}, Limit(60, "budget.wall_sec"), Limit(30, "agent.max_steps")),
        (
            {"environment": {"timeout_sec": 50}, "budget": {"wall_sec": 60, "tool_calls": 7}},
            Limit(50, "environment.timeout_sec"),
            Limit(7, "budget.tool_calls"),
        ),
        ({"budget": {"tool_calls": 99}}, Limit(1800, "environment.timeout_sec"), Limit(30, "agent.max_steps")),
    ],
)
def test_smaller_limit_applies_and_names_its_key(
    tmp_path: Path, sections: dict[str, Any], wall: Limit, calls: Limit
) -> None:
    loaded = load_task(write_task(tmp_path, task_with(**sections)))
    assert (loaded.wall, loaded.tool_calls) == (wall, calls)
    assert (loaded.wall_sec, loaded.max_tool_calls) == (wall.value, calls.value)


@pytest.mark.req("C-17")
def test_setup_with_network_is_flagged_as_conditional(tmp_path: Path) -> None:
    online = {"environment": {"network_policy": "setup_only"}, "setup": {"commands": ["pip install x"]}}
    loaded = load_task(write_task(tmp_path / "a", task_with(**online)))
    assert conditional_on_network(loaded)
    assert any("conditional on external state" in remark for remark in remarks(loaded))
    offline = load_task(write_task(tmp_path / "b", task_with(setup={"commands": ["pip install vendored/*"]})))
    assert not conditional_on_network(offline)


def test_remarks_cover_everything_that_weakens_a_task(tmp_path: Path) -> None:
    value = task_with(
        repo=GIT | {"commit": "main"},
        environment={"docker_image": "py:1", "network_policy": "always"},
        budget={"wall_sec": 9999, "tool_calls": 99},
        oracle={
            "checks": [{"id": "a", "command": "x"}, {"id": "j", "command": "x", "parser": "junit", "report": "r.xml"}]
        },
    )
    keys = [remark.partition(":")[0] for remark in remarks(load_task(write_task(tmp_path, value)))]
    assert keys == [
        "repo.commit",
        "environment.docker_image",
        "environment.network_policy",
        "validation.passing_command",
        "oracle.hidden",
        "check `j`",
        "reference",
        "budget.wall_sec",
        "budget.tool_calls",
    ]
