"""Detecting the setup of a repository from its own files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.environment.detection import (
    DetectedSetup,
    DetectionContext,
    InstallPlan,
    added_requirements,
    detect,
)
from agentbench.authoring.environment.python_versions import allows
from agentbench.authoring.environment.resolver import (
    EnvironmentRequest,
    EnvironmentResolver,
    with_modules,
    with_skipped,
)

pytestmark = [pytest.mark.req("C-17", "C-18"), pytest.mark.component]

AVAILABLE = ("3.11", "3.8", "3.9", "3.12", "3.13")


def detected_setup(files: Mapping[str, str], date: str = "2026-01-01", imports: tuple[str, ...] = ()) -> DetectedSetup:
    return detect(files.get, DetectionContext(date, AVAILABLE, "3.11", release="v2.3.1", imports=imports))


def first(files: Mapping[str, str]) -> str:
    return detected_setup(files).plans[0].commands[0].removeprefix("python -m pip install ")


def test_test_extra_is_installed() -> None:
    text = '[project]\nname = "a"\n[project.optional-dependencies]\ndocs = ["sphinx"]\ntests = ["attrs"]\n'
    assert first({"pyproject.toml": text}) == "-e '.[tests]' pytest"


def test_dependency_group_with_included_groups() -> None:
    text = (
        '[project]\nname = "a"\n[dependency-groups]\nbase = ["attrs>=1"]\ntests = ["mock", {include-group = "base"}]\n'
    )
    assert first({"pyproject.toml": text}) == "-e . mock 'attrs>=1' pytest"


def test_requirements_file_is_installed() -> None:
    assert (
        first({"setup.py": "setup()", "requirements/tests.txt": "attrs==1\n"})
        == "-e . -r requirements/tests.txt pytest"
    )


def test_tox_deps_are_installed() -> None:
    assert first({"setup.py": "setup()", "tox.ini": "[testenv]\ndeps =\n  attrs\n  py37: old\n"}) == "-e . attrs pytest"


_GROUPS = '[dependency-groups]\nunit = ["attrs", {include-group = "more"}]\nmore = ["mock>=1"]\n'
_NAMED = f'[project]\nname = "a"\n{_GROUPS}'


@pytest.mark.parametrize(
    "setting, expected",
    [
        ("extras = yaml", "-e '.[yaml]' pytest"),
        ("extras =\n  yaml\n  fast, faster", "-e '.[yaml,fast,faster]' pytest"),
        ("extras =\n  py311: yaml\n  py37: old\n  {[x]extras}", "-e '.[yaml]' pytest"),
        ("dependency_groups = unit", "-e . attrs 'mock>=1' pytest"),
        (
            "dependency_groups =\n  unit\n  gone\ndeps =\n  six\n  -rmore.txt",
            "-e . attrs 'mock>=1' six -r more.txt pytest",
        ),
        ("deps =\n  .[yaml]\n  six", "-e '.[yaml]' six pytest"),
        ("deps = -e {toxinidir}[yaml]", "-e '.[yaml]' pytest"),
        ("deps = .", "-e . pytest"),
    ],
)
def test_tox_extras_and_groups_are_installed(setting: str, expected: str) -> None:
    assert first({"pyproject.toml": _NAMED, "tox.ini": f"[testenv]\n{setting}\n"}) == expected


_TOX = """
[{0}env_run_base]
deps = ["six", "-r {{tox_root}}/more.txt", {{ replace = "ref", of = ["x"] }}]
extras = ["yaml"]
dependency_groups = ["unit"]
[{0}env.lint]
deps = ["ruff"]
[{0}env."3.11"]
deps = ["tomli"]
"""


@pytest.mark.parametrize("file", ["pyproject.toml", "tox.toml"])
def test_tox_toml_is_read(file: str) -> None:
    inside = file == "pyproject.toml"
    text = _TOX.format("tool.tox." if inside else "")
    files = {"pyproject.toml": _NAMED + text} if inside else {"pyproject.toml": _NAMED, file: text}
    assert first(files) == "-e '.[yaml]' attrs 'mock>=1' six -r more.txt tomli pytest"
    old = {**files, "tox.ini": "[testenv]\ndeps = old\n"}
    assert first(old) == "-e . old pytest"  # tox reads the first that it finds


@pytest.mark.parametrize("file", ["pyproject.toml", "hatch.toml"])
@pytest.mark.parametrize(
    "env, expected",
    [
        ("[{0}hatch-test]\nextra-dependencies = ['six']\nfeatures = ['yaml']\n", "-e '.[yaml]' six pytest"),
        ("[{0}test]\nfeatures = ['yaml']\n[{0}default]\ndependencies = ['ruff']\n", "-e '.[yaml]' pytest"),
        ("[{0}test]\ndependency-groups = ['unit']\n", "-e . attrs 'mock>=1' pytest"),
        (
            "[{0}default]\ndependencies = ['six', '{{root:uri}}/x']\n[{0}lint]\ndependencies = ['ruff']\n",
            "-e . six pytest",
        ),
        ("[{0}lint]\ndependencies = ['ruff']\nfeatures = ['yaml']\n", "-e . pytest"),
    ],
)
def test_hatch_test_environment_is_read(file: str, env: str, expected: str) -> None:
    inside = file == "pyproject.toml"
    text = env.format("tool.hatch.envs." if inside else "envs.")
    assert first({"pyproject.toml": _NAMED + text} if inside else {"pyproject.toml": _NAMED, file: text}) == expected


def test_tox_extra_does_not_replace_a_requirements_file() -> None:
    files = {"setup.py": "setup()", "requirements-test.txt": "six\n", "tox.ini": "[testenv]\nextras = yaml\n"}
    assert first(files) == "-e '.[yaml]' -r requirements-test.txt pytest"


@pytest.mark.parametrize(
    "line, expected",
    [
        ("py{3,310,311}: -rtests/requirements/py3.txt", "-r tests/requirements/py3.txt "),
        ("py{310,311}: mock", "mock "),
        ("py310,py311: mock", "mock "),
        ("py3: mock>=1", "'mock>=1' "),
        ("py{310,312}: mock", ""),
        ("py{311t}: mock", ""),
        ("py311-extra: mock", ""),
        ("postgres: -rtests/requirements/postgres.txt", ""),
        ("!py311: mock", ""),
    ],
)
def test_tox_factors_select_lines_for_this_python(line: str, expected: str) -> None:
    assert first({"setup.py": "setup()", "tox.ini": f"[testenv]\ndeps =\n  {line}\n"}) == f"-e . {expected}pytest"


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[project]\nname = "packaging"\n'},
        {"setup.cfg": "[metadata]\nname = packaging\n"},
        {"setup.py": "setup(name='packaging', version='1')\n"},
    ],
)
def test_own_project_name_is_detected(files: dict[str, str]) -> None:
    assert detected_setup(files).own == {"packaging"}


def test_requirements_named_by_packaging_are_listed() -> None:
    text = '[build-system]\nrequires = ["hatchling>=1"]\n[project]\nname = "a"\ndependencies = ["attrs[x]>=2"]\n'
    assert {"hatchling", "attrs", "pytest"} <= detected_setup({"pyproject.toml": text}).named


def test_poetry_groups_are_installed() -> None:
    text = '[tool.poetry]\nname = "a"\n[tool.poetry.group.test.dependencies]\nmock = "^3.1"\n'
    assert first({"pyproject.toml": text}) == "-e . 'mock>=3.1' pytest"


def test_repository_without_packaging() -> None:
    detected = detected_setup({"a.py": ""})
    assert not detected.editable
    assert detected.plans[0].commands == ("python -m pip install pytest",)
    assert "No packaging" in detected.notes[0]


def test_plugins_of_the_configuration_are_installed() -> None:
    detected = detected_setup({"pytest.ini": "[pytest]\naddopts = -n auto --cov=pkg\nasyncio_mode = auto\n"})
    for plugin in ("pytest-xdist", "pytest-cov", "pytest-asyncio"):
        assert plugin in detected.plans[0].commands[0]
    assert detected.options == ("-n", "0", "--no-cov")


@pytest.mark.parametrize(
    "file, table", [("pyproject.toml", "tool.pytest"), ("pytest.toml", "pytest"), (".pytest.toml", "pytest")]
)
def test_native_toml_configuration_is_read(file: str, table: str) -> None:
    text = f'[{table}]\naddopts = ["-n", "auto", "--cov"]\nstrict = true\nrequired_plugins = ["pytest-django>=4.1"]\n'
    detected = detected_setup({file: text})
    assert detected.plans[0].commands[0].endswith("pytest pytest-cov pytest-xdist pytest-django")
    assert detected.options == ("-n", "0", "--no-cov")


@pytest.mark.parametrize("table", ["[dependency-groups]\ntest", "[project.optional-dependencies]\ntests"])
def test_plugins_that_shuffle_or_lint_are_disabled(table: str) -> None:
    text = f'[project]\nname = "a"\n{table} = ["pytest_randomly>=3", "pytest-enabler >= 2.2"]\n'
    assert detected_setup({"pyproject.toml": text}).options == ("-p", "no:randomly", "-p", "no:enabler")


def test_setuptools_scm_gets_a_version() -> None:
    text = '[build-system]\nrequires = ["setuptools_scm"]\n[project]\nname = "a"\n'
    assert detected_setup({"pyproject.toml": text}).plans[0].env["SETUPTOOLS_SCM_PRETEND_VERSION"] == "2.3.1"


def test_later_plans_require_less() -> None:
    plans = detected_setup(
        {"setup.py": "", "tox.ini": "[testenv]\ndeps = old==0.1\n", "pyproject.toml": '[project]\nname = "a"\n'},
        imports=("numpy",),
    ).plans
    assert [plan.commands[0].removeprefix("python -m pip install ") for plan in plans] == [
        "-e . old==0.1 pytest", "-e . old pytest", "-e . numpy pytest",
    ]  # fmt: skip


class TestPython:
    def test_default_python_is_preferred(self) -> None:
        assert detected_setup({}).python == "3.11"

    def test_python_is_one_that_the_project_allows(self) -> None:
        detected = detected_setup({"pyproject.toml": '[project]\nname = "a"\nrequires-python = ">=3.12"\n'})
        assert (detected.python, len(detected.notes)) == ("3.12", 1)

    def test_python_is_not_newer_than_the_commit(self) -> None:
        assert detected_setup({}, "2019-12-01T00:00:00Z").python == "3.8"

    def test_no_matching_python_is_rejected(self) -> None:
        with pytest.raises(UnsuitableCommit, match="requires Python <3"):
            detected_setup({"setup.py": "python_requires='<3'"})

    @pytest.mark.parametrize(
        "specifier, minor, fits",
        [
            (">=3.8,<4", 11, True),
            ("<3.11", 11, False),
            ("!=3.9.*,>=3.6", 9, False),
            ("^3.8", 12, True),
            ("~=3.7", 6, False),
            ("", 6, True),
            ("~2.7 || ^3.5", 11, True),
            ("~2.7 || ^3.5", 4, False),
            ("~2.7 || ~3.8", 11, False),
            ("~=3.8.0", 9, False),
            ("!=3.9.7,>=3.8", 9, True),
            ("3.8.*", 11, False),
            ("==3.*", 11, True),
            ("<3.11.4", 11, True),
            ("<3.11.0", 11, False),
        ],
    )
    def test_python_specifiers(self, specifier: str, minor: int, fits: bool) -> None:
        assert allows(specifier, minor) is fits


def test_nox_session_requirements_are_installed() -> None:
    noxfile = (
        "import nox\n\n@nox.session\ndef lint(session):\n    session.install('flake8')\n\n"
        "@nox.session\ndef run_tests(session):\n    session.install('-r', 'x.txt', 'mock>=2', '.')\n    session.run('pytest')\n"
    )
    assert first({"setup.py": "setup()", "noxfile.py": noxfile}) == "-e . 'mock>=2' pytest"


@pytest.mark.parametrize(
    "table, expected",
    [
        ('[tool.uv]\ndev-dependencies = ["mock"]\n', "-e . mock pytest"),
        ('[tool.hatch.envs.test]\ndependencies = ["mock"]\n', "-e . mock pytest"),
        ('[tool.pdm.dev-dependencies]\ntests = ["mock"]\n', "-e . mock pytest"),
        ("[project.optional-dependencies]\n", "-e . pytest"),
    ],
)
def test_groups_of_other_tools_are_installed(table: str, expected: str) -> None:
    assert first({"pyproject.toml": f'[project]\nname = "a"\n{table}'}) == expected


def test_setup_py_and_tox_requirement_files() -> None:
    script = "NEEDS = ['mock']\nsetup(name='a', tests_require=NEEDS)\n"
    assert first({"setup.py": script}) == "-e . mock pytest"
    files = {"setup.py": "setup()", "tox.ini": "[testenv]\ndeps =\n  -r{toxinidir}/needs.txt\n", "needs.txt": "mock\n"}
    assert first(files) == "-e . -r needs.txt pytest"


def test_requirements_added_by_the_fix_are_installed() -> None:
    before = {
        "pyproject.toml": '[project]\nname = "a"\ndependencies = ["attrs>=1"]\n',
        "requirements-test.txt": "mock\n",
    }
    after = {
        "pyproject.toml": '[project]\nname = "a"\ndependencies = ["attrs>=2", "typing_extensions; python_version < \'3.13\'"]\n',
        "requirements-test.txt": "mock\nfreezegun==1.5\n",
    }
    added = added_requirements(before.get, after.get)
    assert added == ("freezegun==1.5", "typing_extensions; python_version < '3.13'")
    detected = detect(before.get, DetectionContext("2026-01-01", AVAILABLE, "3.11", added=added))
    assert "freezegun==1.5" in detected.plans[0].commands[0]
    assert "freezegun " in detected.plans[1].commands[0]
    assert (
        "typing_extensions" not in detected.plans[2].commands[0]
    )  # one plan without them, in case one does not install
    assert {"freezegun", "typing_extensions"} <= detected.named
    assert "freezegun" in detected.notes[-1]
    assert added_requirements(after.get, before.get) == ()


@pytest.mark.parametrize(
    "files, variable",
    [
        ({"setup.py": "setup(setup_requires=['pbr'], pbr=True)\n"}, "PBR_VERSION"),
        (
            {"pyproject.toml": '[build-system]\nrequires = ["poetry-core", "poetry-dynamic-versioning"]\n'},
            "POETRY_DYNAMIC_VERSIONING_BYPASS",
        ),
        ({"pyproject.toml": '[build-system]\nrequires = ["pdm-backend"]\n'}, "PDM_BUILD_SCM_VERSION"),
    ],
)
def test_tools_that_read_git_tags_get_a_version(files: dict[str, str], variable: str) -> None:
    assert detected_setup(files).plans[0].env == {variable: "2.3.1"}


@pytest.mark.parametrize("broken, expected", [((), ["a day", "a day d==1", "a", "b day"]), (("a",), ["b day", "b"])])
def test_candidate_order_is_day_lock_file_newest_unpinned(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...], expected: list[str]
) -> None:
    def resolve(
        _self: EnvironmentResolver, _request: EnvironmentRequest, plan: InstallPlan, day: str, _lab: object
    ) -> SimpleNamespace:
        if plan.commands[0] in broken:
            raise UnsuitableCommit("setup failed", plan.name)
        return SimpleNamespace(
            plan=plan.name,
            prepared=SimpleNamespace(environment=" ".join([plan.commands[0], *(["day"] if day else []), *plan.locked])),
        )

    monkeypatch.setattr(EnvironmentResolver, "_resolve", resolve)
    monkeypatch.setattr("agentbench.authoring.environment.resolver.freeze", lambda environment: [environment])
    plans = (InstallPlan("with pins", ("a",)), InstallPlan("without pins", ("b",)))
    request: Any = SimpleNamespace(
        draft=SimpleNamespace(python="3.11"),
        detected=SimpleNamespace(plans=plans, own=frozenset({"c"}), locked=("c==1", "d==1")),
        date="2026-01-01",
        packaging="",
        pin=False,
    )
    lab: Any = None
    found = EnvironmentResolver().candidates(request, lab)
    listings: list[Any] = [environment.prepared.environment for environment in found]
    assert listings == expected


@pytest.mark.parametrize("file", ["uv.lock", "poetry.lock", "pdm.lock"])
def test_lock_file_ignores_names_with_two_versions(file: str) -> None:
    rows = [("pytest", "9.0"), ("numpy", "1.0"), ("numpy", "2.0")]
    text = "".join(f'[[package]]\nname = "{name}"\nversion = "{version}"\n' for name, version in rows)
    text += '[[package]]\nname = "a"\nversion = "1"\nsource = { editable = "." }\n'
    assert detected_setup({file: text}).locked == ("pytest==9.0",)
    assert detected_setup({file: "package = 3\n"}).locked == ()


@pytest.mark.parametrize(
    "files",
    [
        {
            "pyproject.toml": '[project]\nname = "mine"\n[project.optional-dependencies]\nall = ["mine[bson]"]\n'
            'bson = ["pymongo>=4"]\nfast = ["orjson>=3; python_version > \'3\'", "numpy"]\n'
        },
        {
            "setup.cfg": "[metadata]\nname = mine\n[options.extras_require]\nall = mine[bson]\nbson = pymongo>=4\n"
            "fast =\n  orjson>=3; python_version > '3'\n  numpy\n"
        },
    ],
)
def test_missing_modules_come_from_matching_extras(files: dict[str, str]) -> None:
    draft: Any = None
    request = EnvironmentRequest(draft, detected_setup(files), "", "", Path())
    more = with_modules(request, ["bson", "other"], ["orjson", "mine", "os"]).detected
    words = more.plans[0].commands[0].removeprefix("python -m pip install -e . pytest ")
    assert shlex.split(words) == ["pymongo>=4", "orjson>=3; python_version > '3'", "other"]
    assert {"pymongo", "orjson", "other"} <= more.named
    assert with_modules(request, ["os"], ["sys"]) is request


_OFFERS = (
    '[project]\nname = "a"\n[project.optional-dependencies]\nyaml = ["PyYAML>=5"]\nall = ["a[yaml]"]\n'
    '[dependency-groups]\ntests = ["six"]\ntyping = ["rich>13", "mypy"]\ndev = [{include-group = "typing"}]\n'
    "[tool.poetry.group.web.dependencies]\nflask = '^2.1'\n[tool.pdm.dev-dependencies]\nmore = ['attrs']\n"
)


@pytest.mark.parametrize(
    "reasons, more",
    [
        (["Skipped: could not import 'rich': No module named 'rich'"], "'rich>13'"),
        (["Skipped: Needs Rich."], "'rich>13'"),
        (["Skipped: could not import 'yaml'", "rich is not installed"], "'rich>13' 'PyYAML>=5'"),
        (["Flask"], "'flask>=2.1'"),
        (["attrs, please"], "attrs"),
        (["needs six and a", "only on Windows", "trich", "all of it"], ""),
        ([], ""),
    ],
)
def test_skip_reasons_select_extras_and_groups(reasons: list[str], more: str) -> None:
    detected = detected_setup({"pyproject.toml": _OFFERS})
    request: Any = EnvironmentRequest(SimpleNamespace(id="t"), detected, "2026-01-01", "", Path())  # type: ignore[arg-type]
    wider = with_skipped(request, reasons)
    if not more:
        assert wider is request
        return
    assert wider.detected.plans[0].commands[0] == f"{detected.plans[0].commands[0]} {more}"
    assert with_skipped(wider, reasons) is wider  # once


def test_missing_module_uses_the_requirement_of_a_group() -> None:
    draft: Any = SimpleNamespace(id="t")
    request = EnvironmentRequest(draft, detected_setup({"pyproject.toml": _OFFERS}), "2026-01-01", "", Path())
    assert with_modules(request, ["rich"]).detected.plans[0].commands[0].endswith(" 'rich>13'")
