"""The wheel and the sdist: contents, licences, and the bill of materials beside them."""

from __future__ import annotations

import email
import hashlib
import json
import re
import shutil
import stat
import tarfile
import tomllib
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts import sbom
from scripts.wheel_contents import expected_files, sdist_problems, wheel_problems
from tests.session_state import built_distributions

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[2]
ASSETS = [file for file in (ROOT / "src").rglob("*") if file.suffix in {".js", ".css", ".html"}]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_distributions(tmp_path_factory)


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (file,) = dist.glob("*.whl")
    return file


def test_wheel_names_licence_extras_and_both_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(name for name in archive.namelist() if name.endswith("/METADATA")).removesuffix("METADATA")
        metadata = email.message_from_bytes(archive.read(f"{info}METADATA"))
        assert archive.read(f"{info}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert "ab = agentbench.cli.main:main" in archive.read(f"{info}entry_points.txt").decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Name"] == "agentbench-harness"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Provides-Extra") == sorted(project["optional-dependencies"])


def test_wheel_and_sdist_record_neither_umask_nor_user_nor_build_time(wheel: Path, dist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()} <= {0o644, 0o755}
        times = {info.date_time for info in archive.infolist()}
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert {member.mode for member in members if member.isfile()} <= {0o644, 0o755}
    assert {(member.uid, member.uname) for member in members} == {(0, "")}
    assert len(times) == len({member.mtime for member in members}) == 1


def test_missing_and_unexpected_files_are_found() -> None:
    expected = expected_files(ROOT)
    metadata = [
        f"x.dist-info/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD")
    ]
    assert wheel_problems([*expected, *metadata], expected) == []
    without = [*expected - {"agentbench/policy/monitors.json"}, "agentbench/notes.txt", *metadata[1:]]
    assert wheel_problems(without, expected) == [
        "missing: agentbench/policy/monitors.json",
        "unexpected: agentbench/notes.txt",
        "missing metadata: METADATA",
    ]
    assert "missing: configs/variants/baseline.yaml" in sdist_problems(["x/LICENSE"], expected)


@pytest.mark.parametrize("asset", ASSETS, ids=lambda file: file.name)
def test_assets_contain_no_code_under_another_licence(asset: Path) -> None:
    # Third-party code needs its licence in the wheel: list the file in `license-files` of pyproject.toml, then name it here.
    assert re.findall(r"@license|copyright|\bMIT\b|\bBSD\b", asset.read_text(encoding="utf-8"), re.IGNORECASE) == []


def test_bill_of_materials_names_the_wheel_and_marks_extras(wheel: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(wheel, tmp_path))
    bom = sbom.locked_dependencies("--all-extras")
    sbom.describe(bom, sbom.locked_dependencies(), copy, datetime(2026, 1, 2, tzinfo=UTC))
    component = bom["metadata"]["component"]
    assert component["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert bom["metadata"]["timestamp"] == "2026-01-02T00:00:00Z"
    scopes = {part["name"]: part["scope"] for part in bom["components"]}
    assert (scopes["click"], scopes["duckdb"]) == ("required", "optional")
    assert "pytest" not in scopes
    assert "hashes" in json.dumps(bom["components"][0])
