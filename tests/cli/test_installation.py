"""The environment of `ab`: commands that install into it, and distributions that overwrite the package."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli import doctor, installation, main, plugin
from agentbench.sandbox.doctor import Diagnosis

pytestmark = pytest.mark.component


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    return folder


def install(site_packages: Path, name: str, *files: str) -> None:
    metadata = site_packages / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_own_distribution_is_no_problem(site_packages: Path) -> None:
    install(site_packages, "agentbench_harness", "agentbench/__init__.py")
    assert installation.installed_namesake() is None
    assert installation.foreign_distributions() == []


def test_commands_stop_beside_a_namesake(
    site_packages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site_packages, "agentbench", "agentbench/__init__.py")
    monkeypatch.setattr(sys, "argv", ["ab", "run", "--suite", "demo"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 3
    assert "pip uninstall agentbench, then" in capsys.readouterr().err


def test_doctor_is_not_ready_beside_a_foreign_distribution(site_packages: Path) -> None:
    install(site_packages, "something-else", "agentbench/__init__.py")
    machine = Diagnosis((), (), (), {}, (), (), {}, site_packages, disk_free_mb=1, memory_mb=1, user="x")
    line = doctor.headline(machine, installation.foreign_distributions())
    assert line.startswith("NOT READY: distribution something-else overwrites files of agentbench-harness; ")
    assert "pip uninstall something-else, then" in line


def test_doctor_finds_any_distribution_that_owns_the_package(site_packages: Path) -> None:
    install(site_packages, "something-else", "agentbench/__init__.py")
    assert installation.installed_namesake() is None
    assert installation.foreign_distributions() == ["something-else"]


@pytest.mark.parametrize(
    "modules, programs, expected",
    [
        ({"pip", "ensurepip"}, {"uv"}, ["PYTHON -m pip install -e tap"]),
        ({"ensurepip"}, {"uv"}, ["uv pip install --python PYTHON -e tap"]),
        ({"ensurepip"}, set(), ["PYTHON -m ensurepip", "PYTHON -m pip install -e tap"]),
        (set(), set(), ["uv pip install --python PYTHON -e tap"]),
    ],
)
def test_install_commands_fit_an_environment_without_pip(
    monkeypatch: pytest.MonkeyPatch, modules: set[str], programs: set[str], expected: list[str]
) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: name if name in modules else None)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)
    monkeypatch.setattr(sys, "executable", "PYTHON")
    assert installation.install_commands("-e tap") == expected


def test_new_plugin_prints_commands_that_work_in_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    created = CliRunner().invoke(plugin.command, ["new", "check", "tap", "--out", str(tmp_path / "tap")])
    install = created.stderr.splitlines()[1:-2]
    assert install == [f"  {line}" for line in installation.install_commands(f"-e '{tmp_path}/tap[test]'")]
    assert all(line.split()[0] in {sys.executable, "uv"} for line in install)
