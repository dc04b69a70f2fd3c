"""Creating tasks from unusual repositories: monorepos, submodules, odd encodings, undeclared dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench.authoring.commit.commit_reader import TaskRequest, read_commit
from agentbench.authoring.commit.comparison import Verification
from agentbench.authoring.commit.from_commit import from_commit
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.verification import verify
from agentbench.contract.load import load_task
from agentbench.execution.lab import Lab, PreparedTask
from agentbench.execution.validation import validate_suite
from agentbench.sandbox.environments.interpreter import installed
from tests.authoring.conftest import BEFORE, FIX, put
from tests.workspace.reference_git import git, repository

pytestmark = [pytest.mark.req("C-03a", "C-18", "R-08"), pytest.mark.component]


def request_for(repo: Path) -> TaskRequest:
    return TaskRequest(repo=str(repo), suite_dir=repo.parent / "tasks/mine", pin=False, timeout_sec=60)


def rejection(repo: Path, lab: Lab) -> UnsuitableCommit:
    with pytest.raises(UnsuitableCommit) as caught:
        from_commit(request_for(repo), put(repo, FIX, "Fix"), lab)
    return caught.value


@pytest.mark.parametrize("name", ["HEAD", "main", "v1", "side", "{short}"])
def test_every_revision_name_resolves_to_the_full_id(repo: Path, lab: Lab, name: str) -> None:
    fix = put(repo, FIX, "Fix")
    git(repo, "tag", "v1")
    git(repo, "branch", "side")
    data = read_commit(request_for(repo), name.replace("{short}", fix[:8]), lab)
    assert data.commit.id == fix


def test_plugins_of_the_commits_configuration_are_installed(repo: Path, lab: Lab) -> None:
    fix = put(repo, {**FIX, "pytest.ini": "[pytest]\naddopts = --cov=calc\n"}, "Fix")
    data = read_commit(request_for(repo), fix, lab)
    assert "pytest-cov" in data.detected.plans[0].commands[0]
    assert "--no-cov" in data.detected.options


@pytest.mark.parametrize(
    "root", [{}, {"pyproject.toml": "[tool.ruff]\nline-length = 100\n", "setup.cfg": "[flake8]\n"}]
)
def test_project_in_a_subfolder_is_installed(tmp_path: Path, lab: Lab, root: Mapping[str, str]) -> None:
    repo = repository(tmp_path / "mono")
    files = {f"python/{name}": content for name, content in BEFORE.items()}
    put(
        repo,
        {
            **files,
            **root,
            "python/setup.py": "import setuptools\nsetuptools.setup()\n",
            "python/requirements-dev.txt": "mock\n",
            "README.md": "x",
        },
        "Begin",
    )
    fix = put(repo, {f"python/{name}": content for name, content in FIX.items()}, "Fix")
    data = read_commit(request_for(repo), fix, lab)
    assert data.detected.plans[0].commands == (
        "python -m pip install -e ./python -r python/requirements-dev.txt pytest",
    )
    assert data.detected.editable == ("./python",)


def packages(tmp_path: Path) -> Path:
    """Create a repository of three projects, with another one inside the test data of the first."""
    repo = repository(tmp_path / "mono")
    files: dict[str, str] = {"pyproject.toml": "[tool.ruff]\nline-length = 100\n", "one/tests/data/setup.py": "x"}
    for name in ("one", "two", "three"):
        files |= {
            f"{name}/setup.py": f"import setuptools\nsetuptools.setup(name='mono-{name}', py_modules=['{name}_mod'])\n",
            f"{name}/{name}_mod.py": "x = 1\n",
            f"{name}/tests/test_{name}.py": f"import {name}_mod\n\n\ndef test_x():\n    assert {name}_mod.x == 1\n",
        }
    put(repo, {**files, "two/requirements-dev.txt": "mock\n"}, "Begin")
    return repo


def changed(*names: str) -> dict[str, str]:
    files: dict[str, str] = {}
    for name in names:
        files |= {
            f"{name}/{name}_mod.py": "x = 2\n",
            f"{name}/tests/test_{name}.py": f"import {name}_mod\n\n\ndef test_x():\n    assert {name}_mod.x == 2\n",
        }
    return files


def test_every_changed_project_is_installed(tmp_path: Path, lab: Lab) -> None:
    repo = packages(tmp_path)
    prose = {"three/README.md": "more\n", "one/tests/data/data.txt": "x"}
    fix = put(repo, {**changed("one", "two"), **prose}, "Fix both")
    detected = read_commit(request_for(repo), fix, lab).detected
    assert detected.plans[0].commands == (
        "python -m pip install -e ./one pytest -e ./two -r two/requirements-dev.txt pytest",
    )
    assert detected.plans[-1].commands == ("python -m pip install -e ./one pytest -e ./two pytest",)
    assert detected.editable == ("./one", "./two")
    assert detected.own == {"mono-one", "mono-two"}
    created = from_commit(request_for(repo), fix, lab)
    assert set(created.verification.fail_to_pass) == {"one/tests/test_one.py::test_x", "two/tests/test_two.py::test_x"}
    assert "Installed together: ./one, ./two." in (created.folder / "notes.md").read_text()


def test_project_tested_by_another_is_installed_with_it(tmp_path: Path, lab: Lab) -> None:
    repo = packages(tmp_path)
    tests = {"one/tests/test_one.py": "import two_mod\n\n\ndef test_x():\n    assert two_mod.x == 2\n"}
    fix = put(repo, {"two/two_mod.py": "x = 2\n", **tests}, "Fix two")
    assert read_commit(request_for(repo), fix, lab).detected.editable == ("./two", "./one")


def linked(repo: Path, tmp_path: Path) -> None:
    """Commit a fix to a repository with a submodule that cannot be fetched."""
    modules = f'[submodule "data"]\n\tpath = data\n\turl = {tmp_path / "nowhere"}\n'
    put(repo, {".gitmodules": modules}, "Data")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},data")
    git(repo, "commit", "-q", "-m", "Link")
    for name, content in FIX.items():
        (repo / name).write_text(str(content))
    git(repo, "add", *FIX)
    git(repo, "commit", "-q", "-m", "Fix half")


def test_unreachable_submodules_are_left_out_and_noted(repo: Path, lab: Lab, tmp_path: Path) -> None:
    linked(repo, tmp_path)
    created = from_commit(request_for(repo), "HEAD", lab)
    assert load_task(created.folder).task.repo.submodules is False  # type: ignore[union-attr]
    assert "Submodules are missing" in (created.folder / "notes.md").read_text()


def test_tests_that_need_unreachable_submodules_are_rejected(
    repo: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: Any, **_more: Any) -> Verification:
        raise UnsuitableCommit("tests cannot run", "no test was collected with the fix")

    monkeypatch.setattr("agentbench.authoring.commit.from_commit.verify", broken)
    linked(repo, tmp_path)
    with pytest.raises(UnsuitableCommit, match=r"submodules could not be fetched, .*: no test was collected") as caught:
        from_commit(request_for(repo), "HEAD", lab)
    assert caught.value.kind == "submodule"


def test_tests_outside_the_project_and_non_utf8_sources(tmp_path: Path, lab: Lab) -> None:
    repo = repository(tmp_path / "apart")
    latin = "# -*- coding: latin-1 -*-\n# é\ndef half(value):\n    return value // 2\n".encode("latin-1")
    put(repo, {"lib/calc.py": latin, "checks/test_none.py": "", "conftest.py": ""}, "Begin")
    test = "import sys\nsys.path.insert(0, 'lib')\n" + str(FIX["tests/test_calc.py"])
    fix = put(repo, {"lib/calc.py": latin.replace(b"//", b"/"), "checks/test_calc.py": test}, "Fix")
    created = from_commit(request_for(repo), fix, lab)
    assert "checks/test_calc.py::test_odd[a b]" in created.verification.fail_to_pass
    assert b"\xe9" in (created.folder / "reference.patch").read_bytes()


def test_missing_compiler_is_named(repo: Path, lab: Lab) -> None:
    put(repo, {"setup.py": "raise SystemExit(\"error: command 'gcc' failed: No such file or directory\")\n"}, "Package")
    error = rejection(repo, lab)
    assert error.kind == "setup failed"
    assert "needs a compiler" in error.remedy


def test_unreachable_index_is_named(repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    put(repo, {"requirements.txt": "agentbench-never-there\n"}, "Need")
    error = rejection(repo, lab)
    assert error.kind == "setup failed"
    assert "cannot reach the package index" in error.remedy


def test_old_commits_run_with_their_own_pytest(repo: Path, lab: Lab) -> None:
    available = {interpreter.short for interpreter in installed()}
    python, runner = next((pair for pair in (("3.8", "5.4.3"), ("3.9", "6.2.5")) if pair[0] in available), ("", ""))
    if not python:
        pytest.skip("no old Python available")
    wants = f"[options]\npython_requires = =={python}.*\n"
    put(repo, {"setup.cfg": wants, "requirements.txt": f"pytest=={runner}\n"}, "Say what it needs")
    created = from_commit(request_for(repo), put(repo, FIX, "Fix"), lab)
    task = load_task(created.folder)
    assert task.task.environment.python == python
    assert created.environment.plan == "the project's own test requirements"
    assert "tests/test_calc.py::test_odd[a b]" in created.verification.fail_to_pass
    assert created.verification.pass_to_pass == ("tests/test_calc.py::test_even",)


def test_conftest_that_the_parent_cannot_import(repo: Path, lab: Lab) -> None:
    calc = str(FIX["calc.py"]) + "\n\ndef twice(value):\n    return value + value\n"
    conftest = "import pytest\nfrom calc import twice\n\n\n@pytest.fixture\ndef two():\n    return twice(1)\n"
    test = "def test_two(two):\n    assert two == 2\n"
    fix = put(repo, {"calc.py": calc, "tests/conftest.py": conftest, "tests/test_two.py": test}, "Add twice")
    created = from_commit(request_for(repo), fix, lab)
    assert created.verification.fail_to_pass == ("tests/test_two.py::test_two",)
    (valid,) = validate_suite([load_task(created.folder)], lab, repeats=2, workers=1, report=lambda _line: None)
    assert valid.valid, valid.why


def test_undeclared_module_is_installed_by_name(repo: Path, lab: Lab) -> None:
    fix = put(repo, {**FIX, "tests/test_calc.py": "import colorama\n" + str(FIX["tests/test_calc.py"])}, "Fix")
    lines: list[str] = []
    created = from_commit(request_for(repo), fix, lab, notify=lines.append)
    assert "colorama" in load_task(created.folder).task.setup.commands[-1]
    assert any("undeclared modules (colorama)" in line for line in lines)
    assert "colorama" in (created.folder / "notes.md").read_text()


_WIDER = (
    '[dependency-groups]\ntests = ["pytest"]\ntyping = ["colorama>=0.4"]\n'
    'dev = [{include-group = "tests"}, {include-group = "typing"}]\n'
)
_NEEDS = "try:\n    import colorama\nexcept ImportError:\n    colorama = None\n"


def test_requirements_of_skipped_tests_come_from_a_wider_group(repo: Path, lab: Lab) -> None:
    put(repo, {"pyproject.toml": _WIDER, "calc.py": _NEEDS + str(BEFORE["calc.py"])}, "Package")
    test = "import calc\nimport pytest\n\n\ndef test_even():\n    assert calc.half(4) == 2\n\n\n"
    test += "@pytest.mark.skipif(calc.colorama is None, reason='Needs Colorama.')\n"
    test += "def test_odd():\n    assert calc.half(3) == 1.5\n"
    fix = put(repo, {"calc.py": _NEEDS + str(FIX["calc.py"]), "tests/test_odd.py": test}, "Fix half of odd numbers")
    lines: list[str] = []
    created = from_commit(request_for(repo), fix, lab, notify=lines.append)
    assert created.verification.fail_to_pass == ("tests/test_odd.py::test_odd",)
    assert "'colorama>=0.4'" in load_task(created.folder).task.setup.commands[-1]
    assert [line for line in lines if "with the dependencies of skipped tests" in line]
    assert "and colorama" in (created.folder / "notes.md").read_text()


def test_own_module_is_never_installed_from_a_release(tmp_path: Path, lab: Lab) -> None:
    repo = repository(tmp_path / "apart")
    put(repo, {"lib/colorama/__init__.py": "x = 1\n"}, "Begin")
    test = "import colorama\n\n\ndef test_x():\n    assert colorama.x == 2\n"
    put(repo, {"lib/colorama/__init__.py": "x = 2\n", "tests/test_x.py": test}, "Fix")
    with pytest.raises(UnsuitableCommit, match="import modules that setup does not install: colorama") as caught:
        from_commit(request_for(repo), "HEAD", lab)
    assert caught.value.kind == "missing module"


def test_reference_leaves_out_documentation_that_setup_rewrites(
    repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify_without_readme(prepared: PreparedTask, lab: Lab, **given: Any) -> Verification:
        if b"README" in (prepared.task.folder / "reference.patch").read_bytes():
            raise UnsuitableCommit("patch", "README.rst: hunk 1 does not match the file")
        return verify(prepared, lab, **given)

    monkeypatch.setattr("agentbench.authoring.commit.from_commit.verify", verify_without_readme)
    put(repo, {"README.rst": "one\ntwo\n"}, "Tell")
    created = from_commit(request_for(repo), put(repo, {**FIX, "README.rst": "one\nthree\n"}, "Fix"), lab)
    assert b"README" not in (created.folder / "reference.patch").read_bytes()
    assert "leaves out the fix's documentation" in (created.folder / "notes.md").read_text()
